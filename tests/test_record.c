/* What the kpoolCmd... functions record on a fake device: which commands, in which order, with which arguments; that a
 * failure records nothing; that recording allocates nothing; that a call which was checked beforehand fares the same.
 * seed_tail stands for what all of them share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../shaders/interface.h"
#include "counting_allocator.h"
#include "fake_vulkan.h"
#include "kpool/kpool.h"

typedef struct PushConstants {
#define PUSH_FIELD(name) uint32_t name;
    KPOOL_PUSH_CONSTANTS(PUSH_FIELD)
#undef PUSH_FIELD
} PushConstants;

typedef KpoolResult (*Command)(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                               const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic);

/* An operation, how often it dispatches, which tensors it uses, and, in the wide layout, which ones its set has beside
 * those: unused ones that hold the range of an output, and of input_row_offsets. step is two, one for each kind of output.
 */
typedef struct Operation {
    KpoolOperation operation;
    Command command;
    uint32_t page_size;
    uint32_t passes;
    const char *tensors;
    const char *as_output;
    const char *as_offsets;
} Operation;

/* What step uses whatever its output. */
#define STEP_TENSORS \
    " tail k gate input_row_offsets cache_lengths slot_idx status ape pool_row_offsets closed_pool pooled "

static const Operation operations[] = {
    {KPOOL_OPERATION_SEED_TAIL, kpoolCmdSeedTail, 0, 1,
     " tail k gate input_row_offsets cache_lengths slot_idx status ", "", ""},
    {KPOOL_OPERATION_RING_CLOSE, kpoolCmdRingClose, 0, 1,
     " tail k gate input_row_offsets cache_lengths slot_idx status ape closed_pool closed_pooled ", "", ""},
    {KPOOL_OPERATION_COMPRESS, kpoolCmdCompress, 0, 1,
     " k gate input_row_offsets cache_lengths status ape pool_row_offsets pooled ", " tail closed_pool closed_pooled ",
     " slot_idx block_table "},
    {KPOOL_OPERATION_POOL_ROW_OFFSETS, kpoolCmdPoolRowOffsets, 0, 1,
     " input_row_offsets cache_lengths status pool_row_offsets ", " scratch ", " slot_idx "},
    {KPOOL_OPERATION_EXPAND_TOPK, kpoolCmdExpandTopk, 0, 1,
     " input_row_offsets cache_lengths status pool_ids out ", "", ""},
    {KPOOL_OPERATION_COPY_SLOTS, kpoolCmdCopySlots, 0, 2, " tail status pairs scratch ", "", ""},
    {KPOOL_OPERATION_CHECK_SLOTS, kpoolCmdCheckSlots, 0, 1,
     " input_row_offsets cache_lengths slot_idx status scratch ", " pool_row_offsets ", ""},
    {KPOOL_OPERATION_STEP, kpoolCmdStep, 0, 1, STEP_TENSORS "closed_pooled ", "", " block_table "},
    {KPOOL_OPERATION_STEP, kpoolCmdStep, 8, 1, STEP_TENSORS "block_table ", " closed_pooled ", ""},
};
enum { OPERATION_COUNT = sizeof operations / sizeof operations[0] };

/* A context, a kernel and good arguments of one call, which a test then spoils. */
typedef struct Rig {
    FakeVulkan fake;
    CountingAllocator allocator;
    KpoolContext context;
    KpoolKernel kernel;
    Command command;
    KpoolOperation operation; /* of command */
    VkCommandBuffer commandBuffer;
    VkDescriptorSet set;
    KpoolBindings bindings;
    KpoolCall call;
    const KpoolBindings *bindings_argument;
    const KpoolCall *call_argument;
} Rig;

static VkBuffer buffer_of(uint32_t number)
{
    return (VkBuffer)(uintptr_t)(0x200 + number);
}

static VkDescriptorSet the_set(void)
{
    return (VkDescriptorSet)(uintptr_t)0x99;
}

static KpoolRange *range_of(KpoolBindings *bindings, uint32_t tensor)
{
    switch (tensor) {
#define RANGE_CASE(name, group)  \
    case KPOOL_BINDING_##name:   \
        return &bindings->name;
        KPOOL_TENSORS(RANGE_CASE)
#undef RANGE_CASE
    default:
        return NULL;
    }
}

static const char *name_of(uint32_t tensor)
{
    switch (tensor) {
#define NAME_CASE(name, group)   \
    case KPOOL_BINDING_##name:   \
        return #name;
        KPOOL_TENSORS(NAME_CASE)
#undef NAME_CASE
    default:
        return NULL;
    }
}

static uint32_t group_of(uint32_t tensor)
{
    switch (tensor) {
#define GROUP_CASE(name, group)  \
    case KPOOL_BINDING_##name:   \
        return KPOOL_GROUP_##group;
        KPOOL_TENSORS(GROUP_CASE)
#undef GROUP_CASE
    default:
        return KPOOL_GROUP_COUNT;
    }
}

static bool has_rows(uint32_t tensor)
{
    return group_of(tensor) == KPOOL_GROUP_tail || group_of(tensor) == KPOOL_GROUP_rows ||
           tensor == KPOOL_BINDING_scratch;
}

/* Ranges of exactly the size that the call needs. Wide: a buffer each, tensor i from byte 256 * i. Floor: a buffer for
 * each group, its ranges one after another from byte 256, at least 48 bytes apart, and all but the first of a group
 * only as aligned as they must be. */
static void bind(Rig *rig)
{
    const KpoolKernelCreateInfo info = kpoolGetKernelInfo(rig->kernel);
    KpoolBindings sizes;
    assert_int_equal(kpoolGetSizes(&info, &rig->call, &sizes, NULL), KPOOL_SUCCESS);
    VkDeviceSize ends[KPOOL_GROUP_COUNT] = {208, 208, 208, 208};
    rig->bindings = (KpoolBindings){0};
    for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
        const VkDeviceSize size = range_of(&sizes, tensor)->size;
        if (size == 0) {
            continue;
        }
        KpoolRange *range = range_of(&rig->bindings, tensor);
        if (kpoolGetBindingLayout(rig->context) == KPOOL_BINDING_LAYOUT_WIDE) {
            *range = (KpoolRange){buffer_of(tensor), 256 * (VkDeviceSize)tensor, size};
        } else {
            VkDeviceSize *end = &ends[group_of(tensor)];
            const VkDeviceSize aligned = (*end + 48 + 15) / 16 * 16;
            const VkDeviceSize offset = aligned == 256 || has_rows(tensor) ? aligned : aligned + 4;
            *range = (KpoolRange){buffer_of(group_of(tensor)), offset, size};
            *end = range->offset + size;
        }
    }
}

static void open_context_with_groups(Rig *rig, KpoolBindingLayout layout, uint32_t flags, uint32_t most_x,
                                     uint32_t most_y)
{
    memset(rig, 0, sizeof *rig);
    fake_vulkan_init(&rig->fake);
    counting_allocator_init(&rig->allocator);
    rig->fake.properties.limits.maxComputeWorkGroupCount[0] = most_x;
    rig->fake.properties.limits.maxComputeWorkGroupCount[1] = most_y;
    const KpoolContextCreateInfo info = {
        .flags = flags,
        .apiVersion = VK_API_VERSION_1_1,
        .instance = fake_instance(),
        .physicalDevice = fake_physical_device(),
        .device = fake_device(),
        .pfnGetInstanceProcAddr = fake_get_instance_proc_addr,
        .pAllocator = &rig->allocator.callbacks,
        .bindingLayout = layout,
    };
    assert_int_equal(kpoolCreateContext(&info, &rig->context, NULL), KPOOL_SUCCESS);
    rig->commandBuffer = fake_command_buffer();
    rig->set = (flags & KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT) != 0 ? VK_NULL_HANDLE : the_set();
    rig->bindings_argument = &rig->bindings;
    rig->call_argument = &rig->call;
}

static void open_context(Rig *rig, KpoolBindingLayout layout, uint32_t flags)
{
    open_context_with_groups(rig, layout, flags, 65535, 65535);
}

/* The bindings of the set layout that the context made for the operation: bit i is binding i. */
static uint32_t declared_bindings(const Rig *rig, KpoolOperation operation)
{
    const uint64_t layout = (uint64_t)kpoolGetDescriptorSetLayout(rig->context, operation);
    uint32_t bindings = 0;
    for (uint32_t i = 0; i < rig->fake.call_count; i++) {
        const FakeCall *call = &rig->fake.calls[i];
        bindings |= call->function == FAKE_vkCreateDescriptorSetLayout && call->handle == layout ? call->bindings : 0;
    }
    return bindings;
}

static void open_kernel(Rig *rig, const KpoolKernelCreateInfo *info, const KpoolCall *call)
{
    assert_int_equal(kpoolCreateKernel(rig->context, info, &rig->kernel, NULL), KPOOL_SUCCESS);
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        if (operations[i].operation == info->operation) {
            rig->command = operations[i].command;
            rig->operation = info->operation;
        }
    }
    rig->call = *call;
    bind(rig);
    rig->fake.call_count = 0;
}

static void close_rig(Rig *rig)
{
    kpoolDestroyKernel(rig->kernel);
    kpoolDestroyContext(rig->context);
    assert_int_equal(rig->fake.object_count, 0);
    assert_int_equal(rig->allocator.live, 0);
    if (rig->fake.misuse != NULL) {
        fail_msg("misuse of Vulkan: %s", rig->fake.misuse);
    }
}

static KpoolResult execute(Rig *rig, KpoolCommand command, KpoolDiagnostic *diagnostic)
{
    const uint32_t before = rig->allocator.allocations;
    heap_watch(0);
    const KpoolResult result = kpoolCmdExecute(rig->commandBuffer, command, rig->set, diagnostic);
    assert_int_equal(heap_unwatch().allocations, 0);
    assert_int_equal(rig->allocator.allocations, before);
    return result;
}

/* The same call, checked beforehand, is refused with the same words, or records the same again: the calls from `first`
 * on. Leaves the log as it was. */
