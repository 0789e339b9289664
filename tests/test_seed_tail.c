/* seed_tail on a device: the rules of the contract one by one, then random batches, against the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device_tests.h"

static Scenario make(KpoolGeometry geometry, uint32_t max_slots, uint32_t requests, uint32_t rows)
{
    return (Scenario){
        .info = {.operation = KPOOL_OPERATION_SEED_TAIL, .geometry = geometry},
        .call = {.max_slots = max_slots, .requests = requests, .rows = rows},
    };
}

static const KpoolGeometry small = {.head_dim = 4, .kpool = 4, .type = KPOOL_TYPE_F32};

/* One request of `tokens` tokens after `length`: what must be in slot 2 afterwards is said in words, not by the
 * reference: bit m of written says that ring position m holds position last[m] of the request. */
static void expect_one(Gpu *gpu, KpoolGeometry geometry, uint32_t length, uint32_t tokens, uint32_t first_written)
{
    Random random = {length * 1000u + tokens};
    Scenario scenario = make(geometry, 4, 1, 3 + tokens);
    must_allocate(&scenario, &random);
    set_tokens(&scenario, 3, &tokens);
    SCENARIO_WORDS(&scenario, cache_lengths)[0] = length;
    SCENARIO_WORDS(&scenario, slot_idx)[0] = 2;
    TensorImages expected = must_copy_images(&scenario);
    const uint32_t ring = geometry.ring != 0 ? geometry.ring : geometry.kpool + geometry.rollback;
    const size_t row = geometry.head_dim * (size_t)kpoolTypeSize(geometry.type);
    for (uint32_t position = first_written; position < length + tokens; position++) {
        const size_t to = (2u * 2u * ring + position % ring) * row;
        const size_t from = (3u + position - length) * row;
        memcpy((char *)expected.tail + to, (char *)expected.k + from, row);
        memcpy((char *)expected.tail + to + ring * row, (char *)expected.gate + from, row);
    }
    must_run(&scenario, gpu, &expected);
    scenario_free_images(&expected);
    scenario_free(&scenario);
}

static void check_members(Gpu *gpu)
{
    expect_one(gpu, small, 0, 3, 0);   /* no pool complete: all wait */
    expect_one(gpu, small, 0, 4, 4);   /* ends on a boundary: nothing */
    expect_one(gpu, small, 0, 13, 12); /* many pools: the last member only */
    expect_one(gpu, small, 5, 2, 5);   /* starts and ends inside a pool: the earlier member stays */
    expect_one(gpu, small, 2, 5, 4);   /* crosses a pool: what it completes is not kept */
    expect_one(gpu, small, 7, 1, 8);   /* the last member arrives alone: nothing */
    expect_one(gpu, small, 100, 0, 100);
    KpoolGeometry speculative = small;
    speculative.rollback = 3;
    speculative.ring = 8;
    expect_one(gpu, speculative, 5, 3, 5); /* the completed pool may be taken back: its members are kept */
    expect_one(gpu, speculative, 0, 13, 8);
    expect_one(gpu, speculative, 0, 2, 0); /* end < rollback */
    KpoolGeometry long_ring = small;
    long_ring.ring = 7;
    expect_one(gpu, long_ring, 8, 3, 8);
    /* the last positions that 32 bits hold */
    expect_one(gpu, small, UINT32_MAX - 6, 6, UINT32_MAX - 3);
    /* P = 1: every token is a pool of its own */
    expect_one(gpu, (KpoolGeometry){.head_dim = 6, .kpool = 1, .type = KPOOL_TYPE_F16}, 3, 5, 8);
    /* rings of f32 compressor states: ratio 128, and ratio 4 with overlapping windows */
    expect_one(gpu, (KpoolGeometry){.head_dim = 1024, .kpool = 128, .type = KPOOL_TYPE_F32}, 130, 250, 256 + 0);
    expect_one(gpu, (KpoolGeometry){.head_dim = 1024, .kpool = 4, .rollback = 4, .type = KPOOL_TYPE_F32}, 9, 6, 9);
}

