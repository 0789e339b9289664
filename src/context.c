#include "context.h"

#include <stdio.h>
#include <stdlib.h>

#include "diagnostic.h"
#include "shape.h"

void *kpoolAllocate(const VkAllocationCallbacks *allocator, size_t size)
{
    if (allocator == NULL) {
        return malloc(size);
    }
    return allocator->pfnAllocation(allocator->pUserData, size, _Alignof(max_align_t),
                                    VK_SYSTEM_ALLOCATION_SCOPE_OBJECT);
}

void kpoolFree(const VkAllocationCallbacks *allocator, void *memory)
{
    if (memory == NULL) {
        return;
    }
    if (allocator == NULL) {
        free(memory);
    } else {
        allocator->pfnFree(allocator->pUserData, memory);
    }
}

void kpoolNameObject(KpoolContext context, VkObjectType type, uint64_t handle, const char *operation, const char *kind)
{
    if (context->functions.vkSetDebugUtilsObjectNameEXT == NULL) {
        return;
    }
    char name[64];
    snprintf(name, sizeof name, "kpool %s %s", operation, kind);
    const VkDebugUtilsObjectNameInfoEXT info = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
        .objectType = type,
        .objectHandle = handle,
        .pObjectName = name,
    };
    /* A name that could not be set is no reason to fail: nothing depends on it. */
    (void)context->functions.vkSetDebugUtilsObjectNameEXT(context->device, &info);
}

static KpoolResult check_create_info(const KpoolContextCreateInfo *info, KpoolDiagnostic *diagnostic)
{
    const char *missing = info->instance == VK_NULL_HANDLE         ? "createInfo.instance"
                          : info->physicalDevice == VK_NULL_HANDLE ? "createInfo.physicalDevice"
                          : info->device == VK_NULL_HANDLE         ? "createInfo.device"
                          : info->pfnGetInstanceProcAddr == NULL   ? "createInfo.pfnGetInstanceProcAddr"
                                                                   : NULL;
    if (missing != NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, missing, "%s is NULL", missing);
    }
    if (info->pNext != NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.pNext", "createInfo.pNext must be NULL");
    }
    const uint32_t known = KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT | KPOOL_CONTEXT_DEBUG_NAMES_BIT;
    if ((info->flags & ~known) != 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.flags",
                         "createInfo.flags is 0x%x, has bits that are no KPOOL_CONTEXT_..._BIT", info->flags);
    }
    if (info->bindingLayout != KPOOL_BINDING_LAYOUT_DEFAULT && info->bindingLayout != KPOOL_BINDING_LAYOUT_WIDE &&
        info->bindingLayout != KPOOL_BINDING_LAYOUT_FLOOR) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.bindingLayout",
                         "createInfo.bindingLayout is %d, no KpoolBindingLayout", (int)info->bindingLayout);
    }
    const VkAllocationCallbacks *allocator = info->pAllocator;
    if (allocator != NULL && (allocator->pfnAllocation == NULL || allocator->pfnReallocation == NULL ||
                              allocator->pfnFree == NULL)) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.pAllocator",
                         "createInfo.pAllocator must have pfnAllocation, pfnReallocation and pfnFree");
    }
    if (info->apiVersion < VK_API_VERSION_1_1) {
        return kpoolFail(diagnostic, KPOOL_ERROR_UNSUPPORTED_DEVICE, "createInfo.apiVersion",
                         "createInfo.apiVersion is %u.%u, must be at least 1.1 (VkApplicationInfo::apiVersion of the "
                         "instance; 0 is 1.0)",
                         info->apiVersion == 0 ? 1 : VK_API_VERSION_MAJOR(info->apiVersion),
                         VK_API_VERSION_MINOR(info->apiVersion));
    }
    return KPOOL_SUCCESS;
}

static KpoolResult missing_function(KpoolDiagnostic *diagnostic, const char *name)
{
    return kpoolFail(diagnostic, KPOOL_ERROR_UNSUPPORTED_DEVICE, "createInfo.pfnGetInstanceProcAddr",
                     "createInfo.pfnGetInstanceProcAddr gives no %s", name);
}

