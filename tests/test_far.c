/* Far positions and a large ring on a device: requests that end at the last position there is, and one beyond it; pool
 * ids of the last positions that i32 holds; a ring as large as one range may be. What must come out is said in words
 * beside what the reference makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device_tests.h"

enum { REQUESTS = 6, KPOOL = 4 };

/* Requests after `length` tokens; those at odd places end one token too late. */
static const struct {
    uint32_t length, tokens;
} far[REQUESTS] = {
    {0xfffffff0u, 15}, {0xfffffff0u, 16}, {0xfffffffdu, 2}, {0xfffffffdu, 3}, {0xfffffffeu, 1}, {0xfffffffeu, 2},
};

static Scenario make(KpoolOperation operation, uint32_t rows)
{
    return (Scenario){
        .info = {.operation = operation,
                 .geometry = {.head_dim = 4, .kpool = KPOOL, .type = KPOOL_TYPE_F32},
                 .topk = 3,
                 .with_tail = VK_TRUE},
        .call = {.max_slots = REQUESTS, .requests = REQUESTS, .rows = rows, .pooled_rows = rows / KPOOL},
    };
}

/* The far requests, their lengths less `nearer`, in slots of their own. */
static uint32_t set_far(Scenario *scenario, uint32_t nearer)
{
    uint32_t tokens[REQUESTS];
    for (uint32_t r = 0; r < REQUESTS; r++) {
        tokens[r] = far[r].tokens;
        SCENARIO_WORDS(scenario, cache_lengths)[r] = far[r].length - nearer;
        if (scenario->sizes.slot_idx.size != 0) {
            SCENARIO_WORDS(scenario, slot_idx)[r] = REQUESTS - 1 - r;
        }
    }
    set_tokens(scenario, 0, tokens);
    return SCENARIO_WORDS(scenario, input_row_offsets)[REQUESTS];
}

enum { ROWS = 15 + 16 + 2 + 3 + 1 + 2 };

static void check_far_seed(Gpu *gpu)
{
    Random random = {1};
    Scenario scenario = make(KPOOL_OPERATION_SEED_TAIL, ROWS);
    must_allocate(&scenario, &random);
    assert_int_equal(set_far(&scenario, 0), ROWS);
    TensorImages expected = must_copy_images(&scenario);
    scenario_apply_reference(&scenario, &expected);
    assert_int_equal(((uint32_t *)expected.status)[KPOOL_STATUS_LENGTH_WRAPS], 3);
    /* The first ends at 2^32 - 1: positions 2^32 - 4 to 2^32 - 2 wait, rows 12 to 14, as members 0 to 2 of slot 5. */
    const size_t row = 4 * sizeof(float);
    assert_memory_equal((char *)expected.tail + (size_t)5 * 2 * KPOOL * row, (char *)scenario.images.k + 12 * row,
                        3 * row);
    must_run(&scenario, gpu, &expected);
    scenario_free_images(&expected);
    scenario_free(&scenario);
}

static void check_far_keys(Gpu *gpu)
{
    static const KpoolOperation operations[] = {KPOOL_OPERATION_RING_CLOSE, KPOOL_OPERATION_COMPRESS,
                                                KPOOL_OPERATION_STEP};
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        for (uint32_t nearer = 0; nearer <= 3; nearer++) {
            Random random = {10 * i + nearer};
            Scenario scenario = make(operations[i], ROWS);
            must_allocate(&scenario, &random);
            set_far(&scenario, nearer);
            if (scenario.sizes.pool_row_offsets.size != 0) {
                const uint32_t *offsets = SCENARIO_WORDS(&scenario, input_row_offsets);
                assert_int_equal(kpoolPoolRowOffsets(KPOOL, &scenario.call, offsets,
                                                     SCENARIO_WORDS(&scenario, cache_lengths),
                                                     SCENARIO_WORDS(&scenario, pool_row_offsets), NULL, NULL),
                                 KPOOL_SUCCESS);
            }
            TensorImages expected = must_copy_images(&scenario);
            scenario_apply_reference(&scenario, &expected);
            const uint32_t *status = expected.status;
            assert_int_equal(status[KPOOL_STATUS_LENGTH_WRAPS], nearer == 0 ? 3 : 0);
            if (nearer == 0 && scenario.sizes.closed_pool.size != 0) {
                /* 2^32 - 3 and two tokens end at 2^32 - 1: the last pool that there is lacks one. */
                assert_int_equal(((int32_t *)expected.closed_pool)[2], -1);
            }
            if (nearer == 1 && scenario.sizes.closed_pool.size != 0) {
                /* 2^32 - 4 is a boundary; 2^32 - 3 and two tokens lack one; 2^32 - 17 and 16 close pool 2^30 - 5. */
                assert_int_equal(((int32_t *)expected.closed_pool)[1], 0x3ffffffb);
                assert_int_equal(((int32_t *)expected.closed_pool)[2], -1);
            }
            must_run(&scenario, gpu, &expected);
            scenario_free_images(&expected);
            scenario_free(&scenario);
        }
    }
}

