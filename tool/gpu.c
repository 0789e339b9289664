#include "gpu.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_DEVICES 16u

static bool fail(Gpu *gpu, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(Gpu *gpu, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(gpu->error, sizeof gpu->error, format, arguments);
    va_end(arguments);
    return false;
}

static bool succeeded(Gpu *gpu, VkResult result, const char *function)
{
    return result == VK_SUCCESS ? true : fail(gpu, "%s returned VkResult %d", function, (int)result);
}

/* ------------------------------------------------------------------------------ instance ------- */

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    (void)severity;
    (void)types;
    Gpu *gpu = user;
    gpu->validationMessages++;
    fprintf(stderr, "validation: %s: %s\n", data->pMessageIdName != NULL ? data->pMessageIdName : "(no id)",
            data->pMessage);
    return VK_FALSE;
}

static bool has_debug_utils(void)
{
    VkExtensionProperties extensions[64];
    uint32_t count = 64;
    const VkResult result = vkEnumerateInstanceExtensionProperties(NULL, &count, extensions);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(extensions[i].extensionName, VK_EXT_DEBUG_UTILS_EXTENSION_NAME) == 0) {
            return true;
        }
    }
    return false;
}

/* Messages are wanted only where somebody switched a layer on. */
static bool wants_messages(void)
{
    const char *layers = getenv("VK_INSTANCE_LAYERS");
    return layers != NULL && strstr(layers, "validation") != NULL;
}

bool gpu_open_instance(Gpu *gpu)
{
    *gpu = (Gpu){0};
    if (volkInitialize() != VK_SUCCESS) {
        return fail(gpu, "no Vulkan loader found (libvulkan.so.1)");
    }
    const bool messages = wants_messages() && has_debug_utils();
    const VkDebugUtilsMessengerCreateInfoEXT messengerInfo = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = on_message,
        .pUserData = gpu,
    };
    static const char *const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "kpool",
        .applicationVersion = KPOOL_VERSION,
        .apiVersion = VK_API_VERSION_1_1,
    };
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = messages ? &messengerInfo : NULL,
        .pApplicationInfo = &application,
        .enabledExtensionCount = messages ? 1 : 0,
        .ppEnabledExtensionNames = extensions,
    };
    if (!succeeded(gpu, vkCreateInstance(&info, NULL, &gpu->instance), "no Vulkan device: vkCreateInstance")) {
        gpu->instance = VK_NULL_HANDLE;
        return false;
    }
    volkLoadInstance(gpu->instance);
    if (messages) {
        return succeeded(gpu, vkCreateDebugUtilsMessengerEXT(gpu->instance, &messengerInfo, NULL, &gpu->messenger),
                         "vkCreateDebugUtilsMessengerEXT");
    }
    return true;
}

uint32_t gpu_list(Gpu *gpu, VkPhysicalDevice devices[16])
{
    uint32_t count = MOST_DEVICES;
    const VkResult result = vkEnumeratePhysicalDevices(gpu->instance, &count, devices);
    return result == VK_SUCCESS || result == VK_INCOMPLETE ? count : 0;
}

/* -------------------------------------------------------------------------------- device ------- */

static uint32_t preference(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return 1;
    default:
        return 0;
    }
}

bool gpu_select(Gpu *gpu, const char *selector)
{
    VkPhysicalDevice devices[MOST_DEVICES];
    const uint32_t count = gpu_list(gpu, devices);
    if (count == 0) {
        return fail(gpu, "no Vulkan device found");
    }
    char *end = NULL;
    const unsigned long index = selector != NULL ? strtoul(selector, &end, 10) : 0;
    const bool by_index = selector != NULL && isdigit((unsigned char)selector[0]) && *end == '\0';
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceProperties properties;
        vkGetPhysicalDeviceProperties(devices[i], &properties);
        const bool better = !found || (selector == NULL && preference(properties.deviceType) >
                                                               preference(gpu->properties.deviceType));
        /* The empty one is part of every name, and most likely a variable that is not set. */
        const bool named =
            selector != NULL && selector[0] != '\0' && strcasestr(properties.deviceName, selector) != NULL;
        const bool matches = selector == NULL || (by_index ? index == i : named);
        if (matches && better) {
            gpu->physicalDevice = devices[i];
            gpu->properties = properties;
            found = true;
        }
    }
    return found ? true : fail(gpu, "no Vulkan device matches '%s'; `kpool devices` lists %u", selector, count);
}

