#include "shape.h"

#include "diagnostic.h"

uint32_t kpoolTypeSize(KpoolType type)
{
    switch (type) {
    case KPOOL_TYPE_F32:
        return 4;
    case KPOOL_TYPE_F16:
    case KPOOL_TYPE_BF16:
        return 2;
    case KPOOL_TYPE_NONE:
        break;
    }
    return 0;
}

KpoolResult kpoolResolveGeometry(const KpoolGeometry *geometry, KpoolGeometry *resolved, KpoolDiagnostic *diagnostic)
{
    if (geometry == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry", "geometry is NULL");
    }
    KpoolGeometry g = *geometry;
    const uint32_t element_size = kpoolTypeSize(g.type);
    if (element_size == 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry.type",
                         "geometry.type is %d, not one of KPOOL_TYPE_F32, F16, BF16", (int)g.type);
    }
    if (g.head_dim == 0 || g.head_dim > KPOOL_MAX_HEAD_DIM) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry.head_dim",
                         "geometry.head_dim is %u, must be 1 to %u", g.head_dim, KPOOL_MAX_HEAD_DIM);
    }
    if (element_size == 2 && g.head_dim % 2 != 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry.head_dim",
                         "geometry.head_dim is %u, must be even for 2-byte types", g.head_dim);
    }
    if (g.kpool == 0 || g.kpool > KPOOL_MAX_KPOOL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry.kpool",
                         "geometry.kpool is %u, must be 1 to %u", g.kpool, KPOOL_MAX_KPOOL);
    }
    if (g.rollback > KPOOL_MAX_RING - g.kpool) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry.rollback",
                         "geometry.rollback is %u, kpool + rollback must be at most %u", g.rollback, KPOOL_MAX_RING);
    }
    if (g.ring == 0) {
        g.ring = g.kpool + g.rollback;
    }
    if (g.ring < g.kpool + g.rollback || g.ring > KPOOL_MAX_RING) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry.ring",
                         "geometry.ring is %u, must be kpool + rollback = %u to %u", g.ring, g.kpool + g.rollback,
                         KPOOL_MAX_RING);
    }
    *resolved = g;
    return KPOOL_SUCCESS;
}

typedef struct Dimension {
    const char *stride_name;
    VkDeviceSize extent;
    VkDeviceSize stride;
} Dimension;

/* The element count of a tensor whose places are base + sum of index * stride, 0 where an extent is 0.
 * dimensions, inner first, are reordered; an inner one goes first among equals, so the outer one is named. The rule: by ascending stride, each exceeds what the smaller ones reach. */
static KpoolResult measure(const char *base_name, VkDeviceSize base, Dimension *dimensions, uint32_t count,
                           VkDeviceSize *elements, KpoolDiagnostic *diagnostic)
{
    *elements = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (dimensions[i].extent == 0) {
            return KPOOL_SUCCESS;
        }
        for (uint32_t j = i; j > 0 && dimensions[j].stride < dimensions[j - 1].stride; j--) {
            const Dimension swapped = dimensions[j];
            dimensions[j] = dimensions[j - 1];
            dimensions[j - 1] = swapped;
        }
    }
    if (base >= KPOOL_MAX_ELEMENTS) {
        return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, base_name,
                         "%s is %llu, every element offset must stay below 2^31", base_name, (unsigned long long)base);
    }
    VkDeviceSize reach = 0;
    for (uint32_t i = 0; i < count; i++) {
        const Dimension *dimension = &dimensions[i];
        if (dimension->extent == 1) {
            continue;
        }
        if (dimension->stride <= reach) {
            return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, dimension->stride_name,
                             "%s is %llu, must exceed %llu, the furthest offset of the dimensions inside it",
                             dimension->stride_name, (unsigned long long)dimension->stride, (unsigned long long)reach);
        }
        /* Divided, not multiplied: the product of an extent and a stride may exceed 64 bits. */
        if (dimension->stride > (KPOOL_MAX_ELEMENTS - 1 - base - reach) / (dimension->extent - 1)) {
            return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, dimension->stride_name,
                             "%s is %llu over %llu places, every element offset must stay below 2^31",
                             dimension->stride_name, (unsigned long long)dimension->stride,
                             (unsigned long long)dimension->extent);
        }
        reach += (dimension->extent - 1) * dimension->stride;
    }
    *elements = base + reach + 1;
    return KPOOL_SUCCESS;
}

typedef struct Resolver {
    KpoolOperation operation;
    uint32_t alignment;
    const KpoolCall *call;
    KpoolShape *shape;
    KpoolDiagnostic *diagnostic;
} Resolver;

/* A base or stride in elements becomes words on the device. It cannot be cut off: measure() keeps it below
 * 2^31 wherever it is used; where it is not, any value will do. */
