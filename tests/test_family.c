/* ring_close, compress, pool_row_offsets, expand_topk and copy_slots on a device: the contract's rules, then random
 * batches against the reference, broken offsets included. seed_tail has a file of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reference.h"
#include "scenario.h"

static uint32_t *words_of(void *image, VkDeviceSize base)
{
    return (uint32_t *)image + base;
}

#define WORDS(scenario, tensor) words_of((scenario)->images.tensor, (scenario)->call.tensor##_base)

/* What the reference makes of the images; images of another call's tensors may be NULL. */
static void apply_reference(const Scenario *scenario, TensorImages *images)
{
    const KpoolKernelCreateInfo *info = &scenario->info;
    const KpoolCall *call = &scenario->call;
    const uint32_t *offsets = words_of(images->input_row_offsets, call->input_row_offsets_base);
    const uint32_t *lengths = words_of(images->cache_lengths, call->cache_lengths_base);
    const float *ape = (const float *)(const void *)words_of(images->ape, call->ape_base);
    uint32_t *status = words_of(images->status, call->status_base);
    switch (info->operation) {
    case KPOOL_OPERATION_RING_CLOSE:
        reference_ring_close(info, call, images->tail, images->k, images->gate, ape, offsets, lengths,
                             words_of(images->slot_idx, call->slot_idx_base),
                             (int32_t *)words_of(images->closed_pool, call->closed_pool_base), images->closed_pooled,
                             status);
        break;
    case KPOOL_OPERATION_COMPRESS:
        reference_compress(info, call, images->k, images->gate, ape, offsets, lengths,
                           words_of(images->pool_row_offsets, call->pool_row_offsets_base), images->pooled, status);
        break;
    case KPOOL_OPERATION_POOL_ROW_OFFSETS:
        reference_pool_row_offsets(info->geometry.kpool, call, offsets, lengths,
                                   words_of(images->pool_row_offsets, call->pool_row_offsets_base), status);
        break;
    case KPOOL_OPERATION_EXPAND_TOPK:
        reference_expand_topk(info->geometry.kpool, info->topk, info->topk_layout, info->with_tail != VK_FALSE, call,
                              offsets, lengths, (int32_t *)words_of(images->pool_ids, call->pool_ids_base),
                              (int32_t *)words_of(images->out, call->out_base), status);
        break;
    case KPOOL_OPERATION_STEP:
        reference_step(info, call, images->tail, images->k, images->gate, ape, offsets, lengths,
                       words_of(images->slot_idx, call->slot_idx_base),
                       words_of(images->pool_row_offsets, call->pool_row_offsets_base),
                       words_of(images->block_table, call->block_table_base),
                       (int32_t *)words_of(images->closed_pool, call->closed_pool_base), images->closed_pooled,
                       images->pooled, status);
        break;
    default:
        fail_msg("no reference");
    }
}

static void run_and_free(Scenario *scenario, Gpu *gpu)
{
    TensorImages expected = scenario_copy_images(scenario);
    apply_reference(scenario, &expected);
    scenario_run(scenario, gpu, &expected);
    scenario_free_images(&expected);
    scenario_free(scenario);
}

/* Gates and keys as a model has them, with a special value here and there. */
static void fill_values(Random *random, KpoolType type, void *image, size_t elements)
{
    for (size_t i = 0; i < elements; i++) {
        const float value = ((float)random_between(random, 0, 2000000) - 1e6f) * 8e-6f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (random_between(random, 0, 99) == 0) {
            bits = (uint32_t)random_next(random);
        }
        if (type == KPOOL_TYPE_F32) {
            ((uint32_t *)image)[i] = bits;
        } else if (type == KPOOL_TYPE_BF16) {
            ((uint16_t *)image)[i] = (uint16_t)(bits >> 16);
        } else {
            /* any f16 of moderate size */
            ((uint16_t *)image)[i] = (uint16_t)((bits >> 16 & 0x8000u) | random_between(random, 0, 0x4800));
        }
    }
}

static void fill_tensors(Random *random, Scenario *scenario)
{
    const KpoolType type = scenario->info.geometry.type;
    const size_t size = kpoolTypeSize(type);
    if (scenario->sizes.tail.size != 0) {
        fill_values(random, type, scenario->images.tail, (size_t)scenario->sizes.tail.size / size);
    }
    fill_values(random, type, scenario->images.k, (size_t)scenario->sizes.k.size / size);
    fill_values(random, type, scenario->images.gate, (size_t)scenario->sizes.gate.size / size);
    fill_values(random, KPOOL_TYPE_F32, scenario->images.ape, (size_t)scenario->sizes.ape.size / 4);
}

