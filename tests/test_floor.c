/* The layers that make a device at the floor are awake: what they report is the floor, the library takes the floor
 * layout there and no other, and each thing that goes over a limit, or forgets that memory is not coherent, is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../src/spirv.h"
#include "device_tests.h"

/* What the rig forgets, by functions that the linker wraps. */
typedef enum Fault { FAULT_NONE, FAULT_FLUSH, FAULT_INVALIDATE } Fault;

static Fault fault;

void __real_gpu_flush(Gpu *gpu, const GpuBuffer *buffer);
void __wrap_gpu_flush(Gpu *gpu, const GpuBuffer *buffer);
void __real_gpu_invalidate(Gpu *gpu, const GpuBuffer *buffer);
void __wrap_gpu_invalidate(Gpu *gpu, const GpuBuffer *buffer);

void __wrap_gpu_flush(Gpu *gpu, const GpuBuffer *buffer)
{
    if (fault != FAULT_FLUSH) {
        __real_gpu_flush(gpu, buffer);
    }
}

void __wrap_gpu_invalidate(Gpu *gpu, const GpuBuffer *buffer)
{
    if (fault != FAULT_INVALIDATE) {
        __real_gpu_invalidate(gpu, buffer);
    }
}

static void open_gpu(Gpu *gpu)
{
    if (!gpu_open(gpu, NULL)) {
        fail_msg("%s", gpu->error);
    }
}

static void test_reports(void **state)
{
    (void)state;
    Gpu gpu;
    open_gpu(&gpu);
    const KpoolGeometry geometry = {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_BF16};
    KpoolRequirements requirements;
    assert_int_equal(kpoolGetRequirements(&gpu.properties.limits, &geometry, &requirements, NULL), KPOOL_SUCCESS);
    assert_int_equal(requirements.bindingLayouts, KPOOL_BINDING_LAYOUT_FLOOR_BIT);
    assert_int_equal(requirements.offsetAlignment, 256);
    assert_int_equal(requirements.maxRange, 1u << 27);
    assert_int_equal(kpoolGetBindingLayout(gpu.context), KPOOL_BINDING_LAYOUT_FLOOR);

    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    vkGetPhysicalDeviceProperties2(gpu.physicalDevice, &properties);
    assert_memory_equal(&properties.properties.limits, &gpu.properties.limits, sizeof gpu.properties.limits);
    assert_int_equal(gpu.properties.limits.maxPerStageDescriptorStorageBuffers, 4);
    assert_int_equal(gpu.properties.limits.maxComputeWorkGroupInvocations, 128);
    assert_int_equal(gpu.properties.limits.maxComputeSharedMemorySize, 16384);

    static const VkPhysicalDeviceFeatures none;
    VkPhysicalDevice16BitStorageFeatures storage = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
        .storageBuffer16BitAccess = VK_TRUE,
    };
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &storage};
    vkGetPhysicalDeviceFeatures2(gpu.physicalDevice, &features);
    assert_memory_equal(&features.features, &none, sizeof none);
    assert_false(storage.storageBuffer16BitAccess);
    vkGetPhysicalDeviceFeatures(gpu.physicalDevice, &features.features);
    assert_memory_equal(&features.features, &none, sizeof none);
    uint32_t extensions = 1;
    assert_int_equal(vkEnumerateDeviceExtensionProperties(gpu.physicalDevice, NULL, &extensions, NULL), VK_SUCCESS);
    assert_int_equal(extensions, 0);
    for (uint32_t i = 0; i < gpu.memory.memoryTypeCount; i++) {
        assert_int_equal(gpu.memory.memoryTypes[i].propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 0);
    }
    gpu_close(&gpu);
}

static void test_refuses_devices(void **state)
{
    (void)state;
    Gpu gpu;
    assert_false(gpu_open(&gpu, &(GpuOptions){.bindingLayout = KPOOL_BINDING_LAYOUT_WIDE}));
    assert_non_null(strstr(gpu.error, "createInfo.bindingLayout is wide"));
    assert_false(gpu_open(&gpu, &(GpuOptions){.pushDescriptors = true}));
    assert_string_equal(gpu.error, "vkCreateDevice returned VkResult -7"); /* VK_ERROR_EXTENSION_NOT_PRESENT */

    open_gpu(&gpu);
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = gpu.queueFamily,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkPhysicalDeviceFeatures robust = {.robustBufferAccess = VK_TRUE};
    const VkPhysicalDevice16BitStorageFeatures storage = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
        .storageBuffer16BitAccess = VK_TRUE,
    };
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .pEnabledFeatures = &robust,
    };
    VkDevice device = VK_NULL_HANDLE;
    assert_int_equal(vkCreateDevice(gpu.physicalDevice, &info, NULL, &device), VK_ERROR_FEATURE_NOT_PRESENT);
    info.pEnabledFeatures = NULL;
    info.pNext = &storage;
    assert_int_equal(vkCreateDevice(gpu.physicalDevice, &info, NULL, &device), VK_ERROR_FEATURE_NOT_PRESENT);
    gpu_close(&gpu);
}

