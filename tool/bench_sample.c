#include "bench_sample.h"

#include <stdio.h>
#include <stdlib.h>

#include "keys.h"
#include "progress.h"

/* Not counted: caches, clocks and the driver's own threads come up. */
#define WARM_UP_ROUNDS 3u
#define LEAST_ROUNDS 7u
#define MOST_ROUNDS 100u
#define MOST_SECONDS 3.0

/* A round takes each variant once by itself and once repeated, and an empty submission. */
#define KINDS (2 * BENCH_VARIANT_COUNT + 1)
#define SUBMISSION (2 * (size_t)BENCH_VARIANT_COUNT)

typedef struct Round {
    double seconds[KINDS];
} Round;

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count)
{
    if (count == 0) {
        return 0;
    }
    qsort(values, count, sizeof *values, compare_doubles);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static bool take_round(BenchVariants *variants, uint32_t number, Round *round)
{
    uint32_t order[KINDS] = {0};
    for (uint32_t i = 0; i < KINDS; i++) {
        const uint32_t j = (uint32_t)(hash64(((uint64_t)number << 32) | i) % (i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    for (uint32_t i = 0; i < KINDS; i++) {
        const uint32_t kind = order[i];
        const BenchVariant variant = kind / 2;
        double *seconds = &round->seconds[kind];
        if (kind == SUBMISSION ? !bench_submission_time(variants, seconds)
                               : variants->present[variant] &&
                                     !bench_variant_time(variants, variant, kind % 2 == 0 ? 1 : BENCH_REPETITIONS,
                                                         seconds)) {
            return false;
        }
    }
    return true;
}

static double cost(const Round *round, BenchVariant variant, bool marginal)
{
    if (!marginal) {
        return round->seconds[2 * (size_t)variant];
    }
    /* memcpy is not submitted. */
    const double submission = variant == BENCH_MEMCPY ? 0 : round->seconds[SUBMISSION];
    return (round->seconds[2 * (size_t)variant + 1] - submission) / BENCH_REPETITIONS;
}

static BenchMeasure measure(const Round *rounds, uint32_t count, BenchVariant variant, bool marginal, double *values)
{
    const BenchVariant over = variant == BENCH_FAST ? BENCH_OURS : variant;
    const BenchVariant under = variant == BENCH_FAST   ? BENCH_FAST
                               : variant == BENCH_OURS ? BENCH_EMPTY
                                                       : BENCH_OURS;
    BenchMeasure measured = {0};
    for (uint32_t i = 0; i < count; i++) {
        values[i] = 1e6 * cost(&rounds[i], variant, marginal);
    }
    measured.microseconds = bench_median(values, count);
    size_t ratios = 0;
    for (uint32_t i = 0; i < count && variant != BENCH_EMPTY; i++) {
        const double dividend = cost(&rounds[i], over, marginal);
        const double divisor = cost(&rounds[i], under, marginal);
        /* On a noisy machine either can seem to cost less than nothing, and then the round says nothing of the two. */
        if (dividend > 0 && divisor > 0) {
            values[ratios++] = dividend / divisor;
        }
    }
    measured.ratio = bench_median(values, ratios);
    return measured;
}

bool bench_sample(BenchVariants *variants, uint32_t rounds, BenchResult *result)
{
    const uint32_t most = rounds != 0 ? rounds : MOST_ROUNDS;
    Round *taken = calloc(most, sizeof *taken);
    double *values = calloc(most, sizeof *values);
    bool done = taken != NULL && values != NULL;
    *result = (BenchResult){0};
    if (!done) {
        snprintf(variants->scene->gpu->error, sizeof variants->scene->gpu->error, "out of memory");
    }
    for (uint32_t i = 0; i < WARM_UP_ROUNDS && done; i++) {
        done = take_round(variants, most + i, &taken[0]);
    }
    const double start = progress_clock();
    while (done && result->rounds < most &&
           (rounds != 0 || result->rounds < LEAST_ROUNDS || progress_clock() - start < MOST_SECONDS)) {
        done = take_round(variants, result->rounds, &taken[result->rounds]);
        result->rounds++;
    }
    for (BenchVariant variant = 0; variant < BENCH_VARIANT_COUNT && done; variant++) {
        if (variants->present[variant]) {
            result->once[variant] = measure(taken, result->rounds, variant, false, values);
            result->marginal[variant] = measure(taken, result->rounds, variant, true, values);
        }
    }
    free(values);
    free(taken);
    return done;
}