static KpoolGeometry random_geometry(Random *random)
{
    static const uint32_t head_dims[] = {2, 6, 8, 64, 128, 130};
    KpoolGeometry geometry = {
        .type = (KpoolType)random_between(random, 1, 3),
        .kpool = random_between(random, 0, 4) == 0 ? random_between(random, 1, 128) : random_between(random, 1, 9),
        .rollback = random_between(random, 0, 1) == 0 ? 0 : random_between(random, 1, 6),
        .head_dim = head_dims[random_between(random, 0, 5)],
    };
    if (geometry.type == KPOOL_TYPE_F32 && random_between(random, 0, 1) == 0) {
        geometry.head_dim = random_between(random, 1, 33);
    }
    geometry.ring = random_between(random, 0, 1) == 0 ? 0 : geometry.kpool + geometry.rollback + 3;
    return geometry;
}

static VkDeviceSize even(Random *random, uint32_t most)
{
    return 2 * random_between(random, 0, most / 2);
}

static void random_call(Random *random, const KpoolGeometry *geometry, KpoolCall *call)
{
    const uint32_t ring = geometry->ring != 0 ? geometry->ring : geometry->kpool + geometry->rollback;
    call->max_slots = random_between(random, 1, 20);
    call->requests = random_between(random, 0, 20);
    call->rows = random_between(random, 0, 200);
    if (random_between(random, 0, 1) == 0) {
        return;
    }
    const VkDeviceSize row = geometry->head_dim + geometry->head_dim % 2 + even(random, 6);
    call->tail_row_stride = row;
    call->tail_slot_stride = row * ring + even(random, 8);
    call->tail_plane_stride = call->tail_slot_stride * call->max_slots + even(random, 8);
    call->k_row_stride = row + even(random, 30);
    call->gate_row_stride = row + even(random, 30);
    call->closed_pooled_row_stride = row + even(random, 8);
    call->pooled_row_stride = row + even(random, 8);
    call->tail_base = even(random, 20);
    call->k_base = even(random, 20);
    call->gate_base = even(random, 20);
    call->closed_pooled_base = even(random, 20);
    call->pooled_base = even(random, 20);
    call->input_row_offsets_base = random_between(random, 0, 5);
    call->cache_lengths_base = random_between(random, 0, 5);
    call->slot_idx_base = random_between(random, 0, 5);
    call->status_base = random_between(random, 0, 5);
    call->ape_base = random_between(random, 0, 5);
    call->pool_row_offsets_base = random_between(random, 0, 5);
    call->closed_pool_base = random_between(random, 0, 5);
    call->pool_ids_base = random_between(random, 0, 5);
    call->out_base = random_between(random, 0, 5);
}

typedef enum Breakage {
    SOUND,    /* offsets ascend within rows, lengths are modest */
    FAR,      /* offsets ascend, some beyond rows; lengths up to 2^32 - 1 */
    ANYTHING, /* offsets are anything */
} Breakage;

static void random_requests(Random *random, Scenario *scenario, Breakage breakage)
{
    const KpoolCall *call = &scenario->call;
    uint32_t *offsets = WORDS(scenario, input_row_offsets);
    uint32_t *lengths = WORDS(scenario, cache_lengths);
    uint32_t *slots = WORDS(scenario, slot_idx);
    offsets[0] = random_between(random, 0, call->rows / 4);
    for (uint32_t r = 0; r < call->requests; r++) {
        const uint32_t left = call->rows > offsets[r] ? call->rows - offsets[r] : 0;
        offsets[r + 1] = offsets[r] + random_between(random, 0, left < 40 ? left : 40);
        lengths[r] = random_between(random, 0, 300);
        uint32_t slot = r < call->max_slots ? call->max_slots - 1 - r : call->max_slots + r;
        if (breakage != SOUND && random_between(random, 0, 3) == 0) {
            lengths[r] = (uint32_t)random_next(random) | (random_between(random, 0, 1) == 0 ? 0xffffff80u : 0u);
            slot = random_between(random, 0, 1) == 0 ? slot : (uint32_t)random_next(random) | 0x8000u;
        }
        if (scenario->sizes.slot_idx.size != 0) {
            slots[r] = slot;
        }
        if (breakage == FAR && r + 3 > call->requests) {
            offsets[r + 1] = offsets[r] + random_between(random, 0, 50);
        }
        if (breakage == ANYTHING && random_between(random, 0, 2) == 0) {
            offsets[r + 1] = random_between(random, 0, 1) == 0 ? (uint32_t)random_next(random)
                                                               : random_between(random, 0, call->rows + 2);
        }
    }
}