static bool select_queue(Gpu *gpu)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;
    vkGetPhysicalDeviceQueueFamilyProperties(gpu->physicalDevice, &count, families);
    for (uint32_t i = 0; i < count; i++) {
        if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) {
            gpu->queueFamily = i;
            return true;
        }
    }
    return fail(gpu, "%s has no compute queue", gpu->properties.deviceName);
}

static bool has_storage16(const Gpu *gpu)
{
    VkPhysicalDevice16BitStorageFeatures storage = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
    };
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &storage};
    if (gpu->properties.apiVersion < VK_API_VERSION_1_1) {
        return false;
    }
    vkGetPhysicalDeviceFeatures2(gpu->physicalDevice, &features);
    return storage.storageBuffer16BitAccess == VK_TRUE;
}

static bool create_device(Gpu *gpu, const GpuOptions *options)
{
    gpu->storage16 = options->storage16 && has_storage16(gpu);
    const VkPhysicalDevice16BitStorageFeatures storage = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
        .storageBuffer16BitAccess = VK_TRUE,
    };
    static const char *const extensions[] = {VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME};
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queueInfo = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = gpu->queueFamily,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = gpu->storage16 ? &storage : NULL,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queueInfo,
        .enabledExtensionCount = options->pushDescriptors ? 1 : 0,
        .ppEnabledExtensionNames = extensions,
    };
    if (!succeeded(gpu, vkCreateDevice(gpu->physicalDevice, &info, NULL, &gpu->device), "vkCreateDevice")) {
        gpu->device = VK_NULL_HANDLE;
        return false;
    }
    volkLoadDevice(gpu->device);
    vkGetDeviceQueue(gpu->device, gpu->queueFamily, 0, &gpu->queue);
    return true;
}

static bool create_objects(Gpu *gpu, const GpuOptions *options)
{
    const VkCommandPoolCreateInfo poolInfo = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = gpu->queueFamily,
    };
    const VkFenceCreateInfo fenceInfo = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    if (!succeeded(gpu, vkCreateCommandPool(gpu->device, &poolInfo, NULL, &gpu->commandPool), "vkCreateCommandPool") ||
        !succeeded(gpu, vkCreateFence(gpu->device, &fenceInfo, NULL, &gpu->fence), "vkCreateFence")) {
        return false;
    }
    const KpoolContextCreateInfo contextInfo = {
        .flags = (options->pushDescriptors ? KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT : 0) |
                 (gpu->messenger != VK_NULL_HANDLE ? KPOOL_CONTEXT_DEBUG_NAMES_BIT : 0),
        .apiVersion = VK_API_VERSION_1_1,
        .instance = gpu->instance,
        .physicalDevice = gpu->physicalDevice,
        .device = gpu->device,
        .pfnGetInstanceProcAddr = vkGetInstanceProcAddr,
        .pAllocator = options->allocator,
        .bindingLayout = options->bindingLayout,
    };
    KpoolDiagnostic diagnostic;
    if (kpoolCreateContext(&contextInfo, &gpu->context, &diagnostic) != KPOOL_SUCCESS) {
        return fail(gpu, "%s", diagnostic.message);
    }
    return true;
}

bool gpu_open(Gpu *gpu, const GpuOptions *options)
{
    const GpuOptions defaults = {0};
    options = options != NULL ? options : &defaults;
    const bool opened = gpu_open_instance(gpu) && gpu_select(gpu, options->device) && select_queue(gpu) &&
                        create_device(gpu, options) && create_objects(gpu, options);
    if (!opened) {
        gpu_close(gpu);
        return false;
    }
    gpu->pushDescriptors = options->pushDescriptors;
    vkGetPhysicalDeviceMemoryProperties(gpu->physicalDevice, &gpu->memory);
    return true;
}

