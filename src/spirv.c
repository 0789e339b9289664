#include "spirv.h"

#include "generated/copy_slots.h"
#include "generated/expand_topk.h"
#include "generated/pools.h"
#include "generated/requests.h"
#include "generated/ring_close.h"
#include "generated/seed_tail.h"
#include "tensors.h"

#define MODULE(array) {array, sizeof array}
/* A kernel that does nothing but move rows has a variant for each size of words; the others have words of 4. */
#define MOVING(name)                                                           \
    {                                                                          \
        {MODULE(kpool_##name##_wide_4), MODULE(kpool_##name##_wide_16)},       \
            {MODULE(kpool_##name##_floor_4), MODULE(kpool_##name##_floor_16)}, \
    }
#define OTHER(name)                                                          \
    {                                                                        \
        {MODULE(kpool_##name##_wide_4)}, {MODULE(kpool_##name##_floor_4)},   \
    }

KpoolModule kpoolFindModule(KpoolOperation operation, KpoolBindingLayout bindingLayout, uint32_t wordSize)
{
    static const KpoolModule modules[KPOOL_OPERATION_COUNT][2][2] = {
        [KPOOL_OPERATION_SEED_TAIL] = MOVING(seed_tail),
        [KPOOL_OPERATION_RING_CLOSE] = {{MODULE(kpool_ring_close_wide_4)}, {MODULE(kpool_pools_floor_4)}},
        [KPOOL_OPERATION_COMPRESS] = OTHER(pools),
        [KPOOL_OPERATION_STEP] = OTHER(pools),
        [KPOOL_OPERATION_POOL_ROW_OFFSETS] = OTHER(requests),
        [KPOOL_OPERATION_EXPAND_TOPK] = OTHER(expand_topk),
        [KPOOL_OPERATION_COPY_SLOTS] = OTHER(copy_slots),
        [KPOOL_OPERATION_CHECK_SLOTS] = OTHER(requests),
    };
    return modules[operation][bindingLayout == KPOOL_BINDING_LAYOUT_FLOOR][wordSize == 16];
}
