/* The host's side of one call's index arrays: kpoolValidate and kpoolValidatePairs name each fault and count as the
 * device counts; kpoolPoolRowOffsets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kpool/kpool.h"

enum { MOST_REQUESTS = 8 };

typedef struct ValidateCase {
    const char *name;
    KpoolCall call;
    uint32_t off[MOST_REQUESTS + 1];
    uint32_t lengths[MOST_REQUESTS];
    uint32_t slots[MOST_REQUESTS];
    uint32_t status[5];
    const char *argument;  /* of the first fault; NULL: none */
    const char *beginning; /* of its sentence */
} ValidateCase;

static const ValidateCase cases[] = {
    {"good", {.max_slots = 4, .requests = 3, .rows = 6}, {0, 1, 3, 6}, {0, 7, 100}, {2, 0, 3}, {0}, NULL, NULL},
    {"no request", {.max_slots = 4}, {9}, {0}, {0}, {0}, NULL, NULL},
    {"a start above 0", {.max_slots = 4, .requests = 1, .rows = 6}, {5, 6}, {0}, {0}, {0}, NULL, NULL},
    {"descending", {.max_slots = 4, .requests = 2, .rows = 6}, {3, 2, 3}, {0, 0}, {0, 1}, {1}, "input_row_offsets",
     "request 0:"},
    {"rows exceeded by one", {.max_slots = 4, .requests = 2, .rows = 6}, {0, 2, 7}, {0, 0}, {0, 1}, {0, 1},
     "input_row_offsets", "request 1:"},
    {"rows reached", {.max_slots = 4, .requests = 2, .rows = 6}, {0, 2, 6}, {0, 0}, {0, 1}, {0}, NULL, NULL},
    {"no rows", {.max_slots = 4, .requests = 1, .rows = 0}, {0, 1}, {0}, {0}, {0, 1}, "input_row_offsets",
     "request 0:"},
    {"slot one too far", {.max_slots = 4, .requests = 2, .rows = 6}, {0, 2, 6}, {0, 0}, {3, 4}, {0, 0, 1}, "slot_idx",
     "request 1:"},
    {"slot far off", {.max_slots = 4, .requests = 1, .rows = 6}, {0, 2}, {0}, {UINT32_MAX}, {0, 0, 1}, "slot_idx",
     "request 0:"},
    {"the last position", {.max_slots = 4, .requests = 1, .rows = 6}, {0, 2}, {UINT32_MAX - 2}, {1}, {0}, NULL, NULL},
    {"one more", {.max_slots = 4, .requests = 1, .rows = 6}, {0, 2}, {UINT32_MAX - 1}, {1}, {0, 0, 0, 1},
     "cache_lengths", "request 0:"},
    {"full length", {.max_slots = 4, .requests = 1, .rows = 6}, {0, 1}, {UINT32_MAX}, {1}, {0, 0, 0, 1},
     "cache_lengths", "request 0:"},
    {"two with one slot", {.max_slots = 4, .requests = 4, .rows = 6}, {0, 1, 2, 3, 4}, {0}, {0, 3, 1, 3},
     {0, 0, 0, 0, 1}, "slot_idx", "requests 1 and 3:"},
    {"three with one slot", {.max_slots = 4, .requests = 4, .rows = 6}, {0, 1, 2, 3, 4}, {0}, {2, 0, 2, 2},
     {0, 0, 0, 0, 2}, "slot_idx", "requests 0 and 2:"},
    {"an empty request may repeat a slot", {.max_slots = 4, .requests = 3, .rows = 6}, {0, 1, 1, 2}, {0}, {2, 2, 3},
     {0}, NULL, NULL},
    {"nothing of an empty request is judged", {.max_slots = 4, .requests = 3, .rows = 6}, {9, 9, 9, 9},
     {UINT32_MAX, 1, UINT32_MAX}, {UINT32_MAX, 4, 7}, {0}, NULL, NULL},
    {"a dropped request's slot is free", {.max_slots = 4, .requests = 2, .rows = 6}, {3, 1, 2}, {0}, {2, 2}, {1},
     "input_row_offsets", "request 0:"},
    {"the first cause alone: descends", {.max_slots = 4, .requests = 1, .rows = 6}, {9, 8}, {UINT32_MAX}, {77}, {1},
     "input_row_offsets", "request 0:"},
    {"the first cause alone: rows", {.max_slots = 4, .requests = 1, .rows = 6}, {0, 8}, {UINT32_MAX}, {77}, {0, 1},
     "input_row_offsets", "request 0:"},
    {"the first cause alone: slot", {.max_slots = 4, .requests = 1, .rows = 6}, {0, 6}, {UINT32_MAX}, {77}, {0, 0, 1},
     "slot_idx", "request 0:"},
    {"every cause, each request apart", {.max_slots = 4, .requests = 8, .rows = 6}, {0, 7, 2, 3, 4, 4, 5, 6, 5},
     {0, 0, 0, UINT32_MAX, 0, 1, 2, 0}, {0, 1, 9, 1, 9, 2, 2, 3}, {2, 1, 1, 1, 1}, "input_row_offsets", "request 0:"},
};

