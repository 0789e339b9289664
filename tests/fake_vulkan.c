#include "fake_vulkan.h"

#include <string.h>

/* The functions of a device are told no user data, so the one in use is remembered here, by each thread its own. */
static _Thread_local FakeVulkan *current;

const char *const fake_function_names[FAKE_FUNCTION_COUNT] = {
#define FAKE_FUNCTION_NAME(name) #name,
    FAKE_FUNCTIONS(FAKE_FUNCTION_NAME)
#undef FAKE_FUNCTION_NAME
};

/* What a failed creation leaves in its output: nobody may use it. */
#define POISON ((uintptr_t)0xdead)

VkInstance fake_instance(void)
{
    return (VkInstance)(uintptr_t)0x11;
}

VkPhysicalDevice fake_physical_device(void)
{
    return (VkPhysicalDevice)(uintptr_t)0x12;
}

VkDevice fake_device(void)
{
    return (VkDevice)(uintptr_t)0x13;
}

VkCommandBuffer fake_command_buffer(void)
{
    return (VkCommandBuffer)(uintptr_t)0x14;
}

static void expect(bool condition, const char *misuse)
{
    if (!condition && current->misuse == NULL) {
        current->misuse = misuse;
    }
}

static FakeCall *note(FakeFunction function)
{
    expect(current->call_count < FAKE_MOST_CALLS, "more calls than the log holds");
    if (current->call_count == FAKE_MOST_CALLS) {
        current->call_count--;
    }
    FakeCall *call = &current->calls[current->call_count++];
    *call = (FakeCall){.function = function};
    return call;
}

static FakeCall *note_command(FakeFunction function, VkCommandBuffer commandBuffer)
{
    expect(commandBuffer == fake_command_buffer(), "a command for another command buffer");
    FakeCall *call = note(function);
    call->commandBuffer = commandBuffer;
    return call;
}

/* Whether this call, which returns a VkResult, is the one to fail. */
static bool fails(FakeFunction function)
{
    current->result_calls++;
    if (current->result_calls != current->fail_at) {
        return false;
    }
    current->failed = function;
    return true;
}

static FakeObject *find(uint64_t handle, VkObjectType type)
{
    for (uint32_t i = 0; i < current->object_count; i++) {
        if (current->objects[i].handle == handle && current->objects[i].type == type) {
            return &current->objects[i];
        }
    }
    return NULL;
}

static VkResult create(FakeCall *call, VkDevice device, VkObjectType type, const VkAllocationCallbacks *pAllocator)
{
    expect(device == fake_device(), "creation on another device");
    call->type = type;
    if (fails(call->function)) {
        return current->fail_result;
    }
    FakeObject object = {.handle = current->last_handle + 1, .type = type, .has_callbacks = pAllocator != NULL};
    if (pAllocator != NULL) {
        object.callbacks = *pAllocator;
        object.memory = pAllocator->pfnAllocation(pAllocator->pUserData, 64, 8, VK_SYSTEM_ALLOCATION_SCOPE_OBJECT);
        if (object.memory == NULL) {
            return VK_ERROR_OUT_OF_HOST_MEMORY;
        }
    }
    expect(current->object_count < FAKE_MOST_OBJECTS, "more objects than the fake holds");
    if (current->object_count < FAKE_MOST_OBJECTS) {
        current->objects[current->object_count++] = object;
    }
    current->last_handle = object.handle;
    call->handle = object.handle;
    return VK_SUCCESS;
}

static void destroy(FakeFunction function, VkDevice device, VkObjectType type, uint64_t handle,
                    const VkAllocationCallbacks *pAllocator)
{
    expect(device == fake_device(), "destruction on another device");
    FakeCall *call = note(function);
    call->handle = handle;
    call->type = type;
    if (handle == 0) {
        return;
    }
    FakeObject *object = find(handle, type);
    expect(object != NULL, "destruction of what is no live object");
    if (object == NULL) {
        return;
    }
    expect(object->has_callbacks == (pAllocator != NULL), "destruction with another allocator than creation");
    if (object->has_callbacks && pAllocator != NULL) {
        expect(object->callbacks.pfnFree == pAllocator->pfnFree && object->callbacks.pUserData == pAllocator->pUserData,
               "destruction with another allocator than creation");
        pAllocator->pfnFree(pAllocator->pUserData, object->memory);
    }
    current->object_count--;
    *object = current->objects[current->object_count];
}

