/* Recording: everything is checked first, then bound, pushed and dispatched; nothing is recorded on failure. */
#include "checked_call.h"
#include "diagnostic.h"

/* What one pass wrote is read by the next, and what it read is overwritten. Written again it is not, but layers that
 * take both passes for writers of what the shader of either writes are content with this. */
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

static void execute(VkCommandBuffer commandBuffer, const struct KpoolCommand_T *command, VkDescriptorSet set)
{
    const KpoolKernel kernel = command->kernel;
    const KpoolContext context = kernel->context;
    const KpoolFunctions *functions = &context->functions;
    const VkPipelineLayout layout = context->pipelineLayouts[kernel->info.operation];
    const uint32_t *groups = command->groups;
    if (groups[0] == 0) {
        return;
    }
    functions->vkCmdBindPipeline(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipelines[0]);
    if (context->pushDescriptors) {
        functions->vkCmdPushDescriptorSetKHR(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0,
                                             command->descriptors.count, command->descriptors.writes);
    } else {
        functions->vkCmdBindDescriptorSets(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, NULL);
    }
    functions->vkCmdPushConstants(commandBuffer, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof command->push,
                                  &command->push);
    functions->vkCmdDispatch(commandBuffer, groups[0], groups[1], groups[2]);
    for (uint32_t pass = 1; pass < kernel->passes; pass++) {
        record_pass_barrier(functions, commandBuffer);
        functions->vkCmdBindPipeline(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipelines[pass]);
        functions->vkCmdDispatch(commandBuffer, groups[0], groups[1], groups[2]);
    }
}

static KpoolResult check_command_buffer(VkCommandBuffer commandBuffer, KpoolDiagnostic *diagnostic)
{
    return commandBuffer != VK_NULL_HANDLE
               ? KPOOL_SUCCESS
               : kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "commandBuffer", "commandBuffer is NULL");
}

static KpoolResult check_set(KpoolContext context, VkDescriptorSet set, KpoolDiagnostic *diagnostic)
{
    return context->pushDescriptors == (set == VK_NULL_HANDLE)
               ? KPOOL_SUCCESS
               : kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "set",
                           context->pushDescriptors ? "set must be VK_NULL_HANDLE: the context has push descriptors"
                                                    : "set is VK_NULL_HANDLE");
}

KpoolResult kpoolCmdExecute(VkCommandBuffer commandBuffer, KpoolCommand command, VkDescriptorSet set,
                            KpoolDiagnostic *diagnostic)
{
    KpoolResult result = check_command_buffer(commandBuffer, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    if (command == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "command", "command is NULL");
    }
    result = check_set(command->kernel->context, set, diagnostic);
    if (result == KPOOL_SUCCESS) {
        execute(commandBuffer, command, set);
    }
    return result;
}

static KpoolResult record(VkCommandBuffer commandBuffer, KpoolOperation operation, KpoolKernel kernel,
                          VkDescriptorSet set, const KpoolBindings *bindings, const KpoolCall *call,
                          KpoolDiagnostic *diagnostic)
{
    KpoolResult result = check_command_buffer(commandBuffer, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    if (kernel == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "kernel", "kernel is NULL");
    }
    if (kernel->info.operation != operation) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "kernel", "kernel is of %s, must be of %s",
                         kpoolOperationName(kernel->info.operation), kpoolOperationName(operation));
    }
    result = check_set(kernel->context, set, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    struct KpoolCommand_T command;
    result = kpoolResolveCommand(kernel, bindings, call, &command, diagnostic);
    if (result == KPOOL_SUCCESS) {
        execute(commandBuffer, &command, set);
    }
    return result;
}

#define DEFINE_COMMAND(function, operation)                                                                 \
    KpoolResult function(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,            \
                         const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic) \
    {                                                                                                       \
        return record(commandBuffer, operation, kernel, set, bindings, call, diagnostic);                   \
    }

DEFINE_COMMAND(kpoolCmdSeedTail, KPOOL_OPERATION_SEED_TAIL)
DEFINE_COMMAND(kpoolCmdRingClose, KPOOL_OPERATION_RING_CLOSE)
DEFINE_COMMAND(kpoolCmdCompress, KPOOL_OPERATION_COMPRESS)
DEFINE_COMMAND(kpoolCmdPoolRowOffsets, KPOOL_OPERATION_POOL_ROW_OFFSETS)
DEFINE_COMMAND(kpoolCmdExpandTopk, KPOOL_OPERATION_EXPAND_TOPK)
DEFINE_COMMAND(kpoolCmdCopySlots, KPOOL_OPERATION_COPY_SLOTS)
DEFINE_COMMAND(kpoolCmdStep, KPOOL_OPERATION_STEP)
DEFINE_COMMAND(kpoolCmdCheckSlots, KPOOL_OPERATION_CHECK_SLOTS)
