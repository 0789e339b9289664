/* The last number that each capacity may have, and one more: refused, naming the argument and the limit. Nothing is
 * allocated. What bases and strides of seed_tail and the capacities of step may be is in test_shape. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_vulkan.h"
#include "kpool/kpool.h"

#define TWO_31 0x80000000u

static KpoolKernelCreateInfo info_of(KpoolOperation operation, uint32_t head_dim, uint32_t kpool, uint32_t topk)
{
    return (KpoolKernelCreateInfo){
        .operation = operation,
        .geometry = {.head_dim = head_dim, .kpool = kpool, .type = KPOOL_TYPE_F32},
        .topk = topk,
    };
}

static void assert_limit(const KpoolDiagnostic *diagnostic, const char *argument, const char *limit)
{
    assert_int_equal(diagnostic->result, KPOOL_ERROR_LIMIT);
    assert_string_equal(diagnostic->argument, argument);
    if (strstr(diagnostic->message, limit) == NULL) {
        fail_msg("no %s in: %s", limit, diagnostic->message);
    }
}

static void test_capacities(void **state)
{
    (void)state;
    static const struct {
        KpoolOperation operation;
        uint32_t head_dim, kpool, topk;
        KpoolCall call;
        size_t field; /* of the capacity; the last that fits is in the call */
        const char *argument;
    } cases[] = {
#define CAPACITY(name) offsetof(KpoolCall, name)
        {KPOOL_OPERATION_SEED_TAIL, 1, 1, 0, {.max_slots = TWO_31 / 2}, CAPACITY(max_slots), "tail_slot_stride"},
        {KPOOL_OPERATION_SEED_TAIL, 1024, 128, 0, {.max_slots = 1u << 13}, CAPACITY(max_slots), "tail_slot_stride"},
        {KPOOL_OPERATION_SEED_TAIL, 1, 1, 0, {.max_slots = 1, .rows = TWO_31}, CAPACITY(rows), "k_row_stride"},
        {KPOOL_OPERATION_SEED_TAIL, 1024, 1, 0, {.max_slots = 1, .rows = 1u << 21}, CAPACITY(rows), "k_row_stride"},
        {KPOOL_OPERATION_SEED_TAIL, 1, 1, 0, {.max_slots = 1, .requests = TWO_31 - 1}, CAPACITY(requests),
         "input_row_offsets"},
        {KPOOL_OPERATION_RING_CLOSE, 1, 1, 0, {.max_slots = 1, .requests = TWO_31 - 1}, CAPACITY(requests),
         "input_row_offsets"},
        {KPOOL_OPERATION_RING_CLOSE, 1024, 4, 0, {.max_slots = 1, .requests = 1u << 21}, CAPACITY(requests),
         "closed_pooled_row_stride"},
        {KPOOL_OPERATION_COMPRESS, 1, 1, 0, {.pooled_rows = TWO_31}, CAPACITY(pooled_rows), "pooled_row_stride"},
        {KPOOL_OPERATION_COMPRESS, 1024, 1, 0, {.pooled_rows = 1u << 21}, CAPACITY(pooled_rows), "pooled_row_stride"},
        {KPOOL_OPERATION_EXPAND_TOPK, 1, 1, 2, {.rows = TWO_31 / 2}, CAPACITY(rows), "pool_ids"},
        {KPOOL_OPERATION_EXPAND_TOPK, 1, 4, 2, {.rows = TWO_31 / 8}, CAPACITY(rows), "out"},
        {KPOOL_OPERATION_COPY_SLOTS, 1, 1, 0, {.max_slots = 1, .pair_count = TWO_31 / 2}, CAPACITY(pair_count),
         "pairs"},
        {KPOOL_OPERATION_COPY_SLOTS, 1024, 128, 0, {.max_slots = 1, .pair_count = 1u << 13}, CAPACITY(pair_count),
         "scratch"},
#undef CAPACITY
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const KpoolKernelCreateInfo info =
            info_of(cases[i].operation, cases[i].head_dim, cases[i].kpool, cases[i].topk);
        KpoolCall call = cases[i].call;
        uint32_t *capacity = (uint32_t *)(void *)((char *)&call + cases[i].field);
        KpoolBindings sizes;
        assert_int_equal(kpoolGetSizes(&info, &call, &sizes, NULL), KPOOL_SUCCESS);
        *capacity += 1;
        KpoolDiagnostic diagnostic = {0};
        assert_int_equal(kpoolGetSizes(&info, &call, &sizes, &diagnostic), KPOOL_ERROR_LIMIT);
        assert_limit(&diagnostic, cases[i].argument, "2^31");
        /* So many that another tensor may be the first that is too large. */
        *capacity = UINT32_MAX;
        assert_int_equal(kpoolGetSizes(&info, &call, &sizes, &diagnostic), KPOOL_ERROR_LIMIT);
        assert_limit(&diagnostic, diagnostic.argument, "2^31");
    }
}

