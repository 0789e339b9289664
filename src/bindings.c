#include "bindings.h"

#include "diagnostic.h"

static KpoolResult check_range(KpoolContext context, uint32_t tensor, const KpoolRange *range,
                               KpoolDiagnostic *diagnostic)
{
    const char *name = kpoolTensorInfos[tensor].name;
    if (range->buffer == VK_NULL_HANDLE) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name, "%s.buffer is NULL", name);
    }
    if (range->size == VK_WHOLE_SIZE) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name, "%s.size is VK_WHOLE_SIZE, must be bytes",
                         name);
    }
    if (range->size < 4) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name, "%s.size is %llu bytes, must be at least 4",
                         name, (unsigned long long)range->size);
    }
    if (range->size > context->limits.maxStorageBufferRange) {
        return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, name,
                         "%s.size is %llu bytes, over the device's maxStorageBufferRange, %u", name,
                         (unsigned long long)range->size, context->limits.maxStorageBufferRange);
    }
    if (range->offset > UINT64_MAX - range->size) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name, "%s.offset + size exceeds 64 bits", name);
    }
    return KPOOL_SUCCESS;
}

static KpoolResult check_offset(const char *name, VkDeviceSize offset, VkDeviceSize multiple, const char *rule,
                                KpoolDiagnostic *diagnostic)
{
    /* Vulkan's alignments, and our words, are powers of two. */
    if ((offset & (multiple - 1)) != 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name,
                         "%s.offset is %llu, must be a multiple of %llu, %s", name, (unsigned long long)offset,
                         (unsigned long long)multiple, rule);
    }
    return KPOOL_SUCCESS;
}

static void add(KpoolDescriptors *descriptors, uint32_t binding, const KpoolRange *range)
{
    descriptors->infos[descriptors->count] = (VkDescriptorBufferInfo){range->buffer, range->offset, range->size};
    descriptors->bindings[descriptors->count] = binding;
    descriptors->count++;
}

static KpoolResult resolve_wide(KpoolContext context, uint32_t declared, uint32_t used, const KpoolBindings *bindings,
                                KpoolDescriptors *descriptors, KpoolDiagnostic *diagnostic)
{
    for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
        if ((declared & (1u << tensor)) == 0) {
            continue;
        }
        if ((used & (1u << tensor)) == 0) {
            add(descriptors, tensor, kpoolTensorRange(bindings, kpoolStandIn(tensor, used)));
            continue;
        }
        const KpoolRange *range = kpoolTensorRange(bindings, tensor);
        KpoolResult result = check_range(context, tensor, range, diagnostic);
        if (result == KPOOL_SUCCESS) {
            result = check_offset(kpoolTensorInfos[tensor].name, range->offset,
                                  context->limits.minStorageBufferOffsetAlignment,
                                  "the device's minStorageBufferOffsetAlignment", diagnostic);
        }
        if (result != KPOOL_SUCCESS) {
            return result;
        }
        descriptors->starts[tensor] = 0;
        add(descriptors, tensor, range);
    }
    return KPOOL_SUCCESS;
}

static bool in_group(const KpoolBindings *bindings, uint32_t tensor, uint32_t group)
{
    return kpoolTensorInfos[tensor].group == group && kpoolTensorRange(bindings, tensor)->buffer != VK_NULL_HANDLE;
}

/* The span from the first to the last range of a group; its buffer is VK_NULL_HANDLE where none is given. */
static KpoolResult join_group(KpoolContext context, uint32_t group, const KpoolBindings *bindings, KpoolRange *span,
                              KpoolDiagnostic *diagnostic)
{
    const char *first = NULL; /* the tensor that begins the span */
    *span = (KpoolRange){0};
    for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
        if (!in_group(bindings, tensor, group)) {
            continue;
        }
        const char *name = kpoolTensorInfos[tensor].name;
        const KpoolRange *range = kpoolTensorRange(bindings, tensor);
        const KpoolResult result = check_range(context, tensor, range, diagnostic);
        if (result != KPOOL_SUCCESS) {
            return result;
        }
        if (first == NULL) {
            *span = *range;
            first = name;
            continue;
        }
        if (range->buffer != span->buffer) {
            return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name,
                             "%s.buffer differs from %s.buffer, the floor layout needs one buffer for the group %s",
                             name, first, kpoolGroupNames[group]);
        }
        const VkDeviceSize range_end = range->offset + range->size;
        const VkDeviceSize span_end = span->offset + span->size;
        if (range->offset < span->offset) {
            span->offset = range->offset;
            first = name;
        }
        span->size = (range_end > span_end ? range_end : span_end) - span->offset;
    }
    if (first == NULL) {
        return KPOOL_SUCCESS;
    }
    if (span->size > context->limits.maxStorageBufferRange) {
        return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, kpoolGroupNames[group],
                         "group %s spans %llu bytes, over the device's maxStorageBufferRange, %u",
                         kpoolGroupNames[group], (unsigned long long)span->size,
                         context->limits.maxStorageBufferRange);
    }
    return check_offset(first, span->offset, context->limits.minStorageBufferOffsetAlignment,
                        "the device's minStorageBufferOffsetAlignment, as the first of its group", diagnostic);
}