static Scenario random_scenario(Random *random, KpoolOperation operation)
{
    Scenario scenario = {.info = {.operation = operation}};
    KpoolKernelCreateInfo *info = &scenario.info;
    info->geometry = random_geometry(random);
    if (random_between(random, 0, 1) == 0) {
        info->lanesPerItem = 1u << random_between(random, 0, 6);
    }
    if (info->geometry.head_dim % 2 == 0) {
        info->pooled_type = (KpoolType)random_between(random, 0, 3);
    }
    info->topk = random_between(random, 0, 3) == 0 ? random_between(random, 1, 300) : random_between(random, 1, 9);
    info->topk_layout = (KpoolTopkLayout)random_between(random, 0, 1);
    info->with_tail = random_between(random, 0, 1);
    random_call(random, &info->geometry, &scenario.call);
    return scenario;
}

static Breakage random_breakage(Random *random, Breakage most)
{
    return (Breakage)random_between(random, 0, (uint32_t)most);
}

static void random_ring_close(Gpu *gpu, Random *random)
{
    Scenario scenario = random_scenario(random, KPOOL_OPERATION_RING_CLOSE);
    scenario_allocate(&scenario, random);
    fill_tensors(random, &scenario);
    random_requests(random, &scenario, random_breakage(random, ANYTHING));
    run_and_free(&scenario, gpu);
}

static void random_offsets(Gpu *gpu, Random *random)
{
    Scenario scenario = random_scenario(random, KPOOL_OPERATION_POOL_ROW_OFFSETS);
    if (random_between(random, 0, 3) == 0) {
        scenario.call.requests = random_between(random, 0, 3000);
    }
    scenario_allocate(&scenario, random);
    random_requests(random, &scenario, random_breakage(random, ANYTHING));
    run_and_free(&scenario, gpu);
}

/* pool_row_offsets from the reference, or somewhat wrong; by row, isolation holds where offsets ascend. */
static void random_compress(Gpu *gpu, Random *random)
{
    Scenario scenario = random_scenario(random, KPOOL_OPERATION_COMPRESS);
    scenario.call.pooled_rows = random_between(random, 0, 90);
    scenario_allocate(&scenario, random);
    fill_tensors(random, &scenario);
    random_requests(random, &scenario, random_breakage(random, FAR));
    uint32_t *pools = WORDS(&scenario, pool_row_offsets);
    reference_pool_row_offsets(scenario.info.geometry.kpool, &scenario.call, WORDS(&scenario, input_row_offsets),
                               WORDS(&scenario, cache_lengths), pools, NULL);
    if (random_between(random, 0, 2) == 0) {
        /* ascending still, but claiming more rows than the request has pools */
        uint32_t more = 0;
        for (uint32_t r = 0; r <= scenario.call.requests; r++) {
            pools[r] += more;
            more += random_between(random, 0, 3) == 0 ? random_between(random, 0, 3) : 0;
        }
    }
    run_and_free(&scenario, gpu);
}

/* Whatever rows may hold: claims of too many pools, pages that are no pages. Pages are handed out once each, so that
 * no two keys meet. */
static void random_step(Gpu *gpu, Random *random)
{
    Scenario scenario = random_scenario(random, KPOOL_OPERATION_STEP);
    KpoolCall *call = &scenario.call;
    call->pooled_rows = random_between(random, 0, 90);
    if (random_between(random, 0, 1) == 0) {
        scenario.info.page_size = 1u << random_between(random, 0, 3);
        call->max_pages = random_between(random, 0, 30);
        call->pages = random_between(random, 0, 1) == 0 ? call->requests * call->max_pages
                                                        : random_between(random, 0, 200);
    }
    scenario_allocate(&scenario, random);
    fill_tensors(random, &scenario);
    random_requests(random, &scenario, random_breakage(random, FAR));
    reference_pool_row_offsets(scenario.info.geometry.kpool, call, WORDS(&scenario, input_row_offsets),
                               WORDS(&scenario, cache_lengths), WORDS(&scenario, pool_row_offsets), NULL);
    for (uint32_t i = 0; scenario.info.page_size != 0 && i < call->requests * call->max_pages; i++) {
        WORDS(&scenario, block_table)[i] =
            random_between(random, 0, 9) == 0 ? (uint32_t)random_next(random) | 0x10000u : i;
    }
    run_and_free(&scenario, gpu);
}

