#include "sample_call.h"

#include "fake_vulkan.h"
#include "record_command.h"

KpoolContextCreateInfo sample_context_info(KpoolBindingLayout layout, uint32_t flags,
                                           const VkAllocationCallbacks *callbacks)
{
    return (KpoolContextCreateInfo){
        .flags = flags,
        .apiVersion = VK_API_VERSION_1_1,
        .instance = fake_instance(),
        .physicalDevice = fake_physical_device(),
        .device = fake_device(),
        .pfnGetInstanceProcAddr = fake_get_instance_proc_addr,
        .pAllocator = callbacks,
        .bindingLayout = layout,
    };
}

KpoolKernelCreateInfo sample_kernel_info(KpoolOperation operation)
{
    return (KpoolKernelCreateInfo){
        .operation = operation,
        .geometry = {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_BF16, .ring = 9, .rollback = 3},
        .topk = 7,
    };
}

/* All tensors in one buffer, one after another, each aligned for any device. */
static void place(KpoolBindings *bindings, VkBuffer buffer)
{
    KpoolRange *const ranges[] = {
        &bindings->tail,          &bindings->k,           &bindings->gate,          &bindings->input_row_offsets,
        &bindings->cache_lengths, &bindings->slot_idx,    &bindings->status,        &bindings->ape,
        &bindings->closed_pool,   &bindings->pool_ids,    &bindings->pairs,         &bindings->pool_row_offsets,
        &bindings->pooled,        &bindings->out,         &bindings->closed_pooled, &bindings->scratch,
    };
    VkDeviceSize end = 0;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (ranges[i]->size != 0) {
            ranges[i]->buffer = buffer;
            ranges[i]->offset = (end + 255) / 256 * 256;
            end = ranges[i]->offset + ranges[i]->size;
        }
    }
}

static const KpoolCall sample = {.max_slots = 5, .requests = 3, .rows = 40, .pooled_rows = 10, .pair_count = 2};

static KpoolResult bind(KpoolKernel kernel, VkBuffer buffer, KpoolBindings *bindings, KpoolDiagnostic *diagnostic)
{
    const KpoolKernelCreateInfo info = kpoolGetKernelInfo(kernel);
    const KpoolResult result = kpoolGetSizes(&info, &sample, bindings, diagnostic);
    if (result == KPOOL_SUCCESS) {
        place(bindings, buffer);
    }
    return result;
}

KpoolResult sample_command(KpoolKernel kernel, VkBuffer buffer, KpoolCommand *command, KpoolDiagnostic *diagnostic)
{
    KpoolBindings bindings;
    const KpoolResult result = bind(kernel, buffer, &bindings, diagnostic);
    return result == KPOOL_SUCCESS ? kpoolCreateCommand(kernel, &bindings, &sample, command, diagnostic) : result;
}

KpoolResult sample_record(KpoolContext context, KpoolKernel kernel, VkBuffer buffer, KpoolDiagnostic *diagnostic)
{
    const KpoolOperation operation = kpoolGetKernelInfo(kernel).operation;
    KpoolBindings bindings;
    const KpoolResult result = bind(kernel, buffer, &bindings, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    /* With push descriptors there is no set, and asking for one to be written is refused. */
    VkDescriptorSet set = (VkDescriptorSet)(uintptr_t)0x99;
    if (kpoolWriteDescriptorSet(context, operation, set, &bindings, diagnostic) != KPOOL_SUCCESS) {
        set = VK_NULL_HANDLE;
    }
    return record_command(operation)(fake_command_buffer(), kernel, set, &bindings, &sample, diagnostic);
}
