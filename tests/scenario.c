#include "scenario.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

uint64_t random_next(Random *random)
{
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t random_between(Random *random, uint32_t low, uint32_t high)
{
    return low + (uint32_t)(random_next(random) % ((uint64_t)high - low + 1));
}

static size_t image_size(VkDeviceSize size)
{
    return size > 4 ? (size_t)size : 4;
}

static void *allocate(VkDeviceSize size)
{
    void *memory = malloc(image_size(size));
    assert_non_null(memory);
    return memory;
}

void scenario_allocate(Scenario *scenario, Random *random)
{
    KpoolDiagnostic diagnostic;
    if (kpoolGetSizes(&scenario->info, &scenario->call, &scenario->sizes,
                      &diagnostic) != KPOOL_SUCCESS) {
        fail_msg("%s", diagnostic.message);
    }
    scenario->images = (TensorImages){0};
#define ALLOCATE(tensor, group)                                                                        \
    {                                                                                                  \
        scenario->images.tensor = allocate(scenario->sizes.tensor.size);                               \
        const size_t size = image_size(scenario->sizes.tensor.size);                                   \
        unsigned char *bytes = scenario->images.tensor;                                                \
        for (size_t i = 0; i < size; i++) {                                                            \
            bytes[i] = KPOOL_GROUP_##group == KPOOL_GROUP_words ? 0 : (unsigned char)random_next(random); \
        }                                                                                              \
    }
    KPOOL_TENSORS(ALLOCATE)
#undef ALLOCATE
}

void scenario_free_images(TensorImages *images)
{
#define FREE(tensor, group) free(images->tensor);
    KPOOL_TENSORS(FREE)
#undef FREE
    *images = (TensorImages){0};
}

void scenario_free(Scenario *scenario)
{
    scenario_free_images(&scenario->images);
}

TensorImages scenario_copy_images(const Scenario *scenario)
{
    TensorImages copy = {0};
#define COPY(tensor, group)                                                                            \
    if (scenario->images.tensor != NULL) {                                                             \
        copy.tensor = allocate(scenario->sizes.tensor.size);                                           \
        memcpy(copy.tensor, scenario->images.tensor, image_size(scenario->sizes.tensor.size));         \
    }
    KPOOL_TENSORS(COPY)
#undef COPY
    return copy;
}

void scenario_set_tokens(Scenario *scenario, uint32_t first_row, const uint32_t *tokens)
{
    uint32_t *offsets = (uint32_t *)scenario->images.input_row_offsets + scenario->call.input_row_offsets_base;
    offsets[0] = first_row;
    for (uint32_t r = 0; r < scenario->call.requests; r++) {
        offsets[r + 1] = offsets[r] + tokens[r];
    }
}

static void compare(const char *name, const void *actual, const void *expected, VkDeviceSize size)
{
    if (actual == NULL || expected == NULL || memcmp(actual, expected, image_size(size)) == 0) {
        return;
    }
    const unsigned char *a = actual;
    const unsigned char *e = expected;
    size_t i = 0;
    while (a[i] == e[i]) {
        i++;
    }
    fail_msg("%s: byte %zu of %zu is 0x%02x, expected 0x%02x", name, i, image_size(size), a[i], e[i]);
}

void scenario_run(Scenario *scenario, Gpu *gpu, const TensorImages *expected)
{
    Execution execution;
    if (!execute(gpu, &scenario->info, &scenario->call, 1, &scenario->images, &execution)) {
        fail_msg("%s", gpu->error);
    }
    if (execution.result != KPOOL_SUCCESS) {
        fail_msg("%s", execution.diagnostic.message);
    }
    if (execution.damaged != NULL) {
        fail_msg("a guard word beside %s was changed", execution.damaged);
    }
#define COMPARE(tensor, group) \
    compare(#tensor, scenario->images.tensor, expected->tensor, scenario->sizes.tensor.size);
    KPOOL_TENSORS(COMPARE)
#undef COMPARE
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

void scenario_each_device(void (*test)(Gpu *gpu))
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