static VKAPI_ATTR void VKAPI_CALL fake_vkGetPhysicalDeviceProperties(VkPhysicalDevice physicalDevice,
                                                                     VkPhysicalDeviceProperties *pProperties)
{
    expect(physicalDevice == fake_physical_device(), "properties of another device");
    *pProperties = current->properties;
}

static VKAPI_ATTR void VKAPI_CALL fake_vkGetPhysicalDeviceProperties2(VkPhysicalDevice physicalDevice,
                                                                      VkPhysicalDeviceProperties2 *pProperties)
{
    expect(physicalDevice == fake_physical_device(), "properties of another device");
    expect(current->properties.apiVersion >= VK_API_VERSION_1_1, "vkGetPhysicalDeviceProperties2 below Vulkan 1.1");
    expect(pProperties->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, "VkPhysicalDeviceProperties2: sType");
    pProperties->properties = current->properties;
    VkPhysicalDeviceSubgroupProperties *subgroup = pProperties->pNext;
    if (subgroup == NULL || subgroup->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES ||
        subgroup->pNext != NULL) {
        expect(false, "VkPhysicalDeviceProperties2: pNext");
        return;
    }
    subgroup->subgroupSize = current->subgroup_size;
}

static VKAPI_ATTR VkResult VKAPI_CALL fake_vkCreateDescriptorSetLayout(
    VkDevice device, const VkDescriptorSetLayoutCreateInfo *pCreateInfo, const VkAllocationCallbacks *pAllocator,
    VkDescriptorSetLayout *pSetLayout)
{
    expect(pCreateInfo->sType == VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO && pCreateInfo->pNext == NULL,
           "vkCreateDescriptorSetLayout: sType or pNext");
    FakeCall *call = note(FAKE_vkCreateDescriptorSetLayout);
    call->flags = pCreateInfo->flags;
    for (uint32_t i = 0; i < pCreateInfo->bindingCount; i++) {
        const VkDescriptorSetLayoutBinding *binding = &pCreateInfo->pBindings[i];
        expect(binding->descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER && binding->descriptorCount == 1 &&
                   binding->stageFlags == VK_SHADER_STAGE_COMPUTE_BIT && binding->binding < 32 &&
                   (call->bindings & (1u << binding->binding)) == 0,
               "vkCreateDescriptorSetLayout: a binding that is no storage buffer of compute, or given twice");
        call->bindings |= 1u << (binding->binding & 31);
    }
    const VkResult result = create(call, device, VK_OBJECT_TYPE_DESCRIPTOR_SET_LAYOUT, pAllocator);
    *pSetLayout = (VkDescriptorSetLayout)(uintptr_t)(result == VK_SUCCESS ? call->handle : POISON);
    return result;
}