static void record_beforehand(Rig *rig, uint32_t first, KpoolResult expected, const KpoolDiagnostic *sentence)
{
    const uint32_t count = rig->fake.call_count;
    KpoolDiagnostic diagnostic = {0};
    KpoolCommand command = (KpoolCommand)(uintptr_t)1;
    KpoolResult result =
        kpoolCreateCommand(rig->kernel, rig->bindings_argument, rig->call_argument, &command, &diagnostic);
    if (result == KPOOL_SUCCESS) {
        /* The structs may change meanwhile. */
        const KpoolBindings bindings = rig->bindings;
        const KpoolCall call = rig->call;
        memset(&rig->bindings, 0xff, sizeof rig->bindings);
        memset(&rig->call, 0xff, sizeof rig->call);
        result = execute(rig, command, &diagnostic);
        rig->bindings = bindings;
        rig->call = call;
    } else {
        assert_null(command);
    }
    kpoolDestroyCommand(command);
    assert_int_equal(result, expected);
    if (result != KPOOL_SUCCESS && sentence != NULL) {
        assert_int_equal(diagnostic.result, sentence->result);
        assert_string_equal(diagnostic.argument, sentence->argument);
        assert_string_equal(diagnostic.message, sentence->message);
    }
    assert_int_equal(rig->fake.call_count - count, count - first);
    for (uint32_t i = first; i < count; i++) {
        assert_true(fake_same_call(&rig->fake.calls[i], &rig->fake.calls[count - first + i], VK_NULL_HANDLE));
    }
    rig->fake.call_count = count;
}

/* Records, and asserts that nothing was allocated, and that checked beforehand the call fares the same. */
static KpoolResult record(Rig *rig, KpoolDiagnostic *diagnostic)
{
    const uint32_t before = rig->allocator.allocations;
    const uint32_t first = rig->fake.call_count;
    heap_watch(0);
    const KpoolResult result = rig->command(rig->commandBuffer, rig->kernel, rig->set, rig->bindings_argument,
                                            rig->call_argument, diagnostic);
    const HeapCounts heap = heap_unwatch();
    assert_int_equal(heap.allocations, 0);
    assert_int_equal(rig->allocator.allocations, before);
    /* A command has no operation of its own to differ from its kernel's. */
    if (kpoolGetKernelInfo(rig->kernel).operation == rig->operation || rig->kernel == NULL) {
        record_beforehand(rig, first, result, diagnostic);
    }
    return result;
}

static void assert_refused(Rig *rig, KpoolResult result, const char *argument)
{
    KpoolDiagnostic diagnostic = {0};
    const KpoolResult got = record(rig, &diagnostic);
    if (got != result) {
        fail_msg("%s: %s (%s), expected %s", argument, kpoolResultString(got), diagnostic.message,
                 kpoolResultString(result));
    }
    assert_int_equal(diagnostic.result, result);
    assert_int_equal(diagnostic.vkResult, VK_SUCCESS);
    assert_string_equal(diagnostic.argument, argument);
    assert_non_null(strstr(diagnostic.message, argument));
    assert_in_range(strlen(diagnostic.message), strlen(argument) + 5, sizeof diagnostic.message - 2);
    assert_int_equal(record(rig, NULL), result);
    assert_int_equal(rig->fake.call_count, 0);
}

static KpoolKernelCreateInfo kernel_info(KpoolType type, uint32_t alignment)
{
    return (KpoolKernelCreateInfo){
        .operation = KPOOL_OPERATION_SEED_TAIL,
        .geometry = {.head_dim = 128, .kpool = 4, .type = type},
        .alignment = alignment,
        .lanesPerItem = 16,
        .itemsPerGroup = 4,
    };
}

static KpoolKernelCreateInfo kernel_info_of(const Operation *operation)
{
    KpoolKernelCreateInfo info = kernel_info(KPOOL_TYPE_BF16, 4);
    info.operation = operation->operation;
    info.page_size = operation->page_size;
    if (info.operation == KPOOL_OPERATION_EXPAND_TOPK) {
        info.topk = 3;
    }
    if (info.operation == KPOOL_OPERATION_EXPAND_TOPK || info.operation == KPOOL_OPERATION_POOL_ROW_OFFSETS ||
        info.operation == KPOOL_OPERATION_CHECK_SLOTS) {
        info.lanesPerItem = 64;
        info.itemsPerGroup = 1;
    }
    return info;
}

static const KpoolCall plain_call = {.max_slots = 3, .requests = 5, .rows = 17, .pooled_rows = 6, .pair_count = 7,
                                      .pages = 3, .max_pages = 2};

/* ------------------------------------------------------------------------------------ the commands */

static uint32_t collect_pipelines(const Rig *rig, uint64_t pipelines[2])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->fake.call_count; i++) {
        if (rig->fake.calls[i].function == FAKE_vkCreateComputePipelines) {
            assert_in_range(count, 0, 1);
            pipelines[count++] = rig->fake.calls[i].handle;
        }
    }
    return count;
}

static bool is_named(const char *names, uint32_t tensor)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", name_of(tensor));
    return strstr(names, word) != NULL;
}

static bool uses(const Operation *operation, uint32_t tensor)
{
    return is_named(operation->tensors, tensor);
}

/* What the descriptors of an operation are, by ascending binding, from the ranges that are given. Floor: every group,
 * from its first range to the end of its last, and where it has none the group of status. */
static uint32_t expect_descriptors(const Operation *operation, bool floor, KpoolBindings *bindings,
                                   FakeWrite expected[KPOOL_TENSOR_COUNT])
{
    if (!floor) {
        const KpoolRange *output = uses(operation, KPOOL_BINDING_pooled)    ? &bindings->pooled
                                   : uses(operation, KPOOL_BINDING_scratch) ? &bindings->scratch
                                                                            : &bindings->pool_row_offsets;
        uint32_t count = 0;
        for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
            const KpoolRange *range = uses(operation, tensor)                   ? range_of(bindings, tensor)
                                      : is_named(operation->as_output, tensor)  ? output
                                      : is_named(operation->as_offsets, tensor) ? &bindings->input_row_offsets
                                                                                : NULL;
            if (range != NULL) {
                expected[count].binding = tensor;
                expected[count++].buffer = (VkDescriptorBufferInfo){range->buffer, range->offset, range->size};
            }
        }
        return count;
    }
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        expected[group] = (FakeWrite){.binding = group};
        VkDeviceSize first = UINT64_MAX;
        VkDeviceSize last = 0;
        for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
            const KpoolRange *range = range_of(bindings, tensor);
            if (group_of(tensor) == group && range->buffer != VK_NULL_HANDLE) {
                first = range->offset < first ? range->offset : first;
                last = range->offset + range->size > last ? range->offset + range->size : last;
                expected[group].buffer = (VkDescriptorBufferInfo){range->buffer, first, last - first};
            }
        }
    }
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        if (expected[group].buffer.buffer == VK_NULL_HANDLE) {
            expected[group].buffer = expected[KPOOL_GROUP_words].buffer;
        }
    }
    return KPOOL_GROUP_COUNT;
}

static void assert_descriptors(const FakeCall *call, VkDescriptorSet set, const FakeWrite *expected, uint32_t count)
{
    assert_int_equal(call->write_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(call->writes[i].set == set);
        assert_int_equal(call->writes[i].binding, expected[i].binding);
        assert_true(call->writes[i].buffer.buffer == expected[i].buffer.buffer);
        assert_int_equal(call->writes[i].buffer.offset, expected[i].buffer.offset);
        assert_int_equal(call->writes[i].buffer.range, expected[i].buffer.range);
    }
}

static void check_commands(const Operation *operation, bool floor, bool push)
{
    Rig rig;
    open_context(&rig, floor ? KPOOL_BINDING_LAYOUT_FLOOR : KPOOL_BINDING_LAYOUT_WIDE,
                 push ? KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT : 0);
    const KpoolKernelCreateInfo info = kernel_info_of(operation);
    open_kernel(&rig, &info, &plain_call);
    kpoolDestroyKernel(rig.kernel);
    rig.fake.call_count = 0;
    assert_int_equal(kpoolCreateKernel(rig.context, &info, &rig.kernel, NULL), KPOOL_SUCCESS);
    uint64_t pipelines[2];
    assert_int_equal(collect_pipelines(&rig, pipelines), operation->passes);
    uint64_t layout = 0;
    for (uint32_t i = 0; i < rig.fake.call_count; i++) {
        if (rig.fake.calls[i].function == FAKE_vkCreateComputePipelines) {
            layout = (uint64_t)rig.fake.calls[i].layout;
        }
    }
    /* Twice into one command buffer: nothing is remembered from one to the next. */
    for (uint32_t time = 0; time < 2; time++) {
        KpoolDiagnostic diagnostic = {.argument = "untouched"};
        rig.fake.call_count = 0;
        assert_int_equal(record(&rig, &diagnostic), KPOOL_SUCCESS);
        assert_string_equal(diagnostic.argument, "untouched");
        const FakeCall *calls = rig.fake.calls;
        assert_int_equal(rig.fake.call_count, 4 + 3 * (operation->passes - 1));
        assert_int_equal(calls[0].function, FAKE_vkCmdBindPipeline);
        assert_int_equal(calls[0].handle, pipelines[0]);
        assert_int_equal(calls[1].function, push ? FAKE_vkCmdPushDescriptorSetKHR : FAKE_vkCmdBindDescriptorSets);
        assert_int_equal((uint64_t)calls[1].layout, layout);
        if (push) {
            FakeWrite expected[KPOOL_TENSOR_COUNT];
            const uint32_t count = expect_descriptors(operation, floor, &rig.bindings, expected);
            assert_descriptors(&calls[1], VK_NULL_HANDLE, expected, count);
        } else {
            assert_int_equal(calls[1].handle, (uint64_t)the_set());
        }
        assert_int_equal(calls[2].function, FAKE_vkCmdPushConstants);
        assert_int_equal((uint64_t)calls[2].layout, layout);
        assert_int_equal(calls[2].push_size, sizeof(PushConstants));
        assert_int_equal(calls[3].function, FAKE_vkCmdDispatch);
        uint32_t groups[3];
        assert_int_equal(kpoolGetGroupCount(rig.kernel, &rig.call, groups, NULL), KPOOL_SUCCESS);
        assert_memory_equal(calls[3].groups, groups, sizeof groups);
        for (uint32_t pass = 1; pass < operation->passes; pass++) {
            const FakeCall *again = &calls[4 + 3 * (pass - 1)];
            assert_int_equal(again[0].function, FAKE_vkCmdPipelineBarrier);
            for (uint32_t side = 0; side < 2; side++) {
                assert_int_equal(again[0].stages[side], VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
            }
            assert_int_equal(again[0].accesses[0], VK_ACCESS_SHADER_WRITE_BIT);
            assert_true((again[0].accesses[1] & VK_ACCESS_SHADER_READ_BIT) != 0);
            assert_int_equal(again[1].function, FAKE_vkCmdBindPipeline);
            assert_int_equal(again[1].handle, pipelines[pass]);
            assert_int_equal(again[2].function, FAKE_vkCmdDispatch);
            assert_memory_equal(again[2].groups, groups, sizeof groups);
        }
    }
    close_rig(&rig);
}

static void test_commands_in_order(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        for (uint32_t variant = 0; variant < 4; variant++) {
            check_commands(&operations[i], variant % 2 != 0, variant / 2 != 0);
        }
    }
}

