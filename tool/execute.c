#include "execute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record_command.h"
#include "strided.h"

/* Bytes of pattern before and after each tensor, at least: what lands a row or a small slot too far lands in them. */
#define GUARD 16384u

/* A tensor's place in this file's tables. */
typedef struct Placement {
    const char *name;
    uint32_t group;
    void **image;
    KpoolRange *range;
} Placement;

typedef struct Scene {
    Gpu *gpu;
    GpuBuffer buffers[KPOOL_GROUP_COUNT]; /* one a group, which serves both binding layouts */
    Placement placements[KPOOL_TENSOR_COUNT];
    KpoolBindings bindings;
    KpoolKernel kernel;
    VkDescriptorPool pool;
    VkDescriptorSet set;
    VkCommandBuffer commandBuffer;
} Scene;

static VkDeviceSize align_up(VkDeviceSize value, VkDeviceSize multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* The next odd multiple: aligned to that power of two and to no larger one. */
static VkDeviceSize align_barely(VkDeviceSize value, VkDeviceSize multiple)
{
    return align_up(value + multiple, 2 * multiple) - multiple;
}

/* The least that the header asks of the offset of a range that comes after `end` in its group. */
static VkDeviceSize offset_alignment(const Scene *scene, const Placement *placement, VkDeviceSize end)
{
    const bool has_rows = placement->group == KPOOL_GROUP_tail || placement->group == KPOOL_GROUP_rows ||
                          placement->range == &scene->bindings.scratch;
    const VkDeviceSize words = has_rows ? kpoolGetKernelInfo(scene->kernel).alignment : 4;
    const VkDeviceSize device = scene->gpu->properties.limits.minStorageBufferOffsetAlignment;
    const bool is_inside = end != 0 && kpoolGetBindingLayout(scene->gpu->context) == KPOOL_BINDING_LAYOUT_FLOOR;
    return is_inside || device < words ? words : device;
}

/* Turns sizes into ranges, one after the other in each group's buffer with guards between, each at the worst offset
 * that it may have, and makes the buffers. */
static bool create_buffers(Scene *scene)
{
    Gpu *gpu = scene->gpu;
    VkDeviceSize ends[KPOOL_GROUP_COUNT] = {0};
    for (uint32_t i = 0; i < KPOOL_TENSOR_COUNT; i++) {
        const Placement *placement = &scene->placements[i];
        if (*placement->image == NULL) {
            continue;
        }
        VkDeviceSize *end = &ends[placement->group];
        placement->range->offset = align_barely(*end + GUARD, offset_alignment(scene, placement, *end));
        *end = placement->range->offset + placement->range->size;
    }
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        if (ends[group] == 0) {
            continue;
        }
        if (!gpu_create_buffer(gpu, align_up(ends[group] + GUARD, 4), &scene->buffers[group])) {
            return false;
        }
        strided_fill_padding(scene->buffers[group].mapped, (size_t)scene->buffers[group].size);
    }
    for (uint32_t i = 0; i < KPOOL_TENSOR_COUNT; i++) {
        const Placement *placement = &scene->placements[i];
        if (*placement->image == NULL) {
            continue;
        }
        const GpuBuffer *buffer = &scene->buffers[placement->group];
        placement->range->buffer = buffer->buffer;
        memcpy((char *)buffer->mapped + placement->range->offset, *placement->image, (size_t)placement->range->size);
    }
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        if (ends[group] != 0) {
            gpu_flush(gpu, &scene->buffers[group]);
        }
    }
    return true;
}

/* Copies the tensors back, and compares everything else with the pattern. */
static bool read_buffers(Scene *scene, Execution *execution)
{
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        const GpuBuffer *buffer = &scene->buffers[group];
        if (buffer->buffer == VK_NULL_HANDLE) {
            continue;
        }
        gpu_invalidate(scene->gpu, buffer);
        const size_t size = (size_t)buffer->size;
        unsigned char *pattern = malloc(size);
        if (pattern == NULL) {
            snprintf(scene->gpu->error, sizeof scene->gpu->error, "out of memory");
            return false;
        }
        strided_fill_padding(pattern, size);
        const unsigned char *bytes = buffer->mapped;
        size_t guard_start = 0;
        const char *before = NULL;
        for (uint32_t i = 0; i <= KPOOL_TENSOR_COUNT; i++) {
            const Placement *placement = i < KPOOL_TENSOR_COUNT ? &scene->placements[i] : NULL;
            if (placement != NULL && (placement->group != group || *placement->image == NULL)) {
                continue;
            }
            const size_t guard_end = placement != NULL ? (size_t)placement->range->offset : size;
            if (memcmp(bytes + guard_start, pattern + guard_start, guard_end - guard_start) != 0) {
                execution->damaged = before != NULL ? before : placement->name;
            }
            if (placement != NULL) {
                memcpy(*placement->image, bytes + guard_end, (size_t)placement->range->size);
                guard_start = guard_end + (size_t)placement->range->size;
                before = placement->name;
            }
        }
        free(pattern);
    }
    return true;
}