static void test_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const ValidateCase *c = &cases[i];
        const KpoolResult expected = c->argument != NULL ? KPOOL_ERROR_INVALID_DATA : KPOOL_SUCCESS;
        /* The counts are added to what is there. */
        uint32_t status[KPOOL_STATUS_COUNT];
        for (uint32_t s = 0; s < KPOOL_STATUS_COUNT; s++) {
            status[s] = 1000 * s;
        }
        KpoolDiagnostic diagnostic = {.argument = "untouched"};
        const KpoolResult result = kpoolValidate(&c->call, c->off, c->lengths, c->slots, status, &diagnostic);
        if (result != expected) {
            fail_msg("%s: %s", c->name, kpoolResultString(result));
        }
        for (uint32_t s = 0; s < KPOOL_STATUS_COUNT; s++) {
            const uint32_t count = status[s] - 1000 * s;
            if (count != (s < 5 ? c->status[s] : 0)) {
                fail_msg("%s: status[%u] is %u", c->name, s, count);
            }
        }
        if (expected == KPOOL_SUCCESS) {
            assert_string_equal(diagnostic.argument, "untouched");
        } else {
            assert_int_equal(diagnostic.result, KPOOL_ERROR_INVALID_DATA);
            assert_string_equal(diagnostic.argument, c->argument);
            assert_non_null(strstr(diagnostic.message, c->argument));
            if (strncmp(diagnostic.message, c->beginning, strlen(c->beginning)) != 0) {
                fail_msg("%s: \"%s\" does not begin with \"%s\"", c->name, diagnostic.message, c->beginning);
            }
        }
        assert_int_equal(kpoolValidate(&c->call, c->off, c->lengths, c->slots, NULL, NULL), expected);
    }
}

/* The contract's numbers, which the shaders have as literals. */
static void test_status_indices(void **state)
{
    (void)state;
    static const uint32_t indices[] = {KPOOL_STATUS_OFFSETS_DESCEND, KPOOL_STATUS_ROWS_EXCEED, KPOOL_STATUS_SLOT_RANGE,
                                       KPOOL_STATUS_LENGTH_WRAPS,    KPOOL_STATUS_DUPLICATE_SLOT, KPOOL_STATUS_POOL_ID,
                                       KPOOL_STATUS_PAGE_RANGE,      KPOOL_STATUS_PAIR_RANGE,  KPOOL_STATUS_POOLED_ROW};
    for (uint32_t i = 0; i < sizeof indices / sizeof indices[0]; i++) {
        assert_int_equal(indices[i], i);
    }
    assert_int_equal(KPOOL_STATUS_COUNT, 16);
}