static KpoolResult load_functions(KpoolContext context, const KpoolContextCreateInfo *info,
                                  KpoolDiagnostic *diagnostic)
{
    KpoolFunctions *functions = &context->functions;
    const PFN_vkGetDeviceProcAddr getDeviceProcAddr =
        (PFN_vkGetDeviceProcAddr)info->pfnGetInstanceProcAddr(info->instance, "vkGetDeviceProcAddr");
    if (getDeviceProcAddr == NULL) {
        return missing_function(diagnostic, "vkGetDeviceProcAddr");
    }
#define LOAD(name)                                                           \
    functions->name = (PFN_##name)getDeviceProcAddr(info->device, #name);    \
    if (functions->name == NULL) {                                           \
        return missing_function(diagnostic, #name);                          \
    }
    KPOOL_DEVICE_FUNCTIONS(LOAD)
    if ((info->flags & KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT) != 0) {
        LOAD(vkCmdPushDescriptorSetKHR)
    }
    if ((info->flags & KPOOL_CONTEXT_DEBUG_NAMES_BIT) != 0) {
        LOAD(vkSetDebugUtilsObjectNameEXT)
    }
#undef LOAD
    return KPOOL_SUCCESS;
}

static KpoolResult read_device(KpoolContext context, const KpoolContextCreateInfo *info, KpoolDiagnostic *diagnostic)
{
    /* The one of Vulkan 1.0 first: no other may be called on a device below 1.1. */
    const PFN_vkGetPhysicalDeviceProperties getProperties =
        (PFN_vkGetPhysicalDeviceProperties)info->pfnGetInstanceProcAddr(info->instance,
                                                                        "vkGetPhysicalDeviceProperties");
    const PFN_vkGetPhysicalDeviceProperties2 getProperties2 =
        (PFN_vkGetPhysicalDeviceProperties2)info->pfnGetInstanceProcAddr(info->instance,
                                                                         "vkGetPhysicalDeviceProperties2");
    if (getProperties == NULL || getProperties2 == NULL) {
        return missing_function(diagnostic, getProperties == NULL ? "vkGetPhysicalDeviceProperties"
                                                                  : "vkGetPhysicalDeviceProperties2");
    }
    VkPhysicalDeviceProperties properties;
    getProperties(info->physicalDevice, &properties);
    if (properties.apiVersion < VK_API_VERSION_1_1) {
        return kpoolFail(diagnostic, KPOOL_ERROR_UNSUPPORTED_DEVICE, "createInfo.physicalDevice",
                         "createInfo.physicalDevice supports Vulkan %u.%u, must be at least 1.1",
                         VK_API_VERSION_MAJOR(properties.apiVersion), VK_API_VERSION_MINOR(properties.apiVersion));
    }
    VkPhysicalDeviceSubgroupProperties subgroup = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
    };
    VkPhysicalDeviceProperties2 properties2 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
        .pNext = &subgroup,
    };
    getProperties2(info->physicalDevice, &properties2);
    context->subgroupSize = subgroup.subgroupSize;
    context->deviceType = properties.deviceType;
    context->limits = properties.limits;
    const bool wide = (kpoolBindingLayouts(&properties.limits) & KPOOL_BINDING_LAYOUT_WIDE_BIT) != 0;
    if (info->bindingLayout == KPOOL_BINDING_LAYOUT_WIDE && !wide) {
        return kpoolFail(diagnostic, KPOOL_ERROR_UNSUPPORTED_DEVICE, "createInfo.bindingLayout",
                         "createInfo.bindingLayout is wide, too many storage buffers for the device: %u a stage",
                         properties.limits.maxPerStageDescriptorStorageBuffers);
    }
    context->bindingLayout = info->bindingLayout != KPOOL_BINDING_LAYOUT_DEFAULT ? info->bindingLayout
                             : wide                                              ? KPOOL_BINDING_LAYOUT_WIDE
                                                                                 : KPOOL_BINDING_LAYOUT_FLOOR;
    return KPOOL_SUCCESS;
}

/* bindings: bit i is binding i. */
static KpoolResult create_layouts(KpoolContext context, KpoolOperation operation, uint32_t bindings, const char *name,
                                  KpoolDiagnostic *diagnostic)
{
    VkDescriptorSetLayoutBinding infos[KPOOL_TENSOR_COUNT];
    uint32_t count = 0;
    for (uint32_t binding = 0; binding < KPOOL_TENSOR_COUNT; binding++) {
        if ((bindings & (1u << binding)) != 0) {
            infos[count++] = (VkDescriptorSetLayoutBinding){
                .binding = binding,
                .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                .descriptorCount = 1,
                .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
            };
        }
    }
    const VkDescriptorSetLayoutCreateInfo setInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .flags = context->pushDescriptors ? VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR : 0,
        .bindingCount = count,
        .pBindings = infos,
    };
    VkDescriptorSetLayout *setLayout = &context->setLayouts[operation];
    VkResult vkResult = context->functions.vkCreateDescriptorSetLayout(context->device, &setInfo, context->allocator,
                                                                       setLayout);
    if (vkResult != VK_SUCCESS) {
        *setLayout = VK_NULL_HANDLE;
        return kpoolFailVulkan(diagnostic, vkResult, "vkCreateDescriptorSetLayout");
    }
    kpoolNameObject(context, VK_OBJECT_TYPE_DESCRIPTOR_SET_LAYOUT, (uint64_t)*setLayout, name, "set layout");

    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(KpoolPushConstants)};
    const VkPipelineLayoutCreateInfo pipelineInfo = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = setLayout,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    VkPipelineLayout *pipelineLayout = &context->pipelineLayouts[operation];
    vkResult = context->functions.vkCreatePipelineLayout(context->device, &pipelineInfo, context->allocator,
                                                         pipelineLayout);
    if (vkResult != VK_SUCCESS) {
        *pipelineLayout = VK_NULL_HANDLE;
        return kpoolFailVulkan(diagnostic, vkResult, "vkCreatePipelineLayout");
    }
    kpoolNameObject(context, VK_OBJECT_TYPE_PIPELINE_LAYOUT, (uint64_t)*pipelineLayout, name, "pipeline layout");
    return KPOOL_SUCCESS;
}

