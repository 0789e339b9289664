/* A Vulkan device without a driver. Its functions execute nothing: they write down what was called, count live
 * objects, notice misuse, report any properties, and are missing or fail where a test says so. As a driver does,
 * creation takes memory from the caller's callbacks. */
#ifndef KPOOL_TESTS_FAKE_VULKAN_H
#define KPOOL_TESTS_FAKE_VULKAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vulkan/vulkan_core.h>

/* X(name): what fake_get_instance_proc_addr and vkGetDeviceProcAddr know. */
#define FAKE_FUNCTIONS(X)             \
    X(vkGetDeviceProcAddr)            \
    X(vkGetPhysicalDeviceProperties)  \
    X(vkGetPhysicalDeviceProperties2) \
    X(vkCreateDescriptorSetLayout)    \
    X(vkDestroyDescriptorSetLayout)   \
    X(vkCreatePipelineLayout)         \
    X(vkDestroyPipelineLayout)        \
    X(vkCreateShaderModule)           \
    X(vkDestroyShaderModule)          \
    X(vkCreateComputePipelines)       \
    X(vkDestroyPipeline)              \
    X(vkUpdateDescriptorSets)         \
    X(vkCmdBindPipeline)              \
    X(vkCmdBindDescriptorSets)        \
    X(vkCmdPushConstants)             \
    X(vkCmdDispatch)                  \
    X(vkCmdPipelineBarrier)           \
    X(vkCmdPushDescriptorSetKHR)      \
    X(vkSetDebugUtilsObjectNameEXT)

typedef enum FakeFunction {
#define FAKE_FUNCTION_ENUM(name) FAKE_##name,
    FAKE_FUNCTIONS(FAKE_FUNCTION_ENUM)
#undef FAKE_FUNCTION_ENUM
    FAKE_FUNCTION_COUNT
} FakeFunction;

extern const char *const fake_function_names[FAKE_FUNCTION_COUNT];

enum { FAKE_MOST_WRITES = 32, FAKE_MOST_CALLS = 256, FAKE_MOST_OBJECTS = 64, FAKE_MOST_SPECIALIZATIONS = 32 };

typedef struct FakeWrite {
    VkDescriptorSet set;
    uint32_t binding;
    VkDescriptorBufferInfo buffer;
} FakeWrite;

/* One call. Fields that the function does not have are zero. */
typedef struct FakeCall {
    FakeFunction function;
    uint64_t handle; /* what is created, destroyed, bound or named; 0 where creation failed */
    VkObjectType type; /* of handle */
    VkCommandBuffer commandBuffer;
    VkPipelineLayout layout; /* of a bind, a push, or a created pipeline */
    VkDescriptorSetLayout setLayout; /* of a created pipeline layout */
    uint32_t flags;                  /* of a created object */
    uint32_t bindings;               /* of a created set layout: bit i is binding i */
    const uint32_t *code;            /* of a created module */
    size_t code_size;
    uint64_t module;               /* of a created pipeline */
    VkPipelineCache cache;         /* of a created pipeline */
    uint32_t specialization_count; /* of a created pipeline; values by id */
    uint32_t specialization[FAKE_MOST_SPECIALIZATIONS];
    uint32_t push_size; /* bytes, of a created pipeline layout and of vkCmdPushConstants */
    uint32_t push[32];
    uint32_t groups[3];
    VkPipelineStageFlags stages[2]; /* of a barrier: source and destination */
    VkAccessFlags accesses[2];      /* of its one memory barrier */
    uint32_t write_count;
    FakeWrite writes[FAKE_MOST_WRITES];
    char name[64];
} FakeCall;

typedef struct FakeObject {
    uint64_t handle; /* never used twice */
    VkObjectType type;
    bool has_callbacks;
    VkAllocationCallbacks callbacks;
    void *memory;
} FakeObject;

typedef struct FakeVulkan {
    /* The test's to set. */
    VkPhysicalDeviceProperties properties;
    uint32_t subgroup_size;
    const char *missing;  /* the function that cannot be found */
    uint32_t fail_at;     /* 1: the first call that returns a VkResult fails; 0: none */
    VkResult fail_result; /* with which it fails */

    /* The test's to read. */
    uint32_t result_calls;       /* calls so far that return a VkResult */
    FakeFunction failed;         /* which one was made to fail, FAKE_FUNCTION_COUNT where none was */
    const char *misuse;          /* the first thing that no caller may do, or NULL */
    uint32_t call_count;         /* set to 0 to forget the calls so far */
    FakeCall calls[FAKE_MOST_CALLS];
    uint32_t object_count;
    FakeObject objects[FAKE_MOST_OBJECTS];
    uint64_t last_handle;
} FakeVulkan;

/* Handles of the fake; there is one of each. */
VkInstance fake_instance(void);
VkPhysicalDevice fake_physical_device(void);
VkDevice fake_device(void);
VkCommandBuffer fake_command_buffer(void);

/* Makes fake the one that the functions act on in this thread: Vulkan 1.1, the limits of a common GPU, nothing missing
 * or failing. */
void fake_vulkan_init(FakeVulkan *fake);
/* As it is: one that another thread has made and no longer uses, or a copy, which knows the objects made so far. */
void fake_vulkan_use(FakeVulkan *fake);
/* The limits that every Vulkan 1.1 device has, with four storage buffers in a stage. */
void fake_vulkan_least_limits(VkPhysicalDeviceLimits *limits);

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fake_get_instance_proc_addr(VkInstance instance, const char *name);

/* Whether b records what a records, but with the descriptors' buffers all of_b; VK_NULL_HANDLE: with a's. */
bool fake_same_call(const FakeCall *a, const FakeCall *b, VkBuffer of_b);

#endif
