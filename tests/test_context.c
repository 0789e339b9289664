/* Contexts and kernels on a fake device: what is created, that it goes in reverse order, and that every failure of
 * every call and of every allocation leaves nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../shaders/interface.h"
#include "counting_allocator.h"
#include "fake_vulkan.h"
#include "kpool/kpool.h"

#define ALL_FLAGS (KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT | KPOOL_CONTEXT_DEBUG_NAMES_BIT)

enum { OPERATIONS = 8 };

/* copy_slots has two pipelines. */
enum { PIPELINES = OPERATIONS + 1 };

static const KpoolBindingLayout layouts[2] = {KPOOL_BINDING_LAYOUT_WIDE, KPOOL_BINDING_LAYOUT_FLOOR};

typedef struct Specialization {
#define SPECIALIZATION_FIELD(id, name) uint32_t name;
    KPOOL_SPECIALIZATION(SPECIALIZATION_FIELD)
#undef SPECIALIZATION_FIELD
} Specialization;

static bool makes_keys(KpoolOperation operation)
{
    return operation == KPOOL_OPERATION_RING_CLOSE || operation == KPOOL_OPERATION_COMPRESS ||
           operation == KPOOL_OPERATION_STEP;
}

static bool moves_rows(KpoolOperation operation)
{
    return operation == KPOOL_OPERATION_SEED_TAIL || operation == KPOOL_OPERATION_STEP;
}

/* The bindings of the set layout that the calls so far made for the operation: bit i is binding i. */
static uint32_t declared_bindings(const FakeVulkan *fake, KpoolContext context, KpoolOperation operation)
{
    const uint64_t layout = (uint64_t)kpoolGetDescriptorSetLayout(context, operation);
    uint32_t bindings = 0;
    for (uint32_t i = 0; i < fake->call_count; i++) {
        const FakeCall *call = &fake->calls[i];
        bindings |= call->function == FAKE_vkCreateDescriptorSetLayout && call->handle == layout ? call->bindings : 0;
    }
    return bindings;
}

static KpoolContextCreateInfo context_info(KpoolBindingLayout layout, uint32_t flags,
                                           const VkAllocationCallbacks *callbacks)
{
    return (KpoolContextCreateInfo){
        .flags = flags,
        .apiVersion = VK_API_VERSION_1_1,
        .instance = fake_instance(),
        .physicalDevice = fake_physical_device(),
        .device = fake_device(),
        .pfnGetInstanceProcAddr = fake_get_instance_proc_addr,
        .pAllocator = callbacks,
        .bindingLayout = layout,
    };
}

static KpoolKernelCreateInfo kernel_info_of(KpoolOperation operation)
{
    return (KpoolKernelCreateInfo){
        .operation = operation,
        .geometry = {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_BF16, .ring = 9, .rollback = 3},
        .page_size = operation == KPOOL_OPERATION_STEP ? 16 : 0,
        .topk = operation == KPOOL_OPERATION_EXPAND_TOPK ? 7 : 0,
    };
}

static KpoolKernelCreateInfo kernel_info(void)
{
    return kernel_info_of(KPOOL_OPERATION_SEED_TAIL);
}

/* The sentence that a failure owes: of the right length, and naming the argument. */
static void assert_said(const KpoolDiagnostic *diagnostic, KpoolResult result, const char *argument)
{
    assert_int_equal(diagnostic->result, result);
    assert_non_null(diagnostic->argument);
    assert_string_equal(diagnostic->argument, argument);
    assert_non_null(strstr(diagnostic->message, argument));
    assert_in_range(strlen(diagnostic->message), strlen(argument) + 5, sizeof diagnostic->message - 2);
}

static void assert_no_misuse(const FakeVulkan *fake)
{
    if (fake->misuse != NULL) {
        fail_msg("misuse of Vulkan: %s", fake->misuse);
    }
}

static uint32_t count_operations(KpoolContext context)
{
    uint32_t count = 0;
    while (kpoolGetDescriptorCount(context, (KpoolOperation)(count + 1)) != 0) {
        count++;
    }
    return count;
}

/* Creates a context and a kernel of every operation, and destroys what was made. */
static KpoolResult create_all(const KpoolContextCreateInfo *info, KpoolDiagnostic *diagnostic)
{
    KpoolContext context = (KpoolContext)(uintptr_t)1;
    KpoolResult result = kpoolCreateContext(info, &context, diagnostic);
    if (result != KPOOL_SUCCESS) {
        assert_null(context);
        return result;
    }
    KpoolKernel kernels[OPERATIONS];
    assert_int_equal(count_operations(context), OPERATIONS);
    uint32_t made = 0;
    while (made < OPERATIONS && result == KPOOL_SUCCESS) {
        const KpoolKernelCreateInfo kernelInfo = kernel_info_of((KpoolOperation)(made + 1));
        kernels[made] = (KpoolKernel)(uintptr_t)1;
        result = kpoolCreateKernel(context, &kernelInfo, &kernels[made], diagnostic);
        if (result != KPOOL_SUCCESS) {
            assert_null(kernels[made]);
        } else {
            made++;
        }
    }
    while (made > 0) {
        kpoolDestroyKernel(kernels[--made]);
    }
    kpoolDestroyContext(context);
    return result;
}

/* ---------------------------------------------------------------------------------- what is made */

static void test_creates_and_destroys_in_reverse_order(void **state)
{
    (void)state;
    for (uint32_t l = 0; l < 2; l++) {
        FakeVulkan fake;
        CountingAllocator allocator;
        fake_vulkan_init(&fake);
        counting_allocator_init(&allocator);
        const KpoolContextCreateInfo info = context_info(layouts[l], 0, &allocator.callbacks);
        KpoolContext context;
        assert_int_equal(kpoolCreateContext(&info, &context, NULL), KPOOL_SUCCESS);
        assert_int_equal(kpoolGetBindingLayout(context), layouts[l]);

        uint64_t made[FAKE_MOST_CALLS];
        uint32_t count = fake.call_count;
        assert_in_range(count, 2, FAKE_MOST_CALLS - 1);
        for (uint32_t i = 0; i < count; i++) {
            const FakeCall *call = &fake.calls[i];
            assert_int_equal(call->function,
                             i % 2 == 0 ? FAKE_vkCreateDescriptorSetLayout : FAKE_vkCreatePipelineLayout);
            if (call->function == FAKE_vkCreatePipelineLayout) {
                assert_int_equal((uint64_t)call->setLayout, fake.calls[i - 1].handle);
                assert_int_equal(call->push_size % 4, 0);
                assert_in_range(call->push_size, 4, 128);
            } else {
                assert_int_equal(call->flags, 0);
            }
            made[i] = call->handle;
        }
        assert_int_equal(count, layouts[l] == KPOOL_BINDING_LAYOUT_FLOOR ? 2 : 2 * OPERATIONS);
        assert_int_equal(count_operations(context), OPERATIONS);
        static const struct {
            KpoolOperation operation;
            uint32_t bindings, count; /* in the wide layout */
        } sets[OPERATIONS] = {
            {KPOOL_OPERATION_SEED_TAIL, 0x7f, 7},     {KPOOL_OPERATION_RING_CLOSE, 0x6ff, 10},
            {KPOOL_OPERATION_COMPRESS, 0x10fff, 13},  {KPOOL_OPERATION_POOL_ROW_OFFSETS, 0x8178, 6},
            {KPOOL_OPERATION_EXPAND_TOPK, 0x3058, 5}, {KPOOL_OPERATION_COPY_SLOTS, 0xc041, 4},
            {KPOOL_OPERATION_STEP, 0x10fff, 13},      {KPOOL_OPERATION_CHECK_SLOTS, 0x8178, 6},
        };
        for (uint32_t o = 0; o < OPERATIONS; o++) {
            const bool floor = layouts[l] == KPOOL_BINDING_LAYOUT_FLOOR;
            assert_int_equal(declared_bindings(&fake, context, sets[o].operation), floor ? 0xf : sets[o].bindings);
            assert_int_equal(kpoolGetDescriptorCount(context, sets[o].operation), floor ? 4 : sets[o].count);
        }
        assert_int_equal((uint64_t)kpoolGetDescriptorSetLayout(context, KPOOL_OPERATION_SEED_TAIL), made[0]);
        assert_true(kpoolGetDescriptorSetLayout(context, KPOOL_OPERATION_NONE) == VK_NULL_HANDLE);
        assert_true(kpoolGetDescriptorSetLayout(context, (KpoolOperation)1000) == VK_NULL_HANDLE);
        assert_int_equal(kpoolGetDescriptorCount(context, KPOOL_OPERATION_NONE), 0);
        assert_int_equal(kpoolGetDescriptorCount(context, (KpoolOperation)1000), 0);

        fake.call_count = 0;
        kpoolDestroyContext(context);
        assert_int_equal(fake.call_count, count);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(fake.calls[i].handle, made[count - 1 - i]);
        }
        assert_int_equal(fake.object_count, 0);
        assert_int_equal(allocator.live, 0);
        assert_no_misuse(&fake);
    }
    kpoolDestroyContext(NULL);
    kpoolDestroyKernel(NULL);
}