static void test_null_arguments(void **state)
{
    (void)state;
    const KpoolCall call = {.max_slots = 4, .requests = 1, .rows = 6};
    const KpoolCall none = {.max_slots = 4};
    const uint32_t off[2] = {0, 1};
    const uint32_t zero[1] = {0};
    const struct {
        const KpoolCall *call;
        const uint32_t *off, *lengths, *slots;
        const char *argument;
    } refused[] = {
        {NULL, off, zero, zero, "call"},
        {&call, NULL, zero, zero, "input_row_offsets"},
        {&none, NULL, NULL, NULL, "input_row_offsets"},
        {&call, off, NULL, zero, "cache_lengths"},
        {&call, off, zero, NULL, "slot_idx"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        uint32_t status[KPOOL_STATUS_COUNT] = {0};
        KpoolDiagnostic diagnostic = {0};
        assert_int_equal(kpoolValidate(refused[i].call, refused[i].off, refused[i].lengths, refused[i].slots, status,
                                       &diagnostic),
                         KPOOL_ERROR_INVALID_ARGUMENT);
        assert_int_equal(diagnostic.result, KPOOL_ERROR_INVALID_ARGUMENT);
        assert_string_equal(diagnostic.argument, refused[i].argument);
        assert_non_null(strstr(diagnostic.message, refused[i].argument));
        const uint32_t clear[KPOOL_STATUS_COUNT] = {0};
        assert_memory_equal(status, clear, sizeof clear);
    }
    /* Without requests there is nothing in the other two arrays to point at. */
    assert_int_equal(kpoolValidate(&none, off, NULL, NULL, NULL, NULL), KPOOL_SUCCESS);
}

/* Random calls against the rules written down once more, each request by itself. */
static void test_random_calls(void **state)
{
    (void)state;
    uint32_t random = 7;
    uint32_t clean = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        KpoolCall call = {0};
        uint32_t off[MOST_REQUESTS + 1], lengths[MOST_REQUESTS], slots[MOST_REQUESTS];
        uint32_t draws[3 * MOST_REQUESTS + 4] = {0};
        for (size_t i = 0; i < sizeof draws / sizeof draws[0]; i++) {
            random = random * 1664525u + 1013904223u;
            draws[i] = random >> 16;
        }
        call.max_slots = 1 + draws[0] % 12;
        call.requests = draws[1] % (MOST_REQUESTS + 1);
        call.rows = draws[2] % 20;
        off[0] = draws[3] % 4;
        for (uint32_t r = 0; r < MOST_REQUESTS; r++) {
            const uint32_t step = draws[4 + r] % 8;
            off[r + 1] = step == 7 ? off[r] / 2 : off[r] + step / 2;
            lengths[r] = draws[4 + MOST_REQUESTS + r] % 10 == 0 ? UINT32_MAX - 1 : 5;
            slots[r] = draws[4 + 2 * MOST_REQUESTS + r] % 13;
        }
        uint32_t expected[KPOOL_STATUS_COUNT] = {0};
        uint32_t users[13] = {0};
        for (uint32_t r = 0; r < call.requests; r++) {
            const int64_t n = (int64_t)off[r + 1] - off[r];
            if (n == 0) {
                continue;
            }
            if (n < 0) {
                expected[0]++;
            } else if (off[r + 1] > call.rows) {
                expected[1]++;
            } else if (slots[r] >= call.max_slots) {
                expected[2]++;
            } else if ((int64_t)lengths[r] + n > (int64_t)UINT32_MAX) {
                expected[3]++;
            } else if (users[slots[r]]++ != 0) {
                expected[4]++;
            }
        }
        uint32_t status[KPOOL_STATUS_COUNT] = {0};
        const KpoolResult result = kpoolValidate(&call, off, lengths, slots, status, NULL);
        assert_memory_equal(status, expected, sizeof expected);
        const uint32_t clear[KPOOL_STATUS_COUNT] = {0};
        const int faultless = memcmp(expected, clear, sizeof clear) == 0;
        assert_int_equal(result, faultless ? KPOOL_SUCCESS : KPOOL_ERROR_INVALID_DATA);
        clean += (uint32_t)faultless;
    }
    assert_in_range(clean, 1000, 19000);
}

/* ------------------------------------------------------------------------------------------- pairs */

