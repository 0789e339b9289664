/* The validation layer is awake, and the barriers that the header asks for are the ones that are needed: for each pair
 * of operations the layer complains where the barrier between them is left out, and not where it stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu.h"

enum { RANGES = sizeof(KpoolBindings) / sizeof(KpoolRange), MOST_SETS = 4 };

typedef struct Stage {
    Gpu gpu;
    KpoolCall call;
    KpoolBindings bindings;
    GpuBuffer buffers[RANGES];
    VkDescriptorPool pool;
    VkCommandBuffer commandBuffer;
    KpoolKernel kernels[MOST_SETS];
    uint32_t kernel_count;
} Stage;

static KpoolKernelCreateInfo info_of(KpoolOperation operation)
{
    return (KpoolKernelCreateInfo){
        .operation = operation,
        .geometry = {.head_dim = 8, .kpool = 4, .type = KPOOL_TYPE_F32},
    };
}

/* A buffer of its own for every tensor that seeding, closing or compressing uses, filled with zeros. */
static void open_stage(Stage *stage)
{
    *stage = (Stage){.call = {.max_slots = 2, .requests = 1, .rows = 8, .pooled_rows = 2}};
    if (!gpu_open(&stage->gpu, NULL)) {
        fail_msg("%s", stage->gpu.error);
    }
    const KpoolOperation operations[] = {KPOOL_OPERATION_SEED_TAIL, KPOOL_OPERATION_RING_CLOSE,
                                         KPOOL_OPERATION_COMPRESS};
    KpoolRange ranges[RANGES] = {0};
    for (size_t i = 0; i < 3; i++) {
        const KpoolKernelCreateInfo info = info_of(operations[i]);
        KpoolBindings sizes;
        assert_int_equal(kpoolGetSizes(&info, &stage->call, &sizes, NULL), KPOOL_SUCCESS);
        KpoolRange used[RANGES];
        memcpy(used, &sizes, sizeof used);
        for (size_t j = 0; j < RANGES; j++) {
            ranges[j].size = used[j].size > ranges[j].size ? used[j].size : ranges[j].size;
        }
    }
    for (size_t j = 0; j < RANGES; j++) {
        if (ranges[j].size != 0) {
            assert_true(gpu_create_buffer(&stage->gpu, ranges[j].size, &stage->buffers[j]));
            memset(stage->buffers[j].mapped, 0, (size_t)stage->buffers[j].size);
            gpu_flush(&stage->gpu, &stage->buffers[j]);
            ranges[j].buffer = stage->buffers[j].buffer;
        }
    }
    memcpy(&stage->bindings, ranges, sizeof ranges);
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, MOST_SETS * RANGES};
    const VkDescriptorPoolCreateInfo poolInfo = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                                 .maxSets = MOST_SETS,
                                                 .poolSizeCount = 1,
                                                 .pPoolSizes = &size};
    assert_int_equal(vkCreateDescriptorPool(stage->gpu.device, &poolInfo, NULL, &stage->pool), VK_SUCCESS);
    stage->commandBuffer = gpu_begin(&stage->gpu);
    assert_non_null(stage->commandBuffer);
}

/* Submits what was recorded; returns how many messages there were from beginning to end. */
static uint32_t close_stage(Stage *stage)
{
    Gpu *gpu = &stage->gpu;
    assert_true(gpu_end(gpu, stage->commandBuffer));
    assert_true(gpu_submit(gpu, stage->commandBuffer));
    gpu_free_command_buffer(gpu, stage->commandBuffer);
    vkDestroyDescriptorPool(gpu->device, stage->pool, NULL);
    for (uint32_t i = stage->kernel_count; i-- > 0;) {
        kpoolDestroyKernel(stage->kernels[i]);
    }
    for (size_t j = RANGES; j-- > 0;) {
        gpu_destroy_buffer(gpu, &stage->buffers[j]);
    }
    gpu_close(gpu);
    return gpu->validationMessages;
}

typedef KpoolResult Command(VkCommandBuffer, KpoolKernel, VkDescriptorSet, const KpoolBindings *, const KpoolCall *,
                            KpoolDiagnostic *);

static void record(Stage *stage, KpoolOperation operation, Command *command, const KpoolBindings *bindings)
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
    assert_int_equal(kpoolWriteDescriptorSet(gpu->context, operation, set, bindings, NULL), KPOOL_SUCCESS);
    assert_int_equal(command(stage->commandBuffer, *kernel, set, bindings, &stage->call, NULL), KPOOL_SUCCESS);
}

/* Write-after-read needs no more than this. */
static void execution_dependency(Stage *stage)
{
    vkCmdPipelineBarrier(stage->commandBuffer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 0, NULL, 0, NULL, 0, NULL);
}

static void write_to_read(Stage *stage)
{
    const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                     .dstAccessMask = VK_ACCESS_SHADER_READ_BIT};
    vkCmdPipelineBarrier(stage->commandBuffer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
}

static uint32_t close_then_seed(bool barrier)
{
    Stage stage;
    open_stage(&stage);
    record(&stage, KPOOL_OPERATION_RING_CLOSE, kpoolCmdRingClose, &stage.bindings);
    if (barrier) {
        execution_dependency(&stage);
    }
    record(&stage, KPOOL_OPERATION_SEED_TAIL, kpoolCmdSeedTail, &stage.bindings);
    return close_stage(&stage);
}

static uint32_t seed_then_close(bool barrier)
{
    Stage stage;
    open_stage(&stage);
    record(&stage, KPOOL_OPERATION_SEED_TAIL, kpoolCmdSeedTail, &stage.bindings);
    if (barrier) {
        write_to_read(&stage);
    }
    record(&stage, KPOOL_OPERATION_RING_CLOSE, kpoolCmdRingClose, &stage.bindings);
    return close_stage(&stage);
}

static uint32_t offsets_then_compress(bool barrier)
{
    Stage stage;
    open_stage(&stage);
    record(&stage, KPOOL_OPERATION_POOL_ROW_OFFSETS, kpoolCmdPoolRowOffsets, &stage.bindings);
    if (barrier) {
        write_to_read(&stage);
    }
    record(&stage, KPOOL_OPERATION_COMPRESS, kpoolCmdCompress, &stage.bindings);
    return close_stage(&stage);
}

static void compare(uint32_t (*messages)(bool barrier))
{
    assert_int_equal(messages(true), 0);
    assert_true(messages(false) > 0);
}

static void test_close_then_seed(void **state)
{
    (void)state;
    compare(close_then_seed);
}

static void test_seed_then_close(void **state)
{
    (void)state;
    compare(seed_then_close);
}

static void test_offsets_then_compress(void **state)
{
    (void)state;
    compare(offsets_then_compress);
}

/* compress shares nothing that matters with the other two: no barrier, no message. */
static void test_close_beside_compress(void **state)
{
    (void)state;
    Stage stage;
    open_stage(&stage);
    record(&stage, KPOOL_OPERATION_RING_CLOSE, kpoolCmdRingClose, &stage.bindings);
    record(&stage, KPOOL_OPERATION_COMPRESS, kpoolCmdCompress, &stage.bindings);
    assert_int_equal(close_stage(&stage), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_then_seed),
        cmocka_unit_test(test_seed_then_close),
        cmocka_unit_test(test_offsets_then_compress),
        cmocka_unit_test(test_close_beside_compress),
    };
    return cmocka_run_group_tests_name("synchronization", tests, NULL, NULL);
}
