/* Refusals that take more than one wrong field, or an argument that may be absent: each with its message, and without
 * a diagnostic to put it in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake_vulkan.h"
#include "kpool/kpool.h"

static void assert_said(const KpoolDiagnostic *diagnostic, KpoolResult result, const char *argument)
{
    assert_int_equal(diagnostic->result, result);
    assert_string_equal(diagnostic->argument, argument);
    assert_non_null(strstr(diagnostic->message, argument));
}

static KpoolContext open_context(FakeVulkan *fake)
{
    fake_vulkan_init(fake);
    const KpoolContextCreateInfo info = {
        .apiVersion = VK_API_VERSION_1_1,
        .instance = fake_instance(),
        .physicalDevice = fake_physical_device(),
        .device = fake_device(),
        .pfnGetInstanceProcAddr = fake_get_instance_proc_addr,
    };
    KpoolContext context;
    assert_int_equal(kpoolCreateContext(&info, &context, NULL), KPOOL_SUCCESS);
    return context;
}

/* The operations whose items share nothing: one a workgroup, and no other number. */
static void test_whole_groups_have_one_item(void **state)
{
    (void)state;
    FakeVulkan fake;
    const KpoolContext context = open_context(&fake);
    for (int operation = KPOOL_OPERATION_SEED_TAIL; operation <= KPOOL_OPERATION_CHECK_SLOTS; operation++) {
        const bool whole =
            operation == KPOOL_OPERATION_POOL_ROW_OFFSETS || operation == KPOOL_OPERATION_EXPAND_TOPK ||
            operation == KPOOL_OPERATION_CHECK_SLOTS;
        for (uint32_t items = 0; items <= 4; items = items == 0 ? 1 : 2 * items) {
            const KpoolKernelCreateInfo info = {
                .operation = (KpoolOperation)operation,
                .geometry = {.head_dim = 8, .kpool = 4, .type = KPOOL_TYPE_F32},
                .itemsPerGroup = items,
                .topk = 3,
            };
            KpoolKernel kernel = (KpoolKernel)(uintptr_t)1;
            KpoolDiagnostic diagnostic = {0};
            const KpoolResult result = kpoolCreateKernel(context, &info, &kernel, &diagnostic);
            if (whole && items > 1) {
                assert_int_equal(result, KPOOL_ERROR_INVALID_ARGUMENT);
                assert_said(&diagnostic, result, "createInfo.itemsPerGroup");
                assert_null(kernel);
            } else {
                assert_int_equal(result, KPOOL_SUCCESS);
                kpoolDestroyKernel(kernel);
            }
        }
    }
    kpoolDestroyContext(context);
    assert_int_equal(fake.object_count, 0);
    assert_null(fake.misuse);
}

static void test_topk_layout(void **state)
{
    (void)state;
    const KpoolCall call = {.requests = 1, .rows = 1};
    for (int layout = -1; layout <= 3; layout++) {
        const KpoolKernelCreateInfo info = {
            .operation = KPOOL_OPERATION_EXPAND_TOPK,
            .geometry = {.head_dim = 8, .kpool = 4, .type = KPOOL_TYPE_F32},
            .topk = 3,
            .topk_layout = (KpoolTopkLayout)layout,
        };
        const bool known = layout == KPOOL_TOPK_LAYOUT_FIXED || layout == KPOOL_TOPK_LAYOUT_COMPACT;
        KpoolBindings sizes;
        KpoolDiagnostic diagnostic = {0};
        const KpoolResult result = kpoolGetSizes(&info, &call, &sizes, &diagnostic);
        assert_int_equal(result, known ? KPOOL_SUCCESS : KPOOL_ERROR_INVALID_ARGUMENT);
        if (!known) {
            assert_said(&diagnostic, result, "createInfo.topk_layout");
        }
    }
}

static void test_vulkan_failure_without_diagnostic(void **state)
{
    (void)state;
    FakeVulkan fake;
    const KpoolContext context = open_context(&fake);
    const KpoolKernelCreateInfo info = {
        .operation = KPOOL_OPERATION_SEED_TAIL,
        .geometry = {.head_dim = 8, .kpool = 4, .type = KPOOL_TYPE_F32},
    };
    KpoolKernel kernel = (KpoolKernel)(uintptr_t)1;
    fake.fail_at = fake.result_calls + 1;
    fake.fail_result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    assert_int_equal(kpoolCreateKernel(context, &info, &kernel, NULL), KPOOL_ERROR_VULKAN);
    assert_null(kernel);
    kpoolDestroyContext(context);
    assert_int_equal(fake.object_count, 0);
}

