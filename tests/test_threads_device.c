/* Many threads at once on a device: some record seed_tail with one kernel, each into a command buffer of its own and
 * again and again; some make and destroy kernels in that context; some make and destroy contexts beside it. Then all
 * is submitted, and every ring holds what its own thread recorded. In the preset tsan ThreadSanitizer watches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include <cmocka.h>

#include "device_tests.h"

enum { RECORDERS = 6, MAKERS = 4, ROUNDS = 14, HEAD_DIM = 4, KPOOL = 4, SLOTS = 3, REQUESTS = 2, ROWS = 12 };

static const KpoolKernelCreateInfo kernel_info = {
    .operation = KPOOL_OPERATION_SEED_TAIL,
    .geometry = {.head_dim = HEAD_DIM, .kpool = KPOOL, .type = KPOOL_TYPE_F32},
};
static const KpoolCall call = {.max_slots = SLOTS, .requests = REQUESTS, .rows = ROWS};

/* One thread that records, with all that is its own. */
typedef struct Recorder {
    pthread_t thread;
    Gpu *gpu;
    KpoolKernel kernel;
    GpuBuffer buffer;
    KpoolBindings bindings;
    VkDescriptorSet set;
    VkCommandPool pool;
    VkCommandBuffer commandBuffer;
    const char *fault; /* what went wrong, or NULL */
} Recorder;

/* One thread that makes and destroys. */
typedef struct Maker {
    pthread_t thread;
    Gpu *gpu;
    bool contexts; /* or kernels in the context of the Gpu */
    const char *fault;
} Maker;

static void *record_many(void *argument)
{
    Recorder *recorder = argument;
    const bool push = recorder->gpu->pushDescriptors;
    for (uint32_t round = 0; round < ROUNDS && recorder->fault == NULL; round++) {
        const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
        if (vkResetCommandPool(recorder->gpu->device, recorder->pool, 0) != VK_SUCCESS ||
            vkBeginCommandBuffer(recorder->commandBuffer, &begin) != VK_SUCCESS) {
            recorder->fault = "no command buffer";
        } else if (!push && kpoolWriteDescriptorSet(recorder->gpu->context, kernel_info.operation, recorder->set,
                                                    &recorder->bindings, NULL) != KPOOL_SUCCESS) {
            recorder->fault = "no descriptor set";
        } else if (kpoolCmdSeedTail(recorder->commandBuffer, recorder->kernel, push ? VK_NULL_HANDLE : recorder->set,
                                    &recorder->bindings, &call, NULL) != KPOOL_SUCCESS) {
            recorder->fault = "recording is refused";
        } else if (!gpu_end(recorder->gpu, recorder->commandBuffer)) {
            recorder->fault = "the command buffer does not end";
        }
    }
    return NULL;
}

static const char *make_kernel(KpoolContext context, uint32_t round)
{
    KpoolKernelCreateInfo info = kernel_info;
    info.operation = (KpoolOperation)(KPOOL_OPERATION_SEED_TAIL + round % KPOOL_OPERATION_STEP);
    info.topk = 3;
    KpoolKernel kernel;
    if (kpoolCreateKernel(context, &info, &kernel, NULL) != KPOOL_SUCCESS) {
        return "no kernel";
    }
    kpoolDestroyKernel(kernel);
    return NULL;
}

static void *make_many(void *argument)
{
    Maker *maker = argument;
    const KpoolContextCreateInfo info = {
        .apiVersion = VK_API_VERSION_1_1,
        .instance = maker->gpu->instance,
        .physicalDevice = maker->gpu->physicalDevice,
        .device = maker->gpu->device,
        .pfnGetInstanceProcAddr = vkGetInstanceProcAddr,
        .bindingLayout = kpoolGetBindingLayout(maker->gpu->context),
    };
    for (uint32_t round = 0; round < ROUNDS && maker->fault == NULL; round++) {
        KpoolContext context = maker->gpu->context;
        if (maker->contexts && kpoolCreateContext(&info, &context, NULL) != KPOOL_SUCCESS) {
            maker->fault = "no context";
            break;
        }
        maker->fault = make_kernel(context, round);
        if (maker->contexts) {
            kpoolDestroyContext(context);
        }
    }
    return NULL;
}

static void *words(const Recorder *recorder, KpoolRange range)
{
    return (char *)recorder->buffer.mapped + range.offset;
}

/* The keys of recorder i are 1000 * (i + 1) + element, its gates are as many and a half. */
static float key_of(uint32_t i, size_t element)
{
    return 1000.0f * (float)(i + 1) + (float)element;
}

static void fill(const Recorder *recorder, uint32_t i)
{
    memset(recorder->buffer.mapped, 0, (size_t)recorder->buffer.size);
    float *k = words(recorder, recorder->bindings.k);
    float *gate = words(recorder, recorder->bindings.gate);
    for (size_t element = 0; element < ROWS * HEAD_DIM; element++) {
        k[element] = key_of(i, element);
        gate[element] = key_of(i, element) + 0.5f;
    }
    /* Three tokens of a new request to slot i mod 3, two after five to the next. */
    const uint32_t offsets[REQUESTS + 1] = {1, 4, 6};
    const uint32_t lengths[REQUESTS] = {0, 5};
    const uint32_t slots[REQUESTS] = {i % SLOTS, (i + 1) % SLOTS};
    memcpy(words(recorder, recorder->bindings.input_row_offsets), offsets, sizeof offsets);
    memcpy(words(recorder, recorder->bindings.cache_lengths), lengths, sizeof lengths);
    memcpy(words(recorder, recorder->bindings.slot_idx), slots, sizeof slots);
}

