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

/* The operations of a step in their order. */
static const struct {
    KpoolOperation operation;
    KpoolResult (*record)(VkCommandBuffer, KpoolKernel, VkDescriptorSet, const KpoolBindings *, const KpoolCall *,
                          KpoolDiagnostic *);
} stages[REPLAY_STAGES] = {
    {KPOOL_OPERATION_COPY_SLOTS, kpoolCmdCopySlots},
    {KPOOL_OPERATION_POOL_ROW_OFFSETS, kpoolCmdPoolRowOffsets},
    {KPOOL_OPERATION_RING_CLOSE, kpoolCmdRingClose},
    {KPOOL_OPERATION_COMPRESS, kpoolCmdCompress},
    {KPOOL_OPERATION_SEED_TAIL, kpoolCmdSeedTail},
};

static bool has_stage(const KpoolCall *call, uint32_t stage)
{
    return stages[stage].operation != KPOOL_OPERATION_COPY_SLOTS || call->pair_count != 0;
}

/* Raises each size to what the stage needs. */
static KpoolResult add_sizes(ReplayDevice *device, const KpoolKernelCreateInfo *info, const KpoolCall *call,
                             KpoolDiagnostic *diagnostic)
{
    KpoolBindings sizes;
    const KpoolResult result = kpoolGetSizes(info, call, &sizes, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
#define RAISE(name, group)                                     \
    if (sizes.name.size > device->bindings.name.size) {        \
        device->bindings.name.size = sizes.name.size;          \
    }
    KPOOL_TENSORS(RAISE)
#undef RAISE
    return KPOOL_SUCCESS;
}

static KpoolResult create_kernels(ReplayDevice *device, const KpoolGeometry *geometry, const KpoolCall *call,
                                  KpoolDiagnostic *diagnostic)
{
    KpoolRequirements requirements;
    KpoolResult result =
        kpoolGetRequirements(&device->gpu->properties.limits, geometry, &requirements, diagnostic);
    for (uint32_t i = 0; i < REPLAY_STAGES && result == KPOOL_SUCCESS; i++) {
        const KpoolKernelCreateInfo info = {
            .operation = stages[i].operation,
            .geometry = *geometry,
            .alignment = requirements.alignment,
        };
        if (!has_stage(call, i)) {
            continue;
        }
        result = add_sizes(device, &info, call, diagnostic);
        if (result == KPOOL_SUCCESS) {
            result = kpoolCreateKernel(device->gpu->context, &info, &device->stages[i].kernel, diagnostic);
        }
    }
    return result;
}

static KpoolResult create_sets(ReplayDevice *device, KpoolDiagnostic *diagnostic)
{
    Gpu *gpu = device->gpu;
    VkDescriptorPoolSize size = {.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER};
    for (uint32_t i = 0; i < REPLAY_STAGES; i++) {
        size.descriptorCount += kpoolGetDescriptorCount(gpu->context, stages[i].operation);
    }
    const VkDescriptorPoolCreateInfo poolInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = REPLAY_STAGES,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    VkResult vkResult = vkCreateDescriptorPool(gpu->device, &poolInfo, NULL, &device->pool);
    KpoolResult result = KPOOL_SUCCESS;
    for (uint32_t i = 0; i < REPLAY_STAGES && vkResult == VK_SUCCESS && result == KPOOL_SUCCESS; i++) {
        ReplayStage *stage = &device->stages[i];
        const VkDescriptorSetLayout layout = kpoolGetDescriptorSetLayout(gpu->context, stages[i].operation);
        const VkDescriptorSetAllocateInfo setInfo = {
            .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
            .descriptorPool = device->pool,
            .descriptorSetCount = 1,
            .pSetLayouts = &layout,
        };
        if (stage->kernel == NULL) {
            continue;
        }
        vkResult = vkAllocateDescriptorSets(gpu->device, &setInfo, &stage->set);
        if (vkResult == VK_SUCCESS) {
            result = kpoolWriteDescriptorSet(gpu->context, stages[i].operation, stage->set, &device->bindings,
                                             diagnostic);
        }
    }
    if (vkResult != VK_SUCCESS) {
        snprintf(gpu->error, sizeof gpu->error, "no descriptor set: VkResult %d", (int)vkResult);
        return vulkan_failed(gpu, diagnostic);
    }
    return result;
}

static KpoolResult record(ReplayDevice *device, const KpoolCall *call, KpoolDiagnostic *diagnostic)
{
    device->commandBuffer = gpu_begin(device->gpu);
    if (device->commandBuffer == VK_NULL_HANDLE) {
        return vulkan_failed(device->gpu, diagnostic);
    }
    KpoolResult result = KPOOL_SUCCESS;
    for (uint32_t i = 0; i < REPLAY_STAGES && result == KPOOL_SUCCESS; i++) {
        const ReplayStage *stage = &device->stages[i];
        if (stage->kernel == NULL) {
            continue;
        }
        /* The first reads what the submission before wrote. ring_close must have read the ring before seed_tail writes,
         * compress needs the offsets, and all of them add to status. */
        gpu_barrier(device->commandBuffer);
        result = stages[i].record(device->commandBuffer, stage->kernel, stage->set, &device->bindings, call,
                                  diagnostic);
    }
    if (result == KPOOL_SUCCESS && !gpu_end(device->gpu, device->commandBuffer)) {
        return vulkan_failed(device->gpu, diagnostic);
    }
    return result;
}

static KpoolResult create(ReplayDevice *device, const KpoolGeometry *geometry, const KpoolCall *call,
                          KpoolDiagnostic *diagnostic)
{
    KpoolResult result = create_kernels(device, geometry, call, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    if (!create_buffers(device)) {
        return vulkan_failed(device->gpu, diagnostic);
    }
    result = create_sets(device, diagnostic);
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
    for (uint32_t i = REPLAY_STAGES; i-- > 0;) {
        kpoolDestroyKernel(device->stages[i].kernel);
    }
    *device = (ReplayDevice){0};
}

bool replay_device_start(ReplayDevice *device)
{
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        if (device->buffers[group].mapped != NULL) {
            gpu_flush(device->gpu, &device->buffers[group]);
        }
    }
    return gpu_start(device->gpu, device->commandBuffer);
}

bool replay_device_wait(ReplayDevice *device)
{
    if (!gpu_wait(device->gpu)) {
        return false;
    }
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        if (device->buffers[group].mapped != NULL) {
            gpu_invalidate(device->gpu, &device->buffers[group]);
        }
    }
    return true;
}