static void test_push_descriptor_layouts(void **state)
{
    (void)state;
    FakeVulkan fake;
    fake_vulkan_init(&fake);
    const KpoolContextCreateInfo info =
        context_info(KPOOL_BINDING_LAYOUT_DEFAULT, KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT, NULL);
    KpoolContext context;
    assert_int_equal(kpoolCreateContext(&info, &context, NULL), KPOOL_SUCCESS);
    assert_int_equal(fake.calls[0].function, FAKE_vkCreateDescriptorSetLayout);
    assert_int_equal(fake.calls[0].flags, VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR);
    kpoolDestroyContext(context);
    assert_no_misuse(&fake);
}

/* Whether the module decorates the variable. */
static bool decorates(const FakeCall *module, uint32_t variable, uint32_t decoration)
{
    enum { OP_DECORATE = 71 };
    const size_t count = module->code_size / 4;
    for (size_t i = 5; i < count; i += module->code[i] >> 16) {
        const uint32_t *words = &module->code[i];
        if ((words[0] & 0xffff) == OP_DECORATE && words[1] == variable && words[2] == decoration) {
            return true;
        }
    }
    return false;
}

/* A SPIR-V module declares no more than it may: the Shader capability alone, and the bindings, specialization
 * constants that the host provides. Two variables that are one buffer are Aliased: a compiler may take others for
 * apart. */
static void check_module(const FakeCall *module, uint32_t bindings, uint32_t specializations, bool all_bindings)
{
    enum { OP_CAPABILITY = 17, OP_EXTENSION = 10, OP_DECORATE = 71, DECORATION_SPEC_ID = 1, DECORATION_BINDING = 33,
           DECORATION_DESCRIPTOR_SET = 34, DECORATION_ALIASED = 20, CAPABILITY_SHADER = 1 };
    const size_t count = module->code_size / 4;
    assert_int_equal(module->code_size % 4, 0);
    assert_int_equal(module->code[0], 0x07230203);
    uint32_t declared = 0;
    uint32_t variables[32] = {0};
    for (size_t i = 5; i < count; i += module->code[i] >> 16) {
        const uint32_t *words = &module->code[i];
        const uint32_t op = words[0] & 0xffff;
        assert_in_range(words[0] >> 16, 1, count - i);
        assert_int_not_equal(op, OP_EXTENSION);
        if (op == OP_CAPABILITY) {
            assert_int_equal(words[1], CAPABILITY_SHADER);
        } else if (op == OP_DECORATE && words[2] == DECORATION_DESCRIPTOR_SET) {
            assert_int_equal(words[3], 0);
        } else if (op == OP_DECORATE && words[2] == DECORATION_BINDING) {
            assert_in_range(words[3], 0, 31);
            declared |= 1u << words[3];
            const uint32_t other = variables[words[3]];
            if (other != 0) {
                assert_true(decorates(module, words[1], DECORATION_ALIASED));
                assert_true(decorates(module, other, DECORATION_ALIASED));
            }
            variables[words[3]] = words[1];
        } else if (op == OP_DECORATE && words[2] == DECORATION_SPEC_ID) {
            assert_in_range(words[3], 0, specializations - 1);
        }
    }
    assert_int_equal(declared & ~bindings, 0);
    if (all_bindings) {
        assert_int_equal(declared, bindings);
    }
}

static void test_pipeline(void **state)
{
    (void)state;
    const uint32_t *codes[4];
    for (uint32_t i = 0; i < 4; i++) {
        const KpoolBindingLayout layout = layouts[i % 2];
        FakeVulkan fake;
        fake_vulkan_init(&fake);
        const KpoolContextCreateInfo info = context_info(layout, 0, NULL);
        KpoolContext context;
        assert_int_equal(kpoolCreateContext(&info, &context, NULL), KPOOL_SUCCESS);
        const FakeCall setLayout = fake.calls[0];
        const FakeCall pipelineLayout = fake.calls[1];
        fake.call_count = 0;
        KpoolKernelCreateInfo kernelInfo = kernel_info();
        kernelInfo.alignment = i / 2 == 0 ? 4 : 16;
        kernelInfo.lanesPerItem = 8;
        kernelInfo.itemsPerGroup = 4;
        kernelInfo.pipelineCache = (VkPipelineCache)(uintptr_t)0x77;
        KpoolKernel kernel;
        assert_int_equal(kpoolCreateKernel(context, &kernelInfo, &kernel, NULL), KPOOL_SUCCESS);

        assert_int_equal(fake.call_count, 3);
        const FakeCall *module = &fake.calls[0];
        const FakeCall *pipeline = &fake.calls[1];
        assert_int_equal(module->function, FAKE_vkCreateShaderModule);
        check_module(module, setLayout.bindings, sizeof(Specialization) / 4, layout == KPOOL_BINDING_LAYOUT_WIDE);
        codes[i] = module->code;
        for (uint32_t j = 0; j < i; j++) {
            assert_ptr_not_equal(codes[i], codes[j]);
        }
        assert_int_equal(pipeline->function, FAKE_vkCreateComputePipelines);
        assert_int_equal(pipeline->module, module->handle);
        assert_int_equal((uint64_t)pipeline->layout, pipelineLayout.handle);
        assert_true(pipeline->cache == kernelInfo.pipelineCache);
        assert_int_equal(pipeline->flags, 0);
        const Specialization expected = {.local_size = 32,
                                         .head_dim = 128,
                                         .kpool = 4,
                                         .ring = 9,
                                         .rollback = 3,
                                         .element_size = 2,
                                         .lanes_per_item = 8,
                                         .items_per_group = 4,
                                         .type = KPOOL_TYPE_BF16,
                                         .operation = KPOOL_OPERATION_SEED_TAIL,
                                         .rows_per_item = 1,
                                         .alignment = kernelInfo.alignment};
        assert_int_equal(pipeline->specialization_count, sizeof expected / 4);
        assert_memory_equal(pipeline->specialization, &expected, sizeof expected);
        assert_int_equal(fake.calls[2].function, FAKE_vkDestroyShaderModule);
        assert_int_equal(fake.calls[2].handle, module->handle);

        const KpoolKernelCreateInfo got = kpoolGetKernelInfo(kernel);
        assert_int_equal(got.alignment, kernelInfo.alignment);
        assert_int_equal(got.lanesPerItem, 8);
        assert_int_equal(got.itemsPerGroup, 4);
        assert_true(got.pipelineCache == VK_NULL_HANDLE);
        kpoolDestroyKernel(kernel);
        kpoolDestroyContext(context);
        assert_int_equal(fake.object_count, 0);
        assert_no_misuse(&fake);
    }
}

