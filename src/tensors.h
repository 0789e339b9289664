/* The tensors as a table: which there are, where KpoolBindings and KpoolCall keep them, which group they
 * belong to in the floor layout, and which of them an operation uses. */
#ifndef KPOOL_TENSORS_H
#define KPOOL_TENSORS_H

#include <stdbool.h>

#include "../shaders/interface.h"
#include "kpool/kpool.h"

/* KPOOL_TENSOR_tail and so on: a tensor's index is its binding in the wide layout. */
enum {
#define KPOOL_TENSOR_ENUM(name, group) KPOOL_TENSOR_##name = KPOOL_BINDING_##name,
    KPOOL_TENSORS(KPOOL_TENSOR_ENUM)
#undef KPOOL_TENSOR_ENUM
};

typedef struct KpoolTensorInfo {
    const char *name;
    const char *base_name;
    uint32_t base_offset; /* bytes, of its base in KpoolCall */
    uint32_t group;       /* KPOOL_GROUP_... */
    bool has_rows;        /* which keep the kernel's alignment */
} KpoolTensorInfo;

extern const KpoolTensorInfo kpoolTensorInfos[KPOOL_TENSOR_COUNT];
extern const char *const kpoolGroupNames[KPOOL_GROUP_COUNT];

#define KPOOL_OPERATION_COUNT 9u

/* Sets of tensors: bit i is tensor i. 0 for anything that is no operation. */

/* What every kernel of the operation uses. */
uint32_t kpoolOperationTensors(KpoolOperation operation);
/* What some kernel of it uses beside those. */
uint32_t kpoolOptionalTensors(KpoolOperation operation);
/* What this kernel uses. */
uint32_t kpoolKernelTensors(const KpoolKernelCreateInfo *info);
/* What its module declares in the wide layout, and so its set layout: an operation that shares a module may use
 * less. */
uint32_t kpoolModuleTensors(KpoolOperation operation);
/* The tensor whose range a kernel of such a module, which uses `used`, has bound in place of one that it does not use: an
 * output for an output, an input for an input, so that validation sees no access that the kernel does not make anyway. */
uint32_t kpoolStandIn(uint32_t tensor, uint32_t used);

/* Such a set as a list, in ascending order: what is walked each time a call is recorded. */
typedef struct KpoolTensorList {
    uint32_t count;
    uint32_t tensors[KPOOL_TENSOR_COUNT];
} KpoolTensorList;

KpoolTensorList kpoolListTensors(uint32_t tensors);

const char *kpoolOperationName(KpoolOperation operation);

/* KPOOL_BINDING_LAYOUT_..._BIT: the layouts that a device with these limits takes. */
uint32_t kpoolBindingLayouts(const VkPhysicalDeviceLimits *limits);

/* Its range: KpoolBindings holds one a tensor, in the order of the list. */
static inline const KpoolRange *kpoolTensorRange(const KpoolBindings *bindings, uint32_t tensor)
{
    return (const KpoolRange *)(const void *)bindings + tensor;
}

static inline VkDeviceSize kpoolTensorBase(const KpoolCall *call, uint32_t tensor)
{
    return *(const VkDeviceSize *)(const void *)((const char *)call + kpoolTensorInfos[tensor].base_offset);
}

/* Whether the operation moves rows from k and gate, and so makes use of an alignment of 16. */
bool kpoolOperationMovesRows(KpoolOperation operation);
/* Bytes of the words that the shader counts tail, k and gate in. step, which also reads them in pairs of channels,
 * counts in words of 4 whatever the alignment. info is resolved. */
uint32_t kpoolWordSize(const KpoolKernelCreateInfo *info);
/* Whether it makes pooled keys. */
bool kpoolOperationMakesKeys(KpoolOperation operation);
/* Whether rows of pooled are among its items. */
bool kpoolOperationMakesRows(KpoolOperation operation);
/* Whether a workgroup works on one item together, so that there is only one in it. */
bool kpoolOperationUsesWholeGroup(KpoolOperation operation);

#endif
