/* ring_close, compress, pool_row_offsets, expand_topk and copy_slots on a device: the contract's rules, then random
 * batches against the reference, broken offsets included. seed_tail has a file of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device_tests.h"
#include "reference.h"

#define WORDS SCENARIO_WORDS

/* Random bits in the ring would be mostly specials. */
static void fill_keys(Random *random, Scenario *scenario)
{
    const KpoolType type = scenario->info.geometry.type;
    const size_t size = kpoolTypeSize(type);
    random_values(random, type, scenario->images.tail, (size_t)scenario->sizes.tail.size / size);
    random_values(random, type, scenario->images.k, (size_t)scenario->sizes.k.size / size);
    random_values(random, type, scenario->images.gate, (size_t)scenario->sizes.gate.size / size);
    random_values(random, KPOOL_TYPE_F32, scenario->images.ape, (size_t)scenario->sizes.ape.size / 4);
}

static uint64_t first_seed(const Gpu *gpu)
{
    return gpu->pushDescriptors ? 1000 : 0;
}

static void check_ring_close(Gpu *gpu)
{
    must_match_random(gpu, KPOOL_OPERATION_RING_CLOSE, first_seed(gpu), 4);
}

static void check_pool_row_offsets(Gpu *gpu)
{
    must_match_random(gpu, KPOOL_OPERATION_POOL_ROW_OFFSETS, first_seed(gpu), 30);
}

static void check_compress(Gpu *gpu)
{
    must_match_random(gpu, KPOOL_OPERATION_COMPRESS, first_seed(gpu), 4);
}

static void check_step(Gpu *gpu)
{
    must_match_random(gpu, KPOOL_OPERATION_STEP, first_seed(gpu), 6);
}

static void check_check_slots(Gpu *gpu)
{
    must_match_random(gpu, KPOOL_OPERATION_CHECK_SLOTS, first_seed(gpu), 30);
}

static void check_expand_topk(Gpu *gpu)
{
    must_match_random(gpu, KPOOL_OPERATION_EXPAND_TOPK, first_seed(gpu), 30);
}

static void check_copy_slots(Gpu *gpu)
{
    must_match_random(gpu, KPOOL_OPERATION_COPY_SLOTS, first_seed(gpu), 25);
}

/* ------------------------------------------------------------------------- one by one --------- */

/* A cycle of three slots: as if all sources were read first. */
static void check_copy_cycle(Gpu *gpu)
{
    Random random = {1};
    Scenario scenario = {
        .info = {.operation = KPOOL_OPERATION_COPY_SLOTS,
                 .geometry = {.head_dim = 4, .kpool = 4, .type = KPOOL_TYPE_F32}},
        .call = {.max_slots = 4, .pair_count = 5},
    };
    must_allocate(&scenario, &random);
    const uint32_t pairs[10] = {0, 1, 1, 2, 2, 0, UINT32_MAX, UINT32_MAX, 3, 4};
    memcpy(scenario.images.pairs, pairs, sizeof pairs);
    TensorImages expected = must_copy_images(&scenario);
    const size_t slot = 2 * 4 * 4 * 4;
    for (size_t i = 0; i < 3; i++) {
        memcpy((char *)expected.tail + (i + 1) % 3 * slot, (char *)scenario.images.tail + i * slot, slot);
    }
    ((uint32_t *)expected.status)[KPOOL_STATUS_PAIR_RANGE] = 1;
    free(expected.scratch);
    expected.scratch = NULL;
    must_run(&scenario, gpu, &expected);
    scenario_free_images(&expected);
    scenario_free(&scenario);
}

/* One prefill of 65,536 pools: one more than a dispatch dimension holds. */
static void check_long_prefill(Gpu *gpu)
{
    Random random = {2};
    Scenario scenario = {
        .info = {.operation = KPOOL_OPERATION_COMPRESS,
                 .geometry = {.head_dim = 2, .kpool = 4, .type = KPOOL_TYPE_BF16},
                 .lanesPerItem = 1,
                 .itemsPerGroup = 1},
        .call = {.requests = 1, .rows = 262144, .pooled_rows = 65536},
    };
    must_allocate(&scenario, &random);
    fill_keys(&random, &scenario);
    WORDS(&scenario, input_row_offsets)[1] = 262144;
    WORDS(&scenario, pool_row_offsets)[1] = 65536;
    must_match_reference(&scenario, gpu);
}

/* Thousands of requests, most of which close a pool. */
static void check_many_closes(Gpu *gpu)
{
    Random random = {3};
    const uint32_t requests = 5000;
    Scenario scenario = {
        .info = {.operation = KPOOL_OPERATION_RING_CLOSE,
                 .geometry = {.head_dim = 4, .kpool = 4, .type = KPOOL_TYPE_F16}},
        .call = {.max_slots = requests, .requests = requests, .rows = 2 * requests},
    };
    must_allocate(&scenario, &random);
    fill_keys(&random, &scenario);
    for (uint32_t r = 0; r < requests; r++) {
        WORDS(&scenario, input_row_offsets)[r + 1] = 2 * (r + 1);
        WORDS(&scenario, cache_lengths)[r] = r;
        WORDS(&scenario, slot_idx)[r] = requests - 1 - r;
    }
    must_match_reference(&scenario, gpu);
}