/* The same requests at half the length: positions are i32 here. */
static void check_far_ids(Gpu *gpu)
{
    Random random = {3};
    Scenario scenario = make(KPOOL_OPERATION_EXPAND_TOPK, ROWS);
    must_allocate(&scenario, &random);
    set_far(&scenario, 0x80000000u);
    int32_t *ids = (int32_t *)scenario.images.pool_ids + scenario.call.pool_ids_base;
    for (uint32_t t = 0; t < ROWS; t++) {
        /* The last complete pool of the first request, one that is never complete, and the first of all. */
        ids[3 * (size_t)t] = 0x1ffffffe;
        ids[3 * (size_t)t + 1] = 0x1fffffff;
        ids[3 * (size_t)t + 2] = 0;
    }
    TensorImages expected = must_copy_images(&scenario);
    scenario_apply_reference(&scenario, &expected);
    assert_int_equal(((uint32_t *)expected.status)[KPOOL_STATUS_LENGTH_WRAPS], 3);
    /* Row 14 sees 2^31 - 1 positions: of three ids two are pools, then three positions of the tail. */
    const int32_t last[15] = {0x7ffffff8, 0x7ffffff9, 0x7ffffffa, 0x7ffffffb, -1, -1, -1, -1, 0,
                              1,          2,          3,          0x7ffffffc, 0x7ffffffd, 0x7ffffffe};
    assert_memory_equal((int32_t *)expected.out + 14 * (size_t)15, last, sizeof last);
    must_run(&scenario, gpu, &expected);
    scenario_free_images(&expected);
    scenario_free(&scenario);
}

/* A ring of as many bytes as a range may have, at most almost 1 GiB: its first slot and its last are written, nothing
 * between them. */