/* What kpoolGetSizes gives a size is what the operation binds. */
static void test_tensors_of_operations(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        const KpoolKernelCreateInfo info = kernel_info_of(&operations[i]);
        KpoolBindings sizes;
        assert_int_equal(kpoolGetSizes(&info, &plain_call, &sizes, NULL), KPOOL_SUCCESS);
        for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
            assert_int_equal(range_of(&sizes, tensor)->size != 0, uses(&operations[i], tensor));
        }
    }
}

static void test_kernel_of_another_operation(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        Rig rig;
        open_context(&rig, KPOOL_BINDING_LAYOUT_WIDE, 0);
        const KpoolKernelCreateInfo info = kernel_info_of(&operations[i]);
        open_kernel(&rig, &info, &plain_call);
        for (uint32_t other = 0; other < OPERATION_COUNT; other++) {
            rig.command = operations[other].command;
            rig.operation = operations[other].operation;
            KpoolDiagnostic diagnostic = {0};
            rig.fake.call_count = 0;
            if (operations[other].operation == info.operation) {
                assert_int_equal(record(&rig, &diagnostic), KPOOL_SUCCESS);
            } else {
                assert_int_equal(record(&rig, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
                assert_string_equal(diagnostic.argument, "kernel");
                assert_int_equal(rig.fake.call_count, 0);
            }
        }
        close_rig(&rig);
    }
}

/* The descriptors of every operation, the same whether written or pushed: those of its set layout, no more, no less. */
static void test_descriptors(void **state)
{
    (void)state;
    for (uint32_t variant = 0; variant < 4 * OPERATION_COUNT; variant++) {
        const Operation *operation = &operations[variant / 4];
        const bool floor = variant % 2 != 0;
        const bool push = variant / 2 % 2 != 0;
        Rig rig;
        open_context(&rig, floor ? KPOOL_BINDING_LAYOUT_FLOOR : KPOOL_BINDING_LAYOUT_WIDE,
                     push ? KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT : 0);
        const uint32_t declared = declared_bindings(&rig, operation->operation);
        const KpoolKernelCreateInfo info = kernel_info_of(operation);
        open_kernel(&rig, &info, &plain_call);
        FakeWrite expected[KPOOL_TENSOR_COUNT];
        const uint32_t count = expect_descriptors(operation, floor, &rig.bindings, expected);
        uint32_t bindings = 0;
        for (uint32_t i = 0; i < count; i++) {
            bindings |= 1u << expected[i].binding;
        }
        assert_int_equal(bindings, declared);
        assert_int_equal(kpoolGetDescriptorCount(rig.context, operation->operation), count);
        if (push) {
            assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
            assert_descriptors(&rig.fake.calls[1], VK_NULL_HANDLE, expected, count);
        } else {
            assert_int_equal(kpoolWriteDescriptorSet(rig.context, operation->operation, the_set(), &rig.bindings, NULL),
                             KPOOL_SUCCESS);
            assert_int_equal(rig.fake.call_count, 1);
            assert_int_equal(rig.fake.calls[0].function, FAKE_vkUpdateDescriptorSets);
            assert_descriptors(&rig.fake.calls[0], the_set(), expected, count);
        }
        close_rig(&rig);
    }
}

/* In so many words what the loop above says in general: compress writes all that the shared module declares. */
static void test_descriptors_of_compress(void **state)
{
    (void)state;
    const Operation *compress = &operations[2];
    const KpoolKernelCreateInfo info = kernel_info_of(compress);
    Rig rig;
    open_context(&rig, KPOOL_BINDING_LAYOUT_WIDE, KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT);
    open_kernel(&rig, &info, &plain_call);
    assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
    static const uint32_t held[13][2] = {
        {KPOOL_BINDING_tail, KPOOL_BINDING_pooled},
        {KPOOL_BINDING_k, KPOOL_BINDING_k},
        {KPOOL_BINDING_gate, KPOOL_BINDING_gate},
        {KPOOL_BINDING_input_row_offsets, KPOOL_BINDING_input_row_offsets},
        {KPOOL_BINDING_cache_lengths, KPOOL_BINDING_cache_lengths},
        {KPOOL_BINDING_slot_idx, KPOOL_BINDING_input_row_offsets},
        {KPOOL_BINDING_status, KPOOL_BINDING_status},
        {KPOOL_BINDING_ape, KPOOL_BINDING_ape},
        {KPOOL_BINDING_pool_row_offsets, KPOOL_BINDING_pool_row_offsets},
        {KPOOL_BINDING_closed_pool, KPOOL_BINDING_pooled},
        {KPOOL_BINDING_closed_pooled, KPOOL_BINDING_pooled},
        {KPOOL_BINDING_pooled, KPOOL_BINDING_pooled},
        {KPOOL_BINDING_block_table, KPOOL_BINDING_input_row_offsets},
    };
    assert_int_equal(rig.fake.calls[1].write_count, 13);
    for (uint32_t i = 0; i < 13; i++) {
        const FakeWrite *write = &rig.fake.calls[1].writes[i];
        const KpoolRange *range = range_of(&rig.bindings, held[i][1]);
        assert_int_equal(write->binding, held[i][0]);
        assert_true(write->buffer.buffer == range->buffer && range->buffer != VK_NULL_HANDLE);
        assert_int_equal(write->buffer.offset, range->offset);
        assert_int_equal(write->buffer.range, range->size);
    }
    close_rig(&rig);

    open_context(&rig, KPOOL_BINDING_LAYOUT_FLOOR, KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT);
    open_kernel(&rig, &info, &plain_call);
    /* status by itself is no descriptor: the device's alignment is its group's. */
    assert_int_not_equal(rig.bindings.status.offset % 16, 0);
    assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
    assert_int_equal(rig.fake.calls[1].write_count, KPOOL_GROUP_COUNT);
    const FakeWrite *writes = rig.fake.calls[1].writes;
    assert_true(writes[KPOOL_GROUP_tail].buffer.buffer == buffer_of(KPOOL_GROUP_words));
    assert_int_equal(writes[KPOOL_GROUP_tail].buffer.offset, rig.bindings.input_row_offsets.offset);
    assert_memory_equal(&writes[KPOOL_GROUP_tail].buffer, &writes[KPOOL_GROUP_words].buffer,
                        sizeof writes[0].buffer);
    assert_true(writes[KPOOL_GROUP_rows].buffer.buffer == buffer_of(KPOOL_GROUP_rows));
    assert_true(writes[KPOOL_GROUP_out].buffer.buffer == buffer_of(KPOOL_GROUP_out));
    close_rig(&rig);
}

/* A set of step is written before it is known whether its kernel is dense or paged: closed_pooled and block_table where
 * they are given. */
static void test_optional_tensors_of_step(void **state)
{
    (void)state;
    for (uint32_t variant = 0; variant < 8; variant++) {
        const bool floor = variant / 4 != 0;
        Rig rig;
        open_context(&rig, floor ? KPOOL_BINDING_LAYOUT_FLOOR : KPOOL_BINDING_LAYOUT_WIDE, 0);
        const KpoolKernelCreateInfo info = kernel_info_of(&operations[OPERATION_COUNT - 1]);
        open_kernel(&rig, &info, &plain_call);
        const KpoolRange block_table = rig.bindings.block_table;
        const KpoolRange closed_pooled = {floor ? rig.bindings.pooled.buffer : buffer_of(77), 4096, 512};
        rig.bindings.closed_pooled = variant % 2 != 0 ? closed_pooled : (KpoolRange){0};
        rig.bindings.block_table = variant / 2 % 2 != 0 ? block_table : (KpoolRange){0};
        static const Operation given[4] = {
            {.tensors = STEP_TENSORS, .as_output = " closed_pooled ", .as_offsets = " block_table "},
            {.tensors = STEP_TENSORS "closed_pooled ", .as_output = "", .as_offsets = " block_table "},
            {.tensors = STEP_TENSORS "block_table ", .as_output = " closed_pooled ", .as_offsets = ""},
            {.tensors = STEP_TENSORS "closed_pooled block_table ", .as_output = "", .as_offsets = ""},
        };
        FakeWrite expected[KPOOL_TENSOR_COUNT];
        const uint32_t count = expect_descriptors(&given[variant % 4], floor, &rig.bindings, expected);
        assert_int_equal(count, floor ? 4 : 13);
        assert_int_equal(kpoolWriteDescriptorSet(rig.context, KPOOL_OPERATION_STEP, the_set(), &rig.bindings, NULL),
                         KPOOL_SUCCESS);
        assert_descriptors(&rig.fake.calls[0], the_set(), expected, count);
        rig.fake.call_count = 0;

        /* What is given is judged. */
        KpoolRange *const optional[2] = {&rig.bindings.closed_pooled, &rig.bindings.block_table};
        static const char *const names[2] = {"closed_pooled", "block_table"};
        for (uint32_t i = 0; i < 2; i++) {
            const KpoolRange good = *optional[i];
            if (good.buffer == VK_NULL_HANDLE) {
                continue;
            }
            optional[i]->size = 3;
            KpoolDiagnostic diagnostic = {0};
            assert_int_equal(kpoolWriteDescriptorSet(rig.context, KPOOL_OPERATION_STEP, the_set(), &rig.bindings,
                                                     &diagnostic),
                             KPOOL_ERROR_INVALID_ARGUMENT);
            assert_string_equal(diagnostic.argument, names[i]);
            *optional[i] = good;
        }
        /* And everything else is needed. */
        for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
            KpoolRange *range = range_of(&rig.bindings, tensor);
            const KpoolRange good = *range;
            if (good.buffer == VK_NULL_HANDLE || range == optional[0] || range == optional[1]) {
                continue;
            }
            range->buffer = VK_NULL_HANDLE;
            KpoolDiagnostic diagnostic = {0};
            assert_int_equal(kpoolWriteDescriptorSet(rig.context, KPOOL_OPERATION_STEP, the_set(), &rig.bindings,
                                                     &diagnostic),
                             KPOOL_ERROR_INVALID_ARGUMENT);
            assert_string_equal(diagnostic.argument, name_of(tensor));
            *range = good;
        }
        assert_int_equal(rig.fake.call_count, 0);
        close_rig(&rig);
    }
}

