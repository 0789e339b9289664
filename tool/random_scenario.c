#include "random_scenario.h"

#include <string.h>

void random_values(Random *random, KpoolType type, void *image, size_t elements)
{
    for (size_t i = 0; i < elements; i++) {
        const float value = ((float)random_between(random, 0, 2000000) - 1e6f) * 8e-6f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (random_one_in(random, 100)) {
            bits = (uint32_t)random_next(random);
        }
        if (type == KPOOL_TYPE_F32) {
            ((uint32_t *)image)[i] = bits;
        } else if (type == KPOOL_TYPE_BF16) {
            ((uint16_t *)image)[i] = (uint16_t)(bits >> 16);
        } else {
            /* up to 8 in magnitude, now and then anything */
            const uint32_t magnitude = random_one_in(random, 100) ? bits & 0x7fff : random_between(random, 0, 0x4800);
            ((uint16_t *)image)[i] = (uint16_t)((bits >> 16 & 0x8000u) | magnitude);
        }
    }
}

static bool makes_keys(KpoolOperation operation)
{
    return operation == KPOOL_OPERATION_RING_CLOSE || operation == KPOOL_OPERATION_COMPRESS ||
           operation == KPOOL_OPERATION_STEP;
}

static bool by_row(KpoolOperation operation)
{
    return operation == KPOOL_OPERATION_COMPRESS || operation == KPOOL_OPERATION_EXPAND_TOPK ||
           operation == KPOOL_OPERATION_STEP;
}

static KpoolGeometry random_geometry(Random *random)
{
    static const uint32_t head_dims[] = {2, 6, 8, 16, 40, 64, 128, 130, 256};
    KpoolGeometry geometry = {
        .type = (KpoolType)random_between(random, 1, 3),
        .kpool = random_one_in(random, 4) ? random_between(random, 1, 128) : random_between(random, 1, 9),
        .rollback = random_one_in(random, 2) ? 0 : random_between(random, 1, 9),
        .head_dim = head_dims[random_between(random, 0, 8)],
    };
    if (geometry.type == KPOOL_TYPE_F32 && random_one_in(random, 2)) {
        geometry.head_dim = random_between(random, 1, 77);
    }
    geometry.ring = random_one_in(random, 2) ? 0 : geometry.kpool + geometry.rollback + random_between(random, 0, 20);
    return geometry;
}

KpoolKernelCreateInfo random_info(KpoolOperation operation, Random *random)
{
    KpoolKernelCreateInfo info = {.operation = operation, .geometry = random_geometry(random)};
    const uint32_t row_size = info.geometry.head_dim * kpoolTypeSize(info.geometry.type);
    info.alignment = row_size % 16 == 0 && random_one_in(random, 2) ? 16 : 4;
    if (random_one_in(random, 2)) {
        info.lanesPerItem = 1u << random_between(random, 0, 7);
    }
    if (random_one_in(random, 2) && operation != KPOOL_OPERATION_POOL_ROW_OFFSETS &&
        operation != KPOOL_OPERATION_EXPAND_TOPK && operation != KPOOL_OPERATION_CHECK_SLOTS) {
        const uint32_t lanes = info.lanesPerItem != 0 ? info.lanesPerItem : 1;
        info.itemsPerGroup = 1u << random_between(random, 0, 7);
        info.itemsPerGroup = info.itemsPerGroup < 128 / lanes ? info.itemsPerGroup : 128 / lanes;
    }
    if ((operation == KPOOL_OPERATION_COMPRESS || operation == KPOOL_OPERATION_STEP) && random_one_in(random, 2)) {
        info.rowsPerItem = random_between(random, 1, 9);
    }
    if (makes_keys(operation) && info.geometry.head_dim % 2 == 0) {
        info.pooled_type = (KpoolType)random_between(random, 0, 3);
    }
    info.topk = random_one_in(random, 4) ? random_between(random, 1, 300) : random_between(random, 1, 9);
    info.topk_layout = (KpoolTopkLayout)random_between(random, 0, 1);
    info.with_tail = random_between(random, 0, 1);
    return info;
}

/* A multiple of unit. */
static VkDeviceSize gap(Random *random, uint32_t unit, uint32_t most)
{
    return (VkDeviceSize)unit * random_between(random, 0, most);
}

