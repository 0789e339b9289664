#include "shape.h"

#include "diagnostic.h"

typedef struct Dimension {
    const char *stride_name;
    VkDeviceSize extent;
    VkDeviceSize stride;
} Dimension;

/* The element count of a tensor whose places are base + sum of index * stride, 0 where an extent is 0. The rule: by
 * ascending stride, each exceeds what the smaller ones reach. dimensions, inner first, are reordered; an inner one goes
 * first among equals, so the outer one is named. */
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
        /* Each factor is looked at first: below 2^31, their product cannot exceed 64 bits. */
        if (dimension->extent - 1 >= KPOOL_MAX_ELEMENTS || dimension->stride >= KPOOL_MAX_ELEMENTS ||
            (dimension->extent - 1) * dimension->stride > KPOOL_MAX_ELEMENTS - 1 - base - reach) {
            /* A row that fits, but not behind this base, has no stride to blame. */
            const bool of_base = reach == 0 && dimension->stride == 1 && dimension->extent <= KPOOL_MAX_ELEMENTS;
            const char *name = of_base ? base_name : dimension->stride_name;
            return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, name,
                             "%s: %llu places %llu apart begin at %llu, every element offset must stay below 2^31",
                             name, (unsigned long long)dimension->extent, (unsigned long long)dimension->stride,
                             (unsigned long long)(base + reach));
        }
        reach += (dimension->extent - 1) * dimension->stride;
    }
    *elements = base + reach + 1;
    return KPOOL_SUCCESS;
}

typedef struct Resolver {
    const KpoolKernelCreateInfo *info;
    const KpoolCall *call;
    KpoolShape *shape;
    KpoolDiagnostic *diagnostic;
} Resolver;

/* A base or stride in elements becomes words on the device. It cannot be cut off: measure() keeps it below
 * 2^31 wherever it is used; where it is not, any value will do. */
static KpoolResult to_words(const Resolver *resolver, const char *name, VkDeviceSize value, uint32_t element_size,
                            uint32_t alignment, uint32_t word_size, uint32_t *words)
{
    /* All are powers of two. */
    const uint32_t element_shift = element_size == 4 ? 2 : 1;
    const uint32_t unit = alignment >> element_shift;
    if ((value & (unit - 1)) != 0) {
        return kpoolFail(resolver->diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name,
                         alignment == 4 ? "%s is %llu, must be even for 2-byte types"
                                        : "%s is %llu, must be a multiple of %u elements: the kernel's alignment is 16",
                         name, (unsigned long long)value, unit);
    }
    *words = (uint32_t)(value >> ((word_size == 16 ? 4 : 2) - element_shift));
    return KPOOL_SUCCESS;
}

/* strides[i] receives the stride of dimensions[i] in words, before they are reordered. */
static KpoolResult resolve_places(const Resolver *resolver, uint32_t tensor, uint32_t element_size,
                                  Dimension *dimensions, uint32_t count, uint32_t *const strides[])
{
    const KpoolTensorInfo *info = &kpoolTensorInfos[tensor];
    const uint32_t alignment = info->has_rows ? resolver->info->alignment : 4;
    const uint32_t word_size = info->has_rows ? kpoolWordSize(resolver->info) : 4;
    const VkDeviceSize base = kpoolTensorBase(resolver->call, tensor);
    KpoolResult result = to_words(resolver, info->base_name, base, element_size, alignment, word_size,
                                  kpoolPushBase(&resolver->shape->push, tensor));
    for (uint32_t i = 0; i < count && result == KPOOL_SUCCESS; i++) {
        if (strides != NULL && strides[i] != NULL) {
            result = to_words(resolver, dimensions[i].stride_name, dimensions[i].stride, element_size, alignment,
                              word_size, strides[i]);
        }
    }
    VkDeviceSize elements = 0;
    if (result == KPOOL_SUCCESS) {
        result = measure(info->base_name, base, dimensions, count, &elements, resolver->diagnostic);
    }
    resolver->shape->sizes[tensor] = elements * element_size;
    return result;
}

/* The stride of what holds `extent` of an inner dimension. An inner stride beyond the limit stays as it is, so that
 * measure() refuses it rather than what a product has wrapped to. */