/* Compress and step share a module, as do pool_row_offsets and check_slots; in the floor layout
 * ring_close is with the former. */
static bool share_module(KpoolOperation one, KpoolOperation other, KpoolBindingLayout layout)
{
    const bool closes = one == KPOOL_OPERATION_RING_CLOSE || other == KPOOL_OPERATION_RING_CLOSE;
    const bool walk = (one == KPOOL_OPERATION_POOL_ROW_OFFSETS || one == KPOOL_OPERATION_CHECK_SLOTS) &&
                      (other == KPOOL_OPERATION_POOL_ROW_OFFSETS || other == KPOOL_OPERATION_CHECK_SLOTS);
    return one == other || walk ||
           (makes_keys(one) && makes_keys(other) && (layout == KPOOL_BINDING_LAYOUT_FLOOR || !closes));
}

/* Which modules there are: seed_tail has one for each alignment, and each binding layout its own; step has the one for
 * both. */
static void test_every_module(void **state)
{
    (void)state;
    const uint32_t *codes[4][OPERATIONS];
    for (uint32_t i = 0; i < 4; i++) {
        FakeVulkan fake;
        fake_vulkan_init(&fake);
        const KpoolContextCreateInfo info = context_info(layouts[i % 2], 0, NULL);
        KpoolContext context;
        assert_int_equal(kpoolCreateContext(&info, &context, NULL), KPOOL_SUCCESS);
        for (uint32_t o = 0; o < OPERATIONS; o++) {
            const KpoolOperation operation = (KpoolOperation)(o + 1);
            const uint32_t bindings = declared_bindings(&fake, context, operation);
            const uint32_t first = fake.call_count;
            KpoolKernelCreateInfo kernelInfo = kernel_info_of(operation);
            kernelInfo.alignment = i / 2 == 0 ? 4 : 16;
            kernelInfo.page_size = 32;
            KpoolKernel kernel;
            assert_int_equal(kpoolCreateKernel(context, &kernelInfo, &kernel, NULL), KPOOL_SUCCESS);
            const uint32_t pipelines = operation == KPOOL_OPERATION_COPY_SLOTS ? 2 : 1;
            assert_int_equal(fake.call_count, first + 2 + pipelines);
            check_module(&fake.calls[first], bindings, sizeof(Specialization) / 4,
                         layouts[i % 2] == KPOOL_BINDING_LAYOUT_WIDE);
            codes[i][o] = fake.calls[first].code;
            const KpoolKernelCreateInfo got = kpoolGetKernelInfo(kernel);
            const bool moves = moves_rows(operation);
            assert_int_equal(got.operation, operation);
            assert_int_equal(got.alignment, moves ? kernelInfo.alignment : 4);
            assert_int_equal(got.page_size, operation == KPOOL_OPERATION_STEP ? 32 : 0);
            for (uint32_t pass = 0; pass < pipelines; pass++) {
                Specialization values;
                assert_int_equal(fake.calls[first + 1 + pass].specialization_count, sizeof values / 4);
                memcpy(&values, fake.calls[first + 1 + pass].specialization, sizeof values);
                assert_int_equal(values.scatters, pass);
                assert_int_equal(values.local_size, values.lanes_per_item * values.items_per_group);
                assert_int_equal(values.operation, operation);
                assert_int_equal(values.page_size, got.page_size);
                assert_int_equal(values.alignment, got.alignment);
            }
            kpoolDestroyKernel(kernel);
        }
        kpoolDestroyContext(context);
        assert_int_equal(fake.object_count, 0);
        assert_no_misuse(&fake);
    }
    for (uint32_t i = 0; i < 4 * OPERATIONS; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const KpoolOperation operations[2] = {(KpoolOperation)(i % OPERATIONS + 1),
                                                  (KpoolOperation)(j % OPERATIONS + 1)};
            const uint32_t variants[2] = {i / OPERATIONS, j / OPERATIONS};
            const bool same_operation = share_module(operations[0], operations[1], layouts[variants[0] % 2]);
            const bool same_words = variants[0] / 2 == variants[1] / 2 || operations[0] != KPOOL_OPERATION_SEED_TAIL;
            const bool same_layout = variants[0] % 2 == variants[1] % 2;
            assert_int_equal(codes[variants[0]][i % OPERATIONS] == codes[variants[1]][j % OPERATIONS],
                             same_operation && same_words && same_layout);
        }
    }
}

/* The constants that make one module several operations, of what the caller says and of the defaults; and the alignment
 * of operations that move no rows. */