static void random_expand(Gpu *gpu, Random *random)
{
    Scenario scenario = random_scenario(random, KPOOL_OPERATION_EXPAND_TOPK);
    scenario_allocate(&scenario, random);
    random_requests(random, &scenario, random_breakage(random, FAR));
    int32_t *ids = (int32_t *)WORDS(&scenario, pool_ids);
    for (uint32_t i = 0; i < scenario.call.rows * scenario.info.topk; i++) {
        ids[i] = (int32_t)random_between(random, 0, 80) - 8;
        if (random_between(random, 0, 20) == 0) {
            ids[i] = (int32_t)(uint32_t)random_next(random);
        }
    }
    run_and_free(&scenario, gpu);
}

static void random_copies(Gpu *gpu, Random *random)
{
    Scenario scenario = random_scenario(random, KPOOL_OPERATION_COPY_SLOTS);
    const uint32_t row_size = scenario.info.geometry.head_dim * kpoolTypeSize(scenario.info.geometry.type);
    if (row_size % 16 == 0 && scenario.call.tail_row_stride == 0) {
        scenario.info.alignment = 16;
    }
    scenario.call.pair_count = random_between(random, 0, 12);
    scenario_allocate(&scenario, random);
    uint32_t *pairs = WORDS(&scenario, pairs);
    for (uint32_t i = 0; i < scenario.call.pair_count; i++) {
        /* every destination once, from anywhere: chains, cycles, padding, indices out of range */
        pairs[2 * i] = random_between(random, 0, scenario.call.max_slots - 1);
        pairs[2 * i + 1] = i < scenario.call.max_slots ? i : scenario.call.max_slots + i;
        if (random_between(random, 0, 9) == 0) {
            pairs[2 * i] = (uint32_t)random_next(random);
        }
        if (random_between(random, 0, 9) == 0) {
            pairs[2 * i] = pairs[2 * i + 1];
        }
    }
    TensorImages expected = scenario_copy_images(&scenario);
    reference_copy_slots(&scenario.info.geometry, &scenario.call, scenario.images.tail, expected.tail, pairs,
                         words_of(expected.status, scenario.call.status_base));
    /* scratch has no meaning after the call: taken as it comes, and only its guards are looked at */
    free(expected.scratch);
    expected.scratch = NULL;
    scenario_run(&scenario, gpu, &expected);
    scenario_free_images(&expected);
    scenario_free(&scenario);
}

static void repeat(Gpu *gpu, void (*test)(Gpu *, Random *), uint64_t times)
{
    for (uint64_t seed = 0; seed < times; seed++) {
        Random random = {seed * 2 + (uint64_t)gpu->pushDescriptors};
        print_message("seed %llu\r", (unsigned long long)random.state);
        test(gpu, &random);
    }
}

static void check_ring_close(Gpu *gpu)
{
    repeat(gpu, random_ring_close, 8);
}

static void check_pool_row_offsets(Gpu *gpu)
{
    repeat(gpu, random_offsets, 30);
}

static void check_compress(Gpu *gpu)
{
    repeat(gpu, random_compress, 8);
}

static void check_step(Gpu *gpu)
{
    repeat(gpu, random_step, 10);
}

static void check_expand_topk(Gpu *gpu)
{
    repeat(gpu, random_expand, 30);
}