/* What only a command refuses; the rest is what the kpoolCmd... functions refuse, and test_record compares. */
static void test_command_arguments(void **state)
{
    (void)state;
    KpoolDiagnostic diagnostic = {0};
    const KpoolCall call = {.max_slots = 1};
    const KpoolBindings bindings = {0};
    assert_int_equal(kpoolCreateCommand(NULL, &bindings, &call, NULL, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_said(&diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "command");
    KpoolCommand command = (KpoolCommand)(uintptr_t)1;
    assert_int_equal(kpoolCreateCommand(NULL, &bindings, &call, &command, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_said(&diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "kernel");
    assert_null(command);
    assert_int_equal(kpoolCmdExecute(fake_command_buffer(), NULL, VK_NULL_HANDLE, &diagnostic),
                     KPOOL_ERROR_INVALID_ARGUMENT);
    assert_said(&diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "command");
    assert_int_equal(kpoolCmdExecute(fake_command_buffer(), NULL, VK_NULL_HANDLE, NULL), KPOOL_ERROR_INVALID_ARGUMENT);
    kpoolDestroyCommand(NULL);
}

static void test_offsets_of_nothing(void **state)
{
    (void)state;
    const uint32_t offsets[2] = {0, 4};
    uint32_t got[2] = {7, 7};
    KpoolDiagnostic diagnostic = {0};
    const KpoolCall none = {.rows = 4};
    assert_int_equal(kpoolPoolRowOffsets(4, &none, offsets, NULL, got, NULL, NULL), KPOOL_SUCCESS);
    assert_int_equal(got[0], 0);
    assert_int_equal(got[1], 7);
    const KpoolCall one = {.requests = 1, .rows = 4};
    assert_int_equal(kpoolPoolRowOffsets(4, &one, offsets, NULL, got, NULL, &diagnostic),
                     KPOOL_ERROR_INVALID_ARGUMENT);
    assert_said(&diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "cache_lengths");
}

/* A sum beyond 32 bits stays there, and a dropped request without a status to count it in owns nothing. */
static void test_offsets_saturate(void **state)
{
    (void)state;
    const uint32_t offsets[7] = {0, UINT32_MAX, 0, UINT32_MAX - 1, 0, 1, 2};
    const uint32_t lengths[6] = {0};
    uint32_t got[7];
    const KpoolCall call = {.requests = 6, .rows = UINT32_MAX};
    assert_int_equal(kpoolPoolRowOffsets(1, &call, offsets, lengths, got, NULL, NULL), KPOOL_SUCCESS);
    const uint32_t expected[7] = {0,          UINT32_MAX, UINT32_MAX, UINT32_MAX,
                                  UINT32_MAX, UINT32_MAX, UINT32_MAX};
    assert_memory_equal(got, expected, sizeof got);
}

/* A pair that is itself refused takes no destination from another. */
static void test_refused_pairs_own_nothing(void **state)
{
    (void)state;
    const uint32_t pairs[4] = {9, 1, 0, 1};
    uint32_t status[KPOOL_STATUS_COUNT] = {0};
    const KpoolCall call = {.max_slots = 4, .pair_count = 2};
    KpoolDiagnostic diagnostic = {0};
    assert_int_equal(kpoolValidatePairs(&call, pairs, status, &diagnostic), KPOOL_ERROR_INVALID_DATA);
    assert_int_equal(status[KPOOL_STATUS_PAIR_RANGE], 1);
    assert_non_null(strstr(diagnostic.message, "pair 0:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_groups_have_one_item),
        cmocka_unit_test(test_topk_layout),
        cmocka_unit_test(test_vulkan_failure_without_diagnostic),
        cmocka_unit_test(test_command_arguments),
        cmocka_unit_test(test_offsets_of_nothing),
        cmocka_unit_test(test_offsets_saturate),
        cmocka_unit_test(test_refused_pairs_own_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