/* A wide layout that nobody asked the library about; push constants; two sets. */
static void test_refuses_layouts(void **state)
{
    (void)state;
    Gpu gpu;
    open_gpu(&gpu);
    VkDescriptorSetLayoutBinding bindings[5];
    for (uint32_t i = 0; i < 5; i++) {
        bindings[i] = (VkDescriptorSetLayoutBinding){i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                                                     VK_SHADER_STAGE_COMPUTE_BIT, NULL};
    }
    const VkDescriptorSetLayoutCreateInfo setInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = 5,
        .pBindings = bindings,
    };
    VkDescriptorSetLayout setLayout;
    assert_int_equal(vkCreateDescriptorSetLayout(gpu.device, &setInfo, NULL, &setLayout),
                     VK_ERROR_VALIDATION_FAILED_EXT);
    const VkDescriptorSetLayout floor = kpoolGetDescriptorSetLayout(gpu.context, KPOOL_OPERATION_STEP);
    const VkDescriptorSetLayout two[] = {floor, floor};
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 132};
    VkPipelineLayoutCreateInfo layoutInfo = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 2,
        .pSetLayouts = two,
    };
    VkPipelineLayout layout;
    assert_int_equal(vkCreatePipelineLayout(gpu.device, &layoutInfo, NULL, &layout), VK_ERROR_VALIDATION_FAILED_EXT);
    layoutInfo.setLayoutCount = 1;
    layoutInfo.pushConstantRangeCount = 1;
    layoutInfo.pPushConstantRanges = &range;
    assert_int_equal(vkCreatePipelineLayout(gpu.device, &layoutInfo, NULL, &layout), VK_ERROR_VALIDATION_FAILED_EXT);
    gpu_close(&gpu);
}

/* A module of the library's with a capability more; a workgroup of 129; an array in shared memory of 16 KiB and 4. */
static void test_refuses_modules(void **state)
{
    (void)state;
    enum { HEADER = 5, OP_CAPABILITY = 17, CAPABILITY_INT64 = 11 };
    Gpu gpu;
    open_gpu(&gpu);
    const KpoolModule module = kpoolFindModule(KPOOL_OPERATION_POOL_ROW_OFFSETS, KPOOL_BINDING_LAYOUT_FLOOR, 4);
    uint32_t *words = malloc(module.size + 8);
    assert_non_null(words);
    memcpy(words, module.words, HEADER * 4);
    words[HEADER] = 2u << 16 | OP_CAPABILITY;
    words[HEADER + 1] = CAPABILITY_INT64;
    memcpy(words + HEADER + 2, module.words + HEADER, module.size - HEADER * 4);
    VkShaderModuleCreateInfo moduleInfo = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = module.size + 8,
        .pCode = words,
    };
    VkShaderModule handle;
    assert_int_equal(vkCreateShaderModule(gpu.device, &moduleInfo, NULL, &handle), VK_ERROR_VALIDATION_FAILED_EXT);

    /* scan_sums[128] is the only array of so many; now it has a word more than fits. */
    enum { OP_CONSTANT = 43, ENTRIES = 128, TOO_MANY = 4097 };
    memcpy(words, module.words, module.size);
    uint32_t changed = 0;
    for (size_t i = HEADER; i < module.size / 4; i += words[i] >> 16) {
        if ((words[i] & 0xffffu) == OP_CONSTANT && words[i + 3] == ENTRIES) {
            words[i + 3] = TOO_MANY;
            changed++;
        }
    }
    assert_int_equal(changed, 1);
    const VkPipelineLayoutCreateInfo layoutInfo = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    VkPipelineLayout layout;
    assert_int_equal(vkCreatePipelineLayout(gpu.device, &layoutInfo, NULL, &layout), VK_SUCCESS);
    const uint32_t invocations = 129;
    const VkSpecializationMapEntry entry = {0, 0, sizeof invocations};
    const VkSpecializationInfo specialization = {1, &entry, sizeof invocations, &invocations};
    for (uint32_t i = 0; i < 2; i++) {
        moduleInfo.codeSize = module.size;
        moduleInfo.pCode = i == 0 ? module.words : words;
        assert_int_equal(vkCreateShaderModule(gpu.device, &moduleInfo, NULL, &handle), VK_SUCCESS);
        const VkComputePipelineCreateInfo pipelineInfo = {
            .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
            .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                      .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                      .module = handle,
                      .pName = "main",
                      .pSpecializationInfo = i == 0 ? &specialization : NULL},
            .layout = layout,
        };
        VkPipeline pipeline;
        assert_int_equal(vkCreateComputePipelines(gpu.device, VK_NULL_HANDLE, 1, &pipelineInfo, NULL, &pipeline),
                         VK_ERROR_VALIDATION_FAILED_EXT);
        vkDestroyShaderModule(gpu.device, handle, NULL);
    }
    vkDestroyPipelineLayout(gpu.device, layout, NULL);
    free(words);
    gpu_close(&gpu);
}

