/* A kernel that cannot be made, in a context that lives on: every call of Vulkan and every allocation of its creation
 * fails once, with every result that it may have. After each the context and its other kernel work as before, nothing
 * is left behind, and the same creation succeeds when it is tried again. test_context does so for whole contexts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "counting_allocator.h"
#include "fake_vulkan.h"
#include "sample_call.h"

#define THE_BUFFER ((VkBuffer)(uintptr_t)0x200)

typedef struct Rig {
    FakeVulkan fake;
    CountingAllocator allocator;
    KpoolContext context;
    KpoolKernel survivor;
} Rig;

static void open_rig(Rig *rig, KpoolBindingLayout layout, uint32_t flags, bool callbacks)
{
    fake_vulkan_init(&rig->fake);
    counting_allocator_init(&rig->allocator);
    const KpoolContextCreateInfo info =
        sample_context_info(layout, flags, callbacks ? &rig->allocator.callbacks : NULL);
    assert_int_equal(kpoolCreateContext(&info, &rig->context, NULL), KPOOL_SUCCESS);
    const KpoolKernelCreateInfo kernelInfo = sample_kernel_info(KPOOL_OPERATION_SEED_TAIL);
    assert_int_equal(kpoolCreateKernel(rig->context, &kernelInfo, &rig->survivor, NULL), KPOOL_SUCCESS);
}

static void close_rig(Rig *rig)
{
    kpoolDestroyKernel(rig->survivor);
    kpoolDestroyContext(rig->context);
    assert_int_equal(rig->fake.object_count, 0);
    assert_int_equal(rig->allocator.live, 0);
    assert_null(rig->fake.misuse);
}

static void must_record(Rig *rig, KpoolKernel kernel)
{
    rig->fake.call_count = 0;
    assert_int_equal(sample_record(rig->context, kernel, THE_BUFFER, NULL), KPOOL_SUCCESS);
    uint32_t dispatches = 0;
    for (uint32_t i = 0; i < rig->fake.call_count; i++) {
        dispatches += rig->fake.calls[i].function == FAKE_vkCmdDispatch;
    }
    const KpoolOperation operation = kpoolGetKernelInfo(kernel).operation;
    assert_int_equal(dispatches, operation == KPOOL_OPERATION_COPY_SLOTS ? 2 : 1);
}

/* Tries once more what has failed, with nothing failing any more. */
static void must_recover(Rig *rig, const KpoolKernelCreateInfo *info)
{
    must_record(rig, rig->survivor);
    KpoolKernel kernel;
    assert_int_equal(kpoolCreateKernel(rig->context, info, &kernel, NULL), KPOOL_SUCCESS);
    must_record(rig, kernel);
    kpoolDestroyKernel(kernel);
}

/* The nth call of Vulkan fails: false where there was no nth, and the kernel was made and is gone again. */
static bool fails_at_call(const KpoolKernelCreateInfo *info, KpoolBindingLayout layout, uint32_t flags, VkResult code,
                          uint32_t n)
{
    Rig rig;
    open_rig(&rig, layout, flags, true);
    const uint32_t objects = rig.fake.object_count;
    const uint32_t live = rig.allocator.live;
    rig.fake.fail_at = rig.fake.result_calls + n;
    rig.fake.fail_result = code;
    KpoolKernel kernel = (KpoolKernel)(uintptr_t)1;
    KpoolDiagnostic diagnostic = {0};
    const KpoolResult result = kpoolCreateKernel(rig.context, info, &kernel, &diagnostic);
    const FakeFunction failed = rig.fake.failed;
    rig.fake.fail_at = 0;
    if (failed == FAKE_FUNCTION_COUNT || failed == FAKE_vkSetDebugUtilsObjectNameEXT) {
        assert_int_equal(result, KPOOL_SUCCESS);
        must_record(&rig, kernel);
        kpoolDestroyKernel(kernel);
    } else {
        const bool host = code == VK_ERROR_OUT_OF_HOST_MEMORY;
        assert_int_equal(result, host ? KPOOL_ERROR_OUT_OF_HOST_MEMORY : KPOOL_ERROR_VULKAN);
        assert_int_equal(diagnostic.result, result);
        assert_int_equal(diagnostic.vkResult, code);
        assert_string_equal(diagnostic.argument, fake_function_names[failed]);
        assert_null(kernel);
    }
    assert_int_equal(rig.fake.object_count, objects);
    assert_int_equal(rig.allocator.live, live);
    must_recover(&rig, info);
    assert_int_equal(rig.fake.object_count, objects);
    close_rig(&rig);
    return failed != FAKE_FUNCTION_COUNT;
}