/* What is not used is not looked at, even where the set has a place for it. */
static void test_wide_looks_at_no_unused_range(void **state)
{
    (void)state;
    for (uint32_t variant = 0; variant < 2 * OPERATION_COUNT; variant++) {
        const Operation *operation = &operations[variant / 2];
        const bool push = variant % 2 != 0;
        Rig rig;
        open_context(&rig, KPOOL_BINDING_LAYOUT_WIDE, push ? KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT : 0);
        const KpoolKernelCreateInfo info = kernel_info_of(operation);
        open_kernel(&rig, &info, &plain_call);
        for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
            /* A set of step is written with either output, so there both are looked at where they are given. */
            const bool optional = !push && operation->operation == KPOOL_OPERATION_STEP &&
                                  (tensor == KPOOL_BINDING_closed_pooled || tensor == KPOOL_BINDING_block_table);
            if (!uses(operation, tensor) && !optional) {
                *range_of(&rig.bindings, tensor) = (KpoolRange){buffer_of(77), 3, 1};
            }
        }
        FakeWrite expected[KPOOL_TENSOR_COUNT];
        const uint32_t count = expect_descriptors(operation, false, &rig.bindings, expected);
        if (push) {
            assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
            assert_descriptors(&rig.fake.calls[1], VK_NULL_HANDLE, expected, count);
        } else {
            assert_int_equal(kpoolWriteDescriptorSet(rig.context, operation->operation, the_set(), &rig.bindings, NULL),
                             KPOOL_SUCCESS);
            assert_descriptors(&rig.fake.calls[0], the_set(), expected, count);
        }
        close_rig(&rig);
    }
}

/* ----------------------------------------------------------------------------------- push constants */

typedef struct PushCase {
    const char *name;
    KpoolGeometry geometry;
    uint32_t alignment;
    KpoolCall call;
    PushConstants expected;
} PushCase;

#define STRIDED_CALL                                                                                                  \
    {                                                                                                                 \
        .max_slots = 3, .requests = 5, .rows = 17, .tail_row_stride = 16, .tail_plane_stride = 80,                    \
        .tail_slot_stride = 240, .k_row_stride = 24, .gate_row_stride = 32, .tail_base = 8, .k_base = 16,             \
        .gate_base = 40, .input_row_offsets_base = 1, .cache_lengths_base = 2, .slot_idx_base = 3, .status_base = 5   \
    }

static const PushCase push_cases[] = {
    {"dense f32", {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_F32}, 4,
     {.max_slots = 3, .requests = 5, .rows = 17},
     {.max_slots = 3, .requests = 5, .rows = 17, .tail_slot_stride = 1024, .tail_plane_stride = 512,
      .tail_row_stride = 128, .k_row_stride = 128, .gate_row_stride = 128}},
    {"dense f32, 16 bytes", {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_F32}, 16,
     {.max_slots = 3, .requests = 5, .rows = 17},
     {.max_slots = 3, .requests = 5, .rows = 17, .tail_slot_stride = 256, .tail_plane_stride = 128,
      .tail_row_stride = 32, .k_row_stride = 32, .gate_row_stride = 32}},
    {"dense bf16", {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_BF16}, 4,
     {.max_slots = 3, .requests = 5, .rows = 17},
     {.max_slots = 3, .requests = 5, .rows = 17, .tail_slot_stride = 512, .tail_plane_stride = 256,
      .tail_row_stride = 64, .k_row_stride = 64, .gate_row_stride = 64}},
    {"dense f16, 16 bytes", {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_F16}, 16,
     {.max_slots = 3, .requests = 5, .rows = 17},
     {.max_slots = 3, .requests = 5, .rows = 17, .tail_slot_stride = 128, .tail_plane_stride = 64,
      .tail_row_stride = 16, .k_row_stride = 16, .gate_row_stride = 16}},
    {"longer ring", {.head_dim = 2, .kpool = 4, .type = KPOOL_TYPE_F16, .ring = 11, .rollback = 5}, 4,
     {.max_slots = 1, .requests = 1, .rows = 1},
     {.max_slots = 1, .requests = 1, .rows = 1, .tail_slot_stride = 22, .tail_plane_stride = 11, .tail_row_stride = 1,
      .k_row_stride = 1, .gate_row_stride = 1}},
    {"strided f32", {.head_dim = 8, .kpool = 4, .type = KPOOL_TYPE_F32}, 4, STRIDED_CALL,
     {.max_slots = 3, .requests = 5, .rows = 17, .tail_slot_stride = 240, .tail_plane_stride = 80,
      .tail_row_stride = 16, .k_row_stride = 24, .gate_row_stride = 32, .tail_base = 8, .k_base = 16, .gate_base = 40,
      .input_row_offsets_base = 1, .cache_lengths_base = 2, .slot_idx_base = 3, .status_base = 5}},
    {"strided f32, 16 bytes", {.head_dim = 8, .kpool = 4, .type = KPOOL_TYPE_F32}, 16, STRIDED_CALL,
     {.max_slots = 3, .requests = 5, .rows = 17, .tail_slot_stride = 60, .tail_plane_stride = 20, .tail_row_stride = 4,
      .k_row_stride = 6, .gate_row_stride = 8, .tail_base = 2, .k_base = 4, .gate_base = 10,
      .input_row_offsets_base = 1, .cache_lengths_base = 2, .slot_idx_base = 3, .status_base = 5}},
    {"strided bf16", {.head_dim = 8, .kpool = 4, .type = KPOOL_TYPE_BF16}, 4, STRIDED_CALL,
     {.max_slots = 3, .requests = 5, .rows = 17, .tail_slot_stride = 120, .tail_plane_stride = 40,
      .tail_row_stride = 8, .k_row_stride = 12, .gate_row_stride = 16, .tail_base = 4, .k_base = 8, .gate_base = 20,
      .input_row_offsets_base = 1, .cache_lengths_base = 2, .slot_idx_base = 3, .status_base = 5}},
    {"strided f16, 16 bytes", {.head_dim = 8, .kpool = 4, .type = KPOOL_TYPE_F16}, 16, STRIDED_CALL,
     {.max_slots = 3, .requests = 5, .rows = 17, .tail_slot_stride = 30, .tail_plane_stride = 10, .tail_row_stride = 2,
      .k_row_stride = 3, .gate_row_stride = 4, .tail_base = 1, .k_base = 2, .gate_base = 5,
      .input_row_offsets_base = 1, .cache_lengths_base = 2, .slot_idx_base = 3, .status_base = 5}},
    {"all keys before all gates", {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_F32}, 4,
     {.max_slots = 3, .requests = 5, .rows = 17, .tail_slot_stride = 512, .tail_plane_stride = 1536},
     {.max_slots = 3, .requests = 5, .rows = 17, .tail_slot_stride = 512, .tail_plane_stride = 1536,
      .tail_row_stride = 128, .k_row_stride = 128, .gate_row_stride = 128}},
    {"K|gate in one row", {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_BF16}, 16,
     {.max_slots = 3, .requests = 5, .rows = 17, .tail_row_stride = 256, .tail_plane_stride = 128,
      .tail_slot_stride = 1024, .k_row_stride = 256, .gate_row_stride = 256, .gate_base = 128},
     {.max_slots = 3, .requests = 5, .rows = 17, .tail_slot_stride = 128, .tail_plane_stride = 16,
      .tail_row_stride = 32, .k_row_stride = 32, .gate_row_stride = 32, .gate_base = 16}},
};

static void assert_push(const char *name, const FakeCall *call, const PushConstants *expected)
{
    PushConstants got;
    assert_int_equal(call->function, FAKE_vkCmdPushConstants);
    assert_int_equal(call->push_size, sizeof got);
    memcpy(&got, call->push, sizeof got);
#define COMPARE(field)                                                                        \
    if (got.field != expected->field) {                                                       \
        fail_msg("%s: " #field " is %u, expected %u", name, got.field, expected->field);      \
    }
    KPOOL_PUSH_CONSTANTS(COMPARE)
#undef COMPARE
}

static KpoolKernelCreateInfo info_of(const PushCase *push_case)
{
    return (KpoolKernelCreateInfo){.operation = KPOOL_OPERATION_SEED_TAIL,
                                   .geometry = push_case->geometry,
                                   .alignment = push_case->alignment};
}

static void test_push_constants_wide(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof push_cases / sizeof push_cases[0]; i++) {
        const KpoolKernelCreateInfo info = info_of(&push_cases[i]);
        Rig rig;
        open_context(&rig, KPOOL_BINDING_LAYOUT_WIDE, 0);
        open_kernel(&rig, &info, &push_cases[i].call);
        assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
        assert_push(push_cases[i].name, &rig.fake.calls[2], &push_cases[i].expected);
        close_rig(&rig);
    }
}

