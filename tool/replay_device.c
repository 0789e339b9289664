#include "replay_device.h"

#include <stdio.h>
#include <string.h>

/* What the widest words of a kernel need. */
#define WIDEST_WORD 16u

/* A tensor's place in this file's tables. */
typedef struct Placement {
    uint32_t group;
    KpoolRange *range;
    void **tensor;
} Placement;

static KpoolResult vulkan_failed(const Gpu *gpu, KpoolDiagnostic *diagnostic)
{
    *diagnostic = (KpoolDiagnostic){.result = KPOOL_ERROR_VULKAN};
    snprintf(diagnostic->message, sizeof diagnostic->message, "%.255s", gpu->error);
    return KPOOL_ERROR_VULKAN;
}

/* Turns the sizes in bindings into ranges, one after the other in each group's buffer. */
static bool create_buffers(ReplayDevice *device)
{
    Placement placements[KPOOL_TENSOR_COUNT];
#define PLACE(name, its_group)                                                                                   \
    placements[KPOOL_BINDING_##name] =                                                                           \
        (Placement){KPOOL_GROUP_##its_group, &device->bindings.name, &device->tensors.name};
    KPOOL_TENSORS(PLACE)
#undef PLACE
    Gpu *gpu = device->gpu;
    const VkDeviceSize needed = gpu->properties.limits.minStorageBufferOffsetAlignment;
    const VkDeviceSize alignment = needed > WIDEST_WORD ? needed : WIDEST_WORD;
    VkDeviceSize ends[KPOOL_GROUP_COUNT] = {0};
    for (uint32_t i = 0; i < KPOOL_TENSOR_COUNT; i++) {
        KpoolRange *range = placements[i].range;
        if (range->size == 0) {
            continue;
        }
        VkDeviceSize *end = &ends[placements[i].group];
        range->offset = (*end + alignment - 1) / alignment * alignment;
        *end = range->offset + range->size;
    }
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        if (ends[group] != 0 && !gpu_create_buffer(gpu, ends[group], &device->buffers[group])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < KPOOL_TENSOR_COUNT; i++) {
        if (placements[i].range->size == 0) {
            continue;
        }
        const GpuBuffer *buffer = &device->buffers[placements[i].group];
        placements[i].range->buffer = buffer->buffer;
        *placements[i].tensor = (char *)buffer->mapped + placements[i].range->offset;
    }
    memset(device->tensors.status, 0, (size_t)device->bindings.status.size);
    return true;
}

static bool create_set(ReplayDevice *device)
{
    Gpu *gpu = device->gpu;
    const VkDescriptorPoolSize size = {
        VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
        kpoolGetDescriptorCount(gpu->context, KPOOL_OPERATION_SEED_TAIL),
    };
    const VkDescriptorPoolCreateInfo poolInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    const VkDescriptorSetLayout layout = kpoolGetDescriptorSetLayout(gpu->context, KPOOL_OPERATION_SEED_TAIL);
    VkDescriptorSetAllocateInfo setInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorSetCount = 1,
        .pSetLayouts = &layout,
    };
    VkResult result = vkCreateDescriptorPool(gpu->device, &poolInfo, NULL, &device->pool);
    if (result == VK_SUCCESS) {
        setInfo.descriptorPool = device->pool;
        result = vkAllocateDescriptorSets(gpu->device, &setInfo, &device->set);
    }
    if (result != VK_SUCCESS) {
        snprintf(gpu->error, sizeof gpu->error, "no descriptor set: VkResult %d", (int)result);
    }
    return result == VK_SUCCESS;
}

static KpoolResult record(ReplayDevice *device, const KpoolCall *call, KpoolDiagnostic *diagnostic)
{
    device->commandBuffer = gpu_begin(device->gpu);
    if (device->commandBuffer == VK_NULL_HANDLE) {
        return vulkan_failed(device->gpu, diagnostic);
    }
    const KpoolResult result = kpoolCmdSeedTail(device->commandBuffer, device->seed_tail, device->set,
                                                &device->bindings, call, diagnostic);
    if (result == KPOOL_SUCCESS && !gpu_end(device->gpu, device->commandBuffer)) {
        return vulkan_failed(device->gpu, diagnostic);
    }
    return result;
}

static KpoolResult create(ReplayDevice *device, const KpoolGeometry *geometry, const KpoolCall *call,
                          KpoolDiagnostic *diagnostic)
{
    Gpu *gpu = device->gpu;
    KpoolKernelCreateInfo info = {.operation = KPOOL_OPERATION_SEED_TAIL, .geometry = *geometry};
    KpoolRequirements requirements;
    KpoolResult result = kpoolGetRequirements(&gpu->properties.limits, geometry, &requirements, diagnostic);
    if (result == KPOOL_SUCCESS) {
        info.alignment = requirements.alignment;
        result = kpoolGetSizes(&info, call, &device->bindings, diagnostic);
    }
    if (result == KPOOL_SUCCESS) {
        result = kpoolCreateKernel(gpu->context, &info, &device->seed_tail, diagnostic);
    }
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    if (!create_buffers(device) || !create_set(device)) {
        return vulkan_failed(gpu, diagnostic);
    }
    result =
        kpoolWriteDescriptorSet(gpu->context, KPOOL_OPERATION_SEED_TAIL, device->set, &device->bindings, diagnostic);
    return result == KPOOL_SUCCESS ? record(device, call, diagnostic) : result;
}

KpoolResult replay_device_create(ReplayDevice *device, Gpu *gpu, const KpoolGeometry *geometry, const KpoolCall *call,
                                 KpoolDiagnostic *diagnostic)
{
    *device = (ReplayDevice){.gpu = gpu};
    const KpoolResult result = create(device, geometry, call, diagnostic);
    if (result != KPOOL_SUCCESS) {
        replay_device_destroy(device);
    }
    return result;
}

void replay_device_destroy(ReplayDevice *device)
{
    Gpu *gpu = device->gpu;
    if (gpu == NULL) {
        return;
    }
    gpu_free_command_buffer(gpu, device->commandBuffer);
    vkDestroyDescriptorPool(gpu->device, device->pool, NULL);
    for (uint32_t group = KPOOL_GROUP_COUNT; group-- > 0;) {
        gpu_destroy_buffer(gpu, &device->buffers[group]);
    }
    kpoolDestroyKernel(device->seed_tail);
    *device = (ReplayDevice){0};
}

bool replay_device_step(ReplayDevice *device)
{
    Gpu *gpu = device->gpu;
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        if (device->buffers[group].mapped != NULL) {
            gpu_flush(gpu, &device->buffers[group]);
        }
    }
    if (!gpu_submit(gpu, device->commandBuffer)) {
        return false;
    }
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        if (device->buffers[group].mapped != NULL) {
            gpu_invalidate(gpu, &device->buffers[group]);
        }
    }
    return true;
}