static void test_constants_of_pools(void **state)
{
    (void)state;
    FakeVulkan fake;
    fake_vulkan_init(&fake);
    const KpoolContextCreateInfo info = context_info(KPOOL_BINDING_LAYOUT_DEFAULT, 0, NULL);
    KpoolContext context;
    assert_int_equal(kpoolCreateContext(&info, &context, NULL), KPOOL_SUCCESS);
    static const struct {
        KpoolOperation operation;
        uint32_t page_size;
        KpoolType pooled_type;
        KpoolNumerics numerics;
        uint32_t page_size_used;
        KpoolType pooled_type_used;
    } cases[] = {
        {KPOOL_OPERATION_RING_CLOSE, 0, KPOOL_TYPE_NONE, KPOOL_NUMERICS_EXACT, 0, KPOOL_TYPE_BF16},
        {KPOOL_OPERATION_RING_CLOSE, 3, KPOOL_TYPE_F32, KPOOL_NUMERICS_FAST, 0, KPOOL_TYPE_F32},
        {KPOOL_OPERATION_COMPRESS, 64, KPOOL_TYPE_F16, KPOOL_NUMERICS_EXACT, 0, KPOOL_TYPE_F16},
        {KPOOL_OPERATION_COMPRESS, 65, KPOOL_TYPE_NONE, KPOOL_NUMERICS_FAST, 0, KPOOL_TYPE_BF16},
        {KPOOL_OPERATION_STEP, 0, KPOOL_TYPE_NONE, KPOOL_NUMERICS_EXACT, 0, KPOOL_TYPE_BF16},
        {KPOOL_OPERATION_STEP, 1, KPOOL_TYPE_F16, KPOOL_NUMERICS_FAST, 1, KPOOL_TYPE_F16},
        {KPOOL_OPERATION_STEP, 64, KPOOL_TYPE_F32, KPOOL_NUMERICS_EXACT, 64, KPOOL_TYPE_F32},
        {KPOOL_OPERATION_STEP, 1u << 31, KPOOL_TYPE_NONE, KPOOL_NUMERICS_EXACT, 1u << 31, KPOOL_TYPE_BF16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        KpoolKernelCreateInfo kernelInfo = kernel_info_of(cases[i].operation);
        kernelInfo.lanesPerItem = 8;
        kernelInfo.itemsPerGroup = 4;
        kernelInfo.rowsPerItem = cases[i].operation == KPOOL_OPERATION_RING_CLOSE ? 1 : 5;
        kernelInfo.page_size = cases[i].page_size;
        kernelInfo.pooled_type = cases[i].pooled_type;
        kernelInfo.numerics = cases[i].numerics;
        KpoolKernel kernel;
        fake.call_count = 0;
        assert_int_equal(kpoolCreateKernel(context, &kernelInfo, &kernel, NULL), KPOOL_SUCCESS);
        const Specialization expected = {.local_size = 32,
                                         .head_dim = 128,
                                         .kpool = 4,
                                         .ring = 9,
                                         .rollback = 3,
                                         .element_size = 2,
                                         .lanes_per_item = 8,
                                         .items_per_group = 4,
                                         .type = KPOOL_TYPE_BF16,
                                         .pooled_type = (uint32_t)cases[i].pooled_type_used,
                                         .numerics = (uint32_t)cases[i].numerics,
                                         .operation = (uint32_t)cases[i].operation,
                                         .page_size = cases[i].page_size_used,
                                         .rows_per_item = kernelInfo.rowsPerItem,
                                         .alignment = 4};
        assert_memory_equal(fake.calls[1].specialization, &expected, sizeof expected);
        assert_int_equal(kpoolGetKernelInfo(kernel).page_size, cases[i].page_size_used);
        kpoolDestroyKernel(kernel);
    }
    /* 16 becomes 4 where no rows are moved, also where a row would not keep it; nothing else becomes 4. */
    for (KpoolOperation operation = KPOOL_OPERATION_SEED_TAIL; operation <= KPOOL_OPERATION_CHECK_SLOTS; operation++) {
        KpoolKernelCreateInfo kernelInfo = kernel_info_of(operation);
        kernelInfo.geometry.head_dim = 12;
        kernelInfo.alignment = 16;
        KpoolKernel kernel;
        KpoolDiagnostic diagnostic = {0};
        const KpoolResult result = kpoolCreateKernel(context, &kernelInfo, &kernel, &diagnostic);
        if (moves_rows(operation)) {
            assert_int_equal(result, KPOOL_ERROR_INVALID_ARGUMENT);
            assert_said(&diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.alignment");
        } else {
            assert_int_equal(result, KPOOL_SUCCESS);
            assert_int_equal(kpoolGetKernelInfo(kernel).alignment, 4);
            kpoolDestroyKernel(kernel);
        }
        kernelInfo.alignment = 8;
        assert_int_equal(kpoolCreateKernel(context, &kernelInfo, &kernel, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
        assert_said(&diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.alignment");
    }
    kpoolDestroyContext(context);
    assert_no_misuse(&fake);
}

/* ------------------------------------------------------------------------------- shape of a workgroup */

static bool is_power_of_two(uint32_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Whatever one of the two the caller fixes, the other one's default fits it; and no lane is without work. */
static void check_default_workgroups(FakeVulkan *fake, KpoolContext context, KpoolOperation operation,
                                     const KpoolGeometry *geometry)
{
    const bool whole = operation == KPOOL_OPERATION_POOL_ROW_OFFSETS || operation == KPOOL_OPERATION_EXPAND_TOPK ||
                       operation == KPOOL_OPERATION_CHECK_SLOTS;
    for (uint32_t lanes = 0; lanes <= 128; lanes = lanes == 0 ? 1 : 2 * lanes) {
        for (uint32_t items = 0; items <= (whole ? 1 : 128); items = items == 0 ? 1 : 2 * items) {
            if (lanes * items > 128) {
                continue;
            }
            const KpoolKernelCreateInfo kernelInfo = {.operation = operation,
                                                      .geometry = *geometry,
                                                      .lanesPerItem = lanes,
                                                      .itemsPerGroup = items,
                                                      .topk = 1};
            KpoolKernel kernel;
            KpoolDiagnostic diagnostic = {0};
            if (kpoolCreateKernel(context, &kernelInfo, &kernel, &diagnostic) != KPOOL_SUCCESS) {
                fail_msg("lanesPerItem %u, itemsPerGroup %u: %s", lanes, items, diagnostic.message);
            }
            const KpoolKernelCreateInfo got = kpoolGetKernelInfo(kernel);
            assert_int_equal(got.alignment, 4);
            assert_int_equal(got.geometry.ring, geometry->ring != 0 ? geometry->ring : geometry->kpool);
            assert_true(is_power_of_two(got.lanesPerItem) && is_power_of_two(got.itemsPerGroup));
            assert_in_range(got.lanesPerItem * got.itemsPerGroup, 1, 128);
            assert_true(lanes == 0 ? got.lanesPerItem <= 64 : got.lanesPerItem == lanes);
            assert_true(items == 0 ? !whole || got.itemsPerGroup == 1 : got.itemsPerGroup == items);
            if (lanes == 0 && makes_keys(operation)) {
                assert_in_range(got.lanesPerItem, 1, geometry->head_dim + geometry->head_dim % 2 - 1);
            }
            fake->call_count = 0;
            kpoolDestroyKernel(kernel);
        }
    }
}

static void test_getters_of_nothing(void **state)
{
    (void)state;
    assert_int_equal(kpoolGetBindingLayout(NULL), KPOOL_BINDING_LAYOUT_DEFAULT);
    assert_true(kpoolGetDescriptorSetLayout(NULL, KPOOL_OPERATION_SEED_TAIL) == VK_NULL_HANDLE);
    assert_int_equal(kpoolGetDescriptorCount(NULL, KPOOL_OPERATION_SEED_TAIL), 0);
    assert_int_equal(kpoolGetKernelInfo(NULL).operation, KPOOL_OPERATION_NONE);
}

/* Fields of other operations are not looked at, and become 0; any true is VK_TRUE. */
static void test_fields_of_other_operations(void **state)
{
    (void)state;
    FakeVulkan fake;
    fake_vulkan_init(&fake);
    const KpoolContextCreateInfo info = context_info(KPOOL_BINDING_LAYOUT_WIDE, 0, NULL);
    KpoolContext context;
    assert_int_equal(kpoolCreateContext(&info, &context, NULL), KPOOL_SUCCESS);
    for (KpoolOperation operation = KPOOL_OPERATION_SEED_TAIL; operation <= KPOOL_OPERATION_CHECK_SLOTS; operation++) {
        const bool keys = operation == KPOOL_OPERATION_RING_CLOSE || operation == KPOOL_OPERATION_COMPRESS ||
                          operation == KPOOL_OPERATION_STEP;
        const bool expands = operation == KPOOL_OPERATION_EXPAND_TOPK;
        KpoolKernelCreateInfo kernelInfo = kernel_info_of(operation);
        kernelInfo.pooled_type = keys ? KPOOL_TYPE_F16 : (KpoolType)99;
        kernelInfo.numerics = keys ? KPOOL_NUMERICS_FAST : (KpoolNumerics)77;
        kernelInfo.topk = expands ? 7 : UINT32_MAX;
        kernelInfo.topk_layout = expands ? KPOOL_TOPK_LAYOUT_COMPACT : (KpoolTopkLayout)9;
        kernelInfo.with_tail = 5;
        KpoolKernel kernel;
        assert_int_equal(kpoolCreateKernel(context, &kernelInfo, &kernel, NULL), KPOOL_SUCCESS);
        const KpoolKernelCreateInfo got = kpoolGetKernelInfo(kernel);
        assert_int_equal(got.pooled_type, keys ? KPOOL_TYPE_F16 : KPOOL_TYPE_NONE);
        assert_int_equal(got.numerics, keys ? KPOOL_NUMERICS_FAST : KPOOL_NUMERICS_EXACT);
        assert_int_equal(got.topk, expands ? 7 : 0);
        assert_int_equal(got.topk_layout, expands ? KPOOL_TOPK_LAYOUT_COMPACT : KPOOL_TOPK_LAYOUT_FIXED);
        assert_int_equal(got.with_tail, expands ? VK_TRUE : VK_FALSE);
        kpoolDestroyKernel(kernel);
    }
    kpoolDestroyContext(context);
    assert_no_misuse(&fake);
}

static void test_default_workgroups(void **state)
{
    (void)state;
    static const VkPhysicalDeviceType device_types[] = {VK_PHYSICAL_DEVICE_TYPE_CPU,
                                                        VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU};
    static const KpoolGeometry geometries[] = {
        {.head_dim = 1, .kpool = 1, .type = KPOOL_TYPE_F32},
        {.head_dim = 2, .kpool = 2, .type = KPOOL_TYPE_F16},
        {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_BF16},
        {.head_dim = 1024, .kpool = 128, .type = KPOOL_TYPE_F32, .ring = 4096, .rollback = 3968},
    };
    static const uint32_t subgroup_sizes[] = {0, 1, 4, 8, 128};
    for (uint32_t d = 0; d < 10; d++) {
        FakeVulkan fake;
        fake_vulkan_init(&fake);
        fake.properties.deviceType = device_types[d % 2];
        fake.subgroup_size = subgroup_sizes[d / 2];
        const KpoolContextCreateInfo info = context_info(KPOOL_BINDING_LAYOUT_DEFAULT, 0, NULL);
        KpoolContext context;
        assert_int_equal(kpoolCreateContext(&info, &context, NULL), KPOOL_SUCCESS);
        for (uint32_t g = 0; g < sizeof geometries / sizeof geometries[0]; g++) {
            for (KpoolOperation operation = KPOOL_OPERATION_SEED_TAIL; operation <= KPOOL_OPERATION_CHECK_SLOTS;
                 operation++) {
                check_default_workgroups(&fake, context, operation, &geometries[g]);
            }
        }
        kpoolDestroyContext(context);
        assert_no_misuse(&fake);
    }
}

/* On a CPU an item takes a subgroup, where it has that much to do; a GPU's size does not count. */
static void test_default_lanes(void **state)
{
    (void)state;
    static const struct {
        VkPhysicalDeviceType type;
        uint32_t subgroup_size, head_dim;
        uint32_t lanes, items, step_items; /* step_items: of step, which has the same lanes */
    } cases[] = {
        {VK_PHYSICAL_DEVICE_TYPE_CPU, 4, 128, 4, 16, 2},
        {VK_PHYSICAL_DEVICE_TYPE_CPU, 8, 128, 8, 8, 2},
        {VK_PHYSICAL_DEVICE_TYPE_CPU, 8, 16, 2, 32, 8},
        {VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 4, 128, 64, 1, 1},
        {VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, 32, 128, 64, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        FakeVulkan fake;
        fake_vulkan_init(&fake);
        fake.properties.deviceType = cases[i].type;
        fake.subgroup_size = cases[i].subgroup_size;
        const KpoolContextCreateInfo info = context_info(KPOOL_BINDING_LAYOUT_DEFAULT, 0, NULL);
        KpoolContext context;
        assert_int_equal(kpoolCreateContext(&info, &context, NULL), KPOOL_SUCCESS);
        static const KpoolOperation operations[] = {KPOOL_OPERATION_RING_CLOSE, KPOOL_OPERATION_STEP};
        for (uint32_t o = 0; o < 2; o++) {
            const KpoolKernelCreateInfo kernelInfo = {
                .operation = operations[o],
                .geometry = {.head_dim = cases[i].head_dim, .kpool = 4, .type = KPOOL_TYPE_F16}};
            KpoolKernel kernel;
            assert_int_equal(kpoolCreateKernel(context, &kernelInfo, &kernel, NULL), KPOOL_SUCCESS);
            const KpoolKernelCreateInfo got = kpoolGetKernelInfo(kernel);
            assert_int_equal(got.lanesPerItem, cases[i].lanes);
            assert_int_equal(got.itemsPerGroup, o == 0 ? cases[i].items : cases[i].step_items);
            kpoolDestroyKernel(kernel);
        }
        kpoolDestroyContext(context);
        assert_no_misuse(&fake);
    }
}

/* ------------------------------------------------------------------------------------ wrong arguments */

static void test_kernel_arguments(void **state)
{
    (void)state;
    static const VkApplicationInfo other = {0};
    const struct {
        const char *argument;
        KpoolResult result;
        KpoolKernelCreateInfo change; /* fields that are not zero replace those of kernel_info() */
        bool no_operation;
    } cases[] = {
        {"createInfo.pNext", KPOOL_ERROR_INVALID_ARGUMENT, {.pNext = &other}, false},
        {"createInfo.operation", KPOOL_ERROR_INVALID_ARGUMENT, {0}, true},
        {"createInfo.operation", KPOOL_ERROR_INVALID_ARGUMENT, {.operation = (KpoolOperation)1000}, false},
        {"geometry.head_dim", KPOOL_ERROR_INVALID_ARGUMENT,
         {.geometry = {.head_dim = 127, .kpool = 4, .type = KPOOL_TYPE_F16}}, false},
        {"createInfo.alignment", KPOOL_ERROR_INVALID_ARGUMENT, {.alignment = 8}, false},
        {"createInfo.alignment", KPOOL_ERROR_INVALID_ARGUMENT, {.alignment = 32}, false},
        {"createInfo.alignment", KPOOL_ERROR_INVALID_ARGUMENT,
         {.geometry = {.head_dim = 12, .kpool = 4, .type = KPOOL_TYPE_F16}, .alignment = 16}, false},
        {"createInfo.lanesPerItem", KPOOL_ERROR_INVALID_ARGUMENT, {.lanesPerItem = 3}, false},
        {"createInfo.lanesPerItem", KPOOL_ERROR_INVALID_ARGUMENT, {.lanesPerItem = UINT32_MAX}, false},
        {"createInfo.itemsPerGroup", KPOOL_ERROR_INVALID_ARGUMENT, {.itemsPerGroup = 12}, false},
        {"createInfo.lanesPerItem", KPOOL_ERROR_LIMIT, {.lanesPerItem = 256}, false},
        {"createInfo.lanesPerItem", KPOOL_ERROR_LIMIT, {.itemsPerGroup = 256}, false},
        {"createInfo.lanesPerItem", KPOOL_ERROR_LIMIT, {.lanesPerItem = 16, .itemsPerGroup = 16}, false},
        {"createInfo.lanesPerItem", KPOOL_ERROR_LIMIT,
         {.lanesPerItem = 1u << 31, .itemsPerGroup = 1u << 31}, false},
        {"createInfo.rowsPerItem", KPOOL_ERROR_INVALID_ARGUMENT, {.rowsPerItem = 2}, false},
        {"createInfo.rowsPerItem", KPOOL_ERROR_INVALID_ARGUMENT,
         {.operation = KPOOL_OPERATION_RING_CLOSE, .rowsPerItem = 2}, false},
        {"createInfo.rowsPerItem", KPOOL_ERROR_LIMIT,
         {.operation = KPOOL_OPERATION_COMPRESS, .rowsPerItem = 1u << 31}, false},
    };
    FakeVulkan fake;
    CountingAllocator allocator;
    fake_vulkan_init(&fake);
    counting_allocator_init(&allocator);
    const KpoolContextCreateInfo info = context_info(KPOOL_BINDING_LAYOUT_DEFAULT, 0, &allocator.callbacks);
    KpoolContext context;
    assert_int_equal(kpoolCreateContext(&info, &context, NULL), KPOOL_SUCCESS);
    const uint32_t allocations = allocator.allocations;
    fake.call_count = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const KpoolKernelCreateInfo *change = &cases[i].change;
        KpoolKernelCreateInfo kernelInfo = kernel_info();
        kernelInfo.pNext = change->pNext;
        kernelInfo.alignment = change->alignment;
        kernelInfo.lanesPerItem = change->lanesPerItem;
        kernelInfo.itemsPerGroup = change->itemsPerGroup;
        kernelInfo.rowsPerItem = change->rowsPerItem;
        if (change->operation != KPOOL_OPERATION_NONE || cases[i].no_operation) {
            kernelInfo.operation = change->operation;
        }
        if (change->geometry.kpool != 0) {
            kernelInfo.geometry = change->geometry;
        }
        KpoolKernel kernel = (KpoolKernel)(uintptr_t)1;
        KpoolDiagnostic diagnostic = {0};
        assert_int_equal(kpoolCreateKernel(context, &kernelInfo, &kernel, &diagnostic), cases[i].result);
        assert_null(kernel);
        assert_said(&diagnostic, cases[i].result, cases[i].argument);
        assert_int_equal(kpoolCreateKernel(context, &kernelInfo, &kernel, NULL), cases[i].result);
    }
    const KpoolKernelCreateInfo good = kernel_info();
    KpoolKernel kernel = (KpoolKernel)(uintptr_t)1;
    KpoolDiagnostic diagnostic = {0};
    assert_int_equal(kpoolCreateKernel(NULL, &good, &kernel, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_said(&diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "context");
    assert_null(kernel);
    assert_int_equal(kpoolCreateKernel(context, NULL, &kernel, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_said(&diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo");
    assert_int_equal(kpoolCreateKernel(context, &good, NULL, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_said(&diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "kernel");
    static const uint32_t no_powers[] = {3, 6, 48, 255, 257, UINT32_MAX, UINT32_MAX - 1, 0xc0000000u};
    for (size_t i = 0; i < sizeof no_powers / sizeof no_powers[0]; i++) {
        KpoolKernelCreateInfo paged = kernel_info_of(KPOOL_OPERATION_STEP);
        paged.page_size = no_powers[i];
        kernel = (KpoolKernel)(uintptr_t)1;
        assert_int_equal(kpoolCreateKernel(context, &paged, &kernel, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
        assert_said(&diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.page_size");
        assert_null(kernel);
    }
    static const struct {
        KpoolType pooled_type;
        KpoolNumerics numerics;
        uint32_t head_dim;
        const char *argument;
    } pooled[] = {
        {(KpoolType)4, KPOOL_NUMERICS_EXACT, 128, "createInfo.pooled_type"},
        {KPOOL_TYPE_F16, KPOOL_NUMERICS_EXACT, 127, "createInfo.pooled_type"},
        {KPOOL_TYPE_NONE, (KpoolNumerics)2, 128, "createInfo.numerics"},
    };
    for (KpoolOperation operation = KPOOL_OPERATION_RING_CLOSE; operation <= KPOOL_OPERATION_CHECK_SLOTS; operation++) {
        for (size_t i = 0; makes_keys(operation) && i < sizeof pooled / sizeof pooled[0]; i++) {
            KpoolKernelCreateInfo wrong = kernel_info_of(operation);
            wrong.geometry = (KpoolGeometry){.head_dim = pooled[i].head_dim, .kpool = 4, .type = KPOOL_TYPE_F32};
            wrong.pooled_type = pooled[i].pooled_type;
            wrong.numerics = pooled[i].numerics;
            assert_int_equal(kpoolCreateKernel(context, &wrong, &kernel, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
            assert_said(&diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, pooled[i].argument);
        }
    }
    assert_int_equal(fake.call_count, 0);
    assert_int_equal(allocator.allocations, allocations);
    kpoolDestroyContext(context);
}

static void test_context_arguments(void **state)
{
    (void)state;
    FakeVulkan fake;
    CountingAllocator allocator;
    fake_vulkan_init(&fake);
    counting_allocator_init(&allocator);
    const KpoolContextCreateInfo good = context_info(KPOOL_BINDING_LAYOUT_DEFAULT, 0, &allocator.callbacks);
    VkAllocationCallbacks holes[3] = {allocator.callbacks, allocator.callbacks, allocator.callbacks};
    holes[0].pfnAllocation = NULL;
    holes[1].pfnReallocation = NULL;
    holes[2].pfnFree = NULL;
    struct {
        const char *argument;
        KpoolResult result;
        KpoolContextCreateInfo info;
    } cases[] = {
        {"createInfo.instance", KPOOL_ERROR_INVALID_ARGUMENT, good},
        {"createInfo.physicalDevice", KPOOL_ERROR_INVALID_ARGUMENT, good},
        {"createInfo.device", KPOOL_ERROR_INVALID_ARGUMENT, good},
        {"createInfo.pfnGetInstanceProcAddr", KPOOL_ERROR_INVALID_ARGUMENT, good},
        {"createInfo.pNext", KPOOL_ERROR_INVALID_ARGUMENT, good},
        {"createInfo.flags", KPOOL_ERROR_INVALID_ARGUMENT, good},
        {"createInfo.bindingLayout", KPOOL_ERROR_INVALID_ARGUMENT, good},
        {"createInfo.pAllocator", KPOOL_ERROR_INVALID_ARGUMENT, good},
        {"createInfo.pAllocator", KPOOL_ERROR_INVALID_ARGUMENT, good},
        {"createInfo.pAllocator", KPOOL_ERROR_INVALID_ARGUMENT, good},
        {"createInfo.apiVersion", KPOOL_ERROR_UNSUPPORTED_DEVICE, good},
        {"createInfo.apiVersion", KPOOL_ERROR_UNSUPPORTED_DEVICE, good},
        {"createInfo.apiVersion", KPOOL_ERROR_UNSUPPORTED_DEVICE, good},
    };
    cases[0].info.instance = VK_NULL_HANDLE;
    cases[1].info.physicalDevice = VK_NULL_HANDLE;
    cases[2].info.device = VK_NULL_HANDLE;
    cases[3].info.pfnGetInstanceProcAddr = NULL;
    cases[4].info.pNext = &good;
    cases[5].info.flags = 0x80000000u;
    cases[6].info.bindingLayout = (KpoolBindingLayout)3;
    cases[7].info.pAllocator = &holes[0];
    cases[8].info.pAllocator = &holes[1];
    cases[9].info.pAllocator = &holes[2];
    cases[10].info.apiVersion = 0;
    cases[11].info.apiVersion = VK_API_VERSION_1_0;
    cases[12].info.apiVersion = VK_MAKE_API_VERSION(0, 1, 0, 200);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        KpoolContext context = (KpoolContext)(uintptr_t)1;
        KpoolDiagnostic diagnostic = {0};
        assert_int_equal(kpoolCreateContext(&cases[i].info, &context, &diagnostic), cases[i].result);
        assert_null(context);
        assert_said(&diagnostic, cases[i].result, cases[i].argument);
        assert_int_equal(kpoolCreateContext(&cases[i].info, &context, NULL), cases[i].result);
    }
    KpoolContext context = (KpoolContext)(uintptr_t)1;
    KpoolDiagnostic diagnostic = {0};
    assert_int_equal(kpoolCreateContext(NULL, &context, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_said(&diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo");
    assert_null(context);
    assert_int_equal(kpoolCreateContext(&good, NULL, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_said(&diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "context");
    assert_int_equal(fake.call_count, 0);
    assert_int_equal(allocator.allocations, 0);
}

static void test_device_below_1_1(void **state)
{
    (void)state;
    FakeVulkan fake;
    CountingAllocator allocator;
    fake_vulkan_init(&fake);
    counting_allocator_init(&allocator);
    fake.properties.apiVersion = VK_MAKE_API_VERSION(0, 1, 0, 300);
    const KpoolContextCreateInfo info = context_info(KPOOL_BINDING_LAYOUT_DEFAULT, 0, &allocator.callbacks);
    KpoolContext context = (KpoolContext)(uintptr_t)1;
    KpoolDiagnostic diagnostic = {0};
    assert_int_equal(kpoolCreateContext(&info, &context, &diagnostic), KPOOL_ERROR_UNSUPPORTED_DEVICE);
    assert_said(&diagnostic, KPOOL_ERROR_UNSUPPORTED_DEVICE, "createInfo.physicalDevice");
    assert_non_null(strstr(diagnostic.message, "1.0"));
    assert_null(context);
    assert_int_equal(allocator.live, 0);
    fake.properties.apiVersion = VK_API_VERSION_1_1;
    assert_int_equal(kpoolCreateContext(&info, &context, &diagnostic), KPOOL_SUCCESS);
    kpoolDestroyContext(context);
}

static void test_callbacks_are_copied(void **state)
{
    (void)state;
    FakeVulkan fake;
    CountingAllocator allocator;
    fake_vulkan_init(&fake);
    counting_allocator_init(&allocator);
    VkAllocationCallbacks callbacks = allocator.callbacks;
    KpoolContextCreateInfo info = context_info(KPOOL_BINDING_LAYOUT_DEFAULT, 0, &callbacks);
    KpoolContext context;
    assert_int_equal(kpoolCreateContext(&info, &context, NULL), KPOOL_SUCCESS);
    callbacks = (VkAllocationCallbacks){0};
    info = (KpoolContextCreateInfo){0};
    const KpoolKernelCreateInfo kernelInfo = kernel_info();
    KpoolKernel kernel;
    assert_int_equal(kpoolCreateKernel(context, &kernelInfo, &kernel, NULL), KPOOL_SUCCESS);
    kpoolDestroyKernel(kernel);
    kpoolDestroyContext(context);
    assert_int_equal(allocator.live, 0);
    assert_int_equal(fake.object_count, 0);
    assert_no_misuse(&fake);
}

/* -------------------------------------------------------------------------------------------- limits */

static KpoolBindingLayout default_layout(FakeVulkan *fake)
{
    const KpoolContextCreateInfo info = context_info(KPOOL_BINDING_LAYOUT_DEFAULT, 0, NULL);
    KpoolContext context;
    assert_int_equal(kpoolCreateContext(&info, &context, NULL), KPOOL_SUCCESS);
    const KpoolBindingLayout layout = kpoolGetBindingLayout(context);
    kpoolDestroyContext(context);
    fake->call_count = 0;
    return layout;
}

static void assert_floor_only(FakeVulkan *fake)
{
    assert_int_equal(default_layout(fake), KPOOL_BINDING_LAYOUT_FLOOR);
    const KpoolContextCreateInfo info = context_info(KPOOL_BINDING_LAYOUT_WIDE, 0, NULL);
    KpoolContext context = (KpoolContext)(uintptr_t)1;
    KpoolDiagnostic diagnostic = {0};
    assert_int_equal(kpoolCreateContext(&info, &context, &diagnostic), KPOOL_ERROR_UNSUPPORTED_DEVICE);
    assert_said(&diagnostic, KPOOL_ERROR_UNSUPPORTED_DEVICE, "createInfo.bindingLayout");
    assert_null(context);
    assert_int_equal(fake->object_count, 0);
}

static void test_layout_by_limits(void **state)
{
    (void)state;
    FakeVulkan fake;
    fake_vulkan_init(&fake);
    VkPhysicalDeviceLimits *limits = &fake.properties.limits;
    assert_int_equal(default_layout(&fake), KPOOL_BINDING_LAYOUT_WIDE);

    /* What step binds, and compress with it. */
    enum { MOST = 13 };
    uint32_t *const of_storage_buffers[] = {&limits->maxPerStageDescriptorStorageBuffers,
                                            &limits->maxDescriptorSetStorageBuffers, &limits->maxPerStageResources};
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t plenty = *of_storage_buffers[i];
        *of_storage_buffers[i] = MOST;
        assert_int_equal(default_layout(&fake), KPOOL_BINDING_LAYOUT_WIDE);
        *of_storage_buffers[i] = MOST - 1;
        assert_floor_only(&fake);
        *of_storage_buffers[i] = plenty;
    }
    fake_vulkan_least_limits(limits);
    assert_floor_only(&fake);
    assert_no_misuse(&fake);
}

/* ---------------------------------------------------------------------------------- missing functions */

static bool is_needed(const char *name, uint32_t flags)
{
    if (strcmp(name, "vkCmdPushDescriptorSetKHR") == 0) {
        return (flags & KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT) != 0;
    }
    if (strcmp(name, "vkSetDebugUtilsObjectNameEXT") == 0) {
        return (flags & KPOOL_CONTEXT_DEBUG_NAMES_BIT) != 0;
    }
    return true;
}

static void test_missing_functions(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < FAKE_FUNCTION_COUNT; i++) {
        for (uint32_t flags = 0; flags <= ALL_FLAGS; flags++) {
            const char *name = fake_function_names[i];
            FakeVulkan fake;
            CountingAllocator allocator;
            fake_vulkan_init(&fake);
            counting_allocator_init(&allocator);
            fake.missing = name;
            const KpoolContextCreateInfo info =
                context_info(KPOOL_BINDING_LAYOUT_DEFAULT, flags, &allocator.callbacks);
            KpoolDiagnostic diagnostic = {0};
            const KpoolResult result = create_all(&info, &diagnostic);
            if (is_needed(name, flags)) {
                assert_int_equal(result, KPOOL_ERROR_UNSUPPORTED_DEVICE);
                assert_said(&diagnostic, KPOOL_ERROR_UNSUPPORTED_DEVICE, "createInfo.pfnGetInstanceProcAddr");
                assert_non_null(strstr(diagnostic.message, name));
                assert_int_equal(fake.call_count, 0);
                fake.missing = NULL;
                assert_int_equal(create_all(&info, &diagnostic), KPOOL_SUCCESS);
            } else {
                assert_int_equal(result, KPOOL_SUCCESS);
            }
            assert_int_equal(fake.object_count, 0);
            assert_int_equal(allocator.live, 0);
            assert_no_misuse(&fake);
        }
    }
}

/* ---------------------------------------------------------------------------------- injected failures */

static void test_every_vulkan_failure(void **state)
{
    (void)state;
    static const VkResult codes[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY,
                                     VK_ERROR_INVALID_SHADER_NV, VK_ERROR_UNKNOWN};
    uint32_t injected = 0;
    for (uint32_t variant = 0; variant < 16; variant++) {
        const KpoolBindingLayout layout = layouts[variant % 2];
        const uint32_t flags = variant / 2 % 4;
        for (uint32_t c = 0; c < sizeof codes / sizeof codes[0]; c++) {
            for (uint32_t n = 1;; n++) {
                FakeVulkan fake;
                CountingAllocator allocator;
                fake_vulkan_init(&fake);
                counting_allocator_init(&allocator);
                fake.fail_at = n;
                fake.fail_result = codes[c];
                const KpoolContextCreateInfo info =
                    context_info(layout, flags, variant < 8 ? &allocator.callbacks : NULL);
                KpoolDiagnostic diagnostic = {0};
                heap_watch(0);
                const KpoolResult result = create_all(&info, &diagnostic);
                const HeapCounts heap = heap_unwatch();
                assert_int_equal(heap.live, 0);
                assert_int_equal(allocator.live, 0);
                assert_int_equal(fake.object_count, 0);
                assert_no_misuse(&fake);
                if (fake.failed == FAKE_FUNCTION_COUNT) {
                    assert_int_equal(result, KPOOL_SUCCESS);
                    break;
                }
                injected++;
                if (fake.failed == FAKE_vkSetDebugUtilsObjectNameEXT) {
                    /* A name that could not be set is no reason to fail. */
                    assert_int_equal(result, KPOOL_SUCCESS);
                    continue;
                }
                const KpoolResult expected = codes[c] == VK_ERROR_OUT_OF_HOST_MEMORY ? KPOOL_ERROR_OUT_OF_HOST_MEMORY
                                                                                     : KPOOL_ERROR_VULKAN;
                assert_int_equal(result, expected);
                assert_said(&diagnostic, expected, fake_function_names[fake.failed]);
                assert_int_equal(diagnostic.vkResult, codes[c]);
                /* The one failure is spent: what was asked for can be had now. */
                assert_int_equal(create_all(&info, &diagnostic), KPOOL_SUCCESS);
                assert_int_equal(fake.object_count, 0);
                assert_int_equal(allocator.live, 0);
            }
        }
    }
    /* Every object of both layouts, with and without callbacks, with every code; and, in the half of the variants that
     * give names, every name. */
    const uint32_t objects = 2 * OPERATIONS + 2 + 2 * (OPERATIONS + PIPELINES);
    assert_int_equal(injected, 2 * 4 * 2 * (objects + 2 * objects));
}

static void test_every_allocation_failure(void **state)
{
    (void)state;
    for (uint32_t l = 0; l < 2; l++) {
        uint32_t n = 1;
        for (;; n++) {
            FakeVulkan fake;
            CountingAllocator allocator;
            fake_vulkan_init(&fake);
            counting_allocator_init(&allocator);
            allocator.fail_at = n;
            const KpoolContextCreateInfo info = context_info(layouts[l], ALL_FLAGS, &allocator.callbacks);
            KpoolDiagnostic diagnostic = {0};
            heap_watch(0);
            const KpoolResult result = create_all(&info, &diagnostic);
            const HeapCounts heap = heap_unwatch();
            /* With callbacks nothing is taken from anywhere else. */
            assert_int_equal(heap.allocations, 0);
            assert_int_equal(allocator.live, 0);
            assert_int_equal(fake.object_count, 0);
            assert_no_misuse(&fake);
            if (allocator.allocations < n) {
                assert_int_equal(result, KPOOL_SUCCESS);
                break;
            }
            assert_int_equal(result, KPOOL_ERROR_OUT_OF_HOST_MEMORY);
            assert_int_equal(diagnostic.result, KPOOL_ERROR_OUT_OF_HOST_MEMORY);
            assert_in_range(strlen(diagnostic.message), 10, 254);
            assert_int_equal(create_all(&info, &diagnostic), KPOOL_SUCCESS);
            assert_int_equal(allocator.live, 0);
        }
        /* The context and its layouts; for each operation a kernel and a module; every pipeline. */
        const uint32_t set_layouts = layouts[l] == KPOOL_BINDING_LAYOUT_FLOOR ? 1 : OPERATIONS;
        assert_int_equal(n - 1, 1 + 2 * set_layouts + 2 * OPERATIONS + PIPELINES);
    }
}

static void test_every_malloc_failure(void **state)
{
    (void)state;
    uint32_t n = 1;
    for (;; n++) {
        FakeVulkan fake;
        fake_vulkan_init(&fake);
        const KpoolContextCreateInfo info = context_info(KPOOL_BINDING_LAYOUT_DEFAULT, ALL_FLAGS, NULL);
        KpoolDiagnostic diagnostic = {0};
        heap_watch(n);
        const KpoolResult result = create_all(&info, &diagnostic);
        const HeapCounts heap = heap_unwatch();
        assert_int_equal(heap.live, 0);
        assert_int_equal(fake.object_count, 0);
        if (heap.allocations < n) {
            assert_int_equal(result, KPOOL_SUCCESS);
            break;
        }
        assert_int_equal(result, KPOOL_ERROR_OUT_OF_HOST_MEMORY);
        assert_int_equal(diagnostic.result, KPOOL_ERROR_OUT_OF_HOST_MEMORY);
        assert_int_equal(diagnostic.vkResult, VK_SUCCESS);
        assert_int_equal(create_all(&info, &diagnostic), KPOOL_SUCCESS);
    }
    assert_int_equal(n - 1, 1 + OPERATIONS);
}

/* --------------------------------------------------------------------------------------- debug names */

static const FakeCall *find_naming(const FakeVulkan *fake, const FakeCall *creation)
{
    for (const FakeCall *call = creation; call < fake->calls + fake->call_count; call++) {
        if (call->function == FAKE_vkSetDebugUtilsObjectNameEXT && call->handle == creation->handle &&
            call->type == creation->type) {
            return call;
        }
    }
    return NULL;
}

static void test_debug_names(void **state)
{
    (void)state;
    for (uint32_t l = 0; l < 2; l++) {
        for (uint32_t flags = 0; flags <= KPOOL_CONTEXT_DEBUG_NAMES_BIT; flags += KPOOL_CONTEXT_DEBUG_NAMES_BIT) {
            FakeVulkan fake;
            fake_vulkan_init(&fake);
            const KpoolContextCreateInfo info = context_info(layouts[l], flags, NULL);
            assert_int_equal(create_all(&info, NULL), KPOOL_SUCCESS);
            uint32_t created = 0;
            uint32_t named = 0;
            for (uint32_t i = 0; i < fake.call_count; i++) {
                const FakeCall *call = &fake.calls[i];
                const bool creates = strncmp(fake_function_names[call->function], "vkCreate", 8) == 0;
                created += creates;
                named += call->function == FAKE_vkSetDebugUtilsObjectNameEXT;
                if (creates && flags != 0) {
                    const FakeCall *naming = find_naming(&fake, call);
                    assert_non_null(naming);
                    assert_int_equal(strncmp(naming->name, "kpool ", 6), 0);
                }
            }
            assert_in_range(created, 4, FAKE_MOST_CALLS);
            assert_int_equal(named, flags != 0 ? created : 0);
            assert_no_misuse(&fake);
        }
    }
}

static void test_version_and_names(void **state)
{
    (void)state;
    assert_int_equal(kpoolGetVersion(), KPOOL_VERSION);
    assert_string_equal(kpoolResultString(KPOOL_SUCCESS), "KPOOL_SUCCESS");
    assert_string_equal(kpoolResultString(KPOOL_ERROR_INVALID_ARGUMENT), "KPOOL_ERROR_INVALID_ARGUMENT");
    assert_string_equal(kpoolResultString(KPOOL_ERROR_LIMIT), "KPOOL_ERROR_LIMIT");
    assert_string_equal(kpoolResultString(KPOOL_ERROR_UNSUPPORTED_DEVICE), "KPOOL_ERROR_UNSUPPORTED_DEVICE");
    assert_string_equal(kpoolResultString(KPOOL_ERROR_OUT_OF_HOST_MEMORY), "KPOOL_ERROR_OUT_OF_HOST_MEMORY");
    assert_string_equal(kpoolResultString(KPOOL_ERROR_VULKAN), "KPOOL_ERROR_VULKAN");
    assert_string_equal(kpoolResultString(KPOOL_ERROR_INVALID_DATA), "KPOOL_ERROR_INVALID_DATA");
    assert_non_null(kpoolResultString((KpoolResult)77));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_creates_and_destroys_in_reverse_order),
        cmocka_unit_test(test_push_descriptor_layouts),
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_every_module),
        cmocka_unit_test(test_constants_of_pools),
        cmocka_unit_test(test_getters_of_nothing),
        cmocka_unit_test(test_fields_of_other_operations),
        cmocka_unit_test(test_default_workgroups),
        cmocka_unit_test(test_default_lanes),
        cmocka_unit_test(test_kernel_arguments),
        cmocka_unit_test(test_context_arguments),
        cmocka_unit_test(test_device_below_1_1),
        cmocka_unit_test(test_callbacks_are_copied),
        cmocka_unit_test(test_layout_by_limits),
        cmocka_unit_test(test_missing_functions),
        cmocka_unit_test(test_every_vulkan_failure),
        cmocka_unit_test(test_every_allocation_failure),
        cmocka_unit_test(test_every_malloc_failure),
        cmocka_unit_test(test_debug_names),
        cmocka_unit_test(test_version_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
