/* The validation layer is awake: a planted hazard is reported, and the documented order of barriers is not.
 * Without a layer the tests are skipped, and say so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu.h"

/* Two dispatches of seed_tail, the second taking its rows from the ring that the first writes: a hazard unless
 * there is a barrier between. Returns how many messages that made. */
static uint32_t messages_of(bool barrier)
{
    Gpu gpu;
    if (!gpu_open(&gpu, NULL)) {
        fail_msg("%s", gpu.error);
    }
    const KpoolKernelCreateInfo info = {
        .operation = KPOOL_OPERATION_SEED_TAIL,
        .geometry = {.head_dim = 8, .kpool = 4, .type = KPOOL_TYPE_F32},
    };
    const KpoolCall call = {.max_slots = 2, .requests = 1, .rows = 3};
    KpoolKernel kernel;
    assert_int_equal(kpoolCreateKernel(gpu.context, &info, &kernel, NULL), KPOOL_SUCCESS);
    KpoolBindings bindings;
    assert_int_equal(kpoolGetSizes(&info, &call, &bindings, NULL), KPOOL_SUCCESS);
    GpuBuffer buffers[8];
    KpoolRange *ranges[7] = {&bindings.tail,          &bindings.k,        &bindings.gate,  &bindings.input_row_offsets,
                             &bindings.cache_lengths, &bindings.slot_idx, &bindings.status};
    for (size_t i = 0; i < 7; i++) {
        assert_true(gpu_create_buffer(&gpu, ranges[i]->size, &buffers[i]));
        memset(buffers[i].mapped, 0, (size_t)buffers[i].size);
        gpu_flush(&gpu, &buffers[i]);
        ranges[i]->buffer = buffers[i].buffer;
    }
    assert_true(gpu_create_buffer(&gpu, bindings.tail.size, &buffers[7]));
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                       2 * kpoolGetDescriptorCount(gpu.context, info.operation)};
    const VkDescriptorPoolCreateInfo poolInfo = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                                 .maxSets = 2,
                                                 .poolSizeCount = 1,
                                                 .pPoolSizes = &size};
    VkDescriptorPool pool;
    assert_int_equal(vkCreateDescriptorPool(gpu.device, &poolInfo, NULL, &pool), VK_SUCCESS);
    const VkDescriptorSetLayout layout = kpoolGetDescriptorSetLayout(gpu.context, info.operation);
    const VkDescriptorSetLayout layouts[2] = {layout, layout};
    const VkDescriptorSetAllocateInfo setInfo = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                                 .descriptorPool = pool,
                                                 .descriptorSetCount = 2,
                                                 .pSetLayouts = layouts};
    VkDescriptorSet sets[2];
    assert_int_equal(vkAllocateDescriptorSets(gpu.device, &setInfo, sets), VK_SUCCESS);
    KpoolBindings second = bindings;
    second.tail.buffer = buffers[7].buffer;
    second.k = second.gate = bindings.tail;
    assert_int_equal(kpoolWriteDescriptorSet(gpu.context, info.operation, sets[0], &bindings, NULL), KPOOL_SUCCESS);
    assert_int_equal(kpoolWriteDescriptorSet(gpu.context, info.operation, sets[1], &second, NULL), KPOOL_SUCCESS);

    VkCommandBuffer commandBuffer = gpu_begin(&gpu);
    assert_non_null(commandBuffer);
    assert_int_equal(kpoolCmdSeedTail(commandBuffer, kernel, sets[0], &bindings, &call, NULL), KPOOL_SUCCESS);
    if (barrier) {
        gpu_barrier(commandBuffer);
    }
    assert_int_equal(kpoolCmdSeedTail(commandBuffer, kernel, sets[1], &second, &call, NULL), KPOOL_SUCCESS);
    assert_true(gpu_end(&gpu, commandBuffer));
    assert_true(gpu_submit(&gpu, commandBuffer));

    gpu_free_command_buffer(&gpu, commandBuffer);
    vkDestroyDescriptorPool(gpu.device, pool, NULL);
    for (size_t i = 0; i < 8; i++) {
        gpu_destroy_buffer(&gpu, &buffers[i]);
    }
    kpoolDestroyKernel(kernel);
    gpu_close(&gpu);
    return gpu.validationMessages;
}

static bool has_layer(void)
{
    const char *layers = getenv("VK_INSTANCE_LAYERS");
    return layers != NULL && strstr(layers, "validation") != NULL;
}

static void test_barrier_is_clean(void **state)
{
    (void)state;
    assert_int_equal(messages_of(true), 0);
}

static void test_missing_barrier_is_reported(void **state)
{
    (void)state;
    if (!has_layer()) {
        print_message("no validation layer in VK_INSTANCE_LAYERS\n");
        skip();
    }
    assert_true(messages_of(false) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barrier_is_clean),
        cmocka_unit_test(test_missing_barrier_is_reported),
    };
    return cmocka_run_group_tests_name("synchronization", tests, NULL, NULL);
}
