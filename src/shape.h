/* Host arithmetic of geometries and calls: defaults filled in, rules checked, sizes found. Pure. */
#ifndef KPOOL_SHAPE_H
#define KPOOL_SHAPE_H

#include "tensors.h"

/* Fills in the default ring and checks the rules of KpoolGeometry. */
KpoolResult kpoolResolveGeometry(const KpoolGeometry *geometry, KpoolGeometry *resolved, KpoolDiagnostic *diagnostic);

/* Fills in every default that needs no device and checks the rules; the workgroup's shape stays as it is. */
KpoolResult kpoolResolveKernelInfo(const KpoolKernelCreateInfo *createInfo, KpoolKernelCreateInfo *info,
                                   KpoolDiagnostic *diagnostic);

typedef struct KpoolPushConstants {
#define KPOOL_PUSH_FIELD(name) uint32_t name;
    KPOOL_PUSH_CONSTANTS(KPOOL_PUSH_FIELD)
#undef KPOOL_PUSH_FIELD
} KpoolPushConstants;

_Static_assert(sizeof(KpoolPushConstants) <= 128, "every device has 128 bytes of push constants");

typedef struct KpoolShape {
    KpoolPushConstants push;               /* with bases as the wide layout has them */
    VkDeviceSize sizes[KPOOL_TENSOR_COUNT]; /* bytes each tensor needs, of those that are used */
} KpoolShape;

/* info is resolved; used: the tensors of such a kernel. */
KpoolResult kpoolResolveCall(const KpoolKernelCreateInfo *info, const KpoolTensorList *used, const KpoolCall *call,
                             KpoolShape *shape, KpoolDiagnostic *diagnostic);

/* Where push.<name>_base of a tensor is. */
uint32_t *kpoolPushBase(KpoolPushConstants *push, uint32_t tensor);

#endif