static KpoolResult create_all_layouts(KpoolContext context, KpoolDiagnostic *diagnostic)
{
    if (context->bindingLayout == KPOOL_BINDING_LAYOUT_FLOOR) {
        const KpoolOperation first = (KpoolOperation)1;
        const KpoolResult result =
            create_layouts(context, first, (1u << KPOOL_GROUP_COUNT) - 1, "floor", diagnostic);
        for (uint32_t operation = 2; operation < KPOOL_OPERATION_COUNT; operation++) {
            context->setLayouts[operation] = context->setLayouts[first];
            context->pipelineLayouts[operation] = context->pipelineLayouts[first];
        }
        return result;
    }
    KpoolResult result = KPOOL_SUCCESS;
    for (uint32_t i = 1; i < KPOOL_OPERATION_COUNT && result == KPOOL_SUCCESS; i++) {
        const KpoolOperation operation = (KpoolOperation)i;
        result = create_layouts(context, operation, kpoolModuleTensors(operation), kpoolOperationName(operation),
                                diagnostic);
    }
    return result;
}

KpoolResult kpoolCreateContext(const KpoolContextCreateInfo *createInfo, KpoolContext *context,
                               KpoolDiagnostic *diagnostic)
{
    if (context == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "context", "context is NULL");
    }
    *context = NULL;
    if (createInfo == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo", "createInfo is NULL");
    }
    KpoolResult result = check_create_info(createInfo, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    KpoolContext made = kpoolAllocate(createInfo->pAllocator, sizeof *made);
    if (made == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_OUT_OF_HOST_MEMORY, "createInfo.pAllocator",
                         "createInfo.pAllocator gave no memory for a context");
    }
    *made = (struct KpoolContext_T){
        .device = createInfo->device,
        .pushDescriptors = (createInfo->flags & KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT) != 0,
    };
    if (createInfo->pAllocator != NULL) {
        made->callbacks = *createInfo->pAllocator;
        made->allocator = &made->callbacks;
    }
    result = load_functions(made, createInfo, diagnostic);
    if (result == KPOOL_SUCCESS) {
        result = read_device(made, createInfo, diagnostic);
    }
    if (result == KPOOL_SUCCESS) {
        result = create_all_layouts(made, diagnostic);
    }
    if (result != KPOOL_SUCCESS) {
        kpoolDestroyContext(made);
        return result;
    }
    *context = made;
    return KPOOL_SUCCESS;
}

void kpoolDestroyContext(KpoolContext context)
{
    if (context == NULL) {
        return;
    }
    /* In the floor layout every operation has the first one's objects. */
    const uint32_t made = context->bindingLayout == KPOOL_BINDING_LAYOUT_FLOOR ? 2 : KPOOL_OPERATION_COUNT;
    for (uint32_t operation = made; operation-- > 1;) {
        if (context->pipelineLayouts[operation] != VK_NULL_HANDLE) {
            context->functions.vkDestroyPipelineLayout(context->device, context->pipelineLayouts[operation],
                                                       context->allocator);
        }
        if (context->setLayouts[operation] != VK_NULL_HANDLE) {
            context->functions.vkDestroyDescriptorSetLayout(context->device, context->setLayouts[operation],
                                                            context->allocator);
        }
    }
    /* The callbacks are freed with the context, so they are copied out first. */
    const VkAllocationCallbacks callbacks = context->callbacks;
    kpoolFree(context->allocator != NULL ? &callbacks : NULL, context);
}

KpoolBindingLayout kpoolGetBindingLayout(KpoolContext context)
{
    return context != NULL ? context->bindingLayout : KPOOL_BINDING_LAYOUT_DEFAULT;
}

VkDescriptorSetLayout kpoolGetDescriptorSetLayout(KpoolContext context, KpoolOperation operation)
{
    return context != NULL && kpoolOperationTensors(operation) != 0 ? context->setLayouts[operation] : VK_NULL_HANDLE;
}

uint32_t kpoolGetDescriptorCount(KpoolContext context, KpoolOperation operation)
{
    if (context == NULL || kpoolOperationTensors(operation) == 0) {
        return 0;
    }
    return context->bindingLayout == KPOOL_BINDING_LAYOUT_FLOOR ? KPOOL_GROUP_COUNT
                                                                 : kpoolListTensors(kpoolModuleTensors(operation)).count;
}
