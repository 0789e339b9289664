/* What bench makes of its samples: the functions that take one (wrapped by the linker) tell times that are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench_sample.h"

#define MOST_SAMPLES 4096u
#define SUBMISSION (2 * BENCH_VARIANT_COUNT)

/* The samples asked for, in order: 2 * variant, one more where it is repeated, or SUBMISSION. */
static uint32_t asked[MOST_SAMPLES];
static uint32_t asked_count;
static uint32_t fails_at; /* 0: never */
/* Of the submissions all but each ninth take so long, in seconds, where this is not 0. */
static double stall;
static uint32_t submissions;

bool __wrap_bench_variant_time(BenchVariants *variants, BenchVariant variant, uint32_t times, double *seconds);
bool __wrap_bench_submission_time(BenchVariants *variants, double *seconds);

static bool ask(uint32_t kind)
{
    assert_true(asked_count < MOST_SAMPLES);
    asked[asked_count++] = kind;
    return asked_count != fails_at;
}

/* One costs 10 us and 1 us more for each variant before it; of 32 each costs a tenth, and the submission 5 us. */
bool __wrap_bench_variant_time(BenchVariants *variants, BenchVariant variant, uint32_t times, double *seconds)
{
    assert_true(variants->present[variant]);
    assert_true(times == 1 || times == BENCH_REPETITIONS);
    const double once = 1e-6 * (10 + (double)variant);
    const double submission = variant == BENCH_MEMCPY ? 0 : 5e-6;
    *seconds = times == 1 ? once : submission + BENCH_REPETITIONS * once / 10;
    return ask(2 * variant + (times != 1));
}

bool __wrap_bench_submission_time(BenchVariants *variants, double *seconds)
{
    (void)variants;
    submissions++;
    *seconds = stall != 0 && submissions % 9 != 0 ? stall : 5e-6;
    return ask(SUBMISSION);
}

static BenchVariants variants_of_seed_tail(void)
{
    BenchVariants variants = {0};
    for (BenchVariant variant = BENCH_EMPTY; variant <= BENCH_MEMCPY; variant++) {
        variants.present[variant] = true;
    }
    asked_count = 0;
    fails_at = 0;
    stall = 0;
    return variants;
}

static void medians(void **state)
{
    (void)state;
    double odd[] = {3, 1, 2};
    double even[] = {4, 1, 3, 2};
    double one[] = {7};
    assert_true(bench_median(odd, 3) == 2);
    assert_true(bench_median(even, 4) == 2.5);
    assert_true(bench_median(one, 1) == 7);
    assert_true(bench_median(NULL, 0) == 0);
}

static void expect_near(double found, double expected)
{
    if (!(found > expected * 0.999999 && found < expected * 1.000001)) {
        fail_msg("%g is not %g", found, expected);
    }
}

static void costs_and_ratios(void **state)
{
    (void)state;
    BenchVariants variants = variants_of_seed_tail();
    BenchResult result;
    assert_true(bench_sample(&variants, 9, &result));
    assert_int_equal(result.rounds, 9);
    for (BenchVariant variant = BENCH_EMPTY; variant <= BENCH_MEMCPY; variant++) {
        expect_near(result.once[variant].microseconds, 10 + (double)variant);
        expect_near(result.marginal[variant].microseconds, (10 + (double)variant) / 10);
    }
    assert_true(result.once[BENCH_EMPTY].ratio == 0);
    expect_near(result.once[BENCH_OURS].ratio, 11.0 / 10);
    expect_near(result.once[BENCH_PLAIN].ratio, 12.0 / 11);
    expect_near(result.once[BENCH_COPY].ratio, 13.0 / 11);
    expect_near(result.marginal[BENCH_MEMCPY].ratio, 14.0 / 11);
    assert_true(result.once[BENCH_FAST].microseconds == 0);

    variants.present[BENCH_FAST] = true;
    assert_true(bench_sample(&variants, 1, &result));
    expect_near(result.once[BENCH_FAST].microseconds, 16);
    expect_near(result.once[BENCH_FAST].ratio, 11.0 / 16);
}

/* 45 us are over the 40 that 32 of ours take, and below the 56 of fast: only the ninth round says anything of the two. */
static void rounds_below_nothing_give_no_ratio(void **state)
{
    (void)state;
    BenchVariants variants = variants_of_seed_tail();
    variants.present[BENCH_FAST] = true;
    stall = 45e-6;
    BenchResult result;
    assert_true(bench_sample(&variants, 9, &result));
    assert_true(result.marginal[BENCH_OURS].microseconds < 0);
    assert_true(result.marginal[BENCH_FAST].microseconds > 0);
    expect_near(result.marginal[BENCH_FAST].ratio, 11.0 / 16);
    expect_near(result.marginal[BENCH_OURS].ratio, 11.0 / 10);
    expect_near(result.once[BENCH_FAST].ratio, 11.0 / 16);
}

static int compare_kinds(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Each round takes each once, in an order of its own. */
static void rounds_are_shuffled(void **state)
{
    (void)state;
    BenchVariants variants = variants_of_seed_tail();
    BenchResult result;
    const uint32_t kinds = 2 * 5 + 1;
    assert_true(bench_sample(&variants, 20, &result));
    assert_int_equal(asked_count % kinds, 0);
    const uint32_t rounds = asked_count / kinds;
    assert_true(rounds > 20);
    uint32_t same = 0;
    for (uint32_t round = 1; round < rounds; round++) {
        same += memcmp(&asked[round * kinds], &asked[(round - 1) * kinds], kinds * sizeof asked[0]) == 0;
    }
    assert_int_equal(same, 0);
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t *own = &asked[round * kinds];
        qsort(own, kinds, sizeof *own, compare_kinds);
        for (uint32_t i = 0; i + 1 < kinds; i++) {
            assert_int_equal(own[i], i);
        }
        assert_int_equal(own[kinds - 1], SUBMISSION);
    }
}

static void rounds_have_a_default(void **state)
{
    (void)state;
    BenchVariants variants = variants_of_seed_tail();
    BenchResult result;
    assert_true(bench_sample(&variants, 0, &result));
    assert_int_equal(result.rounds, 100);
}

static void a_failed_sample_ends_it(void **state)
{
    (void)state;
    BenchVariants variants = variants_of_seed_tail();
    BenchResult result;
    fails_at = 40;
    assert_false(bench_sample(&variants, 9, &result));
    assert_int_equal(asked_count, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians),
        cmocka_unit_test(costs_and_ratios),
        cmocka_unit_test(rounds_below_nothing_give_no_ratio),
        cmocka_unit_test(rounds_are_shuffled),
        cmocka_unit_test(rounds_have_a_default),
        cmocka_unit_test(a_failed_sample_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
