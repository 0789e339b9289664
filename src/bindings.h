/* From the caller's ranges to descriptors: checked, and in the floor layout joined into groups. */
#ifndef KPOOL_BINDINGS_H
#define KPOOL_BINDINGS_H

#include "context.h"

typedef struct KpoolDescriptors {
    VkDescriptorBufferInfo infos[KPOOL_TENSOR_COUNT];
    uint32_t bindings[KPOOL_TENSOR_COUNT];
    uint32_t count;
    VkDeviceSize starts[KPOOL_TENSOR_COUNT]; /* bytes from the start of a tensor's descriptor to its range */
} KpoolDescriptors;

/* used: the tensors whose ranges are looked at. What else the module declares gets a stand-in, and in the floor layout
 * a group without a range the group of status, so that every descriptor is valid; nothing accesses it. alignment: of
 * the rows, 4 or 16. */
KpoolResult kpoolResolveBindings(KpoolContext context, KpoolOperation operation, uint32_t used, uint32_t alignment,
                                 const KpoolBindings *bindings, KpoolDescriptors *descriptors,
                                 KpoolDiagnostic *diagnostic);

/* Fills writes[0, descriptors->count), which point into descriptors. */
void kpoolFillWrites(const KpoolDescriptors *descriptors, VkDescriptorSet set,
                     VkWriteDescriptorSet writes[KPOOL_TENSOR_COUNT]);

#endif