/* Writes a descriptor of 16 bytes, or of `range`, at the offset; then dispatches; says whether the submission went. */
static bool submits(VkDeviceSize offset, VkDeviceSize range, uint32_t groups)
{
    Gpu gpu;
    open_gpu(&gpu);
    GpuBuffer buffer;
    assert_true(gpu_create_buffer(&gpu, 1024, &buffer));
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 4};
    const VkDescriptorPoolCreateInfo poolInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    VkDescriptorPool pool;
    assert_int_equal(vkCreateDescriptorPool(gpu.device, &poolInfo, NULL, &pool), VK_SUCCESS);
    const VkDescriptorSetLayout layout = kpoolGetDescriptorSetLayout(gpu.context, KPOOL_OPERATION_STEP);
    const VkDescriptorSetAllocateInfo setInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = pool,
        .descriptorSetCount = 1,
        .pSetLayouts = &layout,
    };
    VkDescriptorSet set;
    assert_int_equal(vkAllocateDescriptorSets(gpu.device, &setInfo, &set), VK_SUCCESS);
    const VkDescriptorBufferInfo bufferInfo = {buffer.buffer, offset, range};
    const VkWriteDescriptorSet write = {
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
        .dstSet = set,
        .descriptorCount = 1,
        .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
        .pBufferInfo = &bufferInfo,
    };
    vkUpdateDescriptorSets(gpu.device, 1, &write, 0, NULL);
    const VkCommandBuffer commandBuffer = gpu_begin(&gpu);
    assert_non_null(commandBuffer);
    if (groups != 0) {
        vkCmdDispatch(commandBuffer, 1, groups, 1);
    }
    assert_true(gpu_end(&gpu, commandBuffer));
    const bool submitted = gpu_submit(&gpu, commandBuffer);
    gpu_free_command_buffer(&gpu, commandBuffer);
    vkDestroyDescriptorPool(gpu.device, pool, NULL);
    gpu_destroy_buffer(&gpu, &buffer);
    gpu_close(&gpu);
    return submitted;
}

static void test_refuses_commands(void **state)
{
    (void)state;
    assert_true(submits(256, 16, 0));
    assert_false(submits(128, 16, 0));
    assert_false(submits(0, (1u << 27) + 4, 0));
    assert_false(submits(0, 16, 65536));
}

static void test_forgotten_coherence(void **state)
{
    (void)state;
    Gpu gpu;
    open_gpu(&gpu);
    for (Fault planted = FAULT_NONE; planted <= FAULT_INVALIDATE; planted++) {
        Random random = {5};
        Scenario scenario;
        Complaint complaint;
        assert_true(random_scenario(KPOOL_OPERATION_SEED_TAIL, &random, &scenario, &complaint));
        TensorImages expected = must_copy_images(&scenario);
        scenario_apply_reference(&scenario, &expected);
        fault = planted;
        assert_int_equal(scenario_run(&scenario, &gpu, &expected, &complaint),
                         planted == FAULT_NONE ? SCENARIO_RIGHT : SCENARIO_WRONG);
        fault = FAULT_NONE;
        scenario_free_images(&expected);
        scenario_free(&scenario);
    }
    gpu_close(&gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reports),         cmocka_unit_test(test_refuses_devices),
        cmocka_unit_test(test_refuses_layouts), cmocka_unit_test(test_refuses_modules),
        cmocka_unit_test(test_refuses_commands), cmocka_unit_test(test_forgotten_coherence),
    };
    return cmocka_run_group_tests_name("floor", tests, NULL, NULL);
}