static void check_copy_slots(Gpu *gpu)
{
    repeat(gpu, random_copies, 25);
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
    scenario_allocate(&scenario, &random);
    const uint32_t pairs[10] = {0, 1, 1, 2, 2, 0, UINT32_MAX, UINT32_MAX, 3, 4};
    memcpy(scenario.images.pairs, pairs, sizeof pairs);
    TensorImages expected = scenario_copy_images(&scenario);
    const size_t slot = 2 * 4 * 4 * 4;
    for (size_t i = 0; i < 3; i++) {
        memcpy((char *)expected.tail + (i + 1) % 3 * slot, (char *)scenario.images.tail + i * slot, slot);
    }
    ((uint32_t *)expected.status)[KPOOL_STATUS_PAIR_RANGE] = 1;
    free(expected.scratch);
    expected.scratch = NULL;
    scenario_run(&scenario, gpu, &expected);
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
    scenario_allocate(&scenario, &random);
    fill_tensors(&random, &scenario);
    WORDS(&scenario, input_row_offsets)[1] = 262144;
    WORDS(&scenario, pool_row_offsets)[1] = 65536;
    run_and_free(&scenario, gpu);
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
    scenario_allocate(&scenario, &random);
    fill_tensors(&random, &scenario);
    for (uint32_t r = 0; r < requests; r++) {
        WORDS(&scenario, input_row_offsets)[r + 1] = 2 * (r + 1);
        WORDS(&scenario, cache_lengths)[r] = r;
        WORDS(&scenario, slot_idx)[r] = requests - 1 - r;
    }
    run_and_free(&scenario, gpu);
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
        scenario_allocate(&scenario, &random);
        /* row 0 belongs to nobody, rows 1 and 2 see 10 and 11 tokens, row 3 is padding */
        const uint32_t offsets[2] = {1, 3};
        const int32_t ids[8] = {0, 0, 1, 2, 1, 0, 0, 9};
        memcpy(scenario.images.input_row_offsets, offsets, sizeof offsets);
        memcpy(scenario.images.pool_ids, ids, sizeof ids);
        WORDS(&scenario, cache_lengths)[0] = 9;
        TensorImages expected = scenario_copy_images(&scenario);
        memset(expected.out, 0xff, 4 * 11 * 4);
        memcpy((int32_t *)expected.out + 11, wanted[layout], sizeof wanted[layout]);
        ((uint32_t *)expected.status)[KPOOL_STATUS_POOL_ID] = 1; /* id 2 of row 1; padding's ids do not count */
        scenario_run(&scenario, gpu, &expected);
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
        scenario_allocate(&scenario, &random);
        random_requests(&random, &scenario, ANYTHING);
        for (uint32_t r = 0; r <= 9; r++) {
            WORDS(&scenario, pool_row_offsets)[r] =
                random_between(&random, 0, 1) == 0 ? (uint32_t)random_next(&random) : random_between(&random, 0, 20);
        }
        TensorImages expected = scenario_copy_images(&scenario);
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
    fill_values(&random, type, k, SPLIT_TOKENS * 8);
    fill_values(&random, type, gate, SPLIT_TOKENS * 8);
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
            scenario_allocate(&scenario, &random);
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
    for (KpoolType type = KPOOL_TYPE_F32; type <= KPOOL_TYPE_BF16; type++) {
        const size_t row = 8u * kpoolTypeSize(type);
        unsigned char first_keys[3 * 32] = {0};
        unsigned char first_ring[2 * 4 * 32];
        run_split(gpu, type, splits[0].calls, splits[0].count, first_keys, first_ring);
        for (size_t i = 1; i < sizeof splits / sizeof splits[0]; i++) {
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

#define ON_EACH_DEVICE(check)              \
    static void test_##check(void **state) \
    {                                      \
        (void)state;                       \
        scenario_each_device(check);       \
    }
ON_EACH_DEVICE(check_ring_close)
ON_EACH_DEVICE(check_pool_row_offsets)
ON_EACH_DEVICE(check_compress)
ON_EACH_DEVICE(check_step)
ON_EACH_DEVICE(check_expand_topk)
ON_EACH_DEVICE(check_copy_slots)
ON_EACH_DEVICE(check_copy_cycle)
ON_EACH_DEVICE(check_long_prefill)
ON_EACH_DEVICE(check_many_closes)
ON_EACH_DEVICE(check_expand_by_hand)
ON_EACH_DEVICE(check_compress_garbage)
ON_EACH_DEVICE(check_splits)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_ring_close),     cmocka_unit_test(test_check_pool_row_offsets),
        cmocka_unit_test(test_check_compress),       cmocka_unit_test(test_check_step),
        cmocka_unit_test(test_check_expand_topk),
        cmocka_unit_test(test_check_copy_slots),     cmocka_unit_test(test_check_copy_cycle),
        cmocka_unit_test(test_check_long_prefill),   cmocka_unit_test(test_check_many_closes),
        cmocka_unit_test(test_check_expand_by_hand), cmocka_unit_test(test_check_compress_garbage),
        cmocka_unit_test(test_check_splits),
    };
    return cmocka_run_group_tests_name("family", tests, NULL, NULL);
}