/* In the floor layout bases also hold the distance from the start of the group, in the words that are moved. */
static void test_push_constants_floor(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof push_cases / sizeof push_cases[0]; i++) {
        const KpoolKernelCreateInfo info = info_of(&push_cases[i]);
        Rig rig;
        open_context(&rig, KPOOL_BINDING_LAYOUT_FLOOR, 0);
        open_kernel(&rig, &info, &push_cases[i].call);
        /* gate before k, with room between; the index arrays out of order. Where they begin is said here. */
        const VkBuffer rows = buffer_of(1);
        const VkBuffer words = buffer_of(2);
        KpoolBindings *b = &rig.bindings;
        b->gate = (KpoolRange){rows, 512, b->gate.size};
        b->k = (KpoolRange){rows, 512 + 65536, b->k.size};
        b->status = (KpoolRange){words, 256, 96};
        b->slot_idx = (KpoolRange){words, 356, 64};
        b->cache_lengths = (KpoolRange){words, 424, 64};
        b->input_row_offsets = (KpoolRange){words, 1028, 64};
        PushConstants expected = push_cases[i].expected;
        expected.k_base += 65536 / info.alignment;
        expected.slot_idx_base += 25;
        expected.cache_lengths_base += 42;
        expected.input_row_offsets_base += 193;
        assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
        assert_push(push_cases[i].name, &rig.fake.calls[2], &expected);
        close_rig(&rig);
    }
}

/* step counts in words of 4 bytes, whatever the kernel's alignment. */
static void test_push_constants_of_step(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof push_cases / sizeof push_cases[0]; i++) {
        const PushCase *push_case = &push_cases[i / 2];
        if (push_case->alignment != 16) {
            continue;
        }
        PushConstants pushed[2];
        for (uint32_t j = 0; j < 2; j++) {
            KpoolKernelCreateInfo info = info_of(push_case);
            info.operation = KPOOL_OPERATION_STEP;
            info.alignment = j == 0 ? 4 : 16;
            Rig rig;
            open_context(&rig, i % 2 == 0 ? KPOOL_BINDING_LAYOUT_WIDE : KPOOL_BINDING_LAYOUT_FLOOR, 0);
            open_kernel(&rig, &info, &push_case->call);
            assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
            memcpy(&pushed[j], rig.fake.calls[2].push, sizeof pushed[j]);
            close_rig(&rig);
        }
        const uint32_t words = push_case->geometry.type == KPOOL_TYPE_F32 ? 1 : 2;
        const KpoolCall *call = &push_case->call;
        const uint32_t k_row = call->k_row_stride != 0 ? (uint32_t)call->k_row_stride : push_case->geometry.head_dim;
        assert_int_equal(pushed[0].k_row_stride, k_row / words);
        assert_memory_equal(&pushed[1], &pushed[0], sizeof pushed[0]);
    }
}

/* Ranges of the group that the operation does not use still belong to the descriptor, so they move its start. */
static void test_floor_spans_unused_ranges(void **state)
{
    (void)state;
    Rig rig;
    open_context(&rig, KPOOL_BINDING_LAYOUT_FLOOR, KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT);
    const KpoolKernelCreateInfo info = kernel_info(KPOOL_TYPE_F32, 4);
    open_kernel(&rig, &info, &plain_call);
    uint32_t unused = KPOOL_TENSOR_COUNT;
    for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
        if (group_of(tensor) == KPOOL_GROUP_words && range_of(&rig.bindings, tensor)->size == 0) {
            unused = tensor;
        }
    }
    if (unused != KPOOL_TENSOR_COUNT) {
        *range_of(&rig.bindings, unused) = (KpoolRange){buffer_of(KPOOL_GROUP_words), 128, 16};
        assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
        const VkDeviceSize first = rig.bindings.input_row_offsets.offset;
        assert_int_equal(rig.fake.calls[1].writes[2].buffer.offset, 128);
        PushConstants got;
        memcpy(&got, rig.fake.calls[2].push, sizeof got);
        assert_int_equal(got.input_row_offsets_base, (first - 128) / 4);
    }
    close_rig(&rig);
}

/* Every operation at the same call, in which nothing is zero: what it does not use stays 0. */
typedef struct OperationPush {
    KpoolOperation operation;
    uint32_t page_size;
    PushConstants expected;
} OperationPush;

static const KpoolCall full_call = {
    .max_slots = 3,
    .requests = 5,
    .rows = 17,
    .pooled_rows = 6,
    .pair_count = 7,
    .pages = 9,
    .max_pages = 2,
    .tail_slot_stride = 240,
    .tail_plane_stride = 80,
    .tail_row_stride = 16,
    .k_row_stride = 24,
    .gate_row_stride = 32,
    .closed_pooled_row_stride = 40,
    .pooled_row_stride = 48,
    .tail_base = 8,
    .k_base = 16,
    .gate_base = 40,
    .input_row_offsets_base = 1,
    .cache_lengths_base = 2,
    .slot_idx_base = 3,
    .status_base = 5,
    .ape_base = 7,
    .pool_row_offsets_base = 9,
    .closed_pool_base = 11,
    .closed_pooled_base = 64,
    .pooled_base = 72,
    .pool_ids_base = 13,
    .out_base = 17,
    .pairs_base = 19,
    .scratch_base = 88,
    .block_table_base = 23,
};

#define COUNTS .max_slots = 3, .requests = 5, .rows = 17, .pooled_rows = 6, .pair_count = 7, .pages = 9, .max_pages = 2
/* Of a ring of bf16: two elements a word. */
#define TAIL .tail_slot_stride = 120, .tail_plane_stride = 40, .tail_row_stride = 8, .tail_base = 4
#define ROWS .k_row_stride = 12, .gate_row_stride = 16, .k_base = 8, .gate_base = 20
#define REQUESTS .input_row_offsets_base = 1, .cache_lengths_base = 2, .status_base = 5
/* Of pooled keys of f32. */
#define CLOSED_POOLED .closed_pooled_row_stride = 40, .closed_pooled_base = 64
#define POOLED .pooled_row_stride = 48, .pooled_base = 72

static const OperationPush operation_pushes[] = {
    {KPOOL_OPERATION_SEED_TAIL, 0, {COUNTS, TAIL, ROWS, REQUESTS, .slot_idx_base = 3}},
    {KPOOL_OPERATION_RING_CLOSE, 0,
     {COUNTS, TAIL, ROWS, REQUESTS, .slot_idx_base = 3, .ape_base = 7, .closed_pool_base = 11, CLOSED_POOLED}},
    {KPOOL_OPERATION_COMPRESS, 0, {COUNTS, ROWS, REQUESTS, .ape_base = 7, .pool_row_offsets_base = 9, POOLED}},
    {KPOOL_OPERATION_POOL_ROW_OFFSETS, 0, {COUNTS, REQUESTS, .pool_row_offsets_base = 9}},
    {KPOOL_OPERATION_EXPAND_TOPK, 0, {COUNTS, REQUESTS, .pool_ids_base = 13, .out_base = 17}},
    {KPOOL_OPERATION_COPY_SLOTS, 0, {COUNTS, TAIL, .status_base = 5, .pairs_base = 19, .scratch_base = 44}},
    {KPOOL_OPERATION_STEP, 0,
     {COUNTS, TAIL, ROWS, REQUESTS, .slot_idx_base = 3, .ape_base = 7, .pool_row_offsets_base = 9,
      .closed_pool_base = 11, CLOSED_POOLED, POOLED}},
    {KPOOL_OPERATION_STEP, 8,
     {COUNTS, TAIL, ROWS, REQUESTS, .slot_idx_base = 3, .ape_base = 7, .pool_row_offsets_base = 9,
      .closed_pool_base = 11, POOLED, .block_table_base = 23}},
    {KPOOL_OPERATION_CHECK_SLOTS, 0, {COUNTS, REQUESTS, .slot_idx_base = 3, .scratch_base = 88}}, /* of u32 */
};

/* Wide as the table says; floor with the distances from the start of each group added. */
static void test_push_constants_of_operations(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof operation_pushes / sizeof operation_pushes[0]; i++) {
        const OperationPush *push = &operation_pushes[i / 2];
        const bool floor = i % 2 != 0;
        const KpoolKernelCreateInfo info = {.operation = push->operation,
                                            .geometry = {.head_dim = 8, .kpool = 4, .type = KPOOL_TYPE_BF16},
                                            .pooled_type = KPOOL_TYPE_F32,
                                            .page_size = push->page_size,
                                            .topk = 3};
        Rig rig;
        open_context(&rig, floor ? KPOOL_BINDING_LAYOUT_FLOOR : KPOOL_BINDING_LAYOUT_WIDE, 0);
        open_kernel(&rig, &info, &full_call);
        PushConstants expected = push->expected;
        if (floor) {
            /* bind() lets each group begin at byte 256. */
#define ADD_DISTANCE(name, group)                                                        \
    if (rig.bindings.name.size != 0) {                                                   \
        expected.name##_base += (uint32_t)((rig.bindings.name.offset - 256) / 4);        \
    }
            KPOOL_TENSORS(ADD_DISTANCE)
#undef ADD_DISTANCE
        }
        assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
        char name[64];
        snprintf(name, sizeof name, "operation %d, page_size %u, %s", (int)push->operation, push->page_size,
                 floor ? "floor" : "wide");
        assert_push(name, &rig.fake.calls[2], &expected);
        close_rig(&rig);
    }
}

/* ------------------------------------------------------------------------------------- group counts */

