/* The context: the function table and the layouts of one device. */
#ifndef KPOOL_CONTEXT_H
#define KPOOL_CONTEXT_H

#include "tensors.h"

/* The Vulkan functions of the device that the library always needs. */
#define KPOOL_DEVICE_FUNCTIONS(X)    \
    X(vkCreateDescriptorSetLayout)   \
    X(vkDestroyDescriptorSetLayout)  \
    X(vkCreatePipelineLayout)        \
    X(vkDestroyPipelineLayout)       \
    X(vkCreateShaderModule)          \
    X(vkDestroyShaderModule)         \
    X(vkCreateComputePipelines)      \
    X(vkDestroyPipeline)             \
    X(vkUpdateDescriptorSets)        \
    X(vkCmdBindPipeline)             \
    X(vkCmdBindDescriptorSets)       \
    X(vkCmdPushConstants)            \
    X(vkCmdDispatch)                 \
    X(vkCmdPipelineBarrier)

typedef struct KpoolFunctions {
#define KPOOL_FUNCTION_FIELD(name) PFN_##name name;
    KPOOL_DEVICE_FUNCTIONS(KPOOL_FUNCTION_FIELD)
#undef KPOOL_FUNCTION_FIELD
    PFN_vkCmdPushDescriptorSetKHR vkCmdPushDescriptorSetKHR;       /* NULL without the flag */
    PFN_vkSetDebugUtilsObjectNameEXT vkSetDebugUtilsObjectNameEXT; /* NULL without the flag */
} KpoolFunctions;

struct KpoolContext_T {
    VkAllocationCallbacks callbacks; /* the caller's, where there are any */
    const VkAllocationCallbacks *allocator; /* &callbacks, or NULL */
    VkDevice device;
    KpoolFunctions functions;
    VkPhysicalDeviceType deviceType;
    uint32_t subgroupSize;
    VkPhysicalDeviceLimits limits;
    KpoolBindingLayout bindingLayout;
    bool pushDescriptors;
    /* One of each per operation in the wide layout; all of them the same in the floor layout. */
    VkDescriptorSetLayout setLayouts[KPOOL_OPERATION_COUNT];
    VkPipelineLayout pipelineLayouts[KPOOL_OPERATION_COUNT];
};

/* Memory of the library's own, through the caller's callbacks. kpoolFree ignores NULL. */
void *kpoolAllocate(const VkAllocationCallbacks *allocator, size_t size);
void kpoolFree(const VkAllocationCallbacks *allocator, void *memory);

/* Names an object for debuggers; does nothing where the caller has not switched it on. */
void kpoolNameObject(KpoolContext context, VkObjectType type, uint64_t handle, const char *operation,
                     const char *kind);

#endif