static void test_pairs(void **state)
{
    (void)state;
    static const struct {
        uint32_t count;
        uint32_t pairs[8];
        uint32_t out_of_range;
        const char *beginning; /* of the sentence; NULL: good */
    } pair_cases[] = {
        {0, {0}, 0, NULL},
        {3, {0, 1, 1, 2, 2, 3}, 0, NULL},
        {2, {0, 1, 1, 0}, 0, NULL},
        {2, {0, 1, 0, 2}, 0, NULL},
        {2, {9, 9, UINT32_MAX, UINT32_MAX}, 0, NULL},
        {2, {1, 1, 0, 1}, 0, NULL},
        {2, {0, 1, 4, 2}, 1, "pair 1:"},
        {2, {0, 4, 0, UINT32_MAX}, 2, "pair 0:"},
        {3, {0, 3, 1, 2, 2, 3}, 0, "pairs 0 and 2:"},
        {3, {4, 3, 1, 2, 2, 3}, 1, "pair 0:"},
    };
    for (size_t i = 0; i < sizeof pair_cases / sizeof pair_cases[0]; i++) {
        const KpoolCall call = {.max_slots = 4, .pair_count = pair_cases[i].count};
        uint32_t status[KPOOL_STATUS_COUNT] = {0};
        KpoolDiagnostic diagnostic = {.argument = "untouched"};
        const KpoolResult result = kpoolValidatePairs(&call, pair_cases[i].pairs, status, &diagnostic);
        assert_int_equal(result, pair_cases[i].beginning != NULL ? KPOOL_ERROR_INVALID_DATA : KPOOL_SUCCESS);
        for (uint32_t s = 0; s < KPOOL_STATUS_COUNT; s++) {
            assert_int_equal(status[s], s == KPOOL_STATUS_PAIR_RANGE ? pair_cases[i].out_of_range : 0);
        }
        if (pair_cases[i].beginning != NULL) {
            assert_string_equal(diagnostic.argument, "pairs");
            assert_int_equal(strncmp(diagnostic.message, pair_cases[i].beginning, strlen(pair_cases[i].beginning)), 0);
        } else {
            assert_string_equal(diagnostic.argument, "untouched");
        }
        assert_int_equal(kpoolValidatePairs(&call, pair_cases[i].pairs, NULL, NULL), result);
    }
    const KpoolCall call = {.max_slots = 4, .pair_count = 1};
    const KpoolCall none = {.max_slots = 4};
    KpoolDiagnostic diagnostic = {0};
    assert_int_equal(kpoolValidatePairs(NULL, pair_cases[0].pairs, NULL, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_string_equal(diagnostic.argument, "call");
    assert_int_equal(kpoolValidatePairs(&call, NULL, NULL, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_string_equal(diagnostic.argument, "pairs");
    assert_int_equal(kpoolValidatePairs(&none, NULL, NULL, NULL), KPOOL_SUCCESS);
}

/* -------------------------------------------------------------------------------- pool_row_offsets */

static void test_pool_row_offsets(void **state)
{
    (void)state;
    static const struct {
        uint32_t kpool;
        KpoolCall call;
        uint32_t off[MOST_REQUESTS + 1];
        uint32_t lengths[MOST_REQUESTS];
        uint32_t expected[MOST_REQUESTS + 1];
        uint32_t status[4];
    } offsets_cases[] = {
        {4, {.requests = 0}, {0}, {0}, {0}, {0}},
        /* 9 tokens from 0: pools 0 and 1. 9 from 3: 1 and 2. 3 from 0: none. 1 from 7: 8 tokens, none all new. */
        {4, {.requests = 4, .rows = 22}, {0, 9, 18, 21, 22}, {0, 3, 0, 7}, {0, 2, 4, 4, 4}, {0}},
        {1, {.requests = 2, .rows = 5}, {0, 2, 5}, {7, 0}, {0, 2, 5}, {0}},
        {128, {.requests = 2, .rows = 256}, {0, 128, 256}, {0, 1}, {0, 1, 1}, {0}},
        /* Dropped requests own none, empty ones neither. */
        {4, {.requests = 5, .rows = 20}, {8, 4, 4, 12, 21, 20}, {0, 0, 0, 0, 0}, {0, 0, 0, 2, 2, 2}, {2, 1}},
        {4, {.requests = 2, .rows = 16}, {0, 8, 16}, {UINT32_MAX - 7, UINT32_MAX - 8}, {0, 0, 1}, {0, 0, 0, 1}},
    };
    for (size_t i = 0; i < sizeof offsets_cases / sizeof offsets_cases[0]; i++) {
        const KpoolCall *call = &offsets_cases[i].call;
        uint32_t made[MOST_REQUESTS + 2];
        memset(made, 0x5a, sizeof made);
        uint32_t status[KPOOL_STATUS_COUNT] = {0};
        assert_int_equal(kpoolPoolRowOffsets(offsets_cases[i].kpool, call, offsets_cases[i].off,
                                             offsets_cases[i].lengths, made, status, NULL),
                         KPOOL_SUCCESS);
        assert_memory_equal(made, offsets_cases[i].expected, (call->requests + 1) * sizeof made[0]);
        assert_int_equal(made[call->requests + 1], 0x5a5a5a5a);
        assert_memory_equal(status, offsets_cases[i].status, sizeof offsets_cases[i].status);
    }
    const KpoolCall call = {.requests = 1, .rows = 4};
    const uint32_t off[2] = {0, 4};
    const uint32_t lengths[1] = {0};
    uint32_t made[2];
    const struct {
        uint32_t kpool;
        const KpoolCall *call;
        const uint32_t *off, *lengths;
        uint32_t *made;
        const char *argument;
    } refused[] = {
        {0, &call, off, lengths, made, "kpool"},
        {129, &call, off, lengths, made, "kpool"},
        {4, NULL, off, lengths, made, "call"},
        {4, &call, NULL, lengths, made, "input_row_offsets"},
        {4, &call, off, NULL, made, "cache_lengths"},
        {4, &call, off, lengths, NULL, "pool_row_offsets"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        KpoolDiagnostic diagnostic = {0};
        assert_int_equal(kpoolPoolRowOffsets(refused[i].kpool, refused[i].call, refused[i].off, refused[i].lengths,
                                             refused[i].made, NULL, &diagnostic),
                         KPOOL_ERROR_INVALID_ARGUMENT);
        assert_string_equal(diagnostic.argument, refused[i].argument);
        assert_non_null(strstr(diagnostic.message, refused[i].argument));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_status_indices),
        cmocka_unit_test(test_null_arguments),
        cmocka_unit_test(test_random_calls),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_pool_row_offsets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
