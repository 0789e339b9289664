#include "scenario.h"

#include <stdlib.h>
#include <string.h>

#include "reference.h"

static size_t image_size(VkDeviceSize size)
{
    return size > 4 ? (size_t)size : 4;
}

static void fill(Random *random, void *image, size_t size)
{
    unsigned char *bytes = image;
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        const uint64_t word = random_next(random);
        memcpy(bytes + i, &word, size - i < sizeof word ? size - i : sizeof word);
    }
}

bool scenario_allocate(Scenario *scenario, Random *random, Complaint *complaint)
{
    KpoolDiagnostic diagnostic;
    scenario->images = (TensorImages){0};
    if (kpoolGetSizes(&scenario->info, &scenario->call, &scenario->sizes, &diagnostic) != KPOOL_SUCCESS) {
        return complain(complaint, "%s", diagnostic.message);
    }
    bool allocated = true;
#define ALLOCATE(tensor, group)                                                                    \
    scenario->images.tensor = calloc(1, image_size(scenario->sizes.tensor.size));                  \
    allocated = allocated && scenario->images.tensor != NULL;                                      \
    if (allocated && KPOOL_GROUP_##group != KPOOL_GROUP_words) {                                   \
        fill(random, scenario->images.tensor, image_size(scenario->sizes.tensor.size));            \
    }
    KPOOL_TENSORS(ALLOCATE)
#undef ALLOCATE
    if (!allocated) {
        scenario_free(scenario);
        return complain(complaint, "out of memory");
    }
    return true;
}

void scenario_free_images(TensorImages *images)
{
#define FREE(tensor, group) free(images->tensor);
    KPOOL_TENSORS(FREE)
#undef FREE
    *images = (TensorImages){0};
}

void scenario_free(Scenario *scenario)
{
    scenario_free_images(&scenario->images);
}

bool scenario_copy_images(const Scenario *scenario, TensorImages *copy)
{
    *copy = (TensorImages){0};
    bool copied = true;
#define COPY(tensor, group)                                                                        \
    copy->tensor = malloc(image_size(scenario->sizes.tensor.size));                                \
    copied = copied && copy->tensor != NULL;                                                       \
    if (copied) {                                                                                  \
        memcpy(copy->tensor, scenario->images.tensor, image_size(scenario->sizes.tensor.size));    \
    }
    KPOOL_TENSORS(COPY)
#undef COPY
    if (!copied) {
        scenario_free_images(copy);
    }
    return copied;
}

static uint32_t *words(void *image, VkDeviceSize base)
{
    return (uint32_t *)image + base;
}

void scenario_apply_reference(const Scenario *scenario, TensorImages *images)
{
    const KpoolKernelCreateInfo *info = &scenario->info;
    const KpoolGeometry *geometry = &info->geometry;
    const KpoolCall *call = &scenario->call;
    const uint32_t *offsets = words(images->input_row_offsets, call->input_row_offsets_base);
    const uint32_t *lengths = words(images->cache_lengths, call->cache_lengths_base);
    const uint32_t *slots = words(images->slot_idx, call->slot_idx_base);
    const uint32_t *pairs = words(images->pairs, call->pairs_base);
    const float *ape = (const float *)(const void *)words(images->ape, call->ape_base);
    uint32_t *pools = words(images->pool_row_offsets, call->pool_row_offsets_base);
    int32_t *closed_pool = (int32_t *)words(images->closed_pool, call->closed_pool_base);
    uint32_t *status = words(images->status, call->status_base);
    switch (info->operation) {
    case KPOOL_OPERATION_SEED_TAIL:
        reference_seed_tail(geometry, call, images->tail, images->k, images->gate, offsets, lengths, slots, status);
        break;
    case KPOOL_OPERATION_RING_CLOSE:
        reference_ring_close(info, call, images->tail, images->k, images->gate, ape, offsets, lengths, slots,
                             closed_pool, images->closed_pooled, status);
        break;
    case KPOOL_OPERATION_COMPRESS:
        reference_compress(info, call, images->k, images->gate, ape, offsets, lengths, pools, images->pooled, status);
        break;
    case KPOOL_OPERATION_POOL_ROW_OFFSETS:
        reference_pool_row_offsets(geometry->kpool, call, offsets, lengths, pools, status);
        break;
    case KPOOL_OPERATION_EXPAND_TOPK:
        reference_expand_topk(geometry->kpool, info->topk, info->topk_layout, info->with_tail != VK_FALSE, call,
                              offsets, lengths, (int32_t *)words(images->pool_ids, call->pool_ids_base),
                              (int32_t *)words(images->out, call->out_base), status);
        break;
    case KPOOL_OPERATION_COPY_SLOTS:
        reference_copy_slots(geometry, call, scenario->images.tail, images->tail, pairs, status);
        break;
    case KPOOL_OPERATION_STEP:
        reference_step(info, call, images->tail, images->k, images->gate, ape, offsets, lengths, slots, pools,
                       words(images->block_table, call->block_table_base), closed_pool, images->closed_pooled,
                       images->pooled, status);
        break;
    case KPOOL_OPERATION_CHECK_SLOTS:
        reference_check_slots(call, offsets, lengths, slots, status);
        break;
    case KPOOL_OPERATION_NONE:
        break;
    }
    free(images->scratch);
    images->scratch = NULL;
    if (scenario->collides) {
        void **const open[] = {&images->tail, &images->closed_pooled, &images->pooled};
        for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
            free(*open[i]);
            *open[i] = NULL;
        }
    }
}

static bool compare(const char *name, const void *actual, const void *expected, VkDeviceSize size, Complaint *complaint)
{
    if (expected == NULL || memcmp(actual, expected, image_size(size)) == 0) {
        return true;
    }
    const unsigned char *a = actual;
    const unsigned char *e = expected;
    size_t i = 0;
    while (a[i] == e[i]) {
        i++;
    }
    return complain(complaint, "%s: byte %zu of %zu is 0x%02x, expected 0x%02x", name, i, image_size(size), a[i], e[i]);
}

ScenarioOutcome scenario_run(Scenario *scenario, Gpu *gpu, const TensorImages *expected, Complaint *complaint)
{
    Execution execution;
    if (!execute(gpu, &scenario->info, &scenario->call, 1, &scenario->images, &execution)) {
        complain(complaint, "%s", gpu->error);
        return SCENARIO_FAILED;
    }
    if (execution.result != KPOOL_SUCCESS) {
        complain(complaint, "%s", execution.diagnostic.message);
        return SCENARIO_FAILED;
    }
    if (execution.damaged != NULL) {
        complain(complaint, "a guard word beside %s was changed", execution.damaged);
        return SCENARIO_WRONG;
    }
    bool right = true;
#define COMPARE(tensor, group)                                                                                    \
    right = right &&                                                                                              \
            compare(#tensor, scenario->images.tensor, expected->tensor, scenario->sizes.tensor.size, complaint);
    KPOOL_TENSORS(COMPARE)
#undef COMPARE
    return right ? SCENARIO_RIGHT : SCENARIO_WRONG;
}