static VkDeviceSize dense_stride(uint32_t extent, VkDeviceSize inner)
{
    return inner < KPOOL_MAX_ELEMENTS ? extent * inner : inner;
}

static KpoolResult resolve_tail(const Resolver *resolver)
{
    const KpoolGeometry *geometry = &resolver->info->geometry;
    const KpoolCall *call = resolver->call;
    KpoolPushConstants *push = &resolver->shape->push;
    const VkDeviceSize row = call->tail_row_stride != 0 ? call->tail_row_stride : geometry->head_dim;
    const VkDeviceSize plane =
        call->tail_plane_stride != 0 ? call->tail_plane_stride : dense_stride(geometry->ring, row);
    const VkDeviceSize slot = call->tail_slot_stride != 0 ? call->tail_slot_stride : dense_stride(2, plane);
    Dimension dimensions[4] = {
        {"head_dim", geometry->head_dim, 1},
        {"tail_row_stride", geometry->ring, row},
        {"tail_plane_stride", 2, plane},
        {"tail_slot_stride", call->max_slots, slot},
    };
    uint32_t *const strides[4] = {NULL, &push->tail_row_stride, &push->tail_plane_stride, &push->tail_slot_stride};
    return resolve_places(resolver, KPOOL_TENSOR_tail, kpoolTypeSize(geometry->type), dimensions, 4, strides);
}

/* [rows, head_dim] with a row stride that the caller may have given. */
static KpoolResult resolve_rows(const Resolver *resolver, uint32_t tensor, KpoolType type, const char *stride_name,
                                VkDeviceSize stride, VkDeviceSize rows, uint32_t *words)
{
    const uint32_t head_dim = resolver->info->geometry.head_dim;
    Dimension dimensions[2] = {
        {"head_dim", head_dim, 1},
        {stride_name, rows, stride != 0 ? stride : head_dim},
    };
    uint32_t *const strides[2] = {NULL, words};
    return resolve_places(resolver, tensor, kpoolTypeSize(type), dimensions, 2, strides);
}

/* Dense. */
static KpoolResult resolve_dense(const Resolver *resolver, uint32_t tensor, uint32_t element_size, VkDeviceSize rows,
                                 VkDeviceSize columns)
{
    const char *name = kpoolTensorInfos[tensor].name;
    Dimension dimensions[2] = {{name, columns, 1}, {name, rows, columns}};
    return resolve_places(resolver, tensor, element_size, dimensions, 2, NULL);
}

/* check_slots has a bit a slot, copy_slots a whole slot a pair. */
static KpoolResult resolve_scratch(const Resolver *resolver)
{
    const KpoolGeometry *geometry = &resolver->info->geometry;
    const KpoolCall *call = resolver->call;
    if (resolver->info->operation == KPOOL_OPERATION_CHECK_SLOTS) {
        return resolve_dense(resolver, KPOOL_TENSOR_scratch, 4, ((VkDeviceSize)call->max_slots + 31) / 32, 1);
    }
    return resolve_dense(resolver, KPOOL_TENSOR_scratch, kpoolTypeSize(geometry->type), call->pair_count,
                         2 * (VkDeviceSize)geometry->ring * geometry->head_dim);
}