void gpu_close(Gpu *gpu)
{
    kpoolDestroyContext(gpu->context);
    gpu->context = NULL;
    if (gpu->device != VK_NULL_HANDLE) {
        /* A validation layer may have submitted something of its own after what was waited for. A driver without
         * hardware, on which nothing is submitted, cannot wait. */
        if (gpu->submitted) {
            (void)vkDeviceWaitIdle(gpu->device);
        }
        vkDestroyFence(gpu->device, gpu->fence, NULL);
        vkDestroyCommandPool(gpu->device, gpu->commandPool, NULL);
        vkDestroyDevice(gpu->device, NULL);
        gpu->device = VK_NULL_HANDLE;
    }
    if (gpu->messenger != VK_NULL_HANDLE) {
        vkDestroyDebugUtilsMessengerEXT(gpu->instance, gpu->messenger, NULL);
        gpu->messenger = VK_NULL_HANDLE;
    }
    if (gpu->instance != VK_NULL_HANDLE) {
        vkDestroyInstance(gpu->instance, NULL);
        gpu->instance = VK_NULL_HANDLE;
    }
}

/* ------------------------------------------------------------------------------- buffers ------- */

/* Host-visible memory; coherent where there is such. */
static bool find_memory(Gpu *gpu, uint32_t types, uint32_t *index, bool *coherent)
{
    bool found = false;
    for (uint32_t i = 0; i < gpu->memory.memoryTypeCount; i++) {
        const VkMemoryPropertyFlags flags = gpu->memory.memoryTypes[i].propertyFlags;
        const bool is_coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
        if ((types & (1u << i)) == 0 || (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) == 0) {
            continue;
        }
        if (!found || (is_coherent && !*coherent)) {
            *index = i;
            *coherent = is_coherent;
            found = true;
        }
    }
    return found ? true : fail(gpu, "%s has no host-visible memory", gpu->properties.deviceName);
}

/* Device-local memory; any where there is no such. */
static bool find_local_memory(Gpu *gpu, uint32_t types, uint32_t *index)
{
    bool found = false;
    for (uint32_t i = gpu->memory.memoryTypeCount; i-- > 0;) {
        const bool local = (gpu->memory.memoryTypes[i].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0;
        if ((types & (1u << i)) != 0 && (local || !found)) {
            *index = i;
            found = true;
        }
    }
    return found ? true : fail(gpu, "%s has no memory for a buffer", gpu->properties.deviceName);
}

static bool create_buffer(Gpu *gpu, VkDeviceSize size, bool mapped, GpuBuffer *buffer)
{
    *buffer = (GpuBuffer){.size = size > 4 ? size : 4};
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = buffer->size,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT,
    };
    if (!succeeded(gpu, vkCreateBuffer(gpu->device, &info, NULL, &buffer->buffer), "vkCreateBuffer")) {
        *buffer = (GpuBuffer){0};
        return false;
    }
    VkMemoryRequirements requirements;
    vkGetBufferMemoryRequirements(gpu->device, buffer->buffer, &requirements);
    VkMemoryAllocateInfo allocation = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = requirements.size,
    };
    const bool found =
        mapped ? find_memory(gpu, requirements.memoryTypeBits, &allocation.memoryTypeIndex, &buffer->coherent)
               : find_local_memory(gpu, requirements.memoryTypeBits, &allocation.memoryTypeIndex);
    if (!found ||
        !succeeded(gpu, vkAllocateMemory(gpu->device, &allocation, NULL, &buffer->memory), "vkAllocateMemory") ||
        !succeeded(gpu, vkBindBufferMemory(gpu->device, buffer->buffer, buffer->memory, 0), "vkBindBufferMemory") ||
        (mapped && !succeeded(gpu, vkMapMemory(gpu->device, buffer->memory, 0, VK_WHOLE_SIZE, 0, &buffer->mapped),
                              "vkMapMemory"))) {
        gpu_destroy_buffer(gpu, buffer);
        return false;
    }
    return true;
}

