#include "stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

KpoolGeometry stage_geometry(void)
{
    return (KpoolGeometry){.head_dim = 8, .kpool = 4, .type = KPOOL_TYPE_F32};
}

static KpoolKernelCreateInfo info_of(KpoolOperation operation)
{
    return (KpoolKernelCreateInfo){.operation = operation, .geometry = stage_geometry()};
}

void stage_open(Stage *stage)
{
    *stage = (Stage){.call = {.max_slots = 2, .requests = 1, .rows = 8, .pooled_rows = 2}};
    if (!gpu_open(&stage->gpu, NULL)) {
        fail_msg("%s", stage->gpu.error);
    }
    const KpoolOperation operations[] = {KPOOL_OPERATION_SEED_TAIL, KPOOL_OPERATION_RING_CLOSE,
                                         KPOOL_OPERATION_COMPRESS};
    KpoolRange ranges[STAGE_RANGES] = {0};
    for (size_t i = 0; i < 3; i++) {
        const KpoolKernelCreateInfo info = info_of(operations[i]);
        KpoolBindings sizes;
        assert_int_equal(kpoolGetSizes(&info, &stage->call, &sizes, NULL), KPOOL_SUCCESS);
        KpoolRange used[STAGE_RANGES];
        memcpy(used, &sizes, sizeof used);
        for (size_t j = 0; j < STAGE_RANGES; j++) {
            ranges[j].size = used[j].size > ranges[j].size ? used[j].size : ranges[j].size;
        }
    }
    for (size_t j = 0; j < STAGE_RANGES; j++) {
        if (ranges[j].size != 0) {
            assert_true(gpu_create_buffer(&stage->gpu, ranges[j].size, &stage->buffers[j]));
            memset(stage->buffers[j].mapped, 0, (size_t)stage->buffers[j].size);
            gpu_flush(&stage->gpu, &stage->buffers[j]);
            ranges[j].buffer = stage->buffers[j].buffer;
        }
    }
    memcpy(&stage->bindings, ranges, sizeof ranges);
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, STAGE_MOST_SETS * STAGE_RANGES};
    const VkDescriptorPoolCreateInfo poolInfo = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                                 .maxSets = STAGE_MOST_SETS,
                                                 .poolSizeCount = 1,
                                                 .pPoolSizes = &size};
    assert_int_equal(vkCreateDescriptorPool(stage->gpu.device, &poolInfo, NULL, &stage->pool), VK_SUCCESS);
    stage->commandBuffer = gpu_begin(&stage->gpu);
    assert_non_null(stage->commandBuffer);
}

void stage_fill(Stage *stage, const KpoolRange *range, const void *bytes, size_t size)
{
    for (size_t j = 0; j < STAGE_RANGES; j++) {
        if (stage->buffers[j].buffer == range->buffer) {
            memcpy(stage->buffers[j].mapped, bytes, size);
            gpu_flush(&stage->gpu, &stage->buffers[j]);
        }
    }
}

void stage_submit(Stage *stage)
{
    Gpu *gpu = &stage->gpu;
    assert_true(gpu_end(gpu, stage->commandBuffer));
    assert_true(gpu_submit(gpu, stage->commandBuffer));
    gpu_free_command_buffer(gpu, stage->commandBuffer);
    stage->commandBuffer = VK_NULL_HANDLE;
}

uint32_t stage_close(Stage *stage)
{
    Gpu *gpu = &stage->gpu;
    if (stage->commandBuffer != VK_NULL_HANDLE) {
        stage_submit(stage);
    }
    vkDestroyDescriptorPool(gpu->device, stage->pool, NULL);
    for (uint32_t i = stage->kernel_count; i-- > 0;) {
        kpoolDestroyKernel(stage->kernels[i]);
    }
    for (size_t j = STAGE_RANGES; j-- > 0;) {
        gpu_destroy_buffer(gpu, &stage->buffers[j]);
    }
    gpu_close(gpu);
    return gpu->validationMessages;
}

void stage_record(Stage *stage, KpoolOperation operation, StageCommand *command)
{
    Gpu *gpu = &stage->gpu;
    const KpoolKernelCreateInfo info = info_of(operation);
    KpoolKernel *kernel = &stage->kernels[stage->kernel_count++];
    assert_int_equal(kpoolCreateKernel(gpu->context, &info, kernel, NULL), KPOOL_SUCCESS);
    const VkDescriptorSetLayout layout = kpoolGetDescriptorSetLayout(gpu->context, operation);
    const VkDescriptorSetAllocateInfo setInfo = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                                 .descriptorPool = stage->pool,
                                                 .descriptorSetCount = 1,
                                                 .pSetLayouts = &layout};
    VkDescriptorSet set;
    assert_int_equal(vkAllocateDescriptorSets(gpu->device, &setInfo, &set), VK_SUCCESS);
    assert_int_equal(kpoolWriteDescriptorSet(gpu->context, operation, set, &stage->bindings, NULL), KPOOL_SUCCESS);
    assert_int_equal(command(stage->commandBuffer, *kernel, set, &stage->bindings, &stage->call, NULL), KPOOL_SUCCESS);
}

void stage_execution_dependency(VkCommandBuffer commandBuffer)
{
    vkCmdPipelineBarrier(commandBuffer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         0, 0, NULL, 0, NULL, 0, NULL);
}

void stage_write_to_read(VkCommandBuffer commandBuffer)
{
    const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                     .dstAccessMask = VK_ACCESS_SHADER_READ_BIT};
    vkCmdPipelineBarrier(commandBuffer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         0, 1, &barrier, 0, NULL, 0, NULL);
}
