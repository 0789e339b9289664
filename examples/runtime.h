/* What a Vulkan runtime has anyway, as small as it goes: a device, one mapped buffer, one command buffer. Nothing here
 * is kpool's; a real runtime has its own. Every function ends the program with a line on stderr where Vulkan fails. */
#ifndef KPOOL_EXAMPLES_RUNTIME_H
#define KPOOL_EXAMPLES_RUNTIME_H

#include <vulkan/vulkan.h>

typedef struct Runtime {
    VkInstance instance;
    VkPhysicalDevice physicalDevice;
    VkPhysicalDeviceProperties properties;
    uint32_t queueFamily;
    VkDevice device;
    VkQueue queue;
    VkCommandPool commandPool;
    VkCommandBuffer commandBuffer;
    VkBuffer buffer;
    VkDeviceMemory memory;
    char *mapped;
    VkDescriptorPool descriptorPool;
} Runtime;

/* Says what failed, and ends with exit code 3. */
void fail(const char *what, const char *why);

/* The first device, and its first queue family with compute. */
void create_device(Runtime *runtime);
/* One mapped buffer for everything. */
void create_buffer(Runtime *runtime, VkDeviceSize size, VkBufferUsageFlags usage);
/* A pool of as many descriptors as all sets may take together, and a set from it. */
void create_pool(Runtime *runtime, uint32_t sets, uint32_t descriptors);
VkDescriptorSet create_set(Runtime *runtime, VkDescriptorSetLayout layout);

/* Recording: begin, barriers between, then submit as often as wanted, each time waiting for the end. */
void begin(Runtime *runtime);
void barrier(Runtime *runtime, VkPipelineStageFlags from, VkAccessFlags written, VkPipelineStageFlags to,
             VkAccessFlags used);
void end(Runtime *runtime);
void submit(Runtime *runtime);

void destroy_runtime(Runtime *runtime);

#endif