static KpoolResult record(const Scene *scene, const KpoolCall *call, KpoolDiagnostic *diagnostic)
{
    return record_command(kpoolGetKernelInfo(scene->kernel).operation)(scene->commandBuffer, scene->kernel, scene->set,
                                                                       &scene->bindings, call, diagnostic);
}

static bool create_set(Scene *scene, KpoolOperation operation)
{
    Gpu *gpu = scene->gpu;
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                       kpoolGetDescriptorCount(gpu->context, operation)};
    const VkDescriptorPoolCreateInfo poolInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    const VkDescriptorSetLayout layout = kpoolGetDescriptorSetLayout(gpu->context, operation);
    VkDescriptorSetAllocateInfo setInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorSetCount = 1,
        .pSetLayouts = &layout,
    };
    VkResult result = vkCreateDescriptorPool(gpu->device, &poolInfo, NULL, &scene->pool);
    if (result == VK_SUCCESS) {
        setInfo.descriptorPool = scene->pool;
        result = vkAllocateDescriptorSets(gpu->device, &setInfo, &scene->set);
    }
    if (result != VK_SUCCESS) {
        snprintf(gpu->error, sizeof gpu->error, "no descriptor set: VkResult %d", (int)result);
        return false;
    }
    return true;
}

static bool run(Scene *scene, const KpoolKernelCreateInfo *info, const KpoolCall *call, uint32_t submissions,
                Execution *execution)
{
    Gpu *gpu = scene->gpu;
    KpoolDiagnostic *diagnostic = &execution->diagnostic;
    execution->result = kpoolGetSizes(info, call, &scene->bindings, diagnostic);
    if (execution->result == KPOOL_SUCCESS) {
        execution->result = kpoolCreateKernel(gpu->context, info, &scene->kernel, diagnostic);
    }
    if (execution->result != KPOOL_SUCCESS) {
        return true;
    }
    for (uint32_t i = 0; i < KPOOL_TENSOR_COUNT; i++) {
        KpoolRange *range = scene->placements[i].range;
        range->size = range->size > 4 ? range->size : 4;
    }
    if (!create_buffers(scene)) {
        return false;
    }
    if (!gpu->pushDescriptors) {
        if (!create_set(scene, info->operation)) {
            return false;
        }
        execution->result =
            kpoolWriteDescriptorSet(gpu->context, info->operation, scene->set, &scene->bindings, diagnostic);
        if (execution->result != KPOOL_SUCCESS) {
            return true;
        }
    }
    scene->commandBuffer = gpu_begin(gpu);
    if (scene->commandBuffer == VK_NULL_HANDLE) {
        return false;
    }
    execution->result = record(scene, call, diagnostic);
    if (execution->result != KPOOL_SUCCESS) {
        return true;
    }
    if (!gpu_end(gpu, scene->commandBuffer)) {
        return false;
    }
    for (uint32_t i = 0; i < submissions; i++) {
        if (!gpu_submit(gpu, scene->commandBuffer)) {
            return false;
        }
    }
    return read_buffers(scene, execution);
}

bool execute(Gpu *gpu, const KpoolKernelCreateInfo *info, const KpoolCall *call, uint32_t submissions,
             TensorImages *images, Execution *execution)
{
    Scene scene = {.gpu = gpu};
#define PLACE(tensor, its_group) \
    scene.placements[KPOOL_BINDING_##tensor] = \
        (Placement){#tensor, KPOOL_GROUP_##its_group, &images->tensor, &scene.bindings.tensor};
    KPOOL_TENSORS(PLACE)
#undef PLACE
    *execution = (Execution){0};
    const bool ran = run(&scene, info, call, submissions, execution);

    gpu_free_command_buffer(gpu, scene.commandBuffer);
    vkDestroyDescriptorPool(gpu->device, scene.pool, NULL);
    for (uint32_t group = KPOOL_GROUP_COUNT; group-- > 0;) {
        gpu_destroy_buffer(gpu, &scene.buffers[group]);
    }
    kpoolDestroyKernel(scene.kernel);
    return ran;
}