void random_layout(Random *random, const KpoolKernelCreateInfo *info, KpoolCall *call)
{
    const KpoolGeometry *geometry = &info->geometry;
    const uint32_t unit = info->alignment / kpoolTypeSize(geometry->type);
    const uint32_t ring = geometry->ring != 0 ? geometry->ring : geometry->kpool + geometry->rollback;
    const VkDeviceSize row = geometry->head_dim + gap(random, unit, 3);
    call->tail_row_stride = row;
    if (random_one_in(random, 2)) {
        call->tail_plane_stride = row * ring + gap(random, unit, 5);
        call->tail_slot_stride = 2 * call->tail_plane_stride + gap(random, unit, 9);
    } else {
        /* all keys before all gates */
        call->tail_slot_stride = row * ring + gap(random, unit, 5);
        call->tail_plane_stride = call->tail_slot_stride * call->max_slots + gap(random, unit, 9);
    }
    call->k_row_stride = geometry->head_dim + gap(random, unit, 40);
    call->gate_row_stride = geometry->head_dim + gap(random, unit, 40);
    call->tail_base = gap(random, unit, 30);
    call->k_base = gap(random, unit, 30);
    call->gate_base = gap(random, unit, 30);
    /* 2 bytes or 4: even serves both */
    const uint32_t even_dim = geometry->head_dim + geometry->head_dim % 2;
    call->closed_pooled_row_stride = even_dim + gap(random, 2, 8);
    call->pooled_row_stride = even_dim + gap(random, 2, 8);
    call->closed_pooled_base = gap(random, 2, 8);
    call->pooled_base = gap(random, 2, 8);
    call->scratch_base = gap(random, 2, 8);
    VkDeviceSize *const bases[] = {
        &call->input_row_offsets_base, &call->cache_lengths_base,    &call->slot_idx_base,    &call->status_base,
        &call->ape_base,               &call->pool_row_offsets_base, &call->closed_pool_base, &call->pool_ids_base,
        &call->out_base,               &call->pairs_base,            &call->block_table_base,
    };
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        *bases[i] = random_between(random, 0, 9);
    }
}

static void random_requests(Random *random, Scenario *scenario)
{
    const KpoolCall *call = &scenario->call;
    const bool has_slots = scenario->sizes.slot_idx.size != 0;
    /* Half the calls are sound. In the rest requests reach beyond rows, and, where a request stands by itself, offsets
     * are anything. */
    const bool broken = random_one_in(random, 2);
    uint32_t *offsets = SCENARIO_WORDS(scenario, input_row_offsets);
    const uint32_t first_slot = random_between(random, 0, call->max_slots - 1);
    offsets[0] = random_between(random, 0, call->rows / 4);
    for (uint32_t r = 0; r < call->requests; r++) {
        const uint32_t left = call->rows > offsets[r] ? call->rows - offsets[r] : 0;
        uint32_t length = random_between(random, 0, 1000);
        uint32_t slot = r < call->max_slots ? (first_slot + r) % call->max_slots : call->max_slots + r;
        if (scenario->info.operation == KPOOL_OPERATION_CHECK_SLOTS && random_one_in(random, 2)) {
            slot = random_between(random, 0, call->max_slots - 1);
        }
        offsets[r + 1] = offsets[r] + random_between(random, 0, left < 40 ? left : 40);
        if (broken && random_one_in(random, 4)) {
            length = (uint32_t)random_next(random) | (random_one_in(random, 2) ? 0xffffff00u : 0);
            slot = random_one_in(random, 2) ? slot : random_between(random, call->max_slots, UINT32_MAX);
        }
        if (broken && r + 3 > call->requests) {
            offsets[r + 1] = offsets[r] + random_between(random, 0, 50);
        }
        if (broken && !by_row(scenario->info.operation) && random_one_in(random, 3)) {
            offsets[r + 1] =
                random_one_in(random, 2) ? (uint32_t)random_next(random) : random_between(random, 0, call->rows + 2);
        }
        SCENARIO_WORDS(scenario, cache_lengths)[r] = length;
        if (has_slots) {
            SCENARIO_WORDS(scenario, slot_idx)[r] = slot;
        }
    }
}

/* The true offsets, or, once in three times, ones that claim more rows than there are pools. */
static bool random_pool_row_offsets(Random *random, Scenario *scenario)
{
    uint32_t *pools = SCENARIO_WORDS(scenario, pool_row_offsets);
    if (kpoolPoolRowOffsets(scenario->info.geometry.kpool, &scenario->call, SCENARIO_WORDS(scenario, input_row_offsets),
                            SCENARIO_WORDS(scenario, cache_lengths), pools, NULL, NULL) != KPOOL_SUCCESS) {
        return false;
    }
    const bool claims = random_one_in(random, 3);
    uint32_t more = 0;
    for (uint32_t r = 0; claims && r <= scenario->call.requests; r++) {
        pools[r] += more;
        more += random_one_in(random, 4) ? random_between(random, 0, 3) : 0;
    }
    return true;
}

