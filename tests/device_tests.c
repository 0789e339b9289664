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

bool must_be_brief(void)
{
    return getenv("KPOOL_TEST_BRIEF") != NULL;
}

void must_match_random(Gpu *gpu, KpoolOperation operation, uint64_t first, uint64_t count)
{
    const uint64_t calls = must_be_brief() ? (count + 5) / 6 : count;
    for (uint64_t seed = first; seed < first + calls; seed++) {
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

/* The mock driver lists the extension and has room for none, where Vulkan asks for 32. */
static bool has_room_for_push_descriptors(const Gpu *gpu)
{
    VkPhysicalDevicePushDescriptorPropertiesKHR push = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR,
    };
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &push};
    vkGetPhysicalDeviceProperties2(gpu->physicalDevice, &properties);
    return push.maxPushDescriptors >= KPOOL_TENSOR_COUNT;
}

static bool has_push_descriptors(const Gpu *gpu)
{
    VkExtensionProperties extensions[512];
    uint32_t count = 512;
    const VkResult result = vkEnumerateDeviceExtensionProperties(gpu->physicalDevice, NULL, &count, extensions);
    assert_true(result == VK_SUCCESS || result == VK_INCOMPLETE);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(extensions[i].extensionName, VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME) == 0) {
            return has_room_for_push_descriptors(gpu);
        }
    }
    return false;
}

/* The layouts that the device takes, by the requirements query. */
static uint32_t binding_layouts(const Gpu *gpu)
{
    const KpoolGeometry geometry = {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_BF16};
    KpoolRequirements requirements;
    assert_int_equal(kpoolGetRequirements(&gpu->properties.limits, &geometry, &requirements, NULL), KPOOL_SUCCESS);
    return requirements.bindingLayouts;
}

void on_each_context(void (*test)(Gpu *gpu))
{
    /* Every device takes the first; there the others are asked for. */
    static const GpuOptions passes[] = {
        {.bindingLayout = KPOOL_BINDING_LAYOUT_FLOOR},
        {.bindingLayout = KPOOL_BINDING_LAYOUT_WIDE},
        {.bindingLayout = KPOOL_BINDING_LAYOUT_FLOOR, .pushDescriptors = true},
        {.bindingLayout = KPOOL_BINDING_LAYOUT_WIDE, .pushDescriptors = true},
    };
    bool push = false;
    bool wide = false;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        const GpuOptions *options = &passes[i];
        if ((options->pushDescriptors && !push) || (options->bindingLayout == KPOOL_BINDING_LAYOUT_WIDE && !wide)) {
            continue;
        }
        Gpu gpu;
        if (!gpu_open(&gpu, options)) {
            fail_msg("%s", gpu.error);
        }
        push = push || (getenv("KPOOL_TEST_NO_PUSH") == NULL && has_push_descriptors(&gpu));
        wide = (binding_layouts(&gpu) & KPOOL_BINDING_LAYOUT_WIDE_BIT) != 0;
        test(&gpu);
        gpu_close(&gpu);
        assert_int_equal(gpu.validationMessages, 0);
    }
}
