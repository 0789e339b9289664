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

KpoolResult sample_record(KpoolContext context, KpoolKernel kernel, VkBuffer buffer, KpoolDiagnostic *diagnostic)
{
    const KpoolKernelCreateInfo info = kpoolGetKernelInfo(kernel);
    const KpoolCall call = {.max_slots = 5, .requests = 3, .rows = 40, .pooled_rows = 10, .pair_count = 2};
    KpoolBindings bindings;
    KpoolResult result = kpoolGetSizes(&info, &call, &bindings, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    place(&bindings, buffer);
    /* With push descriptors there is no set, and asking for one to be written is refused. */
    VkDescriptorSet set = (VkDescriptorSet)(uintptr_t)0x99;
    if (kpoolWriteDescriptorSet(context, info.operation, set, &bindings, diagnostic) != KPOOL_SUCCESS) {
        set = VK_NULL_HANDLE;
    }
    return record_command(info.operation)(fake_command_buffer(), kernel, set, &bindings, &call, diagnostic);
}
