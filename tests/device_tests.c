#include "device_tests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void must_allocate(Scenario *scenario, Random *random)
{
    Complaint complaint;
    if (!scenario_allocate(scenario, random, &complaint)) {
        fail_msg("%s", complaint.text);
    }
}

TensorImages must_copy_images(const Scenario *scenario)
{
    TensorImages copy;
    assert_true(scenario_copy_images(scenario, &copy));
    return copy;
}

void must_run(Scenario *scenario, Gpu *gpu, const TensorImages *expected)
{
    Complaint complaint;
    if (scenario_run(scenario, gpu, expected, &complaint) != SCENARIO_RIGHT) {
        fail_msg("%s", complaint.text);
    }
}

void must_match_reference(Scenario *scenario, Gpu *gpu)
{
    TensorImages expected = must_copy_images(scenario);
    scenario_apply_reference(scenario, &expected);
    must_run(scenario, gpu, &expected);
    scenario_free_images(&expected);
    scenario_free(scenario);
}

void must_match_random(Gpu *gpu, KpoolOperation operation, uint64_t first, uint64_t count)
{
    for (uint64_t seed = first; seed < first + count; seed++) {
        Random random = {seed};
        Scenario scenario;
        Complaint complaint;
        print_message("seed %llu\r", (unsigned long long)seed);
        if (!random_scenario(operation, &random, &scenario, &complaint)) {
            fail_msg("%s", complaint.text);
        }
        must_match_reference(&scenario, gpu);
    }
}

void set_tokens(Scenario *scenario, uint32_t first_row, const uint32_t *tokens)
{
    uint32_t *offsets = SCENARIO_WORDS(scenario, input_row_offsets);
    offsets[0] = first_row;
    for (uint32_t r = 0; r < scenario->call.requests; r++) {
        offsets[r + 1] = offsets[r] + tokens[r];
    }
}

static bool has_push_descriptors(const Gpu *gpu)
{
    VkExtensionProperties extensions[512];
    uint32_t count = 512;
    const VkResult result = vkEnumerateDeviceExtensionProperties(gpu->physicalDevice, NULL, &count, extensions);
    assert_true(result == VK_SUCCESS || result == VK_INCOMPLETE);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(extensions[i].extensionName, VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME) == 0) {
            return true;
        }
    }
    return false;
}

void on_each_context(void (*test)(Gpu *gpu))
{
    static const KpoolBindingLayout layouts[] = {KPOOL_BINDING_LAYOUT_WIDE, KPOOL_BINDING_LAYOUT_FLOOR};
    bool push = false;
    for (uint32_t pass = 0; pass < 4; pass++) {
        if (pass >= 2 && !push) {
            break;
        }
        Gpu gpu;
        const GpuOptions options = {.bindingLayout = layouts[pass % 2], .pushDescriptors = pass >= 2};
        if (!gpu_open(&gpu, &options)) {
            fail_msg("%s", gpu.error);
        }
        push = push || has_push_descriptors(&gpu);
        test(&gpu);
        gpu_close(&gpu);
        assert_int_equal(gpu.validationMessages, 0);
    }
}
