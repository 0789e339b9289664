#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>

void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(3);
}

static void vk(VkResult result, const char *what)
{
    if (result != VK_SUCCESS) {
        char why[32];
        snprintf(why, sizeof why, "VkResult %d", (int)result);
        fail(what, why);
    }
}

void create_device(Runtime *runtime)
{
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "kpool example",
        .apiVersion = VK_API_VERSION_1_1,
    };
    const VkInstanceCreateInfo instanceInfo = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &application,
    };
    vk(vkCreateInstance(&instanceInfo, NULL, &runtime->instance), "vkCreateInstance");

    uint32_t count = 1;
    const VkResult result = vkEnumeratePhysicalDevices(runtime->instance, &count, &runtime->physicalDevice);
    vk(result == VK_INCOMPLETE ? VK_SUCCESS : result, "vkEnumeratePhysicalDevices");
    if (count == 0) {
        fail("no Vulkan device", "none found");
    }
    vkGetPhysicalDeviceProperties(runtime->physicalDevice, &runtime->properties);

    VkQueueFamilyProperties families[16];
    count = 16;
    vkGetPhysicalDeviceQueueFamilyProperties(runtime->physicalDevice, &count, families);
    while (runtime->queueFamily < count && (families[runtime->queueFamily].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) {
        runtime->queueFamily++;
    }
    if (runtime->queueFamily == count) {
        fail(runtime->properties.deviceName, "has no compute queue");
    }

    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queueInfo = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = runtime->queueFamily,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo deviceInfo = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queueInfo,
    };
    vk(vkCreateDevice(runtime->physicalDevice, &deviceInfo, NULL, &runtime->device), "vkCreateDevice");
    vkGetDeviceQueue(runtime->device, runtime->queueFamily, 0, &runtime->queue);

    const VkCommandPoolCreateInfo poolInfo = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = runtime->queueFamily,
    };
    vk(vkCreateCommandPool(runtime->device, &poolInfo, NULL, &runtime->commandPool), "vkCreateCommandPool");
    const VkCommandBufferAllocateInfo commandInfo = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = runtime->commandPool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    vk(vkAllocateCommandBuffers(runtime->device, &commandInfo, &runtime->commandBuffer), "vkAllocateCommandBuffers");
}

void create_buffer(Runtime *runtime, VkDeviceSize size, VkBufferUsageFlags usage)
{
    const VkBufferCreateInfo bufferInfo = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = size,
        .usage = usage,
    };
    vk(vkCreateBuffer(runtime->device, &bufferInfo, NULL, &runtime->buffer), "vkCreateBuffer");
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(runtime->device, runtime->buffer, &needs);
    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceMemoryProperties(runtime->physicalDevice, &memory);
    /* Every device has such memory. */
    const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint32_t type = 0;
    while ((needs.memoryTypeBits & (1u << type)) == 0 || (memory.memoryTypes[type].propertyFlags & wanted) != wanted) {
        type++;
    }
    const VkMemoryAllocateInfo allocation = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = needs.size,
        .memoryTypeIndex = type,
    };
    vk(vkAllocateMemory(runtime->device, &allocation, NULL, &runtime->memory), "vkAllocateMemory");
    vk(vkBindBufferMemory(runtime->device, runtime->buffer, runtime->memory, 0), "vkBindBufferMemory");
    void *mapped = NULL;
    vk(vkMapMemory(runtime->device, runtime->memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
    runtime->mapped = mapped;
}

void begin(Runtime *runtime)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    vk(vkBeginCommandBuffer(runtime->commandBuffer, &info), "vkBeginCommandBuffer");
}

void end(Runtime *runtime)
{
    vk(vkEndCommandBuffer(runtime->commandBuffer), "vkEndCommandBuffer");
}

void submit(Runtime *runtime)
{
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &runtime->commandBuffer,
    };
    vk(vkQueueSubmit(runtime->queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
    vk(vkQueueWaitIdle(runtime->queue), "vkQueueWaitIdle");
}

void barrier(Runtime *runtime, VkPipelineStageFlags from, VkAccessFlags written, VkPipelineStageFlags to,
                    VkAccessFlags used)
{
    const VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = written,
        .dstAccessMask = used,
    };
    vkCmdPipelineBarrier(runtime->commandBuffer, from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

void create_pool(Runtime *runtime, uint32_t sets, uint32_t descriptors)
{
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptors};
    const VkDescriptorPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = sets,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    vk(vkCreateDescriptorPool(runtime->device, &info, NULL, &runtime->descriptorPool), "vkCreateDescriptorPool");
}

VkDescriptorSet create_set(Runtime *runtime, VkDescriptorSetLayout layout)
{
    const VkDescriptorSetAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = runtime->descriptorPool,
        .descriptorSetCount = 1,
        .pSetLayouts = &layout,
    };
    VkDescriptorSet set = VK_NULL_HANDLE;
    vk(vkAllocateDescriptorSets(runtime->device, &info, &set), "vkAllocateDescriptorSets");
    return set;
}

void destroy_runtime(Runtime *runtime)
{
    vkDestroyDescriptorPool(runtime->device, runtime->descriptorPool, NULL);
    vkDestroyBuffer(runtime->device, runtime->buffer, NULL);
    vkFreeMemory(runtime->device, runtime->memory, NULL);
    vkDestroyCommandPool(runtime->device, runtime->commandPool, NULL);
    vkDestroyDevice(runtime->device, NULL);
    vkDestroyInstance(runtime->instance, NULL);
}
