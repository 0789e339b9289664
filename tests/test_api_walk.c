/* The whole API from the first call to the last, on a driver that need not execute anything: every kind of context,
 * every operation in many geometries, sets or push descriptors, recording, submission, destruction. What comes out is
 * not looked at; each call must succeed, and a validation layer, where there is one, must say nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device_tests.h"

enum { SCENARIOS = 12 };

static void walk(Gpu *gpu, KpoolOperation operation, uint64_t seed)
{
    Random random = {seed};
    Scenario scenario;
    Complaint complaint;
    if (!random_scenario(operation, &random, &scenario, &complaint)) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, complaint.text);
    }
    Execution execution;
    if (!execute(gpu, &scenario.info, &scenario.call, 2, &scenario.images, &execution)) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, gpu->error);
    }
    if (execution.result != KPOOL_SUCCESS) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, execution.diagnostic.message);
    }
    scenario_free(&scenario);
}

static void check_walk(Gpu *gpu)
{
    for (KpoolOperation operation = KPOOL_OPERATION_SEED_TAIL; operation <= KPOOL_OPERATION_CHECK_SLOTS; operation++) {
        for (uint64_t seed = 0; seed < SCENARIOS; seed++) {
            walk(gpu, operation, 100 * (uint64_t)operation + seed);
        }
    }
}

/* The default is the widest that the requirements query names; wide where it does not is refused. */
static void test_default(void **state)
{
    (void)state;
    Gpu gpu;
    if (!gpu_open(&gpu, NULL)) {
        fail_msg("%s", gpu.error);
    }
    const KpoolGeometry geometry = {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_BF16};
    KpoolRequirements requirements;
    assert_int_equal(kpoolGetRequirements(&gpu.properties.limits, &geometry, &requirements, NULL), KPOOL_SUCCESS);
    assert_true((requirements.bindingLayouts & KPOOL_BINDING_LAYOUT_FLOOR_BIT) != 0);
    const bool wide = (requirements.bindingLayouts & KPOOL_BINDING_LAYOUT_WIDE_BIT) != 0;
    assert_int_equal(kpoolGetBindingLayout(gpu.context),
                     wide ? KPOOL_BINDING_LAYOUT_WIDE : KPOOL_BINDING_LAYOUT_FLOOR);
    check_walk(&gpu);
    gpu_close(&gpu);
    assert_int_equal(gpu.validationMessages, 0);
    assert_int_equal(gpu_open(&gpu, &(GpuOptions){.bindingLayout = KPOOL_BINDING_LAYOUT_WIDE}), wide);
    gpu_close(&gpu);
}

/* Where there is a validation layer it knows the device's limits, and speaks. */
static void test_validation_is_awake(void **state)
{
    (void)state;
    Gpu gpu;
    if (!gpu_open(&gpu, NULL)) {
        fail_msg("%s", gpu.error);
    }
    if (gpu.messenger != VK_NULL_HANDLE) {
        const uint32_t too_many = gpu.properties.limits.maxPushConstantsSize + 4;
        const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, too_many};
        const VkPipelineLayoutCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
            .pushConstantRangeCount = 1,
            .pPushConstantRanges = &range,
        };
        VkPipelineLayout layout = VK_NULL_HANDLE;
        if (vkCreatePipelineLayout(gpu.device, &info, NULL, &layout) == VK_SUCCESS) {
            vkDestroyPipelineLayout(gpu.device, layout, NULL);
        }
        assert_true(gpu.validationMessages > 0);
    }
    gpu_close(&gpu);
}

ON_EACH_CONTEXT(check_walk)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default),
        cmocka_unit_test(test_check_walk),
        cmocka_unit_test(test_validation_is_awake),
    };
    return cmocka_run_group_tests_name("api_walk", tests, NULL, NULL);
}
