/* Host arithmetic at its edges: geometries, requirements, sizes, strides and bases; and random small layouts against a
 * model that enumerates every element. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake_vulkan.h"
#include "kpool/kpool.h"

static const VkDeviceSize two_31 = (VkDeviceSize)1 << 31;

static KpoolResult get_sizes(const KpoolGeometry *geometry, const KpoolCall *call, KpoolBindings *sizes,
                             KpoolDiagnostic *diagnostic)
{
    const KpoolKernelCreateInfo info = {.operation = KPOOL_OPERATION_SEED_TAIL, .geometry = *geometry};
    return kpoolGetSizes(&info, call, sizes, diagnostic);
}

static void assert_accepted(const KpoolGeometry *geometry, const KpoolCall *call, KpoolBindings *sizes)
{
    KpoolDiagnostic diagnostic = {0};
    const KpoolResult result = get_sizes(geometry, call, sizes, &diagnostic);
    if (result != KPOOL_SUCCESS) {
        fail_msg("refused: %s", diagnostic.message);
    }
}

static void assert_refused(const KpoolGeometry *geometry, const KpoolCall *call, KpoolResult result,
                           const char *argument)
{
    KpoolBindings sizes;
    memset(&sizes, 0x5a, sizeof sizes);
    const KpoolBindings before = sizes;
    KpoolDiagnostic diagnostic = {0};
    const KpoolResult got = get_sizes(geometry, call, &sizes, &diagnostic);
    if (got != result) {
        fail_msg("%s: %s (%s), expected %s", argument, kpoolResultString(got), diagnostic.message,
                 kpoolResultString(result));
    }
    assert_int_equal(diagnostic.result, result);
    assert_string_equal(diagnostic.argument, argument);
    assert_non_null(strstr(diagnostic.message, argument));
    assert_memory_equal(&sizes, &before, sizeof sizes);
    assert_int_equal(get_sizes(geometry, call, &sizes, NULL), result);
}

/* ---------------------------------------------------------------------------------------- geometry */

static void test_geometry_edges(void **state)
{
    (void)state;
    enum { F32 = KPOOL_TYPE_F32, F16 = KPOOL_TYPE_F16, BF16 = KPOOL_TYPE_BF16 };
    static const struct {
        uint32_t head_dim, kpool, type, ring, rollback;
        const char *argument; /* NULL: accepted, with this ring: */
        uint32_t resolved;
    } cases[] = {
        {0, 4, F32, 0, 0, "geometry.head_dim", 0},
        {1, 4, F32, 0, 0, NULL, 4},
        {1024, 4, F32, 0, 0, NULL, 4},
        {1025, 4, F32, 0, 0, "geometry.head_dim", 0},
        {UINT32_MAX, 4, F32, 0, 0, "geometry.head_dim", 0},
        {1, 4, F16, 0, 0, "geometry.head_dim", 0},
        {127, 4, BF16, 0, 0, "geometry.head_dim", 0},
        {2, 4, F16, 0, 0, NULL, 4},
        {1024, 4, BF16, 0, 0, NULL, 4},
        {128, 0, F32, 0, 0, "geometry.kpool", 0},
        {128, 1, F32, 0, 0, NULL, 1},
        {128, 128, F32, 0, 0, NULL, 128},
        {128, 129, F32, 0, 0, "geometry.kpool", 0},
        {128, UINT32_MAX, F32, 0, 0, "geometry.kpool", 0},
        {128, 4, F32, 3, 0, "geometry.ring", 0},
        {128, 4, F32, 4, 0, NULL, 4},
        {128, 4, F32, 7, 4, "geometry.ring", 0},
        {128, 4, F32, 8, 4, NULL, 8},
        {128, 4, F32, 9, 4, NULL, 9},
        {128, 4, F32, 4096, 0, NULL, 4096},
        {128, 4, F32, 4097, 0, "geometry.ring", 0},
        {128, 4, F32, UINT32_MAX, 0, "geometry.ring", 0},
        {128, 4, F32, 0, 4092, NULL, 4096},
        {128, 4, F32, 0, 4093, "geometry.rollback", 0},
        {128, 4, F32, 4, UINT32_MAX, "geometry.rollback", 0},
        {128, 4, F32, 4, UINT32_MAX - 3, "geometry.rollback", 0},
        {128, 4, F32, 4, UINT32_MAX - 4, "geometry.rollback", 0},
        {128, 128, F32, 0, 3968, NULL, 4096},
        {128, 128, F32, 0, 3969, "geometry.rollback", 0},
        {128, 4, KPOOL_TYPE_NONE, 0, 0, "geometry.type", 0},
        {128, 4, 4, 0, 0, "geometry.type", 0},
        {128, 4, UINT32_MAX, 0, 0, "geometry.type", 0},
    };
    VkPhysicalDeviceLimits limits;
    fake_vulkan_least_limits(&limits);
    const KpoolCall call = {.max_slots = 1, .requests = 1, .rows = 1};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const KpoolGeometry g = {cases[i].head_dim, cases[i].kpool, (KpoolType)cases[i].type, cases[i].ring,
                                 cases[i].rollback};
        KpoolRequirements requirements = {0};
        KpoolDiagnostic diagnostic = {0};
        const KpoolResult result = kpoolGetRequirements(&limits, &g, &requirements, &diagnostic);
        if (cases[i].argument != NULL) {
            assert_int_equal(result, KPOOL_ERROR_INVALID_ARGUMENT);
            assert_string_equal(diagnostic.argument, cases[i].argument);
            assert_non_null(strstr(diagnostic.message, cases[i].argument));
            assert_int_equal(kpoolGetRequirements(&limits, &g, &requirements, NULL), result);
            assert_refused(&g, &call, KPOOL_ERROR_INVALID_ARGUMENT, cases[i].argument);
        } else {
            if (result != KPOOL_SUCCESS) {
                fail_msg("case %zu: %s", i, diagnostic.message);
            }
            assert_int_equal(requirements.ring, cases[i].resolved);
            KpoolBindings sizes;
            assert_accepted(&g, &call, &sizes);
            assert_int_equal(sizes.tail.size, 2 * (VkDeviceSize)cases[i].resolved * g.head_dim * kpoolTypeSize(g.type));
        }
    }
}

