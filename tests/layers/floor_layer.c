/* A Vulkan layer, VK_LAYER_KPOOL_floor, that makes any driver a device at the floor: it reports the limits that Vulkan
 * guarantees, no features and no extensions, and refuses, with a line on stderr, what goes over them. A command that
 * cannot fail is left out, and every submission after it is VK_ERROR_DEVICE_LOST. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain.h"
#include "spirv_needs.h"

enum {
    MOST_STORAGE_BUFFERS = 4,
    MOST_SETS = 4,
    MOST_PUSH_BYTES = 128,
    MOST_INVOCATIONS = 128,
    MOST_LOCAL_Z = 64,
    MOST_SHARED_BYTES = 16384,
    MOST_GROUPS = 65535,
    MOST_RANGE = 1 << 27,
    OFFSET_ALIGNMENT = 256,
    MOST_MODULES = 64,
};

#define INSTANCE_FUNCTIONS(X)         \
    X(vkGetPhysicalDeviceProperties)  \
    X(vkGetPhysicalDeviceProperties2) \
    X(vkCreateDevice)

#define DEVICE_FUNCTIONS(X)        \
    X(vkCreateDescriptorSetLayout) \
    X(vkCreatePipelineLayout)      \
    X(vkCreateShaderModule)        \
    X(vkDestroyShaderModule)       \
    X(vkCreateComputePipelines)    \
    X(vkUpdateDescriptorSets)      \
    X(vkCmdDispatch)               \
    X(vkQueueSubmit)

typedef struct Module {
    VkShaderModule handle;
    uint32_t *words;
    size_t count;
} Module;

/* Vulkan asks a layer by handles alone, so what it knows lies here. One instance and one device at a time: what it is
 * for has no more. */
static struct {
    PFN_vkGetInstanceProcAddr getInstanceProcAddr;
    PFN_vkGetDeviceProcAddr getDeviceProcAddr;
#define POINTER(name) PFN_##name name;
    INSTANCE_FUNCTIONS(POINTER)
    DEVICE_FUNCTIONS(POINTER)
#undef POINTER
    Module modules[MOST_MODULES];
    bool lost;
} next;

static VkResult refuse(VkResult result, const char *format, ...) __attribute__((format(printf, 2, 3)));

static VkResult refuse(VkResult result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("floor layer: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return result;
}

/* -------------------------------------------------------------------------- what it reports ---- */

static void lower(VkPhysicalDeviceProperties *properties)
{
    VkPhysicalDeviceLimits *limits = &properties->limits;
    properties->apiVersion = VK_API_VERSION_1_1;
    limits->maxPerStageDescriptorStorageBuffers = MOST_STORAGE_BUFFERS;
    limits->maxDescriptorSetStorageBuffers = 24;
    limits->maxDescriptorSetStorageBuffersDynamic = 4;
    limits->maxPerStageResources = 128;
    limits->maxBoundDescriptorSets = MOST_SETS;
    limits->maxPushConstantsSize = MOST_PUSH_BYTES;
    limits->maxComputeWorkGroupInvocations = MOST_INVOCATIONS;
    limits->maxComputeWorkGroupSize[0] = MOST_INVOCATIONS;
    limits->maxComputeWorkGroupSize[1] = MOST_INVOCATIONS;
    limits->maxComputeWorkGroupSize[2] = MOST_LOCAL_Z;
    limits->maxComputeSharedMemorySize = MOST_SHARED_BYTES;
    for (uint32_t i = 0; i < 3; i++) {
        limits->maxComputeWorkGroupCount[i] = MOST_GROUPS;
    }
    limits->maxStorageBufferRange = MOST_RANGE;
    limits->minStorageBufferOffsetAlignment = OFFSET_ALIGNMENT;
    limits->nonCoherentAtomSize = 256;
    limits->maxMemoryAllocationCount = 4096;
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *properties)
{
    next.vkGetPhysicalDeviceProperties(device, properties);
    lower(properties);
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *properties)
{
    next.vkGetPhysicalDeviceProperties2(device, properties);
    lower(&properties->properties);
    for (VkBaseOutStructure *at = properties->pNext; at != NULL; at = at->pNext) {
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES) {
            VkPhysicalDeviceMaintenance3Properties *most = (VkPhysicalDeviceMaintenance3Properties *)at;
            most->maxPerSetDescriptors = 1024;
            most->maxMemoryAllocationSize = (VkDeviceSize)1 << 30;
        }
    }
}