static KpoolResult resolve_floor(KpoolContext context, uint32_t used, uint32_t alignment,
                                 const KpoolBindings *bindings, KpoolDescriptors *descriptors,
                                 KpoolDiagnostic *diagnostic)
{
    for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
        const char *name = kpoolTensorInfos[tensor].name;
        if ((used & (1u << tensor)) != 0 && kpoolTensorRange(bindings, tensor)->buffer == VK_NULL_HANDLE) {
            return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name, "%s.buffer is NULL", name);
        }
    }
    KpoolRange spans[KPOOL_GROUP_COUNT];
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        KpoolResult result = join_group(context, group, bindings, &spans[group], diagnostic);
        for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT && result == KPOOL_SUCCESS; tensor++) {
            if (in_group(bindings, tensor, group)) {
                descriptors->starts[tensor] = kpoolTensorRange(bindings, tensor)->offset - spans[group].offset;
                result = check_offset(kpoolTensorInfos[tensor].name, kpoolTensorRange(bindings, tensor)->offset,
                                      kpoolTensorHasRows(tensor) ? alignment : 4,
                                      "the words that the kernel moves", diagnostic);
            }
        }
        if (result != KPOOL_SUCCESS) {
            return result;
        }
    }
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        /* status by itself may lie anywhere in its group; only the group is aligned for the device. */
        add(descriptors, group, &spans[spans[group].buffer != VK_NULL_HANDLE ? group : KPOOL_GROUP_words]);
    }
    return KPOOL_SUCCESS;
}

KpoolResult kpoolResolveBindings(KpoolContext context, KpoolOperation operation, uint32_t used, uint32_t alignment,
                                 const KpoolBindings *bindings, KpoolDescriptors *descriptors,
                                 KpoolDiagnostic *diagnostic)
{
    descriptors->count = 0;
    if (context->bindingLayout == KPOOL_BINDING_LAYOUT_FLOOR) {
        return resolve_floor(context, used, alignment, bindings, descriptors, diagnostic);
    }
    return resolve_wide(context, kpoolModuleTensors(operation), used, bindings, descriptors, diagnostic);
}

void kpoolFillWrites(const KpoolDescriptors *descriptors, VkDescriptorSet set,
                     VkWriteDescriptorSet writes[KPOOL_TENSOR_COUNT])
{
    for (uint32_t i = 0; i < descriptors->count; i++) {
        writes[i] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = set,
            .dstBinding = descriptors->bindings[i],
            .descriptorCount = 1,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &descriptors->infos[i],
        };
    }
}

KpoolResult kpoolWriteDescriptorSet(KpoolContext context, KpoolOperation operation, VkDescriptorSet set,
                                    const KpoolBindings *bindings, KpoolDiagnostic *diagnostic)
{
    if (context == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "context", "context is NULL");
    }
    if (kpoolOperationTensors(operation) == 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "operation", "operation is %d, no KpoolOperation",
                         (int)operation);
    }
    if (set == VK_NULL_HANDLE) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "set", "set is VK_NULL_HANDLE");
    }
    if (context->pushDescriptors) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "context",
                         "context has push descriptors, there is no set to write");
    }
    if (bindings == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "bindings", "bindings is NULL");
    }
    uint32_t used = kpoolOperationTensors(operation);
    for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
        if (kpoolTensorRange(bindings, tensor)->buffer != VK_NULL_HANDLE) {
            used |= kpoolOptionalTensors(operation) & (1u << tensor);
        }
    }
    KpoolDescriptors descriptors;
    const KpoolResult result = kpoolResolveBindings(context, operation, used, 4, bindings, &descriptors, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    VkWriteDescriptorSet writes[KPOOL_TENSOR_COUNT];
    kpoolFillWrites(&descriptors, set, writes);
    context->functions.vkUpdateDescriptorSets(context->device, descriptors.count, writes, 0, NULL);
    return KPOOL_SUCCESS;
}
