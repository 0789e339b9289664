/* A headless device for the runner and the tests: instance, device, one compute queue, buffers, submission,
 * and the kpool context on it. Vulkan comes through volk. One Gpu at a time: volk's table is global. */
#ifndef KPOOL_TOOL_GPU_H
#define KPOOL_TOOL_GPU_H

#include <stdbool.h>

#include <volk.h>

#include "kpool/kpool.h"

typedef struct GpuOptions {
    /* An index of `kpool devices`, or part of a device's name in any case. NULL: the first of discrete,
     * integrated, virtual, CPU. */
    const char *device;
    KpoolBindingLayout bindingLayout;
    bool pushDescriptors;                   /* fails where the device has none */
    bool storage16;                         /* enables storageBuffer16BitAccess where the device has it */
    const VkAllocationCallbacks *allocator; /* for the kpool objects only */
} GpuOptions;

typedef struct Gpu {
    VkInstance instance;
    VkDebugUtilsMessengerEXT messenger; /* where a validation layer is loaded */
    uint32_t validationMessages;        /* warnings and errors; each is printed to stderr */
    VkPhysicalDevice physicalDevice;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory;
    uint32_t queueFamily;
    VkDevice device;
    VkQueue queue;
    VkCommandPool commandPool;
    VkFence fence;
    bool submitted; /* something was */
    KpoolContext context;
    bool pushDescriptors;
    bool storage16; /* enabled */
    char error[512]; /* why the last call failed, one line */
} Gpu;

typedef struct GpuBuffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceSize size;
    void *mapped;
    bool coherent;
} GpuBuffer;

/* The instance alone, and the devices on it: what `kpool devices` lists. gpu_close also after a failure. */
bool gpu_open_instance(Gpu *gpu);
/* Up to 16 devices; returns how many. */
uint32_t gpu_list(Gpu *gpu, VkPhysicalDevice devices[16]);
/* Sets physicalDevice and properties; selector as GpuOptions::device. */
bool gpu_select(Gpu *gpu, const char *selector);

/* All of it. options may be NULL. On failure gpu->error says why, and gpu_close has been called. */
bool gpu_open(Gpu *gpu, const GpuOptions *options);
/* In reverse; takes a zeroed or half-made Gpu. error and validationMessages survive. */
void gpu_close(Gpu *gpu);

/* Host-visible, mapped, for storage and transfer. size 0 is made 4. On failure gpu->error says why. */
bool gpu_create_buffer(Gpu *gpu, VkDeviceSize size, GpuBuffer *buffer);
/* The same in device-local memory, and not mapped. */
bool gpu_create_local_buffer(Gpu *gpu, VkDeviceSize size, GpuBuffer *buffer);
void gpu_destroy_buffer(Gpu *gpu, GpuBuffer *buffer);
/* Make host writes visible to the device, and device writes to the host; nothing where memory is coherent. */
void gpu_flush(Gpu *gpu, const GpuBuffer *buffer);
void gpu_invalidate(Gpu *gpu, const GpuBuffer *buffer);

/* A primary command buffer, begun (not for one time only, so it may be submitted again). VK_NULL_HANDLE on failure. */
VkCommandBuffer gpu_begin(Gpu *gpu);
/* Records the barrier from compute writes to host reads, and ends. */
bool gpu_end(Gpu *gpu, VkCommandBuffer commandBuffer);
/* Submits and waits; or submits now, one at a time, and waits later. */
bool gpu_submit(Gpu *gpu, VkCommandBuffer commandBuffer);
bool gpu_start(Gpu *gpu, VkCommandBuffer commandBuffer);
bool gpu_wait(Gpu *gpu);
void gpu_free_command_buffer(Gpu *gpu, VkCommandBuffer commandBuffer);

/* compute write to compute read and write, between two operations. */
void gpu_barrier(VkCommandBuffer commandBuffer);

#endif