static void expect(const Recorder *recorder, uint32_t i)
{
    float expected[SLOTS * 2 * KPOOL * HEAD_DIM] = {0};
    /* Rows 1 to 3 to members 0 to 2, rows 4 and 5 to members 1 and 2. */
    static const struct {
        uint32_t request, member, row;
    } moves[] = {{0, 0, 1}, {0, 1, 2}, {0, 2, 3}, {1, 1, 4}, {1, 2, 5}};
    for (size_t m = 0; m < sizeof moves / sizeof moves[0]; m++) {
        const size_t slot = (i + moves[m].request) % SLOTS;
        for (size_t c = 0; c < HEAD_DIM; c++) {
            const float key = key_of(i, moves[m].row * (size_t)HEAD_DIM + c);
            expected[(slot * 2 * KPOOL + moves[m].member) * HEAD_DIM + c] = key;
            expected[((slot * 2 + 1) * KPOOL + moves[m].member) * HEAD_DIM + c] = key + 0.5f;
        }
    }
    assert_memory_equal(words(recorder, recorder->bindings.tail), expected, sizeof expected);
    const uint32_t nothing[KPOOL_STATUS_COUNT] = {0};
    assert_memory_equal(words(recorder, recorder->bindings.status), nothing, sizeof nothing);
}

static void open_recorder(Recorder *recorder, Gpu *gpu, KpoolKernel kernel, VkDescriptorPool sets, uint32_t i)
{
    *recorder = (Recorder){.gpu = gpu, .kernel = kernel};
    KpoolBindings *bindings = &recorder->bindings;
    assert_int_equal(kpoolGetSizes(&kernel_info, &call, bindings, NULL), KPOOL_SUCCESS);
    KpoolRange *const ranges[] = {&bindings->tail,          &bindings->k,        &bindings->gate,
                                  &bindings->input_row_offsets, &bindings->cache_lengths, &bindings->slot_idx,
                                  &bindings->status};
    const VkDeviceSize alignment = gpu->properties.limits.minStorageBufferOffsetAlignment;
    VkDeviceSize end = 0;
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
        ranges[r]->offset = (end + alignment - 1) / alignment * alignment;
        end = ranges[r]->offset + ranges[r]->size;
    }
    assert_true(gpu_create_buffer(gpu, end, &recorder->buffer));
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
        ranges[r]->buffer = recorder->buffer.buffer;
    }
    fill(recorder, i);
    gpu_flush(gpu, &recorder->buffer);
    if (!gpu->pushDescriptors) {
        const VkDescriptorSetLayout layout = kpoolGetDescriptorSetLayout(gpu->context, kernel_info.operation);
        const VkDescriptorSetAllocateInfo setInfo = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                                     .descriptorPool = sets,
                                                     .descriptorSetCount = 1,
                                                     .pSetLayouts = &layout};
        assert_int_equal(vkAllocateDescriptorSets(gpu->device, &setInfo, &recorder->set), VK_SUCCESS);
    }
    const VkCommandPoolCreateInfo poolInfo = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                              .queueFamilyIndex = gpu->queueFamily};
    assert_int_equal(vkCreateCommandPool(gpu->device, &poolInfo, NULL, &recorder->pool), VK_SUCCESS);
    const VkCommandBufferAllocateInfo commandInfo = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                     .commandPool = recorder->pool,
                                                     .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                                     .commandBufferCount = 1};
    assert_int_equal(vkAllocateCommandBuffers(gpu->device, &commandInfo, &recorder->commandBuffer), VK_SUCCESS);
}

static void check_threads(Gpu *gpu)
{
    KpoolKernel kernel;
    assert_int_equal(kpoolCreateKernel(gpu->context, &kernel_info, &kernel, NULL), KPOOL_SUCCESS);
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                       RECORDERS * kpoolGetDescriptorCount(gpu->context, kernel_info.operation)};
    const VkDescriptorPoolCreateInfo poolInfo = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                                 .maxSets = RECORDERS,
                                                 .poolSizeCount = 1,
                                                 .pPoolSizes = &size};
    VkDescriptorPool sets;
    assert_int_equal(vkCreateDescriptorPool(gpu->device, &poolInfo, NULL, &sets), VK_SUCCESS);
    Recorder recorders[RECORDERS];
    Maker makers[MAKERS];
    for (uint32_t i = 0; i < RECORDERS; i++) {
        open_recorder(&recorders[i], gpu, kernel, sets, i);
    }
    for (uint32_t i = 0; i < MAKERS; i++) {
        makers[i] = (Maker){.gpu = gpu, .contexts = i % 2 != 0};
        assert_int_equal(pthread_create(&makers[i].thread, NULL, make_many, &makers[i]), 0);
    }
    for (uint32_t i = 0; i < RECORDERS; i++) {
        assert_int_equal(pthread_create(&recorders[i].thread, NULL, record_many, &recorders[i]), 0);
    }
    for (uint32_t i = 0; i < RECORDERS; i++) {
        assert_int_equal(pthread_join(recorders[i].thread, NULL), 0);
    }
    for (uint32_t i = 0; i < MAKERS; i++) {
        assert_int_equal(pthread_join(makers[i].thread, NULL), 0);
        assert_ptr_equal(makers[i].fault, NULL);
    }
    for (uint32_t i = 0; i < RECORDERS; i++) {
        assert_ptr_equal(recorders[i].fault, NULL);
        assert_true(gpu_submit(gpu, recorders[i].commandBuffer));
        gpu_invalidate(gpu, &recorders[i].buffer);
        expect(&recorders[i], i);
        vkDestroyCommandPool(gpu->device, recorders[i].pool, NULL);
        gpu_destroy_buffer(gpu, &recorders[i].buffer);
    }
    vkDestroyDescriptorPool(gpu->device, sets, NULL);
    kpoolDestroyKernel(kernel);
}

ON_EACH_CONTEXT(check_threads)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_check_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