bool gpu_create_buffer(Gpu *gpu, VkDeviceSize size, GpuBuffer *buffer)
{
    return create_buffer(gpu, size, true, buffer);
}

bool gpu_create_local_buffer(Gpu *gpu, VkDeviceSize size, GpuBuffer *buffer)
{
    return create_buffer(gpu, size, false, buffer);
}

void gpu_destroy_buffer(Gpu *gpu, GpuBuffer *buffer)
{
    if (gpu->device != VK_NULL_HANDLE) {
        vkDestroyBuffer(gpu->device, buffer->buffer, NULL);
        vkFreeMemory(gpu->device, buffer->memory, NULL);
    }
    *buffer = (GpuBuffer){0};
}

static VkMappedMemoryRange whole(const GpuBuffer *buffer)
{
    return (VkMappedMemoryRange){
        .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
        .memory = buffer->memory,
        .size = VK_WHOLE_SIZE,
    };
}

void gpu_flush(Gpu *gpu, const GpuBuffer *buffer)
{
    if (!buffer->coherent) {
        const VkMappedMemoryRange range = whole(buffer);
        (void)succeeded(gpu, vkFlushMappedMemoryRanges(gpu->device, 1, &range), "vkFlushMappedMemoryRanges");
    }
}

void gpu_invalidate(Gpu *gpu, const GpuBuffer *buffer)
{
    if (!buffer->coherent) {
        const VkMappedMemoryRange range = whole(buffer);
        (void)succeeded(gpu, vkInvalidateMappedMemoryRanges(gpu->device, 1, &range), "vkInvalidateMappedMemoryRanges");
    }
}

/* ---------------------------------------------------------------------------- submission ------- */

VkCommandBuffer gpu_begin(Gpu *gpu)
{
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = gpu->commandPool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    VkCommandBuffer commandBuffer = VK_NULL_HANDLE;
    if (!succeeded(gpu, vkAllocateCommandBuffers(gpu->device, &info, &commandBuffer), "vkAllocateCommandBuffers")) {
        return VK_NULL_HANDLE;
    }
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    if (!succeeded(gpu, vkBeginCommandBuffer(commandBuffer, &begin), "vkBeginCommandBuffer")) {
        gpu_free_command_buffer(gpu, commandBuffer);
        return VK_NULL_HANDLE;
    }
    return commandBuffer;
}

static void memory_barrier(VkCommandBuffer commandBuffer, VkPipelineStageFlags stage, VkAccessFlags access)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = access,
    };
    vkCmdPipelineBarrier(commandBuffer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, stage, 0, 1, &barrier, 0, NULL, 0, NULL);
}

void gpu_barrier(VkCommandBuffer commandBuffer)
{
    memory_barrier(commandBuffer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                   VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
}

bool gpu_end(Gpu *gpu, VkCommandBuffer commandBuffer)
{
    memory_barrier(commandBuffer, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    return succeeded(gpu, vkEndCommandBuffer(commandBuffer), "vkEndCommandBuffer");
}

bool gpu_start(Gpu *gpu, VkCommandBuffer commandBuffer)
{
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &commandBuffer,
    };
    gpu->submitted = true;
    return succeeded(gpu, vkQueueSubmit(gpu->queue, 1, &info, gpu->fence), "vkQueueSubmit");
}

bool gpu_wait(Gpu *gpu)
{
    return succeeded(gpu, vkWaitForFences(gpu->device, 1, &gpu->fence, VK_TRUE, UINT64_MAX), "vkWaitForFences") &&
           succeeded(gpu, vkResetFences(gpu->device, 1, &gpu->fence), "vkResetFences");
}

bool gpu_submit(Gpu *gpu, VkCommandBuffer commandBuffer)
{
    return gpu_start(gpu, commandBuffer) && gpu_wait(gpu);
}

void gpu_free_command_buffer(Gpu *gpu, VkCommandBuffer commandBuffer)
{
    if (commandBuffer != VK_NULL_HANDLE) {
        vkFreeCommandBuffers(gpu->device, gpu->commandPool, 1, &commandBuffer);
    }
}