/* The workgroups recorded for `requests`, and that kpoolGetGroupCount says the same. */
static KpoolResult groups_for(Rig *rig, uint32_t requests, uint32_t groups[3])
{
    rig->call.requests = requests;
    bind(rig);
    rig->fake.call_count = 0;
    KpoolDiagnostic diagnostic = {0};
    uint32_t said[3] = {7, 7, 7};
    const KpoolResult result = record(rig, &diagnostic);
    assert_int_equal(kpoolGetGroupCount(rig->kernel, &rig->call, said, NULL), result);
    if (result != KPOOL_SUCCESS) {
        assert_int_equal(rig->fake.call_count, 0);
        assert_string_equal(diagnostic.argument, "requests");
        assert_non_null(strstr(diagnostic.message, "requests"));
        assert_non_null(strstr(diagnostic.message, "maxComputeWorkGroupCount"));
        return result;
    }
    assert_int_equal(rig->fake.call_count, 4);
    memcpy(groups, rig->fake.calls[3].groups, 3 * sizeof groups[0]);
    assert_memory_equal(groups, said, sizeof said);
    return result;
}

/* One row as long as there are workgroups, or full rows, as few as hold them all. */
static void check_grid(const uint32_t groups[3], uint64_t needed)
{
    const uint32_t expected[3] = {needed <= 4096 ? (uint32_t)needed : 4096, (uint32_t)((needed + 4095) / 4096), 1};
    assert_memory_equal(groups, expected, sizeof expected);
}

static void test_group_counts(void **state)
{
    (void)state;
    static const struct {
        uint32_t items_per_group;
        uint32_t most[2]; /* maxComputeWorkGroupCount */
        uint32_t requests;
        uint64_t needed; /* workgroups; 0: over the limit */
    } cases[] = {
        {1, {65535, 65535}, 1, 1},
        {1, {65535, 65535}, 2, 2},
        {4, {65535, 65535}, 1, 1},
        {4, {65535, 65535}, 4, 1},
        {4, {65535, 65535}, 5, 2},
        {128, {65535, 65535}, 128, 1},
        {128, {65535, 65535}, 129, 2},
        {1, {65535, 65535}, 4095, 4095},
        {1, {65535, 65535}, 4096, 4096},
        {1, {65535, 65535}, 4097, 4097},
        {1, {65535, 65535}, 65535, 65535},
        {1, {65535, 65535}, 65536, 65536},
        {2, {65535, 65535}, 131070, 65535},
        {2, {65535, 65535}, 131071, 65536},
        {1, {65535, 65535}, 131071, 131071},
        {1, {65535, 65535}, 100000000, 100000000},
        {1, {65535, 65535}, 268431360, 268431360},
        {1, {65535, 65535}, 268431361, 0},
        {2, {65535, 65535}, 268431361, 134215681},
        {1, {65535, 3}, 12288, 12288},
        {1, {65535, 3}, 12289, 0},
        {4, {65535, 3}, 49152, 12288},
        {4, {65535, 3}, 49153, 0},
        {1, {2147483647, 65535}, 100000000, 100000000},
        {1, {65535, 1}, 4096, 4096},
        {1, {65535, 1}, 4097, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Rig rig;
        open_context_with_groups(&rig, KPOOL_BINDING_LAYOUT_WIDE, 0, cases[i].most[0], cases[i].most[1]);
        KpoolKernelCreateInfo info = kernel_info(KPOOL_TYPE_F32, 4);
        info.lanesPerItem = 1;
        info.itemsPerGroup = cases[i].items_per_group;
        open_kernel(&rig, &info, &plain_call);
        uint32_t groups[3];
        const KpoolResult result = groups_for(&rig, cases[i].requests, groups);
        if (cases[i].needed == 0) {
            assert_int_equal(result, KPOOL_ERROR_LIMIT);
        } else {
            assert_int_equal(result, KPOOL_SUCCESS);
            check_grid(groups, cases[i].needed);
        }
        close_rig(&rig);
    }
}

/* Workgroups of lanes x items, where the items are not requests, or not those alone. */
static void test_group_counts_of_operations(void **state)
{
    (void)state;
    static const struct {
        KpoolOperation operation;
        uint32_t lanes, items;
        KpoolCall call;
        uint32_t needed;
        uint32_t rows_per_item; /* 0: the default, 1 on this device */
    } cases[] = {
        {KPOOL_OPERATION_RING_CLOSE, 16, 4, {.max_slots = 1, .requests = 9}, 3, 0},
        {KPOOL_OPERATION_COMPRESS, 16, 4, {.requests = 5, .pooled_rows = 9}, 3, 0},
        {KPOOL_OPERATION_COMPRESS, 16, 4, {.requests = 65}, 2, 0},
        {KPOOL_OPERATION_COMPRESS, 16, 4, {.requests = 64, .pooled_rows = 1}, 1, 0},
        {KPOOL_OPERATION_COMPRESS, 1, 1, {.pooled_rows = 65536}, 65536, 0},
        {KPOOL_OPERATION_COMPRESS, 16, 4, {.requests = 5, .pooled_rows = 32}, 1, 8},
        {KPOOL_OPERATION_COMPRESS, 16, 4, {.requests = 5, .pooled_rows = 33}, 2, 8},
        {KPOOL_OPERATION_COMPRESS, 16, 4, {.requests = 129, .pooled_rows = 33}, 3, 8},
        {KPOOL_OPERATION_COMPRESS, 1, 1, {.pooled_rows = 7}, 3, 3},
        {KPOOL_OPERATION_COMPRESS, 1, 1, {.pooled_rows = 1000}, 1, 2147483647},
        {KPOOL_OPERATION_POOL_ROW_OFFSETS, 64, 1, {.requests = 0}, 1, 0},
        {KPOOL_OPERATION_POOL_ROW_OFFSETS, 64, 1, {.requests = 100000}, 1, 0},
        {KPOOL_OPERATION_CHECK_SLOTS, 64, 1, {.max_slots = 1, .requests = 100000}, 1, 0},
        {KPOOL_OPERATION_EXPAND_TOPK, 64, 1, {.requests = 1, .rows = 7}, 7, 0},
        {KPOOL_OPERATION_EXPAND_TOPK, 64, 1, {.requests = 65}, 2, 0},
        {KPOOL_OPERATION_EXPAND_TOPK, 64, 1, {.rows = 262144}, 262144, 0},
        {KPOOL_OPERATION_COPY_SLOTS, 16, 4, {.max_slots = 1, .pair_count = 9, .requests = 1000}, 3, 0},
        /* Requests and rows of pooled each take whole workgroups. */
        {KPOOL_OPERATION_STEP, 16, 4, {.max_slots = 1, .requests = 1, .pooled_rows = 1}, 2, 0},
        {KPOOL_OPERATION_STEP, 16, 4, {.max_slots = 1, .requests = 4, .pooled_rows = 4}, 2, 0},
        {KPOOL_OPERATION_STEP, 16, 4, {.max_slots = 1, .requests = 9, .pooled_rows = 5}, 5, 0},
        {KPOOL_OPERATION_STEP, 16, 4, {.max_slots = 1, .requests = 5, .pooled_rows = 13}, 6, 0},
        {KPOOL_OPERATION_STEP, 16, 4, {.max_slots = 1, .pooled_rows = 9}, 3, 0},
        {KPOOL_OPERATION_STEP, 16, 4, {.max_slots = 1, .requests = 9}, 3, 0},
        {KPOOL_OPERATION_STEP, 1, 1, {.max_slots = 1, .requests = 300, .pooled_rows = 65236}, 65536, 0},
        /* Unless an item makes several: then requests and rows share items. */
        {KPOOL_OPERATION_STEP, 16, 4, {.max_slots = 1, .requests = 9, .pooled_rows = 32}, 3, 8},
        {KPOOL_OPERATION_STEP, 16, 4, {.max_slots = 1, .requests = 9, .pooled_rows = 97}, 4, 8},
        {KPOOL_OPERATION_STEP, 16, 4, {.max_slots = 1, .requests = 1, .pooled_rows = 33}, 2, 8},
        {KPOOL_OPERATION_STEP, 16, 4, {.max_slots = 1, .pooled_rows = 3}, 1, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Rig rig;
        open_context(&rig, KPOOL_BINDING_LAYOUT_WIDE, 0);
        KpoolKernelCreateInfo info = {.operation = cases[i].operation,
                                      .geometry = {.head_dim = 2, .kpool = 4, .type = KPOOL_TYPE_F32},
                                      .lanesPerItem = cases[i].lanes,
                                      .itemsPerGroup = cases[i].items,
                                      .rowsPerItem = cases[i].rows_per_item,
                                      .topk = 1};
        open_kernel(&rig, &info, &cases[i].call);
        uint32_t groups[3];
        assert_int_equal(kpoolGetGroupCount(rig.kernel, &rig.call, groups, NULL), KPOOL_SUCCESS);
        check_grid(groups, cases[i].needed);
        close_rig(&rig);
    }
}

/* The same whether step is paged, whatever the cache holds; and over the device's limit only as a sum. */
static void test_group_counts_of_step(void **state)
{
    (void)state;
    for (uint32_t page_size = 0; page_size <= 8; page_size += 8) {
        Rig rig;
        open_context_with_groups(&rig, KPOOL_BINDING_LAYOUT_WIDE, 0, 65535, 3);
        KpoolKernelCreateInfo info = {.operation = KPOOL_OPERATION_STEP,
                                      .geometry = {.head_dim = 2, .kpool = 4, .type = KPOOL_TYPE_F32},
                                      .lanesPerItem = 8,
                                      .itemsPerGroup = 2,
                                      .page_size = page_size};
        const KpoolCall call = {
            .max_slots = 1, .requests = 11, .rows = 1, .pooled_rows = 24564, .pages = 1000, .max_pages = 500};
        open_kernel(&rig, &info, &call);
        assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
        static const uint32_t expected[3] = {4096, 3, 1};
        assert_memory_equal(rig.fake.calls[3].groups, expected, sizeof expected);
        uint32_t groups[3];
        assert_int_equal(kpoolGetGroupCount(rig.kernel, &rig.call, groups, NULL), KPOOL_SUCCESS);
        assert_memory_equal(groups, expected, sizeof expected);

        rig.fake.call_count = 0;
        rig.call.pooled_rows = 24565;
        bind(&rig);
        KpoolDiagnostic diagnostic = {0};
        assert_int_equal(record(&rig, &diagnostic), KPOOL_ERROR_LIMIT);
        assert_non_null(strstr(diagnostic.message, "12289 workgroups"));
        assert_non_null(strstr(diagnostic.message, "maxComputeWorkGroupCount"));
        assert_int_equal(kpoolGetGroupCount(rig.kernel, &rig.call, groups, NULL), KPOOL_ERROR_LIMIT);
        assert_int_equal(rig.fake.call_count, 0);
        close_rig(&rig);
    }
}

/* Items are numbered in 31 bits: judged before any buffer is. */
static void test_items_of_step(void **state)
{
    (void)state;
    static const uint32_t counts[][2] = {
        {0, KPOOL_MAX_ELEMENTS},     {1, KPOOL_MAX_ELEMENTS - 1},   {KPOOL_MAX_ELEMENTS, 0},
        {UINT32_MAX, UINT32_MAX},    {KPOOL_MAX_ELEMENTS / 2, KPOOL_MAX_ELEMENTS / 2},
        {UINT32_MAX, 1},             {KPOOL_MAX_ELEMENTS, KPOOL_MAX_ELEMENTS},
    };
    for (uint32_t operation = OPERATION_COUNT - 2; operation < OPERATION_COUNT; operation++) {
        Rig rig;
        open_context(&rig, KPOOL_BINDING_LAYOUT_WIDE, 0);
        const KpoolKernelCreateInfo info = kernel_info_of(&operations[operation]);
        open_kernel(&rig, &info, &plain_call);
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            rig.call.requests = counts[i][0];
            rig.call.pooled_rows = counts[i][1];
            assert_refused(&rig, KPOOL_ERROR_LIMIT, "pooled_rows");
        }
        close_rig(&rig);
    }
}

static void test_nothing_to_do_records_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        for (uint32_t flags = 0; flags <= KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT; flags++) {
            Rig rig;
            open_context(&rig, KPOOL_BINDING_LAYOUT_WIDE, flags);
            const KpoolKernelCreateInfo info = kernel_info_of(&operations[i]);
            open_kernel(&rig, &info, &plain_call);
            rig.call = (KpoolCall){.max_slots = 3, .pages = 3, .max_pages = 2};
            assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
            /* Its one entry is written whatever the call holds. */
            const bool always = info.operation == KPOOL_OPERATION_POOL_ROW_OFFSETS;
            assert_int_equal(rig.fake.call_count, always ? 4 : 0);
            uint32_t groups[3] = {7, 7, 7};
            assert_int_equal(kpoolGetGroupCount(rig.kernel, &rig.call, groups, NULL), KPOOL_SUCCESS);
            for (uint32_t dimension = 0; dimension < 3; dimension++) {
                assert_int_equal(groups[dimension], always ? 1 : 0);
            }
            close_rig(&rig);
        }
    }
}

