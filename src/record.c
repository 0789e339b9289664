/* Recording: everything is checked first, then bound, pushed and dispatched; nothing is recorded on failure. */
#include "bindings.h"
#include "diagnostic.h"
#include "kernel.h"
#include "shape.h"

static uint64_t divide_up(uint64_t value, uint64_t divisor)
{
    return (value + divisor - 1) / divisor;
}

/* Items that make rows of pooled. */
static uint64_t count_row_items(KpoolKernel kernel, const KpoolCall *call)
{
    return divide_up(call->pooled_rows, kernel->info.rowsPerItem);
}

/* What the call has of the operation's items, and the name of the argument that says so. */
static uint64_t count_items(KpoolKernel kernel, const KpoolCall *call, const char **name)
{
    switch (kernel->info.operation) {
    case KPOOL_OPERATION_COMPRESS:
        *name = "pooled_rows";
        return count_row_items(kernel, call);
    case KPOOL_OPERATION_EXPAND_TOPK:
        *name = "rows";
        return call->rows;
    case KPOOL_OPERATION_COPY_SLOTS:
        *name = "pair_count";
        return call->pair_count;
    case KPOOL_OPERATION_POOL_ROW_OFFSETS:
        *name = "requests";
        return 1;
    case KPOOL_OPERATION_CHECK_SLOTS:
        *name = "requests";
        return call->requests != 0;
    default:
        *name = "requests";
        return call->requests;
    }
}

/* Kernels whose items are rows also judge the requests, one an invocation. */
static bool judges_requests_beside(KpoolOperation operation)
{
    return operation == KPOOL_OPERATION_COMPRESS || operation == KPOOL_OPERATION_EXPAND_TOPK;
}

/* Spreads the workgroups over x and y: one dimension may hold as few as 65,535. Those beyond total find nothing to
 * do. */
static KpoolResult count_groups(KpoolKernel kernel, const KpoolCall *call, uint32_t groups[3],
                                KpoolDiagnostic *diagnostic)
{
    const KpoolKernelCreateInfo *info = &kernel->info;
    const uint32_t *most = kernel->context->limits.maxComputeWorkGroupCount;
    const char *name;
    uint64_t total = divide_up(count_items(kernel, call, &name), info->itemsPerGroup);
    if (info->operation == KPOOL_OPERATION_STEP) {
        total += divide_up(count_row_items(kernel, call), info->itemsPerGroup);
    }
    if (judges_requests_beside(info->operation)) {
        const uint64_t judging = divide_up(call->requests, (uint64_t)info->lanesPerItem * info->itemsPerGroup);
        total = total > judging ? total : judging;
    }
    const uint64_t y = divide_up(total, KPOOL_GROUP_ROW);
    const uint64_t x = y <= 1 ? total : KPOOL_GROUP_ROW;
    if (y > most[1]) {
        return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, name,
                         "%s needs %llu workgroups, over %u x %u, rows of the device's maxComputeWorkGroupCount[1]",
                         name, (unsigned long long)total, KPOOL_GROUP_ROW, most[1]);
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
    const KpoolResult result = kpoolResolveCall(&kernel->info, call, &shape, diagnostic);
    return result == KPOOL_SUCCESS ? count_groups(kernel, call, groups, diagnostic) : result;
}

/* Each tensor's need against its range, and bases from the start of the descriptor. */
static KpoolResult fit_tensors(KpoolKernel kernel, const KpoolBindings *bindings, const KpoolDescriptors *descriptors,
                               KpoolShape *shape, KpoolDiagnostic *diagnostic)
{
    const uint32_t tensors = kpoolKernelTensors(&kernel->info);
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

/* What one pass wrote is read by the next, and what it read is overwritten. Written again it is not, but layers that take
 * both passes for writers of what the shader of either writes are content with this. */
static void record_pass_barrier(const KpoolFunctions *functions, VkCommandBuffer commandBuffer)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
    };
    functions->vkCmdPipelineBarrier(commandBuffer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
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
    if (bindings == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "bindings", "bindings is NULL");
    }
    KpoolShape shape;
    KpoolDescriptors descriptors;
    uint32_t groups[3] = {0};
    KpoolResult result = kpoolResolveCall(&kernel->info, call, &shape, diagnostic);
    if (result == KPOOL_SUCCESS) {
        result = kpoolResolveBindings(context, operation, kpoolKernelTensors(&kernel->info), kernel->info.alignment,
                                      bindings, &descriptors, diagnostic);
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
    functions->vkCmdBindPipeline(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipelines[0]);
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
    for (uint32_t pass = 1; pass < kernel->passes; pass++) {
        record_pass_barrier(functions, commandBuffer);
        functions->vkCmdBindPipeline(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipelines[pass]);
        functions->vkCmdDispatch(commandBuffer, groups[0], groups[1], groups[2]);
    }
    return KPOOL_SUCCESS;
}

#define DEFINE_COMMAND(function, operation)                                                                   \
    KpoolResult function(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,              \
                         const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic)   \
    {                                                                                                         \
        return record(commandBuffer, operation, kernel, set, bindings, call, diagnostic);                     \
    }

DEFINE_COMMAND(kpoolCmdSeedTail, KPOOL_OPERATION_SEED_TAIL)
DEFINE_COMMAND(kpoolCmdRingClose, KPOOL_OPERATION_RING_CLOSE)
DEFINE_COMMAND(kpoolCmdCompress, KPOOL_OPERATION_COMPRESS)
DEFINE_COMMAND(kpoolCmdPoolRowOffsets, KPOOL_OPERATION_POOL_ROW_OFFSETS)
DEFINE_COMMAND(kpoolCmdExpandTopk, KPOOL_OPERATION_EXPAND_TOPK)
DEFINE_COMMAND(kpoolCmdCopySlots, KPOOL_OPERATION_COPY_SLOTS)
DEFINE_COMMAND(kpoolCmdStep, KPOOL_OPERATION_STEP)
DEFINE_COMMAND(kpoolCmdCheckSlots, KPOOL_OPERATION_CHECK_SLOTS)