/* One row of expand_topk stays within 31 bits, whatever the rows. */
static void test_topk(void **state)
{
    (void)state;
    static const struct {
        uint32_t kpool, most;
    } cases[] = {{1, TWO_31 - 1}, {2, (TWO_31 >> 1) - 1}, {128, (TWO_31 >> 7) - 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t with_tail = 0; with_tail <= 1; with_tail++) {
            KpoolKernelCreateInfo info = info_of(KPOOL_OPERATION_EXPAND_TOPK, 1, cases[i].kpool, cases[i].most);
            info.with_tail = with_tail;
            const KpoolCall call = {.requests = 1, .rows = 1};
            KpoolBindings sizes;
            assert_int_equal(kpoolGetSizes(&info, &call, &sizes, NULL), KPOOL_SUCCESS);
            const uint64_t tail = with_tail != 0 ? cases[i].kpool - 1 : 0;
            assert_true(sizes.out.size == 4 * ((uint64_t)cases[i].most * cases[i].kpool + tail));
            const KpoolCall two = {.requests = 1, .rows = 2};
            KpoolDiagnostic diagnostic = {0};
            assert_int_equal(kpoolGetSizes(&info, &two, &sizes, &diagnostic), KPOOL_ERROR_LIMIT);
            assert_limit(&diagnostic, cases[i].kpool == 1 ? "pool_ids" : "out", "2^31");
            for (uint32_t topk = cases[i].most + 1; topk != 0; topk = topk != UINT32_MAX ? UINT32_MAX : 0) {
                info.topk = topk;
                assert_int_equal(kpoolGetSizes(&info, &call, &sizes, &diagnostic), KPOOL_ERROR_LIMIT);
                assert_limit(&diagnostic, "createInfo.topk", "2^31");
            }
        }
    }
}

/* Bases and strides of the other operations up to the last value of 64 bits. */
static void test_huge_values(void **state)
{
    (void)state;
    static const VkDeviceSize values[] = {(VkDeviceSize)1 << 31,       (VkDeviceSize)1 << 32, (VkDeviceSize)1 << 62,
                                          ((VkDeviceSize)1 << 63) - 1, (VkDeviceSize)1 << 63, UINT64_MAX / 2,
                                          UINT64_MAX / 3,              UINT64_MAX - 1,        UINT64_MAX};
    static const struct {
        KpoolOperation operation;
        const char *name;
        size_t field;
    } cases[] = {
#define FIELD(operation, name) {KPOOL_OPERATION_##operation, #name, offsetof(KpoolCall, name)}
        FIELD(RING_CLOSE, closed_pooled_row_stride), FIELD(RING_CLOSE, closed_pooled_base),
        FIELD(RING_CLOSE, closed_pool_base),         FIELD(RING_CLOSE, ape_base),
        FIELD(COMPRESS, pooled_row_stride),          FIELD(COMPRESS, pooled_base),
        FIELD(COMPRESS, pool_row_offsets_base),      FIELD(COMPRESS, k_row_stride),
        FIELD(COMPRESS, gate_row_stride),            FIELD(COMPRESS, gate_base),
        FIELD(EXPAND_TOPK, pool_ids_base),           FIELD(EXPAND_TOPK, out_base),
        FIELD(EXPAND_TOPK, cache_lengths_base),      FIELD(COPY_SLOTS, pairs_base),
        FIELD(COPY_SLOTS, scratch_base),             FIELD(COPY_SLOTS, tail_slot_stride),
        FIELD(COPY_SLOTS, status_base),              FIELD(STEP, pooled_row_stride),
        FIELD(STEP, closed_pooled_row_stride),       FIELD(STEP, slot_idx_base),
#undef FIELD
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            const KpoolKernelCreateInfo info = info_of(cases[i].operation, 2, 4, 3);
            KpoolCall call = {.max_slots = 3, .requests = 3, .rows = 3, .pooled_rows = 3, .pair_count = 3};
            *(VkDeviceSize *)(void *)((char *)&call + cases[i].field) = values[v];
            KpoolBindings sizes;
            KpoolDiagnostic diagnostic = {0};
            assert_int_equal(kpoolGetSizes(&info, &call, &sizes, &diagnostic), KPOOL_ERROR_LIMIT);
            assert_limit(&diagnostic, cases[i].name, "2^31");
        }
    }
}