static KpoolResult resolve_tensor(const Resolver *resolver, uint32_t tensor)
{
    const KpoolKernelCreateInfo *info = resolver->info;
    const KpoolGeometry *geometry = &info->geometry;
    const KpoolCall *call = resolver->call;
    KpoolPushConstants *push = &resolver->shape->push;
    switch (tensor) {
    case KPOOL_TENSOR_tail:
        return resolve_tail(resolver);
    case KPOOL_TENSOR_k:
        return resolve_rows(resolver, tensor, geometry->type, "k_row_stride", call->k_row_stride, call->rows,
                            &push->k_row_stride);
    case KPOOL_TENSOR_gate:
        return resolve_rows(resolver, tensor, geometry->type, "gate_row_stride", call->gate_row_stride, call->rows,
                            &push->gate_row_stride);
    case KPOOL_TENSOR_closed_pooled:
        return resolve_rows(resolver, tensor, info->pooled_type, "closed_pooled_row_stride",
                            call->closed_pooled_row_stride, call->requests, &push->closed_pooled_row_stride);
    case KPOOL_TENSOR_pooled:
        return resolve_rows(resolver, tensor, info->pooled_type, "pooled_row_stride", call->pooled_row_stride,
                            info->page_size != 0 ? (VkDeviceSize)call->pages * info->page_size : call->pooled_rows,
                            &push->pooled_row_stride);
    case KPOOL_TENSOR_input_row_offsets:
    case KPOOL_TENSOR_pool_row_offsets:
        return resolve_dense(resolver, tensor, 4, (VkDeviceSize)call->requests + 1, 1);
    case KPOOL_TENSOR_cache_lengths:
    case KPOOL_TENSOR_slot_idx:
    case KPOOL_TENSOR_closed_pool:
        return resolve_dense(resolver, tensor, 4, call->requests, 1);
    case KPOOL_TENSOR_status:
        return resolve_dense(resolver, tensor, 4, KPOOL_STATUS_COUNT, 1);
    case KPOOL_TENSOR_ape:
        return resolve_dense(resolver, tensor, 4, geometry->kpool, geometry->head_dim);
    case KPOOL_TENSOR_pool_ids:
        return resolve_dense(resolver, tensor, 4, call->rows, info->topk);
    case KPOOL_TENSOR_out:
        return resolve_dense(resolver, tensor, 4, call->rows,
                             (VkDeviceSize)info->topk * geometry->kpool + (info->with_tail ? geometry->kpool - 1 : 0));
    case KPOOL_TENSOR_pairs:
        return resolve_dense(resolver, tensor, 4, call->pair_count, 2);
    case KPOOL_TENSOR_scratch:
        return resolve_scratch(resolver);
    default:
        return resolve_dense(resolver, tensor, 4, call->requests, call->max_pages);
    }
}

KpoolResult kpoolResolveCall(const KpoolKernelCreateInfo *info, const KpoolTensorList *used, const KpoolCall *call,
                             KpoolShape *shape, KpoolDiagnostic *diagnostic)
{
    if (call == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "call", "call is NULL");
    }
    if (call->pNext != NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "call.pNext", "call.pNext must be NULL");
    }
    const uint32_t of_slots = 1u << KPOOL_TENSOR_tail | 1u << KPOOL_TENSOR_slot_idx;
    if ((kpoolOperationTensors(info->operation) & of_slots) != 0 && call->max_slots == 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "max_slots", "max_slots is 0, must be at least 1");
    }
    /* The items of step are both; of the others, what a tensor has a row for. */
    if (info->operation == KPOOL_OPERATION_STEP &&
        (uint64_t)call->requests + call->pooled_rows >= KPOOL_MAX_ELEMENTS) {
        return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, "pooled_rows",
                         "pooled_rows is %u, with %u requests it must stay below 2^31", call->pooled_rows,
                         call->requests);
    }
    shape->push = (KpoolPushConstants){
        .max_slots = call->max_slots,
        .requests = call->requests,
        .rows = call->rows,
        .pooled_rows = call->pooled_rows,
        .pair_count = call->pair_count,
        .pages = call->pages,
        .max_pages = call->max_pages,
    };
    const Resolver resolver = {info, call, shape, diagnostic};
    KpoolResult result = KPOOL_SUCCESS;
    for (uint32_t i = 0; i < used->count && result == KPOOL_SUCCESS; i++) {
        result = resolve_tensor(&resolver, used->tensors[i]);
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

KpoolResult kpoolGetSizes(const KpoolKernelCreateInfo *createInfo, const KpoolCall *call, KpoolBindings *sizes,
                          KpoolDiagnostic *diagnostic)
{
    if (sizes == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "sizes", "sizes is NULL");
    }
    KpoolKernelCreateInfo info;
    KpoolResult result = kpoolResolveKernelInfo(createInfo, &info, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    const KpoolTensorList used = kpoolListTensors(kpoolKernelTensors(&info));
    KpoolShape shape;
    result = kpoolResolveCall(&info, &used, call, &shape, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    *sizes = (KpoolBindings){0};
    for (uint32_t i = 0; i < used.count; i++) {
        const VkDeviceSize size = shape.sizes[used.tensors[i]];
        ((KpoolRange *)(void *)sizes)[used.tensors[i]].size = size < 4 ? 4 : size;
    }
    return KPOOL_SUCCESS;
}