static KpoolResult to_words(const Resolver *resolver, const char *name, VkDeviceSize value, uint32_t element_size,
                            uint32_t word_size, uint32_t *words)
{
    const uint32_t multiple = word_size / element_size;
    if (value % multiple != 0) {
        return kpoolFail(resolver->diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name,
                         word_size == 4 ? "%s is %llu, must be even for 2-byte types"
                                        : "%s is %llu, must be a multiple of %u elements: the kernel's alignment is 16",
                         name, (unsigned long long)value, multiple);
    }
    *words = (uint32_t)(value / multiple);
    return KPOOL_SUCCESS;
}

/* One tensor. strides[i] receives the stride of dimensions[i] in words, before they are reordered. */
static KpoolResult resolve_tensor(const Resolver *resolver, uint32_t tensor, uint32_t element_size,
                                  Dimension *dimensions, uint32_t count, uint32_t *const strides[])
{
    if ((kpoolOperationTensors(resolver->operation) & (1u << tensor)) == 0) {
        return KPOOL_SUCCESS;
    }
    const KpoolTensorInfo *info = &kpoolTensorInfos[tensor];
    const uint32_t word_size = kpoolTensorHasRows(tensor) ? resolver->alignment : 4;
    const VkDeviceSize base = kpoolTensorBase(resolver->call, tensor);
    KpoolResult result = to_words(resolver, info->base_name, base, element_size, word_size,
                                  kpoolPushBase(&resolver->shape->push, tensor));
    for (uint32_t i = 0; i < count && result == KPOOL_SUCCESS; i++) {
        if (strides != NULL && strides[i] != NULL) {
            result = to_words(resolver, dimensions[i].stride_name, dimensions[i].stride, element_size, word_size,
                              strides[i]);
        }
    }
    VkDeviceSize elements = 0;
    if (result == KPOOL_SUCCESS) {
        result = measure(info->base_name, base, dimensions, count, &elements, resolver->diagnostic);
    }
    resolver->shape->sizes[tensor] = elements * element_size;
    return result;
}

static KpoolResult resolve_tail(const Resolver *resolver, const KpoolGeometry *geometry)
{
    const KpoolCall *call = resolver->call;
    KpoolPushConstants *push = &resolver->shape->push;
    const VkDeviceSize row = call->tail_row_stride != 0 ? call->tail_row_stride : geometry->head_dim;
    /* A row stride beyond the limit is refused by measure() whatever the product has become. */
    const VkDeviceSize plane = call->tail_plane_stride != 0 ? call->tail_plane_stride : geometry->ring * row;
    const VkDeviceSize slot = call->tail_slot_stride != 0 ? call->tail_slot_stride : 2 * plane;
    Dimension dimensions[4] = {
        {"head_dim", geometry->head_dim, 1},
        {"tail_row_stride", geometry->ring, row},
        {"tail_plane_stride", 2, plane},
        {"tail_slot_stride", call->max_slots, slot},
    };
    uint32_t *const strides[4] = {NULL, &push->tail_row_stride, &push->tail_plane_stride, &push->tail_slot_stride};
    return resolve_tensor(resolver, KPOOL_TENSOR_tail, kpoolTypeSize(geometry->type), dimensions, 4, strides);
}

static KpoolResult resolve_rows(const Resolver *resolver, uint32_t tensor, KpoolType type, uint32_t head_dim,
                                const char *stride_name, VkDeviceSize stride, uint32_t rows, uint32_t *words)
{
    Dimension dimensions[2] = {
        {"head_dim", head_dim, 1},
        {stride_name, rows, stride != 0 ? stride : head_dim},
    };
    uint32_t *const strides[2] = {NULL, words};
    return resolve_tensor(resolver, tensor, kpoolTypeSize(type), dimensions, 2, strides);
}

/* An array of 32-bit words. */
static KpoolResult resolve_array(const Resolver *resolver, uint32_t tensor, VkDeviceSize length)
{
    Dimension dimension = {kpoolTensorInfos[tensor].name, length, 1};
    return resolve_tensor(resolver, tensor, 4, &dimension, 1, NULL);
}