/* Bytes of a struct of features that Vulkan 1.1 knows, 0 for anything else. All of it after the header is VkBool32. */
static size_t feature_struct_size(VkStructureType type)
{
    switch (type) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2:
        return sizeof(VkPhysicalDeviceFeatures2);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES:
        return sizeof(VkPhysicalDevice16BitStorageFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MULTIVIEW_FEATURES:
        return sizeof(VkPhysicalDeviceMultiviewFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VARIABLE_POINTERS_FEATURES:
        return sizeof(VkPhysicalDeviceVariablePointersFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROTECTED_MEMORY_FEATURES:
        return sizeof(VkPhysicalDeviceProtectedMemoryFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SAMPLER_YCBCR_CONVERSION_FEATURES:
        return sizeof(VkPhysicalDeviceSamplerYcbcrConversionFeatures);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_DRAW_PARAMETERS_FEATURES:
        return sizeof(VkPhysicalDeviceShaderDrawParametersFeatures);
    default:
        return 0;
    }
}

static VKAPI_ATTR void VKAPI_CALL get_features(VkPhysicalDevice device, VkPhysicalDeviceFeatures *features)
{
    (void)device;
    memset(features, 0, sizeof *features);
}

/* What Vulkan 1.1 does not know stays as it is, as on a device that does not know it. */
static VKAPI_ATTR void VKAPI_CALL get_features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *features)
{
    (void)device;
    for (VkBaseOutStructure *at = (VkBaseOutStructure *)features; at != NULL; at = at->pNext) {
        const size_t size = feature_struct_size(at->sType);
        if (size != 0) {
            memset((char *)at + sizeof *at, 0, size - sizeof *at);
        }
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_extensions(VkPhysicalDevice device, const char *layer, uint32_t *count,
                                                           VkExtensionProperties *extensions)
{
    (void)device;
    (void)layer;
    (void)extensions;
    *count = 0;
    return VK_SUCCESS;
}

/* -------------------------------------------------------------------------- what it refuses ---- */

static bool is_any_set(const void *flags, size_t size)
{
    const unsigned char *bytes = flags;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            return true;
        }
    }
    return false;
}

static VkResult check_device(const VkDeviceCreateInfo *info)
{
    if (info->enabledExtensionCount != 0) {
        return refuse(VK_ERROR_EXTENSION_NOT_PRESENT, "no extension %s", info->ppEnabledExtensionNames[0]);
    }
    if (info->pEnabledFeatures != NULL && is_any_set(info->pEnabledFeatures, sizeof *info->pEnabledFeatures)) {
        return refuse(VK_ERROR_FEATURE_NOT_PRESENT, "no feature of VkPhysicalDeviceFeatures");
    }
    for (const VkBaseInStructure *at = info->pNext; at != NULL; at = at->pNext) {
        const size_t size = feature_struct_size(at->sType);
        if (at->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO) {
            continue;
        }
        if (size == 0 || is_any_set((const char *)at + sizeof *at, size - sizeof *at)) {
            return refuse(VK_ERROR_FEATURE_NOT_PRESENT, "no feature of the struct %d", (int)at->sType);
        }
    }
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_set_layout(VkDevice device, const VkDescriptorSetLayoutCreateInfo *info,
                                                        const VkAllocationCallbacks *allocator,
                                                        VkDescriptorSetLayout *layout)
{
    uint32_t buffers = 0;
    for (uint32_t i = 0; i < info->bindingCount; i++) {
        buffers += info->pBindings[i].descriptorCount;
    }
    if (buffers > MOST_STORAGE_BUFFERS) {
        return refuse(VK_ERROR_VALIDATION_FAILED_EXT, "a set of %u storage buffers", buffers);
    }
    return next.vkCreateDescriptorSetLayout(device, info, allocator, layout);
}

/* One set holds as many storage buffers as a stage may have: with two of them nobody would count the sum. */
static VKAPI_ATTR VkResult VKAPI_CALL create_pipeline_layout(VkDevice device, const VkPipelineLayoutCreateInfo *info,
                                                             const VkAllocationCallbacks *allocator,
                                                             VkPipelineLayout *layout)
{
    if (info->setLayoutCount > 1) {
        return refuse(VK_ERROR_VALIDATION_FAILED_EXT, "a pipeline of %u sets", info->setLayoutCount);
    }
    for (uint32_t i = 0; i < info->pushConstantRangeCount; i++) {
        const VkPushConstantRange *range = &info->pPushConstantRanges[i];
        if (range->offset + range->size > MOST_PUSH_BYTES) {
            return refuse(VK_ERROR_VALIDATION_FAILED_EXT, "push constants of %u bytes", range->offset + range->size);
        }
    }
    return next.vkCreatePipelineLayout(device, info, allocator, layout);
}

static Module *find_module(VkShaderModule handle)
{
    for (uint32_t i = 0; i < MOST_MODULES; i++) {
        if (next.modules[i].handle == handle) {
            return &next.modules[i];
        }
    }
    return NULL;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkShaderModule *handle)
{
    SpirvNeeds needs;
    Module *module = find_module(VK_NULL_HANDLE);
    if (!spirv_needs(info->pCode, info->codeSize / 4, NULL, &needs)) {
        return refuse(VK_ERROR_VALIDATION_FAILED_EXT, "SPIR-V that cannot be read");
    }
    if (needs.beyond_shader) {
        return refuse(VK_ERROR_VALIDATION_FAILED_EXT, "SPIR-V with the capability %u", needs.capability);
    }
    uint32_t *words = malloc(info->codeSize);
    if (module == NULL || words == NULL) {
        free(words);
        return refuse(VK_ERROR_OUT_OF_HOST_MEMORY, "no room for a module");
    }
    const VkResult result = next.vkCreateShaderModule(device, info, allocator, handle);
    if (result != VK_SUCCESS) {
        free(words);
        return result;
    }
    memcpy(words, info->pCode, info->codeSize);
    *module = (Module){*handle, words, info->codeSize / 4};
    /* cppcheck-suppress memleak ; the module holds them */
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_module(VkDevice device, VkShaderModule handle,
                                                 const VkAllocationCallbacks *allocator)
{
    Module *module = handle != VK_NULL_HANDLE ? find_module(handle) : NULL;
    if (module != NULL) {
        free(module->words);
        *module = (Module){0};
    }
    next.vkDestroyShaderModule(device, handle, allocator);
}

static VkResult check_stage(const VkPipelineShaderStageCreateInfo *stage)
{
    SpirvNeeds needs;
    const Module *module = find_module(stage->module);
    if (module == NULL || !spirv_needs(module->words, module->count, stage->pSpecializationInfo, &needs)) {
        return refuse(VK_ERROR_VALIDATION_FAILED_EXT, "a pipeline of a module that is not known");
    }
    const uint64_t x = needs.local_size[0];
    const uint64_t y = needs.local_size[1];
    const uint64_t z = needs.local_size[2];
    if (x > MOST_INVOCATIONS || y > MOST_INVOCATIONS || z > MOST_LOCAL_Z || x * y * z > MOST_INVOCATIONS) {
        return refuse(VK_ERROR_VALIDATION_FAILED_EXT, "a workgroup of %u x %u x %u", needs.local_size[0],
                      needs.local_size[1], needs.local_size[2]);
    }
    if (needs.shared_bytes > MOST_SHARED_BYTES) {
        return refuse(VK_ERROR_VALIDATION_FAILED_EXT, "%llu bytes of shared memory",
                      (unsigned long long)needs.shared_bytes);
    }
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                       const VkComputePipelineCreateInfo *infos,
                                                       const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    for (uint32_t i = 0; i < count; i++) {
        const VkResult result = check_stage(&infos[i].stage);
        if (result != VK_SUCCESS) {
            for (uint32_t j = 0; j < count; j++) {
                pipelines[j] = VK_NULL_HANDLE;
            }
            return result;
        }
    }
    return next.vkCreateComputePipelines(device, cache, count, infos, allocator, pipelines);
}

static bool is_within(const VkDescriptorBufferInfo *info)
{
    if (info->offset % OFFSET_ALIGNMENT != 0) {
        refuse(VK_ERROR_DEVICE_LOST, "a descriptor at %llu", (unsigned long long)info->offset);
        return false;
    }
    if (info->range != VK_WHOLE_SIZE && info->range > MOST_RANGE) {
        refuse(VK_ERROR_DEVICE_LOST, "a descriptor of %llu bytes", (unsigned long long)info->range);
        return false;
    }
    return true;
}

static VKAPI_ATTR void VKAPI_CALL update_sets(VkDevice device, uint32_t write_count, const VkWriteDescriptorSet *writes,
                                              uint32_t copy_count, const VkCopyDescriptorSet *copies)
{
    for (uint32_t i = 0; i < write_count; i++) {
        for (uint32_t j = 0; j < writes[i].descriptorCount; j++) {
            if (!is_within(&writes[i].pBufferInfo[j])) {
                next.lost = true;
                return;
            }
        }
    }
    next.vkUpdateDescriptorSets(device, write_count, writes, copy_count, copies);
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commandBuffer, uint32_t x, uint32_t y, uint32_t z)
{
    if (x > MOST_GROUPS || y > MOST_GROUPS || z > MOST_GROUPS) {
        refuse(VK_ERROR_DEVICE_LOST, "a dispatch of %u x %u x %u", x, y, z);
        next.lost = true;
        return;
    }
    next.vkCmdDispatch(commandBuffer, x, y, z);
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence)
{
    return next.lost ? VK_ERROR_DEVICE_LOST : next.vkQueueSubmit(queue, count, infos, fence);
}

/* ---------------------------------------------------------------------- instance and device ---- */

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *allocator, VkInstance *instance)
{
    next.getInstanceProcAddr = chain_instance_link(info)->pfnNextGetInstanceProcAddr;
    const PFN_vkCreateInstance create =
        (PFN_vkCreateInstance)next.getInstanceProcAddr(VK_NULL_HANDLE, "vkCreateInstance");
    const VkResult result = create(info, allocator, instance);
    if (result == VK_SUCCESS) {
#define LOAD(name) next.name = (PFN_##name)next.getInstanceProcAddr(*instance, #name);
        INSTANCE_FUNCTIONS(LOAD)
#undef LOAD
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physicalDevice, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkDevice *device)
{
    VkResult result = check_device(info);
    if (result != VK_SUCCESS) {
        return result;
    }
    next.getDeviceProcAddr = chain_device_link(info)->pfnNextGetDeviceProcAddr;
    next.lost = false;
    result = next.vkCreateDevice(physicalDevice, info, allocator, device);
    if (result == VK_SUCCESS) {
#define LOAD(name) next.name = (PFN_##name)next.getDeviceProcAddr(*device, #name);
        DEVICE_FUNCTIONS(LOAD)
#undef LOAD
    }
    return result;
}

static PFN_vkVoidFunction VKAPI_CALL get_device_address(VkDevice device, const char *name);
static PFN_vkVoidFunction VKAPI_CALL get_instance_address(VkInstance instance, const char *name);

static PFN_vkVoidFunction find_device_function(const char *name)
{
    const ChainFunction functions[] = {
        {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)get_device_address},
        {"vkCreateDescriptorSetLayout", (PFN_vkVoidFunction)create_set_layout},
        {"vkCreatePipelineLayout", (PFN_vkVoidFunction)create_pipeline_layout},
        {"vkCreateShaderModule", (PFN_vkVoidFunction)create_module},
        {"vkDestroyShaderModule", (PFN_vkVoidFunction)destroy_module},
        {"vkCreateComputePipelines", (PFN_vkVoidFunction)create_pipelines},
        {"vkUpdateDescriptorSets", (PFN_vkVoidFunction)update_sets},
        {"vkCmdDispatch", (PFN_vkVoidFunction)dispatch},
        {"vkQueueSubmit", (PFN_vkVoidFunction)submit},
    };
    return chain_find(functions, sizeof functions / sizeof functions[0], name);
}

static PFN_vkVoidFunction VKAPI_CALL get_device_address(VkDevice device, const char *name)
{
    const PFN_vkVoidFunction own = find_device_function(name);
    return own != NULL ? own : next.getDeviceProcAddr(device, name);
}

static PFN_vkVoidFunction VKAPI_CALL get_instance_address(VkInstance instance, const char *name)
{
    const ChainFunction functions[] = {
        {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)get_instance_address},
        {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
        {"vkCreateDevice", (PFN_vkVoidFunction)create_device},
        {"vkGetPhysicalDeviceProperties", (PFN_vkVoidFunction)get_properties},
        {"vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)get_properties2},
        {"vkGetPhysicalDeviceProperties2KHR", (PFN_vkVoidFunction)get_properties2},
        {"vkGetPhysicalDeviceFeatures", (PFN_vkVoidFunction)get_features},
        {"vkGetPhysicalDeviceFeatures2", (PFN_vkVoidFunction)get_features2},
        {"vkGetPhysicalDeviceFeatures2KHR", (PFN_vkVoidFunction)get_features2},
        {"vkEnumerateDeviceExtensionProperties", (PFN_vkVoidFunction)enumerate_extensions},
    };
    PFN_vkVoidFunction own = chain_find(functions, sizeof functions / sizeof functions[0], name);
    own = own != NULL ? own : find_device_function(name);
    return own != NULL ? own : next.getInstanceProcAddr(instance, name);
}

VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface)
{
    interface->loaderLayerInterfaceVersion = 2;
    interface->pfnGetInstanceProcAddr = get_instance_address;
    interface->pfnGetDeviceProcAddr = get_device_address;
    interface->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
