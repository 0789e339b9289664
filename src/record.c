/* Recording: everything is checked first, then bound, pushed and dispatched; nothing is recorded on failure. */
#include "bindings.h"
#include "diagnostic.h"
#include "kernel.h"
#include "shape.h"

/* Spreads the workgroups over x and y: one dimension may hold as few as 65,535. */
static KpoolResult count_groups(KpoolKernel kernel, const KpoolCall *call, uint32_t groups[3],
                                KpoolDiagnostic *diagnostic)
{
    const uint32_t *most = kernel->context->limits.maxComputeWorkGroupCount;
    const uint64_t per_group = kernel->info.requestsPerGroup;
    const uint64_t total = ((uint64_t)call->requests + per_group - 1) / per_group;
    const uint64_t x = total < most[0] ? total : most[0];
    const uint64_t y = total != 0 ? (total + x - 1) / x : 0;
    if (y > most[1]) {
        return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, "requests",
                         "requests is %u, over %u x %u workgroups, the device's maxComputeWorkGroupCount", call->requests,
                         most[0], most[1]);
    }
    groups[0] = (uint32_t)x;
    groups[1] = (uint32_t)y;
    groups[2] = total != 0;
    return KPOOL_SUCCESS;
}

KpoolResult kpoolGetGroupCount(KpoolKernel kernel, const KpoolCall *call, uint32_t groups[3],
                               KpoolDiagnostic *diagnostic)
{
    if (kernel == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "kernel", "kernel is NULL");
    }
    if (groups == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "groups", "groups is NULL");
    }
    KpoolShape shape;
    const KpoolResult result = kpoolResolveCall(kernel->info.operation, &kernel->info.geometry,
                                                kernel->info.alignment, call, &shape, diagnostic);
    return result == KPOOL_SUCCESS ? count_groups(kernel, call, groups, diagnostic) : result;
}

/* Each tensor's need against its range, and bases from the start of the descriptor. */
static KpoolResult fit_tensors(KpoolKernel kernel, const KpoolBindings *bindings, const KpoolDescriptors *descriptors,
                               KpoolShape *shape, KpoolDiagnostic *diagnostic)
{
    const uint32_t tensors = kpoolOperationTensors(kernel->info.operation);
    for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
        if ((tensors & (1u << tensor)) == 0) {
            continue;
        }
        const VkDeviceSize size = kpoolTensorRange(bindings, tensor)->size;
        if (shape->sizes[tensor] > size) {
            const char *name = kpoolTensorInfos[tensor].name;
            return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name,
                             "%s.size is %llu bytes, the call needs %llu", name, (unsigned long long)size,
                             (unsigned long long)shape->sizes[tensor]);
        }
        /* A descriptor has at most 2^32 - 1 bytes, so the sum stays below 2^30 words wherever it is used. */
        const uint32_t word = kpoolTensorHasRows(tensor) ? kernel->info.alignment : 4;
        *kpoolPushBase(&shape->push, tensor) += (uint32_t)(descriptors->starts[tensor] / word);
    }
    return KPOOL_SUCCESS;
}

static KpoolResult record(VkCommandBuffer commandBuffer, KpoolOperation operation, KpoolKernel kernel,
                          VkDescriptorSet set, const KpoolBindings *bindings, const KpoolCall *call,
                          KpoolDiagnostic *diagnostic)
{
    if (commandBuffer == VK_NULL_HANDLE) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "commandBuffer", "commandBuffer is NULL");
    }
    if (kernel == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "kernel", "kernel is NULL");
    }
    if (kernel->info.operation != operation) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "kernel", "kernel is of %s, must be of %s",
                         kpoolOperationName(kernel->info.operation), kpoolOperationName(operation));
    }
    const KpoolContext context = kernel->context;
    if (context->pushDescriptors != (set == VK_NULL_HANDLE)) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "set",
                         context->pushDescriptors ? "set must be VK_NULL_HANDLE: the context has push descriptors"
                                                  : "set is VK_NULL_HANDLE");
    }
    KpoolShape shape;
    KpoolDescriptors descriptors;
    uint32_t groups[3];
    KpoolResult result =
        kpoolResolveCall(operation, &kernel->info.geometry, kernel->info.alignment, call, &shape, diagnostic);
    if (result == KPOOL_SUCCESS) {
        result = kpoolResolveBindings(context, operation, kernel->info.alignment, bindings, &descriptors, diagnostic);
    }
    if (result == KPOOL_SUCCESS) {
        result = fit_tensors(kernel, bindings, &descriptors, &shape, diagnostic);
    }
    if (result == KPOOL_SUCCESS) {
        result = count_groups(kernel, call, groups, diagnostic);
    }
    if (result != KPOOL_SUCCESS || groups[0] == 0) {
        return result;
    }

    const KpoolFunctions *functions = &context->functions;
    const VkPipelineLayout layout = context->pipelineLayouts[operation];
    functions->vkCmdBindPipeline(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
    if (context->pushDescriptors) {
        VkWriteDescriptorSet writes[KPOOL_TENSOR_COUNT];
        kpoolFillWrites(&descriptors, VK_NULL_HANDLE, writes);
        functions->vkCmdPushDescriptorSetKHR(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0,
                                             descriptors.count, writes);
    } else {
        functions->vkCmdBindDescriptorSets(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, NULL);
    }
    functions->vkCmdPushConstants(commandBuffer, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof shape.push,
                                  &shape.push);
    functions->vkCmdDispatch(commandBuffer, groups[0], groups[1], groups[2]);
    return KPOOL_SUCCESS;
}

KpoolResult kpoolCmdSeedTail(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                             const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic)
{
    return record(commandBuffer, KPOOL_OPERATION_SEED_TAIL, kernel, set, bindings, call, diagnostic);
}
