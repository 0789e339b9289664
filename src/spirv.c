#include "spirv.h"

#include "generated/seed_tail.h"
#include "tensors.h"

#define MODULE(array) {array, sizeof array}
#define MODULES(name)                                                                          \
    {                                                                                          \
        {MODULE(kpool_##name##_wide_4), MODULE(kpool_##name##_wide_16)},                       \
            {MODULE(kpool_##name##_floor_4), MODULE(kpool_##name##_floor_16)},                 \
    }

KpoolModule kpoolFindModule(KpoolOperation operation, KpoolBindingLayout bindingLayout, uint32_t alignment)
{
    static const KpoolModule modules[KPOOL_OPERATION_COUNT][2][2] = {
        [KPOOL_OPERATION_SEED_TAIL] = MODULES(seed_tail),
    };
    return modules[operation][bindingLayout == KPOOL_BINDING_LAYOUT_FLOOR][alignment == 16];
}