/* A range of as many bytes as the device takes is taken, one more byte is not; in a group so is the span. */
static void check_ranges(KpoolBindingLayout layout, uint32_t most)
{
    FakeVulkan fake;
    fake_vulkan_init(&fake);
    fake.properties.limits.maxStorageBufferRange = most;
    const KpoolContextCreateInfo contextInfo = {
        .apiVersion = VK_API_VERSION_1_1,
        .instance = fake_instance(),
        .physicalDevice = fake_physical_device(),
        .device = fake_device(),
        .pfnGetInstanceProcAddr = fake_get_instance_proc_addr,
        .bindingLayout = layout,
    };
    KpoolContext context;
    assert_int_equal(kpoolCreateContext(&contextInfo, &context, NULL), KPOOL_SUCCESS);
    const VkDescriptorSet set = (VkDescriptorSet)(uintptr_t)0x99;
    for (uint32_t tail = 0; tail <= 1; tail++) {
        /* A range for each descriptor of copy_slots, in buffers of their own. */
        KpoolBindings bindings = {
            .tail = {(VkBuffer)(uintptr_t)0x20, 0, 64},
            .status = {(VkBuffer)(uintptr_t)0x21, 0, 64},
            .pairs = {(VkBuffer)(uintptr_t)0x21, 64, 64},
            .scratch = {(VkBuffer)(uintptr_t)0x22, 0, 64},
        };
        KpoolRange *range = tail != 0 ? &bindings.tail : &bindings.scratch;
        const char *name = tail != 0 ? "tail" : "scratch";
        char limit[64];
        snprintf(limit, sizeof limit, "maxStorageBufferRange, %u", most);
        range->size = most;
        assert_int_equal(kpoolWriteDescriptorSet(context, KPOOL_OPERATION_COPY_SLOTS, set, &bindings, NULL),
                         KPOOL_SUCCESS);
        range->size = (VkDeviceSize)most + 1;
        KpoolDiagnostic diagnostic = {0};
        assert_int_equal(kpoolWriteDescriptorSet(context, KPOOL_OPERATION_COPY_SLOTS, set, &bindings, &diagnostic),
                         KPOOL_ERROR_LIMIT);
        assert_limit(&diagnostic, name, limit);
        range->size = 64;
        /* status at the start of the group, pairs to its last byte. */
        bindings.pairs.offset = (most - 64u) / 16 * 16;
        bindings.pairs.size = most - bindings.pairs.offset;
        assert_int_equal(kpoolWriteDescriptorSet(context, KPOOL_OPERATION_COPY_SLOTS, set, &bindings, NULL),
                         KPOOL_SUCCESS);
        bindings.pairs.size++;
        const KpoolResult result =
            kpoolWriteDescriptorSet(context, KPOOL_OPERATION_COPY_SLOTS, set, &bindings, &diagnostic);
        assert_int_equal(result, layout == KPOOL_BINDING_LAYOUT_FLOOR ? KPOOL_ERROR_LIMIT : KPOOL_SUCCESS);
        if (result != KPOOL_SUCCESS) {
            assert_limit(&diagnostic, "words", limit);
        }
    }
    kpoolDestroyContext(context);
    assert_null(fake.misuse);
}

static void test_ranges(void **state)
{
    (void)state;
    static const uint32_t limits[] = {1u << 27, 1u << 30, TWO_31 - 1, TWO_31, UINT32_MAX};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        check_ranges(KPOOL_BINDING_LAYOUT_WIDE, limits[i]);
        check_ranges(KPOOL_BINDING_LAYOUT_FLOOR, limits[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capacities),
        cmocka_unit_test(test_topk),
        cmocka_unit_test(test_huge_values),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