static VKAPI_ATTR void VKAPI_CALL fake_vkDestroyDescriptorSetLayout(VkDevice device, VkDescriptorSetLayout setLayout,
                                                                    const VkAllocationCallbacks *pAllocator)
{
    destroy(FAKE_vkDestroyDescriptorSetLayout, device, VK_OBJECT_TYPE_DESCRIPTOR_SET_LAYOUT, (uint64_t)setLayout,
            pAllocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL fake_vkCreatePipelineLayout(VkDevice device,
                                                                  const VkPipelineLayoutCreateInfo *pCreateInfo,
                                                                  const VkAllocationCallbacks *pAllocator,
                                                                  VkPipelineLayout *pPipelineLayout)
{
    expect(pCreateInfo->sType == VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO && pCreateInfo->pNext == NULL,
           "vkCreatePipelineLayout: sType or pNext");
    expect(pCreateInfo->setLayoutCount == 1 &&
               find((uint64_t)pCreateInfo->pSetLayouts[0], VK_OBJECT_TYPE_DESCRIPTOR_SET_LAYOUT) != NULL,
           "vkCreatePipelineLayout: not one live set layout");
    expect(pCreateInfo->pushConstantRangeCount == 1 &&
               pCreateInfo->pPushConstantRanges[0].stageFlags == VK_SHADER_STAGE_COMPUTE_BIT &&
               pCreateInfo->pPushConstantRanges[0].offset == 0,
           "vkCreatePipelineLayout: not one range of push constants from 0");
    FakeCall *call = note(FAKE_vkCreatePipelineLayout);
    call->setLayout = pCreateInfo->pSetLayouts[0];
    call->push_size = pCreateInfo->pPushConstantRanges[0].size;
    const VkResult result = create(call, device, VK_OBJECT_TYPE_PIPELINE_LAYOUT, pAllocator);
    *pPipelineLayout = (VkPipelineLayout)(uintptr_t)(result == VK_SUCCESS ? call->handle : POISON);
    return result;
}

static VKAPI_ATTR void VKAPI_CALL fake_vkDestroyPipelineLayout(VkDevice device, VkPipelineLayout pipelineLayout,
                                                               const VkAllocationCallbacks *pAllocator)
{
    destroy(FAKE_vkDestroyPipelineLayout, device, VK_OBJECT_TYPE_PIPELINE_LAYOUT, (uint64_t)pipelineLayout, pAllocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL fake_vkCreateShaderModule(VkDevice device,
                                                                const VkShaderModuleCreateInfo *pCreateInfo,
                                                                const VkAllocationCallbacks *pAllocator,
                                                                VkShaderModule *pShaderModule)
{
    expect(pCreateInfo->sType == VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO && pCreateInfo->pNext == NULL &&
               pCreateInfo->flags == 0,
           "vkCreateShaderModule: sType, pNext or flags");
    FakeCall *call = note(FAKE_vkCreateShaderModule);
    call->code = pCreateInfo->pCode;
    call->code_size = pCreateInfo->codeSize;
    const VkResult result = create(call, device, VK_OBJECT_TYPE_SHADER_MODULE, pAllocator);
    *pShaderModule = (VkShaderModule)(uintptr_t)(result == VK_SUCCESS ? call->handle : POISON);
    return result;
}

static VKAPI_ATTR void VKAPI_CALL fake_vkDestroyShaderModule(VkDevice device, VkShaderModule shaderModule,
                                                             const VkAllocationCallbacks *pAllocator)
{
    destroy(FAKE_vkDestroyShaderModule, device, VK_OBJECT_TYPE_SHADER_MODULE, (uint64_t)shaderModule, pAllocator);
}

static void note_specialization(FakeCall *call, const VkSpecializationInfo *info)
{
    expect(info != NULL && info->mapEntryCount <= FAKE_MOST_SPECIALIZATIONS,
           "vkCreateComputePipelines: no specialization, or more than the log holds");
    for (uint32_t i = 0; info != NULL && i < info->mapEntryCount; i++) {
        const VkSpecializationMapEntry *entry = &info->pMapEntries[i];
        const bool good = entry->size == 4 && entry->offset + entry->size <= info->dataSize &&
                          entry->constantID < FAKE_MOST_SPECIALIZATIONS;
        expect(good, "vkCreateComputePipelines: a specialization constant that is no u32 inside the data");
        if (good) {
            memcpy(&call->specialization[entry->constantID], (const char *)info->pData + entry->offset, 4);
            call->specialization_count++;
        }
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL fake_vkCreateComputePipelines(VkDevice device, VkPipelineCache pipelineCache,
                                                                    uint32_t createInfoCount,
                                                                    const VkComputePipelineCreateInfo *pCreateInfos,
                                                                    const VkAllocationCallbacks *pAllocator,
                                                                    VkPipeline *pPipelines)
{
    const VkPipelineShaderStageCreateInfo *stage = &pCreateInfos[0].stage;
    expect(createInfoCount == 1, "vkCreateComputePipelines: not one pipeline");
    expect(pCreateInfos[0].sType == VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO && pCreateInfos[0].pNext == NULL &&
               stage->sType == VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO && stage->pNext == NULL &&
               stage->stage == VK_SHADER_STAGE_COMPUTE_BIT && strcmp(stage->pName, "main") == 0,
           "vkCreateComputePipelines: sType, pNext, stage or entry point");
    expect(find((uint64_t)stage->module, VK_OBJECT_TYPE_SHADER_MODULE) != NULL,
           "vkCreateComputePipelines: no live module");
    expect(find((uint64_t)pCreateInfos[0].layout, VK_OBJECT_TYPE_PIPELINE_LAYOUT) != NULL,
           "vkCreateComputePipelines: no live layout");
    FakeCall *call = note(FAKE_vkCreateComputePipelines);
    call->flags = pCreateInfos[0].flags;
    call->cache = pipelineCache;
    call->layout = pCreateInfos[0].layout;
    call->module = (uint64_t)stage->module;
    note_specialization(call, stage->pSpecializationInfo);
    const VkResult result = create(call, device, VK_OBJECT_TYPE_PIPELINE, pAllocator);
    /* Unlike other creation, this one is specified to give VK_NULL_HANDLE when it fails. */
    pPipelines[0] = (VkPipeline)(uintptr_t)call->handle;
    return result;
}

static VKAPI_ATTR void VKAPI_CALL fake_vkDestroyPipeline(VkDevice device, VkPipeline pipeline,
                                                         const VkAllocationCallbacks *pAllocator)
{
    destroy(FAKE_vkDestroyPipeline, device, VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipeline, pAllocator);
}

static void note_writes(FakeCall *call, uint32_t count, const VkWriteDescriptorSet *writes)
{
    expect(count <= FAKE_MOST_WRITES, "more descriptor writes than the log holds");
    for (uint32_t i = 0; i < count && i < FAKE_MOST_WRITES; i++) {
        expect(writes[i].sType == VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET && writes[i].pNext == NULL &&
                   writes[i].dstArrayElement == 0 && writes[i].descriptorCount == 1 &&
                   writes[i].descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
               "a descriptor write that is not one storage buffer");
        const VkPhysicalDeviceLimits *limits = &current->properties.limits;
        const VkDescriptorBufferInfo *buffer = &writes[i].pBufferInfo[0];
        expect(buffer->buffer != VK_NULL_HANDLE && buffer->offset % limits->minStorageBufferOffsetAlignment == 0 &&
                   buffer->range != 0 && buffer->range <= limits->maxStorageBufferRange,
               "a descriptor without a buffer, or that the device's limits forbid");
        call->writes[i] = (FakeWrite){writes[i].dstSet, writes[i].dstBinding, writes[i].pBufferInfo[0]};
        call->write_count++;
    }
}

static VKAPI_ATTR void VKAPI_CALL fake_vkUpdateDescriptorSets(VkDevice device, uint32_t descriptorWriteCount,
                                                              const VkWriteDescriptorSet *pDescriptorWrites,
                                                              uint32_t descriptorCopyCount,
                                                              const VkCopyDescriptorSet *pDescriptorCopies)
{
    (void)pDescriptorCopies;
    expect(device == fake_device() && descriptorCopyCount == 0, "vkUpdateDescriptorSets: another device, or copies");
    note_writes(note(FAKE_vkUpdateDescriptorSets), descriptorWriteCount, pDescriptorWrites);
}

static VKAPI_ATTR void VKAPI_CALL fake_vkCmdBindPipeline(VkCommandBuffer commandBuffer,
                                                         VkPipelineBindPoint pipelineBindPoint, VkPipeline pipeline)
{
    expect(pipelineBindPoint == VK_PIPELINE_BIND_POINT_COMPUTE &&
               find((uint64_t)pipeline, VK_OBJECT_TYPE_PIPELINE) != NULL,
           "vkCmdBindPipeline: no live compute pipeline");
    note_command(FAKE_vkCmdBindPipeline, commandBuffer)->handle = (uint64_t)pipeline;
}

static VKAPI_ATTR void VKAPI_CALL fake_vkCmdBindDescriptorSets(VkCommandBuffer commandBuffer,
                                                               VkPipelineBindPoint pipelineBindPoint,
                                                               VkPipelineLayout layout, uint32_t firstSet,
                                                               uint32_t descriptorSetCount,
                                                               const VkDescriptorSet *pDescriptorSets,
                                                               uint32_t dynamicOffsetCount,
                                                               const uint32_t *pDynamicOffsets)
{
    (void)pDynamicOffsets;
    expect(pipelineBindPoint == VK_PIPELINE_BIND_POINT_COMPUTE && firstSet == 0 && descriptorSetCount == 1 &&
               dynamicOffsetCount == 0 && find((uint64_t)layout, VK_OBJECT_TYPE_PIPELINE_LAYOUT) != NULL,
           "vkCmdBindDescriptorSets: not compute set 0 of a live layout");
    FakeCall *call = note_command(FAKE_vkCmdBindDescriptorSets, commandBuffer);
    call->layout = layout;
    call->handle = (uint64_t)pDescriptorSets[0];
}

static VKAPI_ATTR void VKAPI_CALL fake_vkCmdPushDescriptorSetKHR(VkCommandBuffer commandBuffer,
                                                                 VkPipelineBindPoint pipelineBindPoint,
                                                                 VkPipelineLayout layout, uint32_t set,
                                                                 uint32_t descriptorWriteCount,
                                                                 const VkWriteDescriptorSet *pDescriptorWrites)
{
    expect(pipelineBindPoint == VK_PIPELINE_BIND_POINT_COMPUTE && set == 0 &&
               find((uint64_t)layout, VK_OBJECT_TYPE_PIPELINE_LAYOUT) != NULL,
           "vkCmdPushDescriptorSetKHR: not compute set 0 of a live layout");
    FakeCall *call = note_command(FAKE_vkCmdPushDescriptorSetKHR, commandBuffer);
    call->layout = layout;
    note_writes(call, descriptorWriteCount, pDescriptorWrites);
}

static VKAPI_ATTR void VKAPI_CALL fake_vkCmdPushConstants(VkCommandBuffer commandBuffer, VkPipelineLayout layout,
                                                          VkShaderStageFlags stageFlags, uint32_t offset, uint32_t size,
                                                          const void *pValues)
{
    FakeCall *call = note_command(FAKE_vkCmdPushConstants, commandBuffer);
    expect(stageFlags == VK_SHADER_STAGE_COMPUTE_BIT && offset == 0 && size <= sizeof call->push && size % 4 == 0 &&
               find((uint64_t)layout, VK_OBJECT_TYPE_PIPELINE_LAYOUT) != NULL,
           "vkCmdPushConstants: not compute's, from 0, at most 128 bytes, of a live layout");
    call->layout = layout;
    call->push_size = size;
    memcpy(call->push, pValues, size < sizeof call->push ? size : sizeof call->push);
}

static VKAPI_ATTR void VKAPI_CALL fake_vkCmdDispatch(VkCommandBuffer commandBuffer, uint32_t groupCountX,
                                                     uint32_t groupCountY, uint32_t groupCountZ)
{
    const uint32_t *most = current->properties.limits.maxComputeWorkGroupCount;
    expect(groupCountX <= most[0] && groupCountY <= most[1] && groupCountZ <= most[2],
           "vkCmdDispatch: over maxComputeWorkGroupCount");
    FakeCall *call = note_command(FAKE_vkCmdDispatch, commandBuffer);
    call->groups[0] = groupCountX;
    call->groups[1] = groupCountY;
    call->groups[2] = groupCountZ;
}

static VKAPI_ATTR void VKAPI_CALL fake_vkCmdPipelineBarrier(
    VkCommandBuffer commandBuffer, VkPipelineStageFlags srcStageMask, VkPipelineStageFlags dstStageMask,
    VkDependencyFlags dependencyFlags, uint32_t memoryBarrierCount, const VkMemoryBarrier *pMemoryBarriers,
    uint32_t bufferMemoryBarrierCount, const VkBufferMemoryBarrier *pBufferMemoryBarriers,
    uint32_t imageMemoryBarrierCount, const VkImageMemoryBarrier *pImageMemoryBarriers)
{
    (void)pBufferMemoryBarriers, (void)pImageMemoryBarriers;
    expect(dependencyFlags == 0 && memoryBarrierCount == 1 && bufferMemoryBarrierCount == 0 &&
               imageMemoryBarrierCount == 0 && pMemoryBarriers[0].sType == VK_STRUCTURE_TYPE_MEMORY_BARRIER &&
               pMemoryBarriers[0].pNext == NULL,
           "vkCmdPipelineBarrier: not one memory barrier");
    FakeCall *call = note_command(FAKE_vkCmdPipelineBarrier, commandBuffer);
    call->stages[0] = srcStageMask;
    call->stages[1] = dstStageMask;
    call->accesses[0] = pMemoryBarriers[0].srcAccessMask;
    call->accesses[1] = pMemoryBarriers[0].dstAccessMask;
}

static VKAPI_ATTR VkResult VKAPI_CALL fake_vkSetDebugUtilsObjectNameEXT(VkDevice device,
                                                                        const VkDebugUtilsObjectNameInfoEXT *pNameInfo)
{
    expect(device == fake_device() && pNameInfo->sType == VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT &&
               find(pNameInfo->objectHandle, pNameInfo->objectType) != NULL,
           "vkSetDebugUtilsObjectNameEXT: no live object");
    FakeCall *call = note(FAKE_vkSetDebugUtilsObjectNameEXT);
    call->handle = pNameInfo->objectHandle;
    call->type = pNameInfo->objectType;
    strncpy(call->name, pNameInfo->pObjectName, sizeof call->name - 1);
    return fails(call->function) ? current->fail_result : VK_SUCCESS;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fake_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
    expect(device == fake_device(), "vkGetDeviceProcAddr of another device");
    /* Of the functions known, these alone are of the instance and of the physical device. */
    if (strcmp(name, "vkGetPhysicalDeviceProperties") == 0 || strcmp(name, "vkGetPhysicalDeviceProperties2") == 0) {
        return NULL;
    }
    return fake_get_instance_proc_addr(fake_instance(), name);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fake_get_instance_proc_addr(VkInstance instance, const char *name)
{
    expect(instance == fake_instance(), "vkGetInstanceProcAddr of another instance");
    if (current->missing != NULL && strcmp(name, current->missing) == 0) {
        return NULL;
    }
    /* By way of a variable of its own type, so that the compiler compares the signatures. */
#define FAKE_LOOK_UP(function)                              \
    if (strcmp(name, #function) == 0) {                     \
        const PFN_##function typed = fake_##function;       \
        return (PFN_vkVoidFunction)typed;                   \
    }
    FAKE_FUNCTIONS(FAKE_LOOK_UP)
#undef FAKE_LOOK_UP
    return NULL;
}

void fake_vulkan_init(FakeVulkan *fake)
{
    *fake = (FakeVulkan){
        .properties =
            {
                .apiVersion = VK_API_VERSION_1_1,
                .deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                .limits =
                    {
                        .maxStorageBufferRange = UINT32_MAX,
                        .maxPerStageDescriptorStorageBuffers = 1000,
                        .maxPerStageResources = 1000,
                        .maxDescriptorSetStorageBuffers = 1000,
                        .maxComputeWorkGroupCount = {65535, 65535, 65535},
                        .maxComputeWorkGroupInvocations = 1024,
                        .maxComputeWorkGroupSize = {1024, 1024, 64},
                        .maxComputeSharedMemorySize = 49152,
                        .maxPushConstantsSize = 256,
                        .minStorageBufferOffsetAlignment = 16,
                    },
            },
        .subgroup_size = 8,
        .failed = FAKE_FUNCTION_COUNT,
        .last_handle = 0x1000,
    };
    current = fake;
}

void fake_vulkan_use(FakeVulkan *fake)
{
    current = fake;
}

void fake_vulkan_least_limits(VkPhysicalDeviceLimits *limits)
{
    *limits = (VkPhysicalDeviceLimits){
        .maxStorageBufferRange = 1u << 27,
        .maxPerStageDescriptorStorageBuffers = 4,
        .maxPerStageResources = 128,
        .maxDescriptorSetStorageBuffers = 24,
        .maxComputeWorkGroupCount = {65535, 65535, 65535},
        .maxComputeWorkGroupInvocations = 128,
        .maxComputeWorkGroupSize = {128, 128, 64},
        .maxComputeSharedMemorySize = 16384,
        .maxPushConstantsSize = 128,
        .minStorageBufferOffsetAlignment = 256,
    };
}

bool fake_same_call(const FakeCall *a, const FakeCall *b, VkBuffer of_b)
{
    bool same = a->function == b->function && a->handle == b->handle && a->commandBuffer == b->commandBuffer &&
                a->layout == b->layout && a->push_size == b->push_size &&
                memcmp(a->push, b->push, sizeof a->push) == 0 && memcmp(a->groups, b->groups, sizeof a->groups) == 0 &&
                memcmp(a->stages, b->stages, sizeof a->stages) == 0 &&
                memcmp(a->accesses, b->accesses, sizeof a->accesses) == 0 && a->write_count == b->write_count;
    for (uint32_t i = 0; i < a->write_count && same; i++) {
        const FakeWrite *x = &a->writes[i];
        const FakeWrite *y = &b->writes[i];
        same = x->set == y->set && x->binding == y->binding && x->buffer.offset == y->buffer.offset &&
               x->buffer.range == y->buffer.range &&
               y->buffer.buffer == (of_b != VK_NULL_HANDLE ? of_b : x->buffer.buffer);
    }
    return same;
}