/* Each page once, so that no two keys meet; some are no pages. */
static void random_block_table(Random *random, Scenario *scenario)
{
    for (uint32_t i = 0; i < scenario->call.requests * scenario->call.max_pages; i++) {
        SCENARIO_WORDS(scenario, block_table)[i] =
            random_one_in(random, 10) ? (uint32_t)random_next(random) | 0x10000u : i;
    }
}

static void random_pool_ids(Random *random, Scenario *scenario)
{
    for (uint32_t i = 0; i < scenario->call.rows * scenario->info.topk; i++) {
        SCENARIO_WORDS(scenario, pool_ids)[i] =
            random_one_in(random, 20) ? (uint32_t)random_next(random) : random_between(random, 0, 250) - 8;
    }
}

/* Every destination once, from anywhere: chains, cycles, padding, indices out of range. */
static void random_pairs(Random *random, Scenario *scenario)
{
    for (uint32_t i = 0; i < scenario->call.pair_count; i++) {
        uint32_t *pair = &SCENARIO_WORDS(scenario, pairs)[2 * (size_t)i];
        pair[0] = random_between(random, 0, scenario->call.max_slots - 1);
        pair[1] = i < scenario->call.max_slots ? i : scenario->call.max_slots + i;
        if (random_one_in(random, 10)) {
            pair[0] = (uint32_t)random_next(random);
        } else if (random_one_in(random, 10)) {
            pair[0] = pair[1];
        }
    }
}

void random_keys(Random *random, Scenario *scenario)
{
    const KpoolType type = scenario->info.geometry.type;
    if (makes_keys(scenario->info.operation)) {
        const size_t size = kpoolTypeSize(type);
        random_values(random, type, scenario->images.tail, (size_t)scenario->sizes.tail.size / size);
        random_values(random, type, scenario->images.k, (size_t)scenario->sizes.k.size / size);
        random_values(random, type, scenario->images.gate, (size_t)scenario->sizes.gate.size / size);
        random_values(random, KPOOL_TYPE_F32, scenario->images.ape, (size_t)scenario->sizes.ape.size / 4);
    }
}

bool random_scenario(KpoolOperation operation, Random *random, Scenario *scenario, Complaint *complaint)
{
    *scenario = (Scenario){.info = random_info(operation, random)};
    KpoolKernelCreateInfo *info = &scenario->info;
    KpoolCall *call = &scenario->call;
    call->max_slots = random_between(random, 1, 40);
    call->requests = random_between(random, 0, 40);
    call->rows = random_between(random, 0, 300);
    call->pooled_rows = random_between(random, 0, 120);
    call->pair_count = random_between(random, 0, 12);
    const bool whole = operation == KPOOL_OPERATION_POOL_ROW_OFFSETS || operation == KPOOL_OPERATION_CHECK_SLOTS;
    if (whole && random_one_in(random, 4)) {
        call->requests = random_between(random, 0, 3000);
        call->max_slots = random_between(random, 1, 3000);
    }
    if (operation == KPOOL_OPERATION_STEP && random_one_in(random, 2)) {
        info->page_size = 1u << random_between(random, 0, 3);
        call->max_pages = random_between(random, 0, 30);
        call->pages =
            random_one_in(random, 2) ? call->requests * call->max_pages : random_between(random, 0, 200);
    }
    if (!random_one_in(random, 3)) {
        random_layout(random, info, call);
    }
    if (!scenario_allocate(scenario, random, complaint)) {
        return false;
    }
    random_keys(random, scenario);
    if (scenario->sizes.input_row_offsets.size != 0) {
        random_requests(random, scenario);
    }
    bool filled = true;
    if (operation == KPOOL_OPERATION_COMPRESS || operation == KPOOL_OPERATION_STEP) {
        filled = random_pool_row_offsets(random, scenario);
    }
    if (scenario->sizes.block_table.size != 0) {
        random_block_table(random, scenario);
    }
    if (operation == KPOOL_OPERATION_EXPAND_TOPK) {
        random_pool_ids(random, scenario);
    }
    if (operation == KPOOL_OPERATION_COPY_SLOTS) {
        random_pairs(random, scenario);
    }
    if (!filled) {
        scenario_free(scenario);
        return complain(complaint, "pool_row_offsets could not be made");
    }
    return true;
}