/* What the documentation's own formula says for one small row, in both layouts. */
static void check_expand_by_hand(Gpu *gpu)
{
    static const int32_t wanted[2][2][11] = {
        {{4, 5, 6, 7, -1, -1, -1, -1, 8, 9, -1}, {4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10}},
        {{4, 5, 6, 7, 8, 9, -1, -1, -1, -1, -1}, {4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10}},
    };
    for (uint32_t layout = 0; layout < 2; layout++) {
        Random random = {4};
        Scenario scenario = {
            .info = {.operation = KPOOL_OPERATION_EXPAND_TOPK,
                     .geometry = {.head_dim = 4, .kpool = 4, .type = KPOOL_TYPE_F32},
                     .topk = 2,
                     .topk_layout = (KpoolTopkLayout)layout,
                     .with_tail = VK_TRUE},
            .call = {.requests = 1, .rows = 4},
        };
        must_allocate(&scenario, &random);
        /* row 0 belongs to nobody, rows 1 and 2 see 10 and 11 tokens, row 3 is padding */
        const uint32_t offsets[2] = {1, 3};
        const int32_t ids[8] = {0, 0, 1, 2, 1, 0, 0, 9};
        memcpy(scenario.images.input_row_offsets, offsets, sizeof offsets);
        memcpy(scenario.images.pool_ids, ids, sizeof ids);
        WORDS(&scenario, cache_lengths)[0] = 9;
        TensorImages expected = must_copy_images(&scenario);
        memset(expected.out, 0xff, 4 * 11 * 4);
        memcpy((int32_t *)expected.out + 11, wanted[layout], sizeof wanted[layout]);
        ((uint32_t *)expected.status)[KPOOL_STATUS_POOL_ID] = 1; /* id 2 of row 1; padding's ids do not count */
        must_run(&scenario, gpu, &expected);
        scenario_free_images(&expected);
        scenario_free(&scenario);
    }
}

/* Whatever pool_row_offsets and offsets hold, nothing outside the ranges changes; what is inside is not compared. */
static void check_compress_garbage(Gpu *gpu)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        Random random = {seed};
        Scenario scenario = {
            .info = {.operation = KPOOL_OPERATION_COMPRESS,
                     .geometry = {.head_dim = 4, .kpool = 4, .type = KPOOL_TYPE_F32}},
            .call = {.requests = 9, .rows = 50, .pooled_rows = 12},
        };
        must_allocate(&scenario, &random);
        for (uint32_t r = 0; r <= 9; r++) {
            WORDS(&scenario, input_row_offsets)[r] =
                random_one_in(&random, 3) ? (uint32_t)random_next(&random) : random_between(&random, 0, 52);
        }
        for (uint32_t r = 0; r <= 9; r++) {
            WORDS(&scenario, pool_row_offsets)[r] =
                random_one_in(&random, 2) ? (uint32_t)random_next(&random) : random_between(&random, 0, 20);
        }
        TensorImages expected = must_copy_images(&scenario);
        Execution execution;
        assert_true(execute(gpu, &scenario.info, &scenario.call, 1, &scenario.images, &execution));
        assert_int_equal(execution.result, KPOOL_SUCCESS);
        assert_null(execution.damaged);
        assert_memory_equal(scenario.images.k, expected.k, (size_t)scenario.sizes.k.size);
        assert_memory_equal(scenario.images.pool_row_offsets, expected.pool_row_offsets, 40);
        scenario_free_images(&expected);
        scenario_free(&scenario);
    }
}

/* ------------------------------------------------------- one answer for every split of a request -- */

#define SPLIT_TOKENS 13u

