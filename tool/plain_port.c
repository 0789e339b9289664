#include "plain_port.h"

#include <stdio.h>

#include "../bench/generated/empty.h"
#include "../bench/generated/plain_seed_tail.h"
#include "../shaders/interface.h"

/* The tensors of plain_seed_tail.comp are bindings 0 to 5. */
#define TENSORS 6u

static bool succeeded(Gpu *gpu, VkResult result, const char *function)
{
    if (result != VK_SUCCESS) {
        snprintf(gpu->error, sizeof gpu->error, "%s returned VkResult %d", function, (int)result);
    }
    return result == VK_SUCCESS;
}

static uint32_t element_bytes(const Gpu *gpu, const KpoolGeometry *geometry)
{
    return kpoolTypeSize(geometry->type) == 2 && gpu->storage16 ? 2 : 4;
}

static uint32_t row_words(const Gpu *gpu, const KpoolGeometry *geometry)
{
    return geometry->head_dim * kpoolTypeSize(geometry->type) / element_bytes(gpu, geometry);
}

bool plain_port_fits(const Gpu *gpu, const KpoolGeometry *geometry)
{
    const VkPhysicalDeviceLimits *limits = &gpu->properties.limits;
    const uint32_t words = row_words(gpu, geometry);
    return words <= limits->maxComputeWorkGroupInvocations && words <= limits->maxComputeWorkGroupSize[0] &&
           limits->maxPerStageDescriptorStorageBuffers >= TENSORS;
}

static bool create_pipeline(PlainPort *port, VkDescriptorSetLayout setLayout, uint32_t push_bytes,
                            const uint32_t *spirv, size_t size, const VkSpecializationInfo *specialization)
{
    Gpu *gpu = port->gpu;
    const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes};
    const VkPipelineLayoutCreateInfo layoutInfo = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = setLayout != VK_NULL_HANDLE ? 1 : 0,
        .pSetLayouts = &setLayout,
        .pushConstantRangeCount = push_bytes != 0 ? 1 : 0,
        .pPushConstantRanges = &push,
    };
    const VkShaderModuleCreateInfo moduleInfo = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = size,
        .pCode = spirv,
    };
    VkShaderModule module = VK_NULL_HANDLE;
    if (!succeeded(gpu, vkCreatePipelineLayout(gpu->device, &layoutInfo, NULL, &port->layout),
                   "vkCreatePipelineLayout") ||
        !succeeded(gpu, vkCreateShaderModule(gpu->device, &moduleInfo, NULL, &module), "vkCreateShaderModule")) {
        return false;
    }
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = specialization},
        .layout = port->layout,
    };
    const VkResult result = vkCreateComputePipelines(gpu->device, VK_NULL_HANDLE, 1, &info, NULL, &port->pipeline);
    vkDestroyShaderModule(gpu->device, module, NULL);
    return succeeded(gpu, result, "vkCreateComputePipelines");
}

static bool create_set(PlainPort *port, const KpoolBindings *bindings)
{
    Gpu *gpu = port->gpu;
    VkDescriptorSetLayoutBinding layoutBindings[TENSORS];
    for (uint32_t i = 0; i < TENSORS; i++) {
        layoutBindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    }
    const VkDescriptorSetLayoutCreateInfo layoutInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = TENSORS,
        .pBindings = layoutBindings,
    };
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, TENSORS};
    const VkDescriptorPoolCreateInfo poolInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    VkDescriptorSetAllocateInfo setInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorSetCount = 1,
        .pSetLayouts = &port->setLayout,
    };
    if (!succeeded(gpu, vkCreateDescriptorSetLayout(gpu->device, &layoutInfo, NULL, &port->setLayout),
                   "vkCreateDescriptorSetLayout") ||
        !succeeded(gpu, vkCreateDescriptorPool(gpu->device, &poolInfo, NULL, &port->pool), "vkCreateDescriptorPool")) {
        return false;
    }
    setInfo.descriptorPool = port->pool;
    if (!succeeded(gpu, vkAllocateDescriptorSets(gpu->device, &setInfo, &port->set), "vkAllocateDescriptorSets")) {
        return false;
    }
    const KpoolRange *const ranges[TENSORS] = {
        [KPOOL_BINDING_tail] = &bindings->tail,
        [KPOOL_BINDING_k] = &bindings->k,
        [KPOOL_BINDING_gate] = &bindings->gate,
        [KPOOL_BINDING_input_row_offsets] = &bindings->input_row_offsets,
        [KPOOL_BINDING_cache_lengths] = &bindings->cache_lengths,
        [KPOOL_BINDING_slot_idx] = &bindings->slot_idx,
    };
    for (uint32_t i = 0; i < TENSORS; i++) {
        const VkDescriptorBufferInfo buffer = {ranges[i]->buffer, ranges[i]->offset, ranges[i]->size};
        const VkWriteDescriptorSet write = {
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = port->set,
            .dstBinding = i,
            .descriptorCount = 1,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &buffer,
        };
        vkUpdateDescriptorSets(gpu->device, 1, &write, 0, NULL);
    }
    return true;
}

bool plain_port_create_empty(PlainPort *port, Gpu *gpu, VkDescriptorSetLayout setLayout, uint32_t push_bytes)
{
    *port = (PlainPort){.gpu = gpu};
    const bool made =
        create_pipeline(port, setLayout, push_bytes, kpool_empty_wide_4, sizeof kpool_empty_wide_4, NULL);
    if (!made) {
        plain_port_destroy(port);
    }
    return made;
}

bool plain_port_create_seed_tail(PlainPort *port, Gpu *gpu, const KpoolGeometry *geometry,
                                 const KpoolBindings *bindings)
{
    *port = (PlainPort){.gpu = gpu, .element_bits = 8 * element_bytes(gpu, geometry)};
    /* In the order of the shader's constants. */
    const uint32_t values[] = {row_words(gpu, geometry), geometry->kpool};
    static const VkSpecializationMapEntry entries[] = {
        {0, 0, sizeof(uint32_t)},
        {1, sizeof(uint32_t), sizeof(uint32_t)},
    };
    const VkSpecializationInfo specialization = {
        .mapEntryCount = sizeof entries / sizeof entries[0],
        .pMapEntries = entries,
        .dataSize = sizeof values,
        .pData = values,
    };
    const bool halves = port->element_bits == 16;
    const bool made =
        create_set(port, bindings) &&
        create_pipeline(port, port->setLayout, 0, halves ? kpool_plain_seed_tail_wide_2 : kpool_plain_seed_tail_wide_4,
                        halves ? sizeof kpool_plain_seed_tail_wide_2 : sizeof kpool_plain_seed_tail_wide_4,
                        &specialization);
    if (!made) {
        plain_port_destroy(port);
    }
    return made;
}

void plain_port_destroy(PlainPort *port)
{
    if (port->gpu == NULL) {
        return;
    }
    const VkDevice device = port->gpu->device;
    vkDestroyPipeline(device, port->pipeline, NULL);
    vkDestroyPipelineLayout(device, port->layout, NULL);
    vkDestroyDescriptorPool(device, port->pool, NULL);
    vkDestroyDescriptorSetLayout(device, port->setLayout, NULL);
    *port = (PlainPort){0};
}

void plain_port_record(const PlainPort *port, VkCommandBuffer commandBuffer, uint32_t groups)
{
    vkCmdBindPipeline(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, port->pipeline);
    if (port->set != VK_NULL_HANDLE) {
        vkCmdBindDescriptorSets(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, port->layout, 0, 1, &port->set, 0,
                                NULL);
    }
    vkCmdDispatch(commandBuffer, groups, 1, 1);
}