static void test_type_sizes(void **state)
{
    (void)state;
    assert_int_equal(kpoolTypeSize(KPOOL_TYPE_F32), 4);
    assert_int_equal(kpoolTypeSize(KPOOL_TYPE_F16), 2);
    assert_int_equal(kpoolTypeSize(KPOOL_TYPE_BF16), 2);
    assert_int_equal(kpoolTypeSize(KPOOL_TYPE_NONE), 0);
    assert_int_equal(kpoolTypeSize((KpoolType)4), 0);
}

/* ------------------------------------------------------------------------------------ requirements */

static void test_requirements(void **state)
{
    (void)state;
    const KpoolGeometry g = {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_BF16};
    VkPhysicalDeviceLimits limits;
    fake_vulkan_least_limits(&limits);
    KpoolRequirements r;
    assert_int_equal(kpoolGetRequirements(&limits, &g, &r, NULL), KPOOL_SUCCESS);
    assert_int_equal(r.apiVersion, VK_API_VERSION_1_1);
    assert_int_equal(r.bindingLayouts, KPOOL_BINDING_LAYOUT_FLOOR_BIT);
    assert_int_equal(r.usage, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
    assert_int_equal(r.offsetAlignment, 256);
    assert_int_equal(r.maxRange, 1u << 27);
    assert_int_equal(r.maxSlots, (1u << 27) / 2048);
    assert_int_equal(r.ring, 4);
    assert_int_equal(r.alignment, 16);

    limits.maxPerStageDescriptorStorageBuffers = 64;
    limits.maxDescriptorSetStorageBuffers = 64;
    limits.maxStorageBufferRange = UINT32_MAX;
    assert_int_equal(kpoolGetRequirements(&limits, &g, &r, NULL), KPOOL_SUCCESS);
    assert_int_equal(r.bindingLayouts, KPOOL_BINDING_LAYOUT_FLOOR_BIT | KPOOL_BINDING_LAYOUT_WIDE_BIT);
    assert_int_equal(r.maxSlots, UINT32_MAX / 2048);
    assert_true(r.maxRange <= UINT32_MAX);

    /* step binds 13 storage buffers, and nothing binds more. */
    uint32_t *const of_storage_buffers[] = {&limits.maxPerStageDescriptorStorageBuffers,
                                            &limits.maxDescriptorSetStorageBuffers, &limits.maxPerStageResources};
    for (size_t i = 0; i < sizeof of_storage_buffers / sizeof of_storage_buffers[0]; i++) {
        for (uint32_t count = 12; count <= 13; count++) {
            *of_storage_buffers[i] = count;
            assert_int_equal(kpoolGetRequirements(&limits, &g, &r, NULL), KPOOL_SUCCESS);
            assert_int_equal(r.bindingLayouts,
                             KPOOL_BINDING_LAYOUT_FLOOR_BIT | (count == 13 ? KPOOL_BINDING_LAYOUT_WIDE_BIT : 0));
        }
        *of_storage_buffers[i] = 64;
    }

    static const struct {
        uint32_t head_dim;
        KpoolType type;
        uint32_t alignment;
    } rows[] = {{4, KPOOL_TYPE_F32, 16}, {5, KPOOL_TYPE_F32, 4}, {6, KPOOL_TYPE_F32, 4}, {8, KPOOL_TYPE_F16, 16},
                {4, KPOOL_TYPE_F16, 4},  {12, KPOOL_TYPE_BF16, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const KpoolGeometry geometry = {.head_dim = rows[i].head_dim, .kpool = 4, .type = rows[i].type};
        assert_int_equal(kpoolGetRequirements(&limits, &geometry, &r, NULL), KPOOL_SUCCESS);
        assert_int_equal(r.alignment, rows[i].alignment);
    }

    /* The largest slot there is fits every device; a device with less than it gets a LIMIT, not a zero. */
    fake_vulkan_least_limits(&limits);
    const KpoolGeometry largest = {.head_dim = 1024, .kpool = 128, .type = KPOOL_TYPE_F32, .ring = 4096};
    assert_int_equal(kpoolGetRequirements(&limits, &largest, &r, NULL), KPOOL_SUCCESS);
    assert_int_equal(r.maxSlots, 4);
    limits.maxStorageBufferRange = 1u << 25;
    assert_int_equal(kpoolGetRequirements(&limits, &largest, &r, NULL), KPOOL_SUCCESS);
    assert_int_equal(r.maxSlots, 1);
    limits.maxStorageBufferRange--;
    KpoolDiagnostic diagnostic = {0};
    assert_int_equal(kpoolGetRequirements(&limits, &largest, &r, &diagnostic), KPOOL_ERROR_LIMIT);
    assert_string_equal(diagnostic.argument, "geometry");

    assert_int_equal(kpoolGetRequirements(NULL, &g, &r, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_string_equal(diagnostic.argument, "limits");
    assert_int_equal(kpoolGetRequirements(&limits, NULL, &r, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_string_equal(diagnostic.argument, "geometry");
    assert_int_equal(kpoolGetRequirements(&limits, &g, NULL, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_string_equal(diagnostic.argument, "requirements");
}

/* The most slots that the requirements name are sized within the range, one more is not. */
static void test_max_slots_is_the_most(void **state)
{
    (void)state;
    VkPhysicalDeviceLimits limits;
    fake_vulkan_least_limits(&limits);
    for (uint32_t head_dim = 2; head_dim <= 1024; head_dim += 34) {
        const KpoolGeometry g = {.head_dim = head_dim, .kpool = 3, .type = KPOOL_TYPE_F16, .rollback = 2};
        KpoolRequirements r;
        assert_int_equal(kpoolGetRequirements(&limits, &g, &r, NULL), KPOOL_SUCCESS);
        KpoolCall call = {.max_slots = r.maxSlots, .requests = 1, .rows = 1};
        KpoolBindings sizes;
        assert_accepted(&g, &call, &sizes);
        assert_true(sizes.tail.size <= r.maxRange);
        call.max_slots++;
        assert_accepted(&g, &call, &sizes);
        assert_true(sizes.tail.size > r.maxRange);
    }
}

/* ------------------------------------------------------------------------------------------- sizes */

static void test_dense_sizes(void **state)
{
    (void)state;
    const KpoolGeometry g = {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_BF16, .ring = 9, .rollback = 3};
    const KpoolCall call = {.max_slots = 7, .requests = 5, .rows = 17};
    KpoolBindings sizes;
    memset(&sizes, 0xff, sizeof sizes);
    assert_accepted(&g, &call, &sizes);
    assert_int_equal(sizes.tail.size, 7 * 2 * 9 * 128 * 2);
    assert_int_equal(sizes.k.size, 17 * 128 * 2);
    assert_int_equal(sizes.gate.size, 17 * 128 * 2);
    assert_int_equal(sizes.input_row_offsets.size, 6 * 4);
    assert_int_equal(sizes.cache_lengths.size, 5 * 4);
    assert_int_equal(sizes.slot_idx.size, 5 * 4);
    assert_int_equal(sizes.status.size, 16 * 4);
    /* The rest is zero, buffers and offsets too, and so are the tensors of other operations. */
    KpoolBindings rest = sizes;
    rest.tail.size = rest.k.size = rest.gate.size = 0;
    rest.input_row_offsets.size = rest.cache_lengths.size = rest.slot_idx.size = rest.status.size = 0;
    const KpoolBindings zero = {0};
    assert_memory_equal(&rest, &zero, sizeof zero);
}

static void test_empty_sizes(void **state)
{
    (void)state;
    const KpoolGeometry g = {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_F32};
    const KpoolCall call = {.max_slots = 1};
    KpoolBindings sizes;
    assert_accepted(&g, &call, &sizes);
    /* What is used is bound, and a range has 4 bytes at least. */
    assert_int_equal(sizes.k.size, 4);
    assert_int_equal(sizes.gate.size, 4);
    assert_int_equal(sizes.cache_lengths.size, 4);
    assert_int_equal(sizes.slot_idx.size, 4);
    assert_int_equal(sizes.pooled.size, 0);
    assert_int_equal(sizes.input_row_offsets.size, 4);
    assert_int_equal(sizes.status.size, 64);
}

static void test_null_arguments(void **state)
{
    (void)state;
    const KpoolKernelCreateInfo info = {.operation = KPOOL_OPERATION_SEED_TAIL,
                                        .geometry = {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_F32}};
    KpoolKernelCreateInfo none = info;
    none.operation = KPOOL_OPERATION_NONE;
    const KpoolCall call = {.max_slots = 1, .requests = 1, .rows = 1};
    KpoolCall no_slots = call;
    no_slots.max_slots = 0;
    KpoolCall chained = call;
    chained.pNext = &call;
    KpoolBindings sizes;
    const struct {
        const KpoolKernelCreateInfo *info;
        const KpoolCall *call;
        KpoolBindings *sizes;
        const char *argument;
    } cases[] = {
        {NULL, &call, &sizes, "createInfo"}, {&info, NULL, &sizes, "call"},
        {&info, &call, NULL, "sizes"},       {&none, &call, &sizes, "operation"},
        {&info, &no_slots, &sizes, "max_slots"}, {&info, &chained, &sizes, "call.pNext"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        KpoolDiagnostic diagnostic = {0};
        assert_int_equal(kpoolGetSizes(cases[i].info, cases[i].call, cases[i].sizes, &diagnostic),
                         KPOOL_ERROR_INVALID_ARGUMENT);
        assert_non_null(strstr(diagnostic.argument, cases[i].argument));
        assert_non_null(strstr(diagnostic.message, diagnostic.argument));
        assert_int_equal(kpoolGetSizes(cases[i].info, cases[i].call, cases[i].sizes, NULL),
                         KPOOL_ERROR_INVALID_ARGUMENT);
    }
}

/* ------------------------------------------------------------------------------------------- step */

static KpoolKernelCreateInfo step_info(uint32_t page_size)
{
    return (KpoolKernelCreateInfo){.operation = KPOOL_OPERATION_STEP,
                                   .geometry = {.head_dim = 8, .kpool = 4, .type = KPOOL_TYPE_BF16, .ring = 9},
                                   .pooled_type = KPOOL_TYPE_F32,
                                   .page_size = page_size};
}

static void assert_step_refused(const KpoolKernelCreateInfo *info, const KpoolCall *call, KpoolResult result,
                                const char *argument)
{
    KpoolBindings sizes;
    KpoolDiagnostic diagnostic = {0};
    assert_int_equal(kpoolGetSizes(info, call, &sizes, &diagnostic), result);
    assert_int_equal(diagnostic.result, result);
    assert_string_equal(diagnostic.argument, argument);
    assert_non_null(strstr(diagnostic.message, argument));
}

static void test_step_sizes(void **state)
{
    (void)state;
    const KpoolCall call = {.max_slots = 7, .requests = 5, .rows = 17, .pooled_rows = 6, .pages = 3, .max_pages = 11};
    KpoolBindings common = {0};
    common.tail.size = 7 * 2 * 9 * 8 * 2;
    common.k.size = 17 * 8 * 2;
    common.gate.size = 17 * 8 * 2;
    common.input_row_offsets.size = 6 * 4;
    common.cache_lengths.size = 5 * 4;
    common.slot_idx.size = 5 * 4;
    common.status.size = 16 * 4;
    common.ape.size = 4 * 8 * 4;
    common.pool_row_offsets.size = 6 * 4;
    common.closed_pool.size = 5 * 4;
    KpoolBindings expected = common;
    expected.closed_pooled.size = 5 * 8 * 4;
    expected.pooled.size = 6 * 8 * 4;
    KpoolKernelCreateInfo info = step_info(0);
    KpoolBindings sizes;
    assert_int_equal(kpoolGetSizes(&info, &call, &sizes, NULL), KPOOL_SUCCESS);
    assert_memory_equal(&sizes, &expected, sizeof sizes);

    expected = common;
    expected.pooled.size = 3 * 16 * 8 * 4;
    expected.block_table.size = 5 * 11 * 4;
    info = step_info(16);
    assert_int_equal(kpoolGetSizes(&info, &call, &sizes, NULL), KPOOL_SUCCESS);
    assert_memory_equal(&sizes, &expected, sizeof sizes);

    /* The other two take no notice of pages. */
    KpoolBindings of_compress = {0};
    of_compress.k = common.k;
    of_compress.gate = common.gate;
    of_compress.input_row_offsets = common.input_row_offsets;
    of_compress.cache_lengths = common.cache_lengths;
    of_compress.status = common.status;
    of_compress.ape = common.ape;
    of_compress.pool_row_offsets = common.pool_row_offsets;
    of_compress.pooled.size = 6 * 8 * 4;
    info = step_info(3);
    info.operation = KPOOL_OPERATION_COMPRESS;
    assert_int_equal(kpoolGetSizes(&info, &call, &sizes, NULL), KPOOL_SUCCESS);
    assert_memory_equal(&sizes, &of_compress, sizeof sizes);
    KpoolBindings of_ring_close = common;
    of_ring_close.pool_row_offsets.size = 0;
    of_ring_close.closed_pooled.size = 5 * 8 * 4;
    info.operation = KPOOL_OPERATION_RING_CLOSE;
    assert_int_equal(kpoolGetSizes(&info, &call, &sizes, NULL), KPOOL_SUCCESS);
    assert_memory_equal(&sizes, &of_ring_close, sizeof sizes);

    info = step_info(3);
    assert_step_refused(&info, &call, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.page_size");
}

/* Bases and strides of step's own tensors, in elements of their own type. */
static void test_step_layouts(void **state)
{
    (void)state;
    KpoolCall call = {.max_slots = 1,
                      .requests = 5,
                      .rows = 17,
                      .pooled_rows = 6,
                      .closed_pooled_row_stride = 10,
                      .pooled_row_stride = 12,
                      .closed_pooled_base = 20,
                      .pooled_base = 30,
                      .ape_base = 3,
                      .pool_row_offsets_base = 5,
                      .closed_pool_base = 7,
                      .pages = 3,
                      .max_pages = 2,
                      .block_table_base = 9};
    for (KpoolType type = KPOOL_TYPE_F32; type <= KPOOL_TYPE_BF16; type++) {
        for (uint32_t page_size = 0; page_size <= 2; page_size += 2) {
            KpoolKernelCreateInfo info = step_info(page_size);
            info.pooled_type = type;
            KpoolBindings sizes;
            assert_int_equal(kpoolGetSizes(&info, &call, &sizes, NULL), KPOOL_SUCCESS);
            const bool paged = page_size != 0;
            assert_int_equal(sizes.closed_pooled.size, paged ? 0 : (20 + 4 * 10 + 8) * kpoolTypeSize(type));
            /* 6 rows, or 3 pages of 2. */
            assert_int_equal(sizes.pooled.size, (30 + 5 * 12 + 8) * kpoolTypeSize(type));
            assert_int_equal(sizes.block_table.size, paged ? (9 + 5 * 2) * 4 : 0);
            assert_int_equal(sizes.ape.size, (3 + 4 * 8) * 4);
            assert_int_equal(sizes.pool_row_offsets.size, (5 + 6) * 4);
            assert_int_equal(sizes.closed_pool.size, (7 + 5) * 4);

            KpoolCall odd = call;
            odd.pooled_row_stride++;
            KpoolCall odd_base = call;
            odd_base.pooled_base++;
            KpoolCall overlapping = call;
            overlapping.pooled_row_stride = 6;
            if (type == KPOOL_TYPE_F32) {
                assert_int_equal(kpoolGetSizes(&info, &odd, &sizes, NULL), KPOOL_SUCCESS);
                assert_int_equal(kpoolGetSizes(&info, &odd_base, &sizes, NULL), KPOOL_SUCCESS);
            } else {
                assert_step_refused(&info, &odd, KPOOL_ERROR_INVALID_ARGUMENT, "pooled_row_stride");
                assert_step_refused(&info, &odd_base, KPOOL_ERROR_INVALID_ARGUMENT, "pooled_base");
            }
            assert_step_refused(&info, &overlapping, KPOOL_ERROR_INVALID_ARGUMENT, "pooled_row_stride");
        }
    }
}

/* The last of each that 31 bits hold, and one more. */
static void test_step_limits(void **state)
{
    (void)state;
    KpoolKernelCreateInfo one = step_info(0);
    one.geometry = (KpoolGeometry){.head_dim = 1, .kpool = 1, .type = KPOOL_TYPE_F32};
    KpoolBindings sizes;
    static const struct {
        uint32_t requests, pooled_rows;
        bool fits;
    } items[] = {
        {0, 0x7fffffff, true},          {0, 0x80000000, false},          {1, 0x7ffffffe, true},
        {1, 0x7fffffff, false},         {0x7fffffff, 0, true},           {0x7fffffff, 1, false},
        {0x80000000, 0, false},         {0x40000000, 0x3fffffff, true},  {0x40000000, 0x40000000, false},
        {UINT32_MAX, 1, false},         {1, UINT32_MAX, false},          {UINT32_MAX, UINT32_MAX, false},
        {0x80000000, 0x80000000, false},
    };
    for (uint32_t page_size = 0; page_size <= 4; page_size += 4) {
        one.page_size = page_size;
        for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
            const KpoolCall call = {.max_slots = 1, .requests = items[i].requests, .pooled_rows = items[i].pooled_rows,
                                    .pages = 1, .max_pages = 1};
            if (items[i].fits) {
                assert_int_equal(kpoolGetSizes(&one, &call, &sizes, NULL), KPOOL_SUCCESS);
            } else {
                assert_step_refused(&one, &call, KPOOL_ERROR_LIMIT, "pooled_rows");
            }
        }
    }
    /* Only step numbers both: the others have only what a tensor has a row for. */
    one.operation = KPOOL_OPERATION_COMPRESS;
    const KpoolCall both = {.requests = 0x7fffffff, .pooled_rows = 0x7fffffff};
    assert_int_equal(kpoolGetSizes(&one, &both, &sizes, NULL), KPOOL_SUCCESS);

    static const struct {
        uint32_t head_dim, page_size, pages;
        bool fits;
    } caches[] = {
        {128, 256, 1u << 16, true},     {128, 256, (1u << 16) + 1, false}, {128, 256, UINT32_MAX, false},
        {1, 1u << 31, 1, true},         {1, 1u << 31, 2, false},           {1, 1u << 31, UINT32_MAX, false},
        {2, 1u << 31, 1, false},        {1, 1, 1u << 31, true},            {1, 1, (1u << 31) + 1, false},
        {2, 1u << 16, 1u << 16, false}, {1, 1u << 16, 1u << 16, false},    {1, 1u << 16, 1u << 15, true},
        {1024, 1u << 31, 0, true},
    };
    for (size_t i = 0; i < sizeof caches / sizeof caches[0]; i++) {
        KpoolKernelCreateInfo info = step_info(caches[i].page_size);
        info.geometry = (KpoolGeometry){.head_dim = caches[i].head_dim, .kpool = 1, .type = KPOOL_TYPE_F32};
        const KpoolCall call = {.max_slots = 1, .requests = 1, .rows = 1, .pages = caches[i].pages, .max_pages = 1};
        if (caches[i].fits) {
            assert_int_equal(kpoolGetSizes(&info, &call, &sizes, NULL), KPOOL_SUCCESS);
            const VkDeviceSize elements = (VkDeviceSize)caches[i].head_dim * caches[i].page_size * caches[i].pages;
            assert_true(sizes.pooled.size == (elements != 0 ? 4 * elements : 4));
        } else {
            assert_step_refused(&info, &call, KPOOL_ERROR_LIMIT, "pooled_row_stride");
        }
    }

    static const struct {
        uint32_t requests, max_pages;
        VkDeviceSize base;
        const char *argument; /* NULL: fits */
    } tables[] = {
        {1u << 16, 1u << 15, 0, NULL},
        {1u << 16, 1u << 15, 1, "block_table"},
        {1u << 16, (1u << 15) + 1, 0, "block_table"},
        {(1u << 16) + 1, 1u << 15, 0, "block_table"},
        {1u << 16, 1u << 16, 0, "block_table"},
        {1u << 16, UINT32_MAX, 0, "block_table"},
        {1, 1u << 31, 0, NULL},
        {1, (1u << 31) + 1, 0, "block_table"},
        {1, 1, 0x7fffffff, NULL},
        {1, 1, 0x80000000, "block_table_base"},
        {1, 1, UINT64_MAX, "block_table_base"},
        {1u << 20, 0, 0, NULL},
    };
    one = step_info(16);
    one.geometry.head_dim = 2;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const KpoolCall call = {.max_slots = 1, .requests = tables[i].requests, .rows = 1, .pages = 1,
                                .max_pages = tables[i].max_pages, .block_table_base = tables[i].base};
        if (tables[i].argument == NULL) {
            assert_int_equal(kpoolGetSizes(&one, &call, &sizes, NULL), KPOOL_SUCCESS);
            const VkDeviceSize entries = (VkDeviceSize)tables[i].requests * tables[i].max_pages;
            assert_true(sizes.block_table.size == (entries == 0 ? 4 : (entries + tables[i].base) * 4));
        } else {
            assert_step_refused(&one, &call, KPOOL_ERROR_LIMIT, tables[i].argument);
        }
        /* Dense, there is no such table. */
        KpoolKernelCreateInfo dense = one;
        dense.page_size = 0;
        assert_int_equal(kpoolGetSizes(&dense, &call, &sizes, NULL), KPOOL_SUCCESS);
        assert_int_equal(sizes.block_table.size, 0);
    }
    KpoolCall no_slots = {.requests = 1, .rows = 1};
    assert_step_refused(&one, &no_slots, KPOOL_ERROR_INVALID_ARGUMENT, "max_slots");
}

/* ---------------------------------------------------------------------------------------- layouts */

/* The layouts that engines have. D = 8, R = 4: a row of 8, a plane of 32, a slot of 64. */
static void test_layouts_of_engines(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        KpoolCall call;
        VkDeviceSize elements; /* 0: refused */
        const char *argument;
    } cases[] = {
        {"padded rows", {.max_slots = 3, .tail_row_stride = 10}, 2 * 80 + 40 + 30 + 8, NULL},
        {"padded planes", {.max_slots = 3, .tail_plane_stride = 34}, 2 * 68 + 34 + 32, NULL},
        {"padded slots", {.max_slots = 3, .tail_slot_stride = 100}, 2 * 100 + 64, NULL},
        {"a base", {.max_slots = 3, .tail_base = 1000}, 1000 + 3 * 64, NULL},
        {"K|gate in one row", {.max_slots = 3, .tail_row_stride = 16, .tail_plane_stride = 8, .tail_slot_stride = 64},
         3 * 64, NULL},
        {"keys before gates", {.max_slots = 3, .tail_slot_stride = 32, .tail_plane_stride = 96}, 6 * 32, NULL},
        {"keys before gates, apart", {.max_slots = 3, .tail_slot_stride = 32, .tail_plane_stride = 1000},
         1000 + 96, NULL},
        {"keys before gates, overlapping", {.max_slots = 3, .tail_slot_stride = 32, .tail_plane_stride = 94}, 0,
         "tail_plane_stride"},
        {"positions outside slots", {.max_slots = 3, .tail_slot_stride = 16, .tail_plane_stride = 8,
                                     .tail_row_stride = 48}, 4 * 48, NULL},
        {"pages of other things", {.max_slots = 3, .tail_slot_stride = 4096, .tail_base = 512}, 512 + 2 * 4096 + 64,
         NULL},
        {"rows overlap", {.max_slots = 3, .tail_row_stride = 6}, 0, "tail_row_stride"},
        {"planes overlap", {.max_slots = 3, .tail_plane_stride = 30}, 0, "tail_plane_stride"},
        {"slots overlap", {.max_slots = 3, .tail_slot_stride = 62}, 0, "tail_slot_stride"},
        {"slots on planes", {.max_slots = 3, .tail_slot_stride = 32}, 0, "tail_slot_stride"},
        {"planes on rows", {.max_slots = 3, .tail_plane_stride = 8}, 0, "tail_plane_stride"},
        {"one slot's stride does not matter", {.max_slots = 1, .tail_slot_stride = 2}, 64, NULL},
    };
    for (KpoolType type = KPOOL_TYPE_F32; type <= KPOOL_TYPE_BF16; type++) {
        const KpoolGeometry g = {.head_dim = 8, .kpool = 4, .type = type};
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            KpoolCall call = cases[i].call;
            call.requests = 2;
            call.rows = 5;
            if (cases[i].elements == 0) {
                assert_refused(&g, &call, KPOOL_ERROR_INVALID_ARGUMENT, cases[i].argument);
                continue;
            }
            KpoolBindings sizes;
            assert_accepted(&g, &call, &sizes);
            if (sizes.tail.size != cases[i].elements * kpoolTypeSize(type)) {
                fail_msg("%s: %llu bytes, expected %llu elements", cases[i].name, (unsigned long long)sizes.tail.size,
                         (unsigned long long)cases[i].elements);
            }
        }
        KpoolCall call = {.max_slots = 1, .requests = 2, .rows = 5, .k_row_stride = 16, .gate_row_stride = 20,
                          .gate_base = 8};
        KpoolBindings sizes;
        assert_accepted(&g, &call, &sizes);
        assert_int_equal(sizes.k.size, (4 * 16 + 8) * kpoolTypeSize(type));
        assert_int_equal(sizes.gate.size, (8 + 4 * 20 + 8) * kpoolTypeSize(type));
        call.gate_row_stride = 6;
        assert_refused(&g, &call, KPOOL_ERROR_INVALID_ARGUMENT, "gate_row_stride");
        call.gate_row_stride = 8;
        call.k_row_stride = 2;
        assert_refused(&g, &call, KPOOL_ERROR_INVALID_ARGUMENT, "k_row_stride");
    }
}

typedef struct Field {
    const char *name;
    size_t offset;
    bool has_rows; /* of tail, k or gate: even for 2-byte types */
} Field;

#define FIELD(name, has_rows) {#name, offsetof(KpoolCall, name), has_rows}

static const Field fields[] = {
    FIELD(tail_slot_stride, true), FIELD(tail_plane_stride, true), FIELD(tail_row_stride, true),
    FIELD(k_row_stride, true),     FIELD(gate_row_stride, true),   FIELD(tail_base, true),
    FIELD(k_base, true),           FIELD(gate_base, true),         FIELD(input_row_offsets_base, false),
    FIELD(cache_lengths_base, false), FIELD(slot_idx_base, false), FIELD(status_base, false),
};

static VkDeviceSize *field_of(KpoolCall *call, const Field *field)
{
    return (VkDeviceSize *)(void *)((char *)call + field->offset);
}

static void test_odd_is_refused_for_2_bytes(void **state)
{
    (void)state;
    for (KpoolType type = KPOOL_TYPE_F32; type <= KPOOL_TYPE_BF16; type++) {
        const KpoolGeometry g = {.head_dim = 8, .kpool = 4, .type = type};
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
            KpoolCall call = {.max_slots = 3, .requests = 2, .rows = 5};
            *field_of(&call, &fields[i]) = 1001;
            KpoolBindings sizes;
            if (type == KPOOL_TYPE_F32 || !fields[i].has_rows) {
                assert_accepted(&g, &call, &sizes);
            } else {
                assert_refused(&g, &call, KPOOL_ERROR_INVALID_ARGUMENT, fields[i].name);
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------ limits */

static void test_the_last_element(void **state)
{
    (void)state;
    const KpoolGeometry one = {.head_dim = 1, .kpool = 1, .type = KPOOL_TYPE_F32};
    KpoolBindings sizes;
    /* Offset 2^31 - 1 is accepted, 2^31 refused: by the base, ... */
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strstr(fields[i].name, "_base") == NULL || strcmp(fields[i].name, "tail_base") == 0) {
            continue;
        }
        const bool status = strcmp(fields[i].name, "status_base") == 0;
        const bool offsets = strcmp(fields[i].name, "input_row_offsets_base") == 0;
        KpoolCall call = {.max_slots = 1, .requests = 1, .rows = 1};
        *field_of(&call, &fields[i]) = two_31 - (status ? 16 : offsets ? 2 : 1);
        assert_accepted(&one, &call, &sizes);
        *field_of(&call, &fields[i]) += 1;
        KpoolDiagnostic diagnostic = {0};
        assert_int_equal(get_sizes(&one, &call, &sizes, &diagnostic), KPOOL_ERROR_LIMIT);
    }
    /* ... by each stride, ... */
    KpoolCall call = {.max_slots = 1, .requests = 1, .rows = 2, .k_row_stride = two_31 - 1};
    assert_accepted(&one, &call, &sizes);
    assert_int_equal(sizes.k.size, 4 * two_31);
    call.k_row_stride++;
    assert_refused(&one, &call, KPOOL_ERROR_LIMIT, "k_row_stride");
    call = (KpoolCall){.max_slots = 1, .requests = 1, .rows = 3, .gate_row_stride = two_31 / 2 - 1, .gate_base = 1};
    assert_accepted(&one, &call, &sizes);
    assert_int_equal(sizes.gate.size, 4 * (two_31 - 1 + 1));
    call.gate_base++;
    assert_refused(&one, &call, KPOOL_ERROR_LIMIT, "gate_row_stride");
    call = (KpoolCall){.max_slots = 1, .requests = 1, .rows = 1, .tail_plane_stride = two_31 - 1};
    assert_accepted(&one, &call, &sizes);
    call.tail_plane_stride++;
    assert_refused(&one, &call, KPOOL_ERROR_LIMIT, "tail_plane_stride");
    call = (KpoolCall){.max_slots = 2, .requests = 1, .rows = 1, .tail_slot_stride = two_31 - 2};
    assert_accepted(&one, &call, &sizes);
    assert_int_equal(sizes.tail.size, 4 * two_31);
    call.tail_slot_stride++;
    assert_refused(&one, &call, KPOOL_ERROR_LIMIT, "tail_slot_stride");
    const KpoolGeometry two = {.head_dim = 1, .kpool = 2, .type = KPOOL_TYPE_F32};
    call = (KpoolCall){.max_slots = 1, .requests = 1, .rows = 1, .tail_plane_stride = 1, .tail_row_stride = two_31 - 2};
    assert_accepted(&two, &call, &sizes);
    call.tail_row_stride++;
    assert_refused(&two, &call, KPOOL_ERROR_LIMIT, "tail_row_stride");
    /* ... and by each count. A slot of 2^18: 2^13 of them. */
    const KpoolGeometry large = {.head_dim = 1024, .kpool = 128, .type = KPOOL_TYPE_BF16};
    call = (KpoolCall){.max_slots = 1u << 13, .requests = 1, .rows = 1};
    assert_accepted(&large, &call, &sizes);
    assert_int_equal(sizes.tail.size, 2 * two_31);
    call.max_slots++;
    assert_refused(&large, &call, KPOOL_ERROR_LIMIT, "tail_slot_stride");
    call.max_slots = UINT32_MAX;
    assert_refused(&large, &call, KPOOL_ERROR_LIMIT, "tail_slot_stride");
    call = (KpoolCall){.max_slots = 1, .requests = 1, .rows = 1u << 21};
    assert_accepted(&large, &call, &sizes);
    call.rows++;
    assert_refused(&large, &call, KPOOL_ERROR_LIMIT, "k_row_stride");
    call = (KpoolCall){.max_slots = 1, .requests = (uint32_t)(two_31 - 1), .rows = 1};
    assert_accepted(&large, &call, &sizes);
    assert_int_equal(sizes.input_row_offsets.size, 4 * two_31);
    call.requests++;
    assert_refused(&large, &call, KPOOL_ERROR_LIMIT, "input_row_offsets");
    call.requests = UINT32_MAX;
    assert_refused(&large, &call, KPOOL_ERROR_LIMIT, "input_row_offsets");
}

/* Values whose sums and products leave 64 bits are refused as a limit, whatever they wrap to. */
static void test_huge_values_are_a_limit(void **state)
{
    (void)state;
    static const VkDeviceSize values[] = {
        (VkDeviceSize)1 << 31, (VkDeviceSize)1 << 32,       (VkDeviceSize)1 << 60, (VkDeviceSize)1 << 61,
        (VkDeviceSize)1 << 62, ((VkDeviceSize)1 << 63) - 2, (VkDeviceSize)1 << 63, ((VkDeviceSize)1 << 63) + 2,
        UINT64_MAX / 4 * 2,    UINT64_MAX / 8 * 8,          UINT64_MAX - 1,
    };
    static const uint32_t counts[] = {2, 3, 4, 8, 255, UINT32_MAX};
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            for (uint32_t ring = 2; ring <= 4096; ring *= 2) {
                for (KpoolType type = KPOOL_TYPE_F32; type <= KPOOL_TYPE_F16; type++) {
                    const KpoolGeometry g = {.head_dim = 2, .kpool = 2, .type = type, .ring = ring};
                    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
                        KpoolCall call = {.max_slots = 2, .requests = 2, .rows = 2};
                        /* So many that no dense tensor holds them, only where the stride is judged first. */
                        const bool tail = strncmp(fields[i].name, "tail_", 5) == 0;
                        call.max_slots = tail || counts[c] < 256 ? counts[c] : 2;
                        call.rows = counts[c] < 256 ? counts[c] : 2;
                        *field_of(&call, &fields[i]) = values[v];
                        assert_refused(&g, &call, KPOOL_ERROR_LIMIT, fields[i].name);
                    }
                }
            }
        }
    }
    /* Where only the planes are spread by it, the planes are what is too far apart. */
    const KpoolGeometry g = {.head_dim = 2, .kpool = 1, .type = KPOOL_TYPE_F32};
    const KpoolCall call = {.max_slots = 4, .requests = 1, .rows = 1, .tail_row_stride = (VkDeviceSize)1 << 63};
    assert_refused(&g, &call, KPOOL_ERROR_LIMIT, "tail_plane_stride");
    /* A base below the limit, with no room for a row behind it. */
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strstr(fields[i].name, "_base") != NULL) {
            KpoolCall based = {.max_slots = 2, .requests = 2, .rows = 2};
            *field_of(&based, &fields[i]) = KPOOL_MAX_ELEMENTS - 1;
            assert_refused(&g, &based, KPOOL_ERROR_LIMIT, fields[i].name);
        }
    }
}

/* --------------------------------------------------------------------------------- random layouts */

static uint32_t next_random(uint32_t *random, uint32_t below)
{
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    return *random % below;
}

enum { MODEL_DIMENSIONS = 4, MODEL_ELEMENTS = 8192 };

typedef struct Model {
    uint32_t extents[MODEL_DIMENSIONS];
    uint32_t strides[MODEL_DIMENSIONS];
    uint32_t base;
} Model;

/* Whether no two elements share a place, by looking at all of them; *furthest is the last one's. */
static bool model_places(const Model *model, uint32_t *furthest)
{
    static bool taken[MODEL_ELEMENTS];
    memset(taken, 0, sizeof taken);
    bool apart = true;
    *furthest = 0;
    for (uint32_t a = 0; a < model->extents[0]; a++) {
        for (uint32_t b = 0; b < model->extents[1]; b++) {
            for (uint32_t c = 0; c < model->extents[2]; c++) {
                for (uint32_t d = 0; d < model->extents[3]; d++) {
                    const uint32_t place = model->base + a * model->strides[0] + b * model->strides[1] +
                                           c * model->strides[2] + d * model->strides[3];
                    assert_in_range(place, 0, MODEL_ELEMENTS - 1);
                    apart = apart && !taken[place];
                    taken[place] = true;
                    *furthest = place > *furthest ? place : *furthest;
                }
            }
        }
    }
    return apart;
}

/* The contract's nesting, said without sorting: every stride of a dimension longer than 1 exceeds what all those with
 * smaller strides reach, and no two are equal. */
static bool model_nested(const Model *model)
{
    for (uint32_t i = 0; i < MODEL_DIMENSIONS; i++) {
        uint32_t reach = 0;
        for (uint32_t j = 0; j < MODEL_DIMENSIONS; j++) {
            if (i == j || model->extents[j] == 1 || model->extents[i] == 1) {
                continue;
            }
            if (model->strides[j] == model->strides[i]) {
                return false;
            }
            if (model->strides[j] < model->strides[i]) {
                reach += (model->extents[j] - 1) * model->strides[j];
            }
        }
        if (model->extents[i] != 1 && model->strides[i] <= reach) {
            return false;
        }
    }
    return true;
}

static void test_random_layouts(void **state)
{
    (void)state;
    uint32_t random = 20240229;
    uint32_t accepted = 0;
    uint32_t collided = 0;
    uint32_t dense_tails = 0;
    for (uint32_t round = 0; round < 40000; round++) {
        const KpoolType type = (KpoolType)(1 + next_random(&random, 3));
        const uint32_t unit = type == KPOOL_TYPE_F32 ? 1 : 2;
        const KpoolGeometry g = {.head_dim = unit * (1 + next_random(&random, 3)),
                                 .kpool = 1 + next_random(&random, 4),
                                 .type = type};
        /* Strides that often fit, and often do not: a small multiple of what could be dense, or anything small. */
        const uint32_t dense[3] = {g.head_dim, g.head_dim * g.kpool, 2 * g.head_dim * g.kpool};
        uint32_t given[3];
        for (uint32_t i = 0; i < 3; i++) {
            const uint32_t kind = next_random(&random, 4);
            given[i] = kind == 0   ? 0
                       : kind == 1 ? dense[next_random(&random, 3)] * (1 + next_random(&random, 4))
                                   : unit * next_random(&random, kind == 2 ? 12 : 60);
            if (next_random(&random, 50) == 0) {
                given[i]++;
            }
        }
        const KpoolCall call = {.max_slots = 1 + next_random(&random, 4),
                                .requests = 1,
                                .rows = 1,
                                .tail_row_stride = given[0],
                                .tail_plane_stride = given[1],
                                .tail_slot_stride = given[2],
                                .tail_base = unit * next_random(&random, 5)};
        const uint32_t row = given[0] != 0 ? given[0] : g.head_dim;
        const uint32_t plane = given[1] != 0 ? given[1] : g.kpool * row;
        const uint32_t slot = given[2] != 0 ? given[2] : 2 * plane;
        const Model model = {{call.max_slots, 2, g.kpool, g.head_dim}, {slot, plane, row, 1}, (uint32_t)call.tail_base};
        uint32_t furthest;
        const bool apart = model_places(&model, &furthest);
        const bool even = unit == 1 || (row % 2 == 0 && plane % 2 == 0 && slot % 2 == 0);
        KpoolBindings sizes;
        KpoolDiagnostic diagnostic = {0};
        const KpoolResult result = get_sizes(&g, &call, &sizes, &diagnostic);
        collided += !apart;
        if (result == KPOOL_SUCCESS) {
            accepted++;
            dense_tails += given[0] == 0 && given[1] == 0 && given[2] == 0;
            assert_true(apart);
            assert_true(even);
            assert_true(model_nested(&model));
            assert_int_equal(sizes.tail.size, ((VkDeviceSize)furthest + 1) * kpoolTypeSize(type));
        } else {
            assert_int_equal(result, KPOOL_ERROR_INVALID_ARGUMENT);
            assert_false(even && model_nested(&model));
        }
    }
    /* The layouts drawn are of every kind, or this test says little. */
    assert_in_range(accepted, 5000, 39000);
    assert_in_range(collided, 5000, 39000);
    assert_in_range(dense_tails, 100, 39000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_geometry_edges),
        cmocka_unit_test(test_type_sizes),
        cmocka_unit_test(test_requirements),
        cmocka_unit_test(test_max_slots_is_the_most),
        cmocka_unit_test(test_dense_sizes),
        cmocka_unit_test(test_empty_sizes),
        cmocka_unit_test(test_null_arguments),
        cmocka_unit_test(test_step_sizes),
        cmocka_unit_test(test_step_layouts),
        cmocka_unit_test(test_step_limits),
        cmocka_unit_test(test_layouts_of_engines),
        cmocka_unit_test(test_odd_is_refused_for_2_bytes),
        cmocka_unit_test(test_the_last_element),
        cmocka_unit_test(test_huge_values_are_a_limit),
        cmocka_unit_test(test_random_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
