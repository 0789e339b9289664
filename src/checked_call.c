/* The command: a call is checked whole before anything of it is kept, so what is made can be recorded. */
#include "checked_call.h"

#include "diagnostic.h"
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
        const uint64_t of_rows = divide_up(count_row_items(kernel, call), info->itemsPerGroup);
        /* An item that makes several rows takes a request beside them, or none. */
        const uint64_t beside = total > of_rows ? total : of_rows;
        total = info->rowsPerItem > 1 ? beside : total + of_rows;
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
    const KpoolResult result = kpoolResolveCall(&kernel->info, &kernel->tensors, call, &shape, diagnostic);
    return result == KPOOL_SUCCESS ? count_groups(kernel, call, groups, diagnostic) : result;
}

/* Each tensor's need against its range, and bases from the start of the descriptor. */
static KpoolResult fit_tensors(KpoolKernel kernel, const KpoolBindings *bindings, const KpoolPlacement *placement,
                               KpoolShape *shape, KpoolDiagnostic *diagnostic)
{
    for (uint32_t i = 0; i < kernel->tensors.count; i++) {
        const uint32_t tensor = kernel->tensors.tensors[i];
        const VkDeviceSize size = kpoolTensorRange(bindings, tensor)->size;
        if (shape->sizes[tensor] > size) {
            const char *name = kpoolTensorInfos[tensor].name;
            return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name,
                             "%s.size is %llu bytes, the call needs %llu", name, (unsigned long long)size,
                             (unsigned long long)shape->sizes[tensor]);
        }
        /* A descriptor has at most 2^32 - 1 bytes, so the sum stays below 2^30 words wherever it is used. */
        const uint32_t shift = kpoolTensorInfos[tensor].has_rows && kpoolWordSize(&kernel->info) == 16 ? 4 : 2;
        *kpoolPushBase(&shape->push, tensor) += (uint32_t)(placement->starts[tensor] >> shift);
    }
    return KPOOL_SUCCESS;
}

KpoolResult kpoolResolveCommand(KpoolKernel kernel, const KpoolBindings *bindings, const KpoolCall *call,
                                struct KpoolCommand_T *command, KpoolDiagnostic *diagnostic)
{
    if (bindings == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "bindings", "bindings is NULL");
    }
    const KpoolContext context = kernel->context;
    KpoolShape shape;
    KpoolPlacement placement;
    KpoolResult result = kpoolResolveCall(&kernel->info, &kernel->tensors, call, &shape, diagnostic);
    if (result == KPOOL_SUCCESS) {
        result =
            kpoolPlaceBindings(context, &kernel->tensors, kernel->info.alignment, bindings, &placement, diagnostic);
    }
    if (result == KPOOL_SUCCESS) {
        result = fit_tensors(kernel, bindings, &placement, &shape, diagnostic);
    }
    if (result == KPOOL_SUCCESS) {
        result = count_groups(kernel, call, command->groups, diagnostic);
    }
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    command->kernel = kernel;
    command->push = shape.push;
    if (context->pushDescriptors) {
        kpoolFillDescriptors(context, kernel->info.operation, kpoolKernelTensors(&kernel->info), bindings, &placement,
                             VK_NULL_HANDLE, &command->descriptors);
    }
    return KPOOL_SUCCESS;
}

KpoolResult kpoolCreateCommand(KpoolKernel kernel, const KpoolBindings *bindings, const KpoolCall *call,
                               KpoolCommand *command, KpoolDiagnostic *diagnostic)
{
    if (command == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "command", "command is NULL");
    }
    *command = NULL;
    if (kernel == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "kernel", "kernel is NULL");
    }
    const VkAllocationCallbacks *allocator = kernel->context->allocator;
    KpoolCommand made = kpoolAllocate(allocator, sizeof *made);
    if (made == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_OUT_OF_HOST_MEMORY, "pAllocator",
                         "pAllocator gave no memory for a command");
    }
    const KpoolResult result = kpoolResolveCommand(kernel, bindings, call, made, diagnostic);
    if (result != KPOOL_SUCCESS) {
        kpoolFree(allocator, made);
        return result;
    }
    *command = made;
    return KPOOL_SUCCESS;
}

void kpoolDestroyCommand(KpoolCommand command)
{
    if (command != NULL) {
        kpoolFree(command->kernel->context->allocator, command);
    }
}