static void check_large_ring(Gpu *gpu)
{
    enum { HEAD_DIM = 128, BRINGS = 3, ROW = HEAD_DIM * 2, SLOT = 2 * KPOOL * ROW };
    const KpoolKernelCreateInfo info = {
        .operation = KPOOL_OPERATION_SEED_TAIL,
        .geometry = {.head_dim = HEAD_DIM, .kpool = KPOOL, .type = KPOOL_TYPE_F16},
    };
    KpoolRequirements needs;
    assert_int_equal(kpoolGetRequirements(&gpu->properties.limits, &info.geometry, &needs, NULL), KPOOL_SUCCESS);
    /* The largest allocation that Vulkan guarantees is 1 GiB, of which a driver may want some for itself. */
    const uint32_t most = (1u << 30) / SLOT - 1;
    const uint32_t slots = needs.maxSlots < most ? needs.maxSlots : most;
    const KpoolCall call = {.max_slots = slots, .requests = 2, .rows = 2 * BRINGS};
    KpoolBindings bindings;
    assert_int_equal(kpoolGetSizes(&info, &call, &bindings, NULL), KPOOL_SUCCESS);
    assert_int_equal(bindings.tail.size, (VkDeviceSize)slots * SLOT);
    print_message("a ring of %u slots, %llu bytes\n", slots, (unsigned long long)bindings.tail.size);
    GpuBuffer tail, others;
    if (!gpu_create_buffer(gpu, bindings.tail.size, &tail)) {
        fail_msg("a ring of %llu bytes: %s", (unsigned long long)bindings.tail.size, gpu->error);
    }
    KpoolRange *const ranges[] = {&bindings.k,        &bindings.gate,   &bindings.input_row_offsets,
                                  &bindings.cache_lengths, &bindings.slot_idx, &bindings.status};
    VkDeviceSize end = 0;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        ranges[i]->offset = (end + needs.offsetAlignment - 1) / needs.offsetAlignment * needs.offsetAlignment;
        end = ranges[i]->offset + ranges[i]->size;
    }
    assert_true(gpu_create_buffer(gpu, end, &others));
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        ranges[i]->buffer = others.buffer;
    }
    bindings.tail.buffer = tail.buffer;
    unsigned char *const ring = tail.mapped;
    unsigned char *const base = others.mapped;
    memset(ring, 0x5a, (size_t)bindings.tail.size);
    memset(base, 0, (size_t)end);
    memset(base + bindings.k.offset, 0x11, (size_t)bindings.k.size);
    memset(base + bindings.gate.offset, 0x22, (size_t)bindings.gate.size);
    const uint32_t offsets[3] = {0, BRINGS, 2 * BRINGS};
    const uint32_t slot_idx[2] = {0, slots - 1};
    memcpy(base + bindings.input_row_offsets.offset, offsets, sizeof offsets);
    memcpy(base + bindings.slot_idx.offset, slot_idx, sizeof slot_idx);
    gpu_flush(gpu, &tail);
    gpu_flush(gpu, &others);

    KpoolKernel kernel;
    assert_int_equal(kpoolCreateKernel(gpu->context, &info, &kernel, NULL), KPOOL_SUCCESS);
    VkDescriptorPool pool = VK_NULL_HANDLE;
    VkDescriptorSet set = VK_NULL_HANDLE;
    if (!gpu->pushDescriptors) {
        const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                           kpoolGetDescriptorCount(gpu->context, info.operation)};
        const VkDescriptorPoolCreateInfo poolInfo = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                                     .maxSets = 1,
                                                     .poolSizeCount = 1,
                                                     .pPoolSizes = &size};
        assert_int_equal(vkCreateDescriptorPool(gpu->device, &poolInfo, NULL, &pool), VK_SUCCESS);
        const VkDescriptorSetLayout layout = kpoolGetDescriptorSetLayout(gpu->context, info.operation);
        const VkDescriptorSetAllocateInfo setInfo = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                                     .descriptorPool = pool,
                                                     .descriptorSetCount = 1,
                                                     .pSetLayouts = &layout};
        assert_int_equal(vkAllocateDescriptorSets(gpu->device, &setInfo, &set), VK_SUCCESS);
        assert_int_equal(kpoolWriteDescriptorSet(gpu->context, info.operation, set, &bindings, NULL), KPOOL_SUCCESS);
    }
    const VkCommandBuffer commandBuffer = gpu_begin(gpu);
    assert_non_null(commandBuffer);
    assert_int_equal(kpoolCmdSeedTail(commandBuffer, kernel, set, &bindings, &call, NULL), KPOOL_SUCCESS);
    assert_true(gpu_end(gpu, commandBuffer));
    assert_true(gpu_submit(gpu, commandBuffer));
    gpu_invalidate(gpu, &tail);
    gpu_invalidate(gpu, &others);
    for (uint32_t i = 0; i < 2; i++) {
        for (size_t byte = 0; byte < SLOT; byte++) {
            const size_t row = byte / ROW;
            const unsigned char written = row < KPOOL ? 0x11 : 0x22;
            const unsigned char wanted = row % KPOOL < BRINGS ? written : 0x5a;
            if (ring[(size_t)slot_idx[i] * SLOT + byte] != wanted) {
                fail_msg("slot %u, byte %zu: 0x%02x", slot_idx[i], byte, ring[(size_t)slot_idx[i] * SLOT + byte]);
            }
        }
    }
    /* All bytes between are alike where each equals the next. */
    unsigned char *const between = ring + SLOT;
    const size_t length = ((size_t)slots - 2) * SLOT;
    assert_int_equal(between[0], 0x5a);
    assert_int_equal(memcmp(between, between + 1, length - 1), 0);
    const uint32_t nothing[KPOOL_STATUS_COUNT] = {0};
    assert_memory_equal(base + bindings.status.offset, nothing, sizeof nothing);

    gpu_free_command_buffer(gpu, commandBuffer);
    vkDestroyDescriptorPool(gpu->device, pool, NULL);
    kpoolDestroyKernel(kernel);
    gpu_destroy_buffer(gpu, &others);
    gpu_destroy_buffer(gpu, &tail);
}

ON_EACH_CONTEXT(check_far_seed)
ON_EACH_CONTEXT(check_far_keys)
ON_EACH_CONTEXT(check_far_ids)
ON_EACH_CONTEXT(check_large_ring)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_far_seed),
        cmocka_unit_test(test_check_far_keys),
        cmocka_unit_test(test_check_far_ids),
        cmocka_unit_test(test_check_large_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
