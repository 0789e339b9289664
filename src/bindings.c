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

static KpoolResult place_wide(KpoolContext context, const KpoolTensorList *used, const KpoolBindings *bindings,
                              KpoolPlacement *placement, KpoolDiagnostic *diagnostic)
{
    for (uint32_t i = 0; i < used->count; i++) {
        const uint32_t tensor = used->tensors[i];
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
        placement->starts[tensor] = 0;
    }
    return KPOOL_SUCCESS;
}

/* Lets the span, whose first range is that of *first, reach over one range more. */
static KpoolResult join(KpoolRange *span, uint32_t *first, uint32_t tensor, const KpoolRange *range,
                        KpoolDiagnostic *diagnostic)
{
    if (span->buffer == VK_NULL_HANDLE) {
        *span = *range;
        *first = tensor;
        return KPOOL_SUCCESS;
    }
    if (range->buffer != span->buffer) {
        const char *name = kpoolTensorInfos[tensor].name;
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name,
                         "%s.buffer differs from %s.buffer, the floor layout needs one buffer for the group %s", name,
                         kpoolTensorInfos[*first].name, kpoolGroupNames[kpoolTensorInfos[tensor].group]);
    }
    const VkDeviceSize range_end = range->offset + range->size;
    const VkDeviceSize span_end = span->offset + span->size;
    if (range->offset < span->offset) {
        span->offset = range->offset;
        *first = tensor;
    }
    span->size = (range_end > span_end ? range_end : span_end) - span->offset;
    return KPOOL_SUCCESS;
}

static KpoolResult check_span(KpoolContext context, uint32_t group, const KpoolRange *span, uint32_t first,
                              KpoolDiagnostic *diagnostic)
{
    if (span->size > context->limits.maxStorageBufferRange) {
        return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, kpoolGroupNames[group],
                         "group %s spans %llu bytes, over the device's maxStorageBufferRange, %u",
                         kpoolGroupNames[group], (unsigned long long)span->size,
                         context->limits.maxStorageBufferRange);
    }
    return check_offset(kpoolTensorInfos[first].name, span->offset, context->limits.minStorageBufferOffsetAlignment,
                        "the device's minStorageBufferOffsetAlignment, as the first of its group", diagnostic);
}

static KpoolResult place_floor(KpoolContext context, const KpoolTensorList *used, uint32_t alignment,
                               const KpoolBindings *bindings, KpoolPlacement *placement, KpoolDiagnostic *diagnostic)
{
    for (uint32_t i = 0; i < used->count; i++) {
        const char *name = kpoolTensorInfos[used->tensors[i]].name;
        if (kpoolTensorRange(bindings, used->tensors[i])->buffer == VK_NULL_HANDLE) {
            return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name, "%s.buffer is NULL", name);
        }
    }
    KpoolRange *spans = placement->spans;
    uint32_t firsts[KPOOL_GROUP_COUNT];
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        spans[group] = (KpoolRange){0};
    }
    for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
        const KpoolRange *range = kpoolTensorRange(bindings, tensor);
        if (range->buffer == VK_NULL_HANDLE) {
            continue;
        }
        const KpoolTensorInfo *info = &kpoolTensorInfos[tensor];
        KpoolResult result = check_range(context, tensor, range, diagnostic);
        if (result == KPOOL_SUCCESS) {
            result = check_offset(info->name, range->offset, info->has_rows ? alignment : 4,
                                  "the words that the kernel moves", diagnostic);
        }
        if (result == KPOOL_SUCCESS) {
            result = join(&spans[info->group], &firsts[info->group], tensor, range, diagnostic);
        }
        if (result != KPOOL_SUCCESS) {
            return result;
        }
    }
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        if (spans[group].buffer == VK_NULL_HANDLE) {
            continue;
        }
        const KpoolResult result = check_span(context, group, &spans[group], firsts[group], diagnostic);
        if (result != KPOOL_SUCCESS) {
            return result;
        }
    }
    for (uint32_t i = 0; i < used->count; i++) {
        const uint32_t tensor = used->tensors[i];
        placement->starts[tensor] =
            kpoolTensorRange(bindings, tensor)->offset - spans[kpoolTensorInfos[tensor].group].offset;
    }
    return KPOOL_SUCCESS;
}

KpoolResult kpoolPlaceBindings(KpoolContext context, const KpoolTensorList *used, uint32_t alignment,
                               const KpoolBindings *bindings, KpoolPlacement *placement, KpoolDiagnostic *diagnostic)
{
    return context->bindingLayout == KPOOL_BINDING_LAYOUT_FLOOR
               ? place_floor(context, used, alignment, bindings, placement, diagnostic)
               : place_wide(context, used, bindings, placement, diagnostic);
}

static void add(KpoolDescriptors *descriptors, VkDescriptorSet set, uint32_t binding, const KpoolRange *range)
{
    VkDescriptorBufferInfo *info = &descriptors->infos[descriptors->count];
    *info = (VkDescriptorBufferInfo){range->buffer, range->offset, range->size};
    descriptors->writes[descriptors->count] = (VkWriteDescriptorSet){
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
        .dstSet = set,
        .dstBinding = binding,
        .descriptorCount = 1,
        .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
        .pBufferInfo = info,
    };
    descriptors->count++;
}

void kpoolFillDescriptors(KpoolContext context, KpoolOperation operation, uint32_t used, const KpoolBindings *bindings,
                          const KpoolPlacement *placement, VkDescriptorSet set, KpoolDescriptors *descriptors)
{
    descriptors->count = 0;
    if (context->bindingLayout == KPOOL_BINDING_LAYOUT_FLOOR) {
        const KpoolRange *spans = placement->spans;
        for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
            add(descriptors, set, group, &spans[spans[group].buffer != VK_NULL_HANDLE ? group : KPOOL_GROUP_words]);
        }
        return;
    }
    const KpoolTensorList declared = kpoolListTensors(kpoolModuleTensors(operation));
    for (uint32_t i = 0; i < declared.count; i++) {
        const uint32_t tensor = declared.tensors[i];
        const bool given = (used & (1u << tensor)) != 0;
        add(descriptors, set, tensor, kpoolTensorRange(bindings, given ? tensor : kpoolStandIn(tensor, used)));
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
    if (context->pushDescriptors) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "context",
                         "context has push descriptors, there is no set to write");
    }
    if (set == VK_NULL_HANDLE) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "set", "set is VK_NULL_HANDLE");
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
    const KpoolTensorList list = kpoolListTensors(used);
    KpoolPlacement placement;
    const KpoolResult result = kpoolPlaceBindings(context, &list, 4, bindings, &placement, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    KpoolDescriptors descriptors;
    kpoolFillDescriptors(context, operation, used, bindings, &placement, set, &descriptors);
    context->functions.vkUpdateDescriptorSets(context->device, descriptors.count, descriptors.writes, 0, NULL);
    return KPOOL_SUCCESS;
}