KpoolResult kpoolResolveCall(KpoolOperation operation, const KpoolGeometry *geometry, uint32_t alignment,
                             const KpoolCall *call, KpoolShape *shape, KpoolDiagnostic *diagnostic)
{
    if (call == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "call", "call is NULL");
    }
    if (call->pNext != NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "call.pNext", "call.pNext must be NULL");
    }
    if ((kpoolOperationTensors(operation) & (1u << KPOOL_TENSOR_tail)) != 0 && call->max_slots == 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "max_slots", "max_slots is 0, must be at least 1");
    }
    *shape = (KpoolShape){{0}, {0}};
    KpoolPushConstants *push = &shape->push;
    push->max_slots = call->max_slots;
    push->requests = call->requests;
    push->rows = call->rows;

    const Resolver resolver = {operation, alignment, call, shape, diagnostic};
    const VkDeviceSize requests = call->requests;
    KpoolResult result = resolve_tail(&resolver, geometry);
    if (result == KPOOL_SUCCESS) {
        result = resolve_rows(&resolver, KPOOL_TENSOR_k, geometry->type, geometry->head_dim, "k_row_stride",
                              call->k_row_stride, call->rows, &push->k_row_stride);
    }
    if (result == KPOOL_SUCCESS) {
        result = resolve_rows(&resolver, KPOOL_TENSOR_gate, geometry->type, geometry->head_dim, "gate_row_stride",
                              call->gate_row_stride, call->rows, &push->gate_row_stride);
    }
    if (result == KPOOL_SUCCESS) {
        result = resolve_array(&resolver, KPOOL_TENSOR_input_row_offsets, requests + 1);
    }
    if (result == KPOOL_SUCCESS) {
        result = resolve_array(&resolver, KPOOL_TENSOR_cache_lengths, requests);
    }
    if (result == KPOOL_SUCCESS) {
        result = resolve_array(&resolver, KPOOL_TENSOR_slot_idx, requests);
    }
    if (result == KPOOL_SUCCESS) {
        result = resolve_array(&resolver, KPOOL_TENSOR_status, KPOOL_STATUS_COUNT);
    }
    return result;
}

uint32_t *kpoolPushBase(KpoolPushConstants *push, uint32_t tensor)
{
    static const size_t offsets[KPOOL_TENSOR_COUNT] = {
#define KPOOL_PUSH_BASE(name, group) [KPOOL_BINDING_##name] = offsetof(KpoolPushConstants, name##_base),
        KPOOL_TENSORS(KPOOL_PUSH_BASE)
#undef KPOOL_PUSH_BASE
    };
    return (uint32_t *)(void *)((char *)push + offsets[tensor]);
}

KpoolResult kpoolGetSizes(KpoolOperation operation, const KpoolGeometry *geometry, const KpoolCall *call,
                          KpoolBindings *sizes, KpoolDiagnostic *diagnostic)
{
    if (kpoolOperationTensors(operation) == 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "operation", "operation is %d, no KpoolOperation",
                         (int)operation);
    }
    if (sizes == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "sizes", "sizes is NULL");
    }
    KpoolGeometry resolved;
    KpoolShape shape;
    KpoolResult result = kpoolResolveGeometry(geometry, &resolved, diagnostic);
    if (result == KPOOL_SUCCESS) {
        result = kpoolResolveCall(operation, &resolved, 4, call, &shape, diagnostic);
    }
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    *sizes = (KpoolBindings){0};
    for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
        KpoolRange *range = (KpoolRange *)(void *)((char *)sizes + kpoolTensorInfos[tensor].range_offset);
        range->size = shape.sizes[tensor];
    }
    return KPOOL_SUCCESS;
}

KpoolResult kpoolGetRequirements(const VkPhysicalDeviceLimits *limits, const KpoolGeometry *geometry,
                                 KpoolRequirements *requirements, KpoolDiagnostic *diagnostic)
{
    if (limits == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "limits", "limits is NULL");
    }
    if (requirements == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "requirements", "requirements is NULL");
    }
    KpoolGeometry g;
    const KpoolResult result = kpoolResolveGeometry(geometry, &g, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    /* At most 2 * 4096 * 1024 elements of 4 bytes: 32 MiB, a quarter of the range that every device has. */
    const VkDeviceSize element_size = kpoolTypeSize(g.type);
    const VkDeviceSize slot_size = 2 * (VkDeviceSize)g.ring * g.head_dim * element_size;
    const VkDeviceSize addressed = KPOOL_MAX_ELEMENTS * element_size;
    const VkDeviceSize range = limits->maxStorageBufferRange < addressed ? limits->maxStorageBufferRange : addressed;
    if (range < slot_size) {
        return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, "geometry",
                         "geometry needs %llu bytes a slot, over maxStorageBufferRange, %u",
                         (unsigned long long)slot_size, limits->maxStorageBufferRange);
    }
    *requirements = (KpoolRequirements){
        .apiVersion = VK_API_VERSION_1_1,
        .bindingLayouts = kpoolBindingLayouts(limits),
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
        .offsetAlignment = limits->minStorageBufferOffsetAlignment,
        .maxRange = range,
        .maxSlots = (uint32_t)(range / slot_size),
        .ring = g.ring,
        .alignment = g.head_dim * element_size % 16 == 0 ? 16 : 4,
    };
    return KPOOL_SUCCESS;
}