static void check_bits_survive(Gpu *gpu)
{
    /* signalling and quiet NaNs with payloads, infinities, denormals, both zeros */
    static const uint32_t words[] = {0x7f800001, 0xffc12345, 0x7f800000, 0xff800000, 0x00000001, 0x807fffff,
                                     0x00000000, 0x80000000, 0x7c017dff, 0xfc00fe01, 0x80017f81, 0x0001ff80};
    static const KpoolType types[] = {KPOOL_TYPE_F32, KPOOL_TYPE_F16, KPOOL_TYPE_BF16};
    for (size_t i = 0; i < 3; i++) {
        Random random = {i};
        KpoolGeometry geometry = {.head_dim = 8, .kpool = 4, .type = types[i]};
        Scenario scenario = make(geometry, 2, 1, 3);
        must_allocate(&scenario, &random);
        const uint32_t tokens = 3;
        set_tokens(&scenario, 0, &tokens);
        uint32_t *k = scenario.images.k;
        uint32_t *gate = scenario.images.gate;
        for (size_t word = 0; word < scenario.sizes.k.size / 4; word++) {
            k[word] = words[word % 12];
            gate[word] = words[(word + 5) % 12];
        }
        must_match_reference(&scenario, gpu);
    }
}

/* Every cause alone between good requests, then rows that break several rules at once: the first counts. */
static void check_status(Gpu *gpu)
{
    static const struct {
        uint32_t offsets[2], length, slot;
        int cause;
    } rows[] = {
        {{8, 5}, 0, 0, 0},           {{5, 11}, 0, 0, 1},          {{5, 8}, 0, 6, 2},
        {{5, 8}, UINT32_MAX - 2, 0, 3}, {{9, 8}, UINT32_MAX, 99, 0}, {{5, UINT32_MAX}, UINT32_MAX, 99, 1},
        {{5, 8}, UINT32_MAX, 6, 2},  {{7, 7}, UINT32_MAX, 99, -1}, {{UINT32_MAX, UINT32_MAX}, 0, 99, -1},
        {{5, 8}, UINT32_MAX - 3, 5, -2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Random random = {i};
        Scenario scenario = make(small, 6, 1, 10);
        must_allocate(&scenario, &random);
        memcpy(scenario.images.input_row_offsets, rows[i].offsets, 8);
        SCENARIO_WORDS(&scenario, cache_lengths)[0] = rows[i].length;
        SCENARIO_WORDS(&scenario, slot_idx)[0] = rows[i].slot;
        ((uint32_t *)scenario.images.status)[2] = 40; /* the library only adds */
        TensorImages expected = must_copy_images(&scenario);
        if (rows[i].cause >= 0) {
            ((uint32_t *)expected.status)[rows[i].cause]++;
        } else if (rows[i].cause == -2) {
            /* length 2^32 - 4: three more tokens of a whole pool of four stop one short of 2^32 */
            for (uint32_t m = 0; m < 3; m++) {
                memcpy((char *)expected.tail + (5 * 8 + m) * 16, (char *)expected.k + (5 + m) * 16, 16);
                memcpy((char *)expected.tail + (5 * 8 + 4 + m) * 16, (char *)expected.gate + (5 + m) * 16, 16);
            }
        }
        must_run(&scenario, gpu, &expected);
        scenario_free_images(&expected);
        scenario_free(&scenario);
    }
}

static void check_isolation(Gpu *gpu)
{
    Random random = {77};
    Scenario scenario = make(small, 5, 7, 40);
    must_allocate(&scenario, &random);
    /* good, beyond T, descending, slot out of range, empty, wrapping, good */
    const uint32_t offsets[8] = {0, 7, 50, 20, 23, 23, 30, 37};
    const uint32_t lengths[7] = {2, 0, 0, 4, UINT32_MAX, UINT32_MAX - 3, 9};
    const uint32_t slots[7] = {3, 0, 1, 5, 77, 2, 4};
    memcpy(scenario.images.input_row_offsets, offsets, sizeof offsets);
    memcpy(scenario.images.cache_lengths, lengths, sizeof lengths);
    memcpy(scenario.images.slot_idx, slots, sizeof slots);
    must_match_reference(&scenario, gpu);
}

static void check_empty_calls(Gpu *gpu)
{
    Random random = {5};
    Scenario none = make(small, 2, 0, 9);
    must_allocate(&none, &random);
    must_match_reference(&none, gpu);
    /* T = 0: offsets that claim rows are counted, empty requests are not */
    Scenario no_rows = make(small, 2, 3, 0);
    must_allocate(&no_rows, &random);
    const uint32_t offsets[4] = {0, 0, 1, 1};
    memcpy(no_rows.images.input_row_offsets, offsets, sizeof offsets);
    must_match_reference(&no_rows, gpu);
}

/* Layouts that engines use, by strides and bases in elements of type f16, head_dim 8. */
static void check_layouts(Gpu *gpu)
{
    const KpoolGeometry geometry = {.head_dim = 8, .kpool = 4, .type = KPOOL_TYPE_F16, .ring = 6};
    static const struct {
        VkDeviceSize slot, plane, row, k_row, gate_row, tail_base, k_base, gate_base;
    } layouts[] = {
        {.slot = 1024},                                     /* the ring among other pages */
        {.k_row = 16, .gate_row = 16, .gate_base = 8},      /* K|gate in one row */
        {.plane = 5 * 6 * 8, .slot = 6 * 8},                /* all keys before all gates */
        {.row = 2 * 5 * 8, .plane = 5 * 8, .slot = 8},      /* ring positions outermost */
        {.k_row = 40, .gate_row = 24, .k_base = 6, .gate_base = 14, .tail_base = 2}, /* slices of a projection */
        {.row = 10, .plane = 64, .slot = 130, .tail_base = 34},
    };
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        Random random = {900 + i};
        Scenario scenario = make(geometry, 5, 4, 30);
        KpoolCall *call = &scenario.call;
        call->tail_slot_stride = layouts[i].slot;
        call->tail_plane_stride = layouts[i].plane;
        call->tail_row_stride = layouts[i].row;
        call->k_row_stride = layouts[i].k_row;
        call->gate_row_stride = layouts[i].gate_row;
        call->tail_base = layouts[i].tail_base;
        call->k_base = layouts[i].k_base;
        call->gate_base = layouts[i].gate_base;
        call->input_row_offsets_base = i;
        call->cache_lengths_base = 2 * i;
        call->slot_idx_base = 3 * i;
        call->status_base = 5 * i;
        must_allocate(&scenario, &random);
        const uint32_t tokens[4] = {7, 1, 13, 2};
        set_tokens(&scenario, 4, tokens);
        for (uint32_t r = 0; r < 4; r++) {
            SCENARIO_WORDS(&scenario, cache_lengths)[r] = 3 * r;
            SCENARIO_WORDS(&scenario, slot_idx)[r] = 4 - r;
        }
        must_match_reference(&scenario, gpu);
    }
}