static void test_no_rows_still_record(void **state)
{
    (void)state;
    Rig rig;
    open_context(&rig, KPOOL_BINDING_LAYOUT_WIDE, 0);
    const KpoolKernelCreateInfo info = kernel_info(KPOOL_TYPE_F32, 4);
    open_kernel(&rig, &info, &plain_call);
    rig.call.rows = 0;
    rig.bindings.k.size = 4;
    rig.bindings.gate.size = 3; /* even what is never read is a descriptor of at least a word */
    assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, "gate");
    rig.bindings.gate.size = 4;
    assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
    assert_int_equal(rig.fake.call_count, 4);
    close_rig(&rig);
}

/* ---------------------------------------------------------------------------------------- failures */

typedef struct ArgumentCase {
    void (*spoil)(Rig *rig);
    KpoolResult result;
    const char *argument;
} ArgumentCase;

static void no_command_buffer(Rig *rig)
{
    rig->commandBuffer = VK_NULL_HANDLE;
}

static void no_kernel(Rig *rig)
{
    rig->kernel = NULL;
}

static void no_set(Rig *rig)
{
    rig->set = VK_NULL_HANDLE;
}

static void no_bindings(Rig *rig)
{
    rig->bindings_argument = NULL;
}

static void no_call(Rig *rig)
{
    rig->call_argument = NULL;
}

static void chained_call(Rig *rig)
{
    rig->call.pNext = rig;
}

static void no_slots(Rig *rig)
{
    rig->call.max_slots = 0;
}

static void overlapping_rows(Rig *rig)
{
    rig->call.tail_row_stride = 127;
}

static void overlapping_planes(Rig *rig)
{
    rig->call.tail_plane_stride = 511;
}

static void overlapping_slots(Rig *rig)
{
    rig->call.tail_slot_stride = 1023;
}

static void overlapping_k(Rig *rig)
{
    rig->call.k_row_stride = 127;
}

static void overlapping_gate(Rig *rig)
{
    rig->call.gate_row_stride = 1;
}

static void far_k(Rig *rig)
{
    rig->call.k_base = KPOOL_MAX_ELEMENTS;
}

static void far_status(Rig *rig)
{
    rig->call.status_base = UINT64_MAX;
}

static void huge_slot_stride(Rig *rig)
{
    rig->call.tail_slot_stride = (VkDeviceSize)1 << 63;
}

static const ArgumentCase argument_cases[] = {
    {no_command_buffer, KPOOL_ERROR_INVALID_ARGUMENT, "commandBuffer"},
    {no_kernel, KPOOL_ERROR_INVALID_ARGUMENT, "kernel"},
    {no_set, KPOOL_ERROR_INVALID_ARGUMENT, "set"},
    {no_bindings, KPOOL_ERROR_INVALID_ARGUMENT, "bindings"},
    {no_call, KPOOL_ERROR_INVALID_ARGUMENT, "call"},
    {chained_call, KPOOL_ERROR_INVALID_ARGUMENT, "call.pNext"},
    {no_slots, KPOOL_ERROR_INVALID_ARGUMENT, "max_slots"},
    {overlapping_rows, KPOOL_ERROR_INVALID_ARGUMENT, "tail_row_stride"},
    {overlapping_planes, KPOOL_ERROR_INVALID_ARGUMENT, "tail_plane_stride"},
    {overlapping_slots, KPOOL_ERROR_INVALID_ARGUMENT, "tail_slot_stride"},
    {overlapping_k, KPOOL_ERROR_INVALID_ARGUMENT, "k_row_stride"},
    {overlapping_gate, KPOOL_ERROR_INVALID_ARGUMENT, "gate_row_stride"},
    {far_k, KPOOL_ERROR_LIMIT, "k_base"},
    {far_status, KPOOL_ERROR_LIMIT, "status_base"},
    {huge_slot_stride, KPOOL_ERROR_LIMIT, "tail_slot_stride"},
};

static void test_wrong_arguments(void **state)
{
    (void)state;
    Rig good;
    open_context(&good, KPOOL_BINDING_LAYOUT_WIDE, 0);
    const KpoolKernelCreateInfo info = kernel_info(KPOOL_TYPE_F32, 4);
    open_kernel(&good, &info, &plain_call);
    const KpoolBindings bindings = good.bindings;
    const KpoolKernel kernel = good.kernel;
    for (size_t i = 0; i < sizeof argument_cases / sizeof argument_cases[0]; i++) {
        argument_cases[i].spoil(&good);
        assert_refused(&good, argument_cases[i].result, argument_cases[i].argument);
        good.commandBuffer = fake_command_buffer();
        good.kernel = kernel;
        good.set = the_set();
        good.bindings = bindings;
        good.call = plain_call;
        good.bindings_argument = &good.bindings;
        good.call_argument = &good.call;
    }
    assert_int_equal(record(&good, NULL), KPOOL_SUCCESS);
    close_rig(&good);

    Rig push;
    open_context(&push, KPOOL_BINDING_LAYOUT_WIDE, KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT);
    open_kernel(&push, &info, &plain_call);
    push.set = the_set();
    assert_refused(&push, KPOOL_ERROR_INVALID_ARGUMENT, "set");
    close_rig(&push);
}

/* Strides and bases that do not keep the kernel's words: even for 2-byte types, 16 bytes where it was promised. */
static void test_strides_keep_words(void **state)
{
    (void)state;
    static const struct {
        KpoolType type;
        uint32_t alignment;
        VkDeviceSize good;
        VkDeviceSize bad;
    } cases[] = {
        {KPOOL_TYPE_F16, 4, 2, 1}, {KPOOL_TYPE_BF16, 4, 2, 3}, {KPOOL_TYPE_BF16, 16, 8, 4},
        {KPOOL_TYPE_F16, 16, 8, 2}, {KPOOL_TYPE_F32, 16, 4, 2}, {KPOOL_TYPE_F32, 16, 4, 1},
    };
    static const struct {
        const char *name;
        size_t offset;
        VkDeviceSize dense; /* what to add the change to */
    } fields[] = {
        {"tail_base", offsetof(KpoolCall, tail_base), 0},
        {"tail_row_stride", offsetof(KpoolCall, tail_row_stride), 128},
        {"tail_plane_stride", offsetof(KpoolCall, tail_plane_stride), 1024},
        {"tail_slot_stride", offsetof(KpoolCall, tail_slot_stride), 4096},
        {"k_base", offsetof(KpoolCall, k_base), 0},
        {"k_row_stride", offsetof(KpoolCall, k_row_stride), 128},
        {"gate_base", offsetof(KpoolCall, gate_base), 0},
        {"gate_row_stride", offsetof(KpoolCall, gate_row_stride), 128},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        Rig rig;
        open_context(&rig, KPOOL_BINDING_LAYOUT_WIDE, 0);
        KpoolKernelCreateInfo info = kernel_info(cases[i / 2].type, cases[i / 2].alignment);
        info.operation = i % 2 == 0 ? KPOOL_OPERATION_SEED_TAIL : KPOOL_OPERATION_STEP;
        open_kernel(&rig, &info, &plain_call);
        for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++) {
            VkDeviceSize *field = (VkDeviceSize *)(void *)((char *)&rig.call + fields[f].offset);
            *field = fields[f].dense + cases[i / 2].good;
            bind(&rig);
            assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
            rig.fake.call_count = 0;
            *field = fields[f].dense + cases[i / 2].bad;
            assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, fields[f].name);
            *field = 0;
        }
        close_rig(&rig);
    }
}