/* The keys of pools 0 to 2 of one request of 13 tokens that arrive in the given calls, and its ring at the end. */
static void run_split(Gpu *gpu, KpoolType type, const uint32_t *calls, size_t call_count, unsigned char *keys,
                      unsigned char *ring)
{
    const KpoolGeometry geometry = {.head_dim = 8, .kpool = 4, .type = type};
    const size_t row = 8u * kpoolTypeSize(type);
    Random random = {55};
    unsigned char k[SPLIT_TOKENS * 32];
    unsigned char gate[SPLIT_TOKENS * 32];
    random_values(&random, type, k, SPLIT_TOKENS * 8);
    random_values(&random, type, gate, SPLIT_TOKENS * 8);
    float ape[32];
    for (size_t i = 0; i < 32; i++) {
        ape[i] = (float)i * 0.1f - 1.0f;
    }
    memset(ring, 0, 2 * 4 * row);
    uint32_t length = 0;
    for (size_t i = 0; i < call_count; i++) {
        static const KpoolOperation order[] = {KPOOL_OPERATION_RING_CLOSE, KPOOL_OPERATION_COMPRESS,
                                               KPOOL_OPERATION_SEED_TAIL};
        for (size_t step = 0; step < 3; step++) {
            Scenario scenario = {
                .info = {.operation = order[step], .geometry = geometry},
                .call = {.max_slots = 1, .requests = 1, .rows = calls[i], .pooled_rows = 3},
            };
            must_allocate(&scenario, &random);
            TensorImages *images = &scenario.images;
            WORDS(&scenario, input_row_offsets)[1] = calls[i];
            WORDS(&scenario, cache_lengths)[0] = length;
            memcpy(images->k, k + length * row, calls[i] * row);
            memcpy(images->gate, gate + length * row, calls[i] * row);
            memcpy(images->ape, ape, order[step] == KPOOL_OPERATION_SEED_TAIL ? 4 : sizeof ape);
            if (order[step] != KPOOL_OPERATION_COMPRESS) {
                memcpy(images->tail, ring, 2 * 4 * row);
            } else {
                reference_pool_row_offsets(4, &scenario.call, images->input_row_offsets, images->cache_lengths,
                                           images->pool_row_offsets, NULL);
            }
            Execution execution;
            assert_true(execute(gpu, &scenario.info, &scenario.call, 1, images, &execution));
            assert_int_equal(execution.result, KPOOL_SUCCESS);
            const int32_t closed = ((int32_t *)images->closed_pool)[0];
            if (order[step] == KPOOL_OPERATION_RING_CLOSE && closed >= 0) {
                memcpy(keys + (uint32_t)closed * row, images->closed_pooled, row);
            } else if (order[step] == KPOOL_OPERATION_COMPRESS) {
                const uint32_t count = ((uint32_t *)images->pool_row_offsets)[1];
                memcpy(keys + (length + 3) / 4 * row, images->pooled, count * row);
            } else if (order[step] == KPOOL_OPERATION_SEED_TAIL) {
                memcpy(ring, images->tail, 2 * 4 * row);
            }
            scenario_free(&scenario);
        }
        length += calls[i];
    }
    assert_int_equal(length, SPLIT_TOKENS);
}

static void check_splits(Gpu *gpu)
{
    static const struct {
        size_t count;
        uint32_t calls[13];
    } splits[] = {
        {1, {13}},          {2, {6, 7}},       {13, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
        {5, {3, 3, 3, 3, 1}}, {4, {2, 1, 5, 5}}, {4, {4, 4, 4, 1}},
        {3, {8, 0, 5}},
    };
    /* Every call makes its kernels anew, so only one context goes through all types. */
    const bool brief = must_be_brief();
    const bool all =
        kpoolGetBindingLayout(gpu->context) == KPOOL_BINDING_LAYOUT_FLOOR && !gpu->pushDescriptors && !brief;
    const size_t split_count = brief ? 2 : sizeof splits / sizeof splits[0];
    for (KpoolType type = all ? KPOOL_TYPE_F32 : KPOOL_TYPE_BF16; type <= KPOOL_TYPE_BF16; type++) {
        const size_t row = 8u * kpoolTypeSize(type);
        unsigned char first_keys[3 * 32] = {0};
        unsigned char first_ring[2 * 4 * 32];
        run_split(gpu, type, splits[0].calls, splits[0].count, first_keys, first_ring);
        for (size_t i = 1; i < split_count; i++) {
            unsigned char keys[3 * 32] = {0};
            unsigned char ring[2 * 4 * 32];
            run_split(gpu, type, splits[i].calls, splits[i].count, keys, ring);
            assert_memory_equal(keys, first_keys, 3 * row);
            /* of the ring only what a later call reads must agree: the member of the pending pool */
            assert_memory_equal(ring, first_ring, row);
            assert_memory_equal(ring + 4 * row, first_ring + 4 * row, row);
        }
    }
}

ON_EACH_CONTEXT(check_ring_close)
ON_EACH_CONTEXT(check_pool_row_offsets)
ON_EACH_CONTEXT(check_compress)
ON_EACH_CONTEXT(check_step)
ON_EACH_CONTEXT(check_check_slots)
ON_EACH_CONTEXT(check_expand_topk)
ON_EACH_CONTEXT(check_copy_slots)
ON_EACH_CONTEXT(check_copy_cycle)
ON_EACH_CONTEXT(check_long_prefill)
ON_EACH_CONTEXT(check_many_closes)
ON_EACH_CONTEXT(check_expand_by_hand)
ON_EACH_CONTEXT(check_compress_garbage)
ON_EACH_CONTEXT(check_splits)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_ring_close),     cmocka_unit_test(test_check_pool_row_offsets),
        cmocka_unit_test(test_check_compress),       cmocka_unit_test(test_check_step),
        cmocka_unit_test(test_check_check_slots),    cmocka_unit_test(test_check_expand_topk),
        cmocka_unit_test(test_check_copy_slots),     cmocka_unit_test(test_check_copy_cycle),
        cmocka_unit_test(test_check_long_prefill),   cmocka_unit_test(test_check_many_closes),
        cmocka_unit_test(test_check_expand_by_hand), cmocka_unit_test(test_check_compress_garbage),
        cmocka_unit_test(test_check_splits),
    };
    return cmocka_run_group_tests_name("family", tests, NULL, NULL);
}