static void check_random(Gpu *gpu)
{
    must_match_random(gpu, KPOOL_OPERATION_SEED_TAIL, gpu->pushDescriptors ? 1000 : 0, 50);
}

/* More workgroups than one dimension of the smallest device holds. */
static void check_many_requests(Gpu *gpu)
{
    Random random = {3};
    const KpoolGeometry geometry = {.head_dim = 2, .kpool = 2, .type = KPOOL_TYPE_BF16};
    const uint32_t requests = 140000;
    Scenario scenario = make(geometry, requests, requests, requests);
    scenario.info.lanesPerItem = 1;
    scenario.info.itemsPerGroup = 1;
    must_allocate(&scenario, &random);
    uint32_t *offsets = scenario.images.input_row_offsets;
    for (uint32_t r = 0; r < requests; r++) {
        offsets[r + 1] = r + 1;
        SCENARIO_WORDS(&scenario, slot_idx)[r] = (uint32_t)((uint64_t)r * 7919 % requests);
        SCENARIO_WORDS(&scenario, cache_lengths)[r] = r % 3;
    }
    must_match_reference(&scenario, gpu);
}

ON_EACH_CONTEXT(check_members)
ON_EACH_CONTEXT(check_bits_survive)
ON_EACH_CONTEXT(check_status)
ON_EACH_CONTEXT(check_isolation)
ON_EACH_CONTEXT(check_empty_calls)
ON_EACH_CONTEXT(check_layouts)
ON_EACH_CONTEXT(check_random)
ON_EACH_CONTEXT(check_many_requests)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_members),     cmocka_unit_test(test_check_bits_survive),
        cmocka_unit_test(test_check_status),      cmocka_unit_test(test_check_isolation),
        cmocka_unit_test(test_check_empty_calls), cmocka_unit_test(test_check_layouts),
        cmocka_unit_test(test_check_random),      cmocka_unit_test(test_check_many_requests),
    };
    return cmocka_run_group_tests_name("seed_tail", tests, NULL, NULL);
}