static void test_wrong_ranges(void **state)
{
    (void)state;
    for (uint32_t variant = 0; variant < 4 * OPERATION_COUNT; variant++) {
        const bool floor = variant % 2 != 0;
        Rig rig;
        open_context(&rig, floor ? KPOOL_BINDING_LAYOUT_FLOOR : KPOOL_BINDING_LAYOUT_WIDE,
                     variant / 2 % 2 != 0 ? KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT : 0);
        const KpoolKernelCreateInfo info = kernel_info_of(&operations[variant / 4]);
        open_kernel(&rig, &info, &plain_call);
        for (uint32_t tensor = 0; tensor < KPOOL_TENSOR_COUNT; tensor++) {
            KpoolRange *range = range_of(&rig.bindings, tensor);
            const KpoolRange good = *range;
            if (good.size == 0) {
                continue;
            }
            const char *name = name_of(tensor);
            range->buffer = VK_NULL_HANDLE;
            assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, name);
            *range = good;
            range->size = good.size - 1;
            assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, name);
            range->size = 0;
            assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, name);
            range->size = 3;
            assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, name);
            range->size = VK_WHOLE_SIZE;
            assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, name);
            range->size = (VkDeviceSize)UINT32_MAX + 1;
            assert_refused(&rig, KPOOL_ERROR_LIMIT, name);
            *range = good;
            /* The last multiple of every alignment: the range runs past 64 bits. */
            range->offset = UINT64_MAX - 255;
            range->size = good.size > 256 ? good.size : 512;
            assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, name);
            /* 2 is no multiple of the device's alignment, nor of a word. */
            *range = good;
            range->offset += 2;
            assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, name);
            *range = good;
            assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
            rig.fake.call_count = 0;
        }
        close_rig(&rig);
    }
}

static void test_wide_offsets_keep_the_devices_alignment(void **state)
{
    (void)state;
    Rig rig;
    open_context(&rig, KPOOL_BINDING_LAYOUT_WIDE, 0);
    const KpoolKernelCreateInfo info = kernel_info(KPOOL_TYPE_F32, 4);
    open_kernel(&rig, &info, &plain_call);
    rig.bindings.gate.offset += 8; /* the fake's alignment is 16 */
    assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, "gate");
    rig.bindings.gate.offset += 8;
    assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
    close_rig(&rig);
}

static void test_floor_groups(void **state)
{
    (void)state;
    Rig rig;
    open_context(&rig, KPOOL_BINDING_LAYOUT_FLOOR, 0);
    const KpoolKernelCreateInfo info = kernel_info(KPOOL_TYPE_F32, 16);
    open_kernel(&rig, &info, &plain_call);
    const KpoolBindings good = rig.bindings;

    /* One group, two buffers. */
    rig.bindings.gate.buffer = buffer_of(77);
    assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, "gate");
    rig.bindings = good;
    rig.bindings.slot_idx.buffer = buffer_of(77);
    assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, "slot_idx");
    rig.bindings = good;

    /* Each range fits, the span does not. */
    rig.bindings.gate.offset = (VkDeviceSize)1 << 32;
    assert_refused(&rig, KPOOL_ERROR_LIMIT, "rows");
    rig.bindings = good;
    rig.bindings.status.offset = (VkDeviceSize)1 << 40;
    assert_refused(&rig, KPOOL_ERROR_LIMIT, "words");
    rig.bindings = good;
    /* To the last byte that a descriptor can have. */
    rig.bindings.status.offset =
        rig.bindings.input_row_offsets.offset + UINT32_MAX - 3 - rig.bindings.status.size;
    assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
    PushConstants got;
    memcpy(&got, rig.fake.calls[2].push, sizeof got);
    assert_int_equal(got.status_base, (UINT32_MAX - 3 - rig.bindings.status.size) / 4);
    rig.fake.call_count = 0;
    rig.bindings.status.offset += 4;
    assert_refused(&rig, KPOOL_ERROR_LIMIT, "words");
    rig.bindings = good;

    /* The first of a group keeps the device's alignment, whichever it is; the others the kernel's. */
    rig.bindings.gate.offset = good.k.offset - 8;
    assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, "gate");
    rig.bindings = good;
    rig.bindings.gate.offset += 4;
    assert_refused(&rig, KPOOL_ERROR_INVALID_ARGUMENT, "gate");
    rig.bindings = good;
    rig.bindings.cache_lengths.offset += 4;
    rig.bindings.slot_idx.offset += 8;
    assert_int_equal(record(&rig, NULL), KPOOL_SUCCESS);
    close_rig(&rig);
}

static void test_write_descriptor_set_refuses(void **state)
{
    (void)state;
    Rig rig;
    open_context(&rig, KPOOL_BINDING_LAYOUT_WIDE, 0);
    const KpoolKernelCreateInfo info = kernel_info(KPOOL_TYPE_F32, 4);
    open_kernel(&rig, &info, &plain_call);
    KpoolBindings none = rig.bindings;
    none.status.buffer = VK_NULL_HANDLE;
    const KpoolOperation seed = KPOOL_OPERATION_SEED_TAIL;
    const struct {
        KpoolContext context;
        KpoolOperation operation;
        VkDescriptorSet set;
        const KpoolBindings *bindings;
        const char *argument;
    } cases[] = {
        {NULL, seed, the_set(), &rig.bindings, "context"},
        {rig.context, KPOOL_OPERATION_NONE, the_set(), &rig.bindings, "operation"},
        {rig.context, (KpoolOperation)1000, the_set(), &rig.bindings, "operation"},
        {rig.context, seed, VK_NULL_HANDLE, &rig.bindings, "set"},
        {rig.context, seed, the_set(), NULL, "bindings"},
        {rig.context, seed, the_set(), &none, "status"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        KpoolDiagnostic diagnostic = {0};
        assert_int_equal(kpoolWriteDescriptorSet(cases[i].context, cases[i].operation, cases[i].set, cases[i].bindings,
                                                 &diagnostic),
                         KPOOL_ERROR_INVALID_ARGUMENT);
        assert_string_equal(diagnostic.argument, cases[i].argument);
        assert_non_null(strstr(diagnostic.message, cases[i].argument));
    }
    assert_int_equal(rig.fake.call_count, 0);
    close_rig(&rig);

    open_context(&rig, KPOOL_BINDING_LAYOUT_WIDE, KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT);
    open_kernel(&rig, &info, &plain_call);
    const VkDescriptorSet sets[] = {the_set(), VK_NULL_HANDLE};
    for (uint32_t i = 0; i < 2; i++) {
        KpoolDiagnostic diagnostic = {0};
        assert_int_equal(kpoolWriteDescriptorSet(rig.context, seed, sets[i], &rig.bindings, &diagnostic),
                         KPOOL_ERROR_INVALID_ARGUMENT);
        assert_string_equal(diagnostic.argument, "context");
    }
    assert_int_equal(rig.fake.call_count, 0);
    close_rig(&rig);
}

static void test_get_group_count_refuses(void **state)
{
    (void)state;
    Rig rig;
    open_context(&rig, KPOOL_BINDING_LAYOUT_WIDE, 0);
    const KpoolKernelCreateInfo info = kernel_info(KPOOL_TYPE_F32, 4);
    open_kernel(&rig, &info, &plain_call);
    uint32_t groups[3];
    KpoolDiagnostic diagnostic = {0};
    assert_int_equal(kpoolGetGroupCount(NULL, &rig.call, groups, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_string_equal(diagnostic.argument, "kernel");
    assert_int_equal(kpoolGetGroupCount(rig.kernel, NULL, groups, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_string_equal(diagnostic.argument, "call");
    assert_int_equal(kpoolGetGroupCount(rig.kernel, &rig.call, NULL, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_string_equal(diagnostic.argument, "groups");
    rig.call.max_slots = 0;
    assert_int_equal(kpoolGetGroupCount(rig.kernel, &rig.call, groups, &diagnostic), KPOOL_ERROR_INVALID_ARGUMENT);
    assert_string_equal(diagnostic.argument, "max_slots");
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands_in_order),
        cmocka_unit_test(test_tensors_of_operations),
        cmocka_unit_test(test_kernel_of_another_operation),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_descriptors_of_compress),
        cmocka_unit_test(test_optional_tensors_of_step),
        cmocka_unit_test(test_wide_looks_at_no_unused_range),
        cmocka_unit_test(test_push_constants_wide),
        cmocka_unit_test(test_push_constants_floor),
        cmocka_unit_test(test_push_constants_of_step),
        cmocka_unit_test(test_push_constants_of_operations),
        cmocka_unit_test(test_floor_spans_unused_ranges),
        cmocka_unit_test(test_group_counts),
        cmocka_unit_test(test_group_counts_of_operations),
        cmocka_unit_test(test_group_counts_of_step),
        cmocka_unit_test(test_items_of_step),
        cmocka_unit_test(test_nothing_to_do_records_nothing),
        cmocka_unit_test(test_no_rows_still_record),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_strides_keep_words),
        cmocka_unit_test(test_wrong_ranges),
        cmocka_unit_test(test_wide_offsets_keep_the_devices_alignment),
        cmocka_unit_test(test_floor_groups),
        cmocka_unit_test(test_write_descriptor_set_refuses),
        cmocka_unit_test(test_get_group_count_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
