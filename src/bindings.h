/* From the caller's ranges to descriptors: checked, and in the floor layout joined into groups. */
#ifndef KPOOL_BINDINGS_H
#define KPOOL_BINDINGS_H

#include "context.h"

/* Where the ranges of a call lie in descriptors. */
typedef struct KpoolPlacement {
    KpoolRange spans[KPOOL_GROUP_COUNT];     /* floor layout: the descriptor of each group; all there and valid */
    VkDeviceSize starts[KPOOL_TENSOR_COUNT]; /* bytes from the start of a used tensor's descriptor to its range */
} KpoolPlacement;

/* Checks the ranges of the tensors in `used`, and in the floor layout of all that are given. alignment: of the rows, 4
 * or 16. */
KpoolResult kpoolPlaceBindings(KpoolContext context, const KpoolTensorList *used, uint32_t alignment,
                               const KpoolBindings *bindings, KpoolPlacement *placement, KpoolDiagnostic *diagnostic);

typedef struct KpoolDescriptors {
    VkDescriptorBufferInfo infos[KPOOL_TENSOR_COUNT];
    VkWriteDescriptorSet writes[KPOOL_TENSOR_COUNT]; /* point into infos */
    uint32_t count;
} KpoolDescriptors;

/* The descriptors of a set for the operation, from bindings that were placed. What the module declares beyond `used` gets
 * a stand-in, and in the floor layout a group without a range the group of status, so that every descriptor is valid;
 * nothing accesses it. */
void kpoolFillDescriptors(KpoolContext context, KpoolOperation operation, uint32_t used, const KpoolBindings *bindings,
                          const KpoolPlacement *placement, VkDescriptorSet set, KpoolDescriptors *descriptors);

#endif