static void test_every_call(void **state)
{
    (void)state;
    /* All that Vulkan lists for any of the functions that are called. */
    static const VkResult codes[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY,
                                     VK_ERROR_INVALID_SHADER_NV,  VK_PIPELINE_COMPILE_REQUIRED_EXT,
                                     VK_ERROR_UNKNOWN,            VK_ERROR_VALIDATION_FAILED_EXT};
    for (uint32_t c = 0; c < sizeof codes / sizeof codes[0]; c++) {
        for (uint32_t variant = 0; variant < 8; variant++) {
            for (int operation = KPOOL_OPERATION_SEED_TAIL; operation <= KPOOL_OPERATION_CHECK_SLOTS; operation++) {
                const KpoolKernelCreateInfo info = sample_kernel_info((KpoolOperation)operation);
                const KpoolBindingLayout layout =
                    variant % 2 != 0 ? KPOOL_BINDING_LAYOUT_WIDE : KPOOL_BINDING_LAYOUT_FLOOR;
                uint32_t n = 1;
                while (fails_at_call(&info, layout, variant / 2, codes[c], n)) {
                    n++;
                }
                /* A module and its pipelines, and as many names. */
                const uint32_t calls = operation == KPOOL_OPERATION_COPY_SLOTS ? 3 : 2;
                const bool names = (variant / 2 & KPOOL_CONTEXT_DEBUG_NAMES_BIT) != 0;
                assert_int_equal(n - 1, names ? 2 * calls : calls);
            }
        }
    }
}

/* The nth allocation fails, of the callbacks or of malloc: false where there was no nth. */
static bool fails_at_allocation(const KpoolKernelCreateInfo *info, bool callbacks, uint32_t n)
{
    Rig rig;
    open_rig(&rig, KPOOL_BINDING_LAYOUT_DEFAULT, 0, callbacks);
    const uint32_t objects = rig.fake.object_count;
    const uint32_t live = rig.allocator.live;
    const uint32_t before = rig.allocator.allocations;
    rig.allocator.fail_at = before + n;
    KpoolKernel kernel = (KpoolKernel)(uintptr_t)1;
    KpoolDiagnostic diagnostic = {0};
    heap_watch(callbacks ? 0 : n);
    const KpoolResult result = kpoolCreateKernel(rig.context, info, &kernel, &diagnostic);
    const bool failed = result != KPOOL_SUCCESS;
    if (!failed) {
        kpoolDestroyKernel(kernel);
    }
    const HeapCounts heap = heap_unwatch();
    const uint32_t asked = callbacks ? rig.allocator.allocations - before : heap.allocations;
    assert_int_equal(failed, asked >= n);
    if (failed) {
        assert_int_equal(result, KPOOL_ERROR_OUT_OF_HOST_MEMORY);
        assert_int_equal(diagnostic.result, result);
        assert_null(kernel);
    }
    assert_int_equal(heap.live, 0);
    assert_int_equal(rig.fake.object_count, objects);
    assert_int_equal(rig.allocator.live, live);
    rig.allocator.fail_at = 0;
    must_recover(&rig, info);
    close_rig(&rig);
    return failed;
}

static void test_every_allocation(void **state)
{
    (void)state;
    for (int operation = KPOOL_OPERATION_SEED_TAIL; operation <= KPOOL_OPERATION_CHECK_SLOTS; operation++) {
        const KpoolKernelCreateInfo info = sample_kernel_info((KpoolOperation)operation);
        for (int callbacks = 0; callbacks <= 1; callbacks++) {
            uint32_t n = 1;
            while (fails_at_allocation(&info, callbacks != 0, n)) {
                n++;
            }
            /* The kernel; the driver's objects come out of the callbacks too. */
            const uint32_t objects = operation == KPOOL_OPERATION_COPY_SLOTS ? 3 : 2;
            assert_int_equal(n - 1, callbacks != 0 ? 1 + objects : 1);
        }
    }
}

/* A command is one allocation: without it there is none, and the next try succeeds. */
static void test_allocation_of_a_command(void **state)
{
    (void)state;
    for (uint32_t variant = 0; variant < 4; variant++) {
        const bool callbacks = variant % 2 != 0;
        Rig rig;
        open_rig(&rig, KPOOL_BINDING_LAYOUT_DEFAULT, variant / 2 != 0 ? KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT : 0,
                 callbacks);
        const uint32_t live = rig.allocator.live;
        rig.allocator.fail_at = rig.allocator.allocations + 1;
        KpoolCommand command = (KpoolCommand)(uintptr_t)1;
        KpoolDiagnostic diagnostic = {0};
        heap_watch(callbacks ? 0 : 1);
        const KpoolResult result = sample_command(rig.survivor, THE_BUFFER, &command, &diagnostic);
        const HeapCounts heap = heap_unwatch();
        assert_int_equal(result, KPOOL_ERROR_OUT_OF_HOST_MEMORY);
        assert_int_equal(diagnostic.result, result);
        assert_string_equal(diagnostic.argument, "pAllocator");
        assert_null(command);
        assert_int_equal(heap.allocations, callbacks ? 0 : 1);
        assert_int_equal(heap.live, 0);
        rig.allocator.fail_at = 0;
        assert_int_equal(sample_command(rig.survivor, THE_BUFFER, &command, &diagnostic), KPOOL_SUCCESS);
        assert_int_equal(rig.allocator.live - live, callbacks ? 1 : 0);
        kpoolDestroyCommand(command);
        assert_int_equal(rig.allocator.live, live);
        must_record(&rig, rig.survivor);
        close_rig(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call),
        cmocka_unit_test(test_every_allocation),
        cmocka_unit_test(test_allocation_of_a_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
