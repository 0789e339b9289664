/* The rig itself: every range lies at the worst offset that it may have, and a write beside it is seen. seed_tail runs
 * with bindings (changed by functions that the linker wraps) that reach into the guards, so that the write lands on
 * every driver. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device_tests.h"

typedef enum Fault { FAULT_NONE, FAULT_BEFORE, FAULT_AFTER } Fault;

/* Bytes that the ranges are moved by: a multiple of every alignment, and no more than a guard has. */
#define SHIFT 256u

/* What the wrapped functions know of the test that runs, and it of them. */
static struct {
    Fault fault;
    KpoolBindings bindings; /* as the rig made them */
} planted;

static KpoolBindings shifted(const KpoolBindings *bindings)
{
    KpoolBindings wrong = *bindings;
    planted.bindings = *bindings;
    if (planted.fault == FAULT_BEFORE) {
        wrong.tail.offset -= SHIFT;
    } else if (planted.fault == FAULT_AFTER) {
        wrong.tail.size += SHIFT;
    }
    return wrong;
}

KpoolResult __real_kpoolWriteDescriptorSet(KpoolContext context, KpoolOperation operation, VkDescriptorSet set,
                                           const KpoolBindings *bindings, KpoolDiagnostic *diagnostic);
KpoolResult __wrap_kpoolWriteDescriptorSet(KpoolContext context, KpoolOperation operation, VkDescriptorSet set,
                                           const KpoolBindings *bindings, KpoolDiagnostic *diagnostic);
KpoolResult __real_kpoolCmdSeedTail(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                                    const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic);
KpoolResult __wrap_kpoolCmdSeedTail(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                                    const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic);

KpoolResult __wrap_kpoolWriteDescriptorSet(KpoolContext context, KpoolOperation operation, VkDescriptorSet set,
                                           const KpoolBindings *bindings, KpoolDiagnostic *diagnostic)
{
    const KpoolBindings wrong = shifted(bindings);
    return __real_kpoolWriteDescriptorSet(context, operation, set, &wrong, diagnostic);
}

KpoolResult __wrap_kpoolCmdSeedTail(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                                    const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic)
{
    const KpoolBindings wrong = shifted(bindings);
    KpoolCall moved = *call;
    moved.tail_base += planted.fault == FAULT_AFTER ? SHIFT / sizeof(float) : 0;
    return __real_kpoolCmdSeedTail(commandBuffer, kernel, set, &wrong, &moved, diagnostic);
}

/* One token for each slot of a ring, so that its first and its last bytes are written. */
static ScenarioOutcome seed(Gpu *gpu, Fault fault, uint32_t alignment, Complaint *complaint)
{
    const uint32_t tokens[] = {3, 3};
    Random random = {11};
    Scenario scenario = {
        .info = {.operation = KPOOL_OPERATION_SEED_TAIL,
                 .geometry = {.head_dim = 4, .kpool = 4, .ring = 4, .type = KPOOL_TYPE_F32},
                 .alignment = alignment},
        .call = {.max_slots = 2, .requests = 2, .rows = 6},
    };
    must_allocate(&scenario, &random);
    set_tokens(&scenario, 0, tokens);
    SCENARIO_WORDS(&scenario, slot_idx)[1] = 1;
    TensorImages expected = must_copy_images(&scenario);
    scenario_apply_reference(&scenario, &expected);
    planted.fault = fault;
    const ScenarioOutcome outcome = scenario_run(&scenario, gpu, &expected, complaint);
    scenario_free_images(&expected);
    scenario_free(&scenario);
    return outcome;
}

static void check_guards(Gpu *gpu)
{
    const Fault faults[] = {FAULT_BEFORE, FAULT_AFTER};
    for (size_t i = 0; i < 2; i++) {
        Complaint complaint;
        assert_int_equal(seed(gpu, faults[i], 4, &complaint), SCENARIO_WRONG);
        assert_string_equal(complaint.text, "a guard word beside tail was changed");
    }
}

static void check_barely_aligned(const KpoolRange *range, VkDeviceSize alignment)
{
    assert_int_equal(range->offset % (2 * alignment), alignment);
}

static void check_offsets(Gpu *gpu)
{
    const VkDeviceSize device = gpu->properties.limits.minStorageBufferOffsetAlignment;
    const bool wide = kpoolGetBindingLayout(gpu->context) == KPOOL_BINDING_LAYOUT_WIDE;
    for (uint32_t alignment = 4; alignment <= 16; alignment += 12) {
        Complaint complaint;
        assert_int_equal(seed(gpu, FAULT_NONE, alignment, &complaint), SCENARIO_RIGHT);
        const KpoolBindings *bindings = &planted.bindings;
        const VkDeviceSize rows = device > alignment ? device : alignment;
        /* The first of each group, then those that the floor layout lets lie anywhere. */
        check_barely_aligned(&bindings->tail, rows);
        check_barely_aligned(&bindings->k, rows);
        check_barely_aligned(&bindings->input_row_offsets, device > 4 ? device : 4);
        check_barely_aligned(&bindings->gate, wide ? rows : alignment);
        check_barely_aligned(&bindings->cache_lengths, wide && device > 4 ? device : 4);
        check_barely_aligned(&bindings->slot_idx, wide && device > 4 ? device : 4);
        check_barely_aligned(&bindings->status, wide && device > 4 ? device : 4);
    }
}

ON_EACH_CONTEXT(check_guards)
ON_EACH_CONTEXT(check_offsets)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_guards),
        cmocka_unit_test(test_check_offsets),
    };
    return cmocka_run_group_tests_name("guards", tests, NULL, NULL);
}
