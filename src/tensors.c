#include "tensors.h"

const KpoolTensorInfo kpoolTensorInfos[KPOOL_TENSOR_COUNT] = {
#define KPOOL_TENSOR_INFO(tensor, its_group)                        \
    [KPOOL_BINDING_##tensor] = {                                    \
        .name = #tensor,                                            \
        .base_name = #tensor "_base",                               \
        .base_offset = offsetof(KpoolCall, tensor##_base),          \
        .group = KPOOL_GROUP_##its_group,                           \
        .has_rows = KPOOL_GROUP_##its_group == KPOOL_GROUP_tail ||  \
                    KPOOL_GROUP_##its_group == KPOOL_GROUP_rows ||  \
                    KPOOL_BINDING_##tensor == KPOOL_BINDING_scratch, \
    },
    KPOOL_TENSORS(KPOOL_TENSOR_INFO)
#undef KPOOL_TENSOR_INFO
};

const char *const kpoolGroupNames[KPOOL_GROUP_COUNT] = {
#define KPOOL_GROUP_NAME(group) [KPOOL_GROUP_##group] = #group,
    KPOOL_GROUPS(KPOOL_GROUP_NAME)
#undef KPOOL_GROUP_NAME
};

/* The numbers of interface.h are places in its list, and the structs of the header hold the same list. */
#define KPOOL_COUNT_ONE(tensor, group) +1
_Static_assert(0 KPOOL_TENSORS(KPOOL_COUNT_ONE) == KPOOL_TENSOR_COUNT, "KPOOL_TENSOR_COUNT counts the list");
_Static_assert(sizeof(KpoolBindings) == KPOOL_TENSOR_COUNT * sizeof(KpoolRange), "KpoolBindings holds the list");
_Static_assert(KPOOL_TENSOR_COUNT <= 32, "a set of tensors fits a uint32_t");
#define KPOOL_CHECK_PLACE(tensor, group)                                                      \
    _Static_assert(offsetof(KpoolBindings, tensor) == KPOOL_BINDING_##tensor * sizeof(KpoolRange), \
                   "KPOOL_BINDING_" #tensor " is its place in the list");
KPOOL_TENSORS(KPOOL_CHECK_PLACE)

#define BIT(tensor) (1u << KPOOL_BINDING_##tensor)

typedef struct OperationInfo {
    const char *name;
    uint32_t tensors;
} OperationInfo;

/* The first entry stands for anything that is no operation. */
static const OperationInfo *find_operation(KpoolOperation operation)
{
    static const OperationInfo infos[KPOOL_OPERATION_COUNT] = {
        [KPOOL_OPERATION_NONE] = {"none", 0},
        [KPOOL_OPERATION_SEED_TAIL] = {"seed_tail",
                                       BIT(tail) | BIT(k) | BIT(gate) | BIT(input_row_offsets) | BIT(cache_lengths) |
                                           BIT(slot_idx) | BIT(status)},
        [KPOOL_OPERATION_RING_CLOSE] = {"ring_close",
                                        BIT(tail) | BIT(k) | BIT(gate) | BIT(input_row_offsets) | BIT(cache_lengths) |
                                            BIT(slot_idx) | BIT(status) | BIT(ape) | BIT(closed_pool) |
                                            BIT(closed_pooled)},
        [KPOOL_OPERATION_COMPRESS] = {"compress",
                                      BIT(k) | BIT(gate) | BIT(input_row_offsets) | BIT(cache_lengths) | BIT(status) |
                                          BIT(ape) | BIT(pool_row_offsets) | BIT(pooled)},
        [KPOOL_OPERATION_POOL_ROW_OFFSETS] = {"pool_row_offsets",
                                              BIT(input_row_offsets) | BIT(cache_lengths) | BIT(status) |
                                                  BIT(pool_row_offsets)},
        [KPOOL_OPERATION_EXPAND_TOPK] = {"expand_topk",
                                         BIT(input_row_offsets) | BIT(cache_lengths) | BIT(status) | BIT(pool_ids) |
                                             BIT(out)},
        [KPOOL_OPERATION_COPY_SLOTS] = {"copy_slots", BIT(tail) | BIT(status) | BIT(pairs) | BIT(scratch)},
        [KPOOL_OPERATION_STEP] = {"step",
                                  BIT(tail) | BIT(k) | BIT(gate) | BIT(input_row_offsets) | BIT(cache_lengths) |
                                      BIT(slot_idx) | BIT(status) | BIT(ape) | BIT(pool_row_offsets) |
                                      BIT(closed_pool) | BIT(pooled)},
        [KPOOL_OPERATION_CHECK_SLOTS] = {"check_slots",
                                         BIT(input_row_offsets) | BIT(cache_lengths) | BIT(slot_idx) | BIT(status) |
                                             BIT(scratch)},
    };
    const bool known = (uint32_t)operation < KPOOL_OPERATION_COUNT;
    return &infos[known ? operation : KPOOL_OPERATION_NONE];
}

uint32_t kpoolOperationTensors(KpoolOperation operation)
{
    return find_operation(operation)->tensors;
}

uint32_t kpoolOptionalTensors(KpoolOperation operation)
{
    return operation == KPOOL_OPERATION_STEP ? BIT(closed_pooled) | BIT(block_table) : 0;
}

uint32_t kpoolKernelTensors(const KpoolKernelCreateInfo *info)
{
    const uint32_t kept = info->page_size != 0 ? BIT(block_table) : BIT(closed_pooled);
    return kpoolOperationTensors(info->operation) | (kpoolOptionalTensors(info->operation) & kept);
}

bool kpoolOperationMakesRows(KpoolOperation operation)
{
    return operation == KPOOL_OPERATION_COMPRESS || operation == KPOOL_OPERATION_STEP;
}

bool kpoolOperationMakesKeys(KpoolOperation operation)
{
    return operation == KPOOL_OPERATION_RING_CLOSE || kpoolOperationMakesRows(operation);
}

uint32_t kpoolModuleTensors(KpoolOperation operation)
{
    if (kpoolOperationMakesRows(operation)) {
        return kpoolOperationTensors(KPOOL_OPERATION_STEP) | kpoolOptionalTensors(KPOOL_OPERATION_STEP);
    }
    if (operation == KPOOL_OPERATION_POOL_ROW_OFFSETS || operation == KPOOL_OPERATION_CHECK_SLOTS) {
        return kpoolOperationTensors(KPOOL_OPERATION_POOL_ROW_OFFSETS) |
               kpoolOperationTensors(KPOOL_OPERATION_CHECK_SLOTS);
    }
    return kpoolOperationTensors(operation);
}

uint32_t kpoolStandIn(uint32_t tensor, uint32_t used)
{
    const uint32_t outputs =
        BIT(tail) | BIT(closed_pool) | BIT(closed_pooled) | BIT(pooled) | BIT(pool_row_offsets) | BIT(scratch);
    if ((outputs & (1u << tensor)) == 0) {
        return KPOOL_TENSOR_input_row_offsets;
    }
    /* Not status: its counts are atomic, which is less than a write. */
    return (used & BIT(pooled)) != 0   ? KPOOL_TENSOR_pooled
           : (used & BIT(scratch)) != 0 ? KPOOL_TENSOR_scratch
                                        : KPOOL_TENSOR_pool_row_offsets;
}

const char *kpoolOperationName(KpoolOperation operation)
{
    return find_operation(operation)->name;
}

bool kpoolOperationMovesRows(KpoolOperation operation)
{
    return operation == KPOOL_OPERATION_SEED_TAIL || operation == KPOOL_OPERATION_STEP;
}

uint32_t kpoolWordSize(const KpoolKernelCreateInfo *info)
{
    return info->operation == KPOOL_OPERATION_SEED_TAIL ? info->alignment : 4;
}

bool kpoolOperationUsesWholeGroup(KpoolOperation operation)
{
    return operation == KPOOL_OPERATION_POOL_ROW_OFFSETS || operation == KPOOL_OPERATION_EXPAND_TOPK ||
           operation == KPOOL_OPERATION_CHECK_SLOTS;
}

KpoolTensorList kpoolListTensors(uint32_t tensors)
{
    KpoolTensorList list = {0};
    for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
        if ((tensors & (1u << tensor)) != 0) {
            list.tensors[list.count++] = tensor;
        }
    }
    return list;
}

uint32_t kpoolBindingLayouts(const VkPhysicalDeviceLimits *limits)
{
    uint32_t most = 0;
    for (uint32_t operation = 1; operation < KPOOL_OPERATION_COUNT; operation++) {
        const uint32_t count = kpoolListTensors(kpoolModuleTensors((KpoolOperation)operation)).count;
        most = count > most ? count : most;
    }
    const bool wide = most <= limits->maxPerStageDescriptorStorageBuffers &&
                      most <= limits->maxDescriptorSetStorageBuffers && most <= limits->maxPerStageResources;
    return KPOOL_BINDING_LAYOUT_FLOOR_BIT | (wide ? KPOOL_BINDING_LAYOUT_WIDE_BIT : 0);
}
