/*
 * Records kpool's seed_tail into a command buffer of its own: a program to start from. What a Vulkan runtime has anyway
 * (a device, memory, a command buffer) is in runtime.c; this is everything kpool asks of it.
 *
 * Three requests bring tokens in one call. What is left in the ring is printed and compared with what must be
 * there; the exit status is 0 where it is.
 */
#include <stdio.h>
#include <string.h>

#include "kpool/kpool.h"
#include "runtime.h"

enum { HEAD_DIM = 128, KPOOL = 4, SLOTS = 4, REQUESTS = 3, ROWS = 13 };

/* Request 0 brings its tokens 0 to 9 to slot 3, request 1 its token 6 to slot 0, and request 2 two tokens to a
 * slot that does not exist. */
static const uint32_t input_row_offsets[REQUESTS + 1] = {0, 10, 11, 13};
static const uint32_t cache_lengths[REQUESTS] = {0, 6, 0};
static const uint32_t slot_idx[REQUESTS] = {3, 0, 7};

/* The position that each place of the ring must hold in the end; -1 where nothing was written. */
static const float expected[SLOTS][KPOOL] = {{-1, -1, 6, -1}, {-1, -1, -1, -1}, {-1, -1, -1, -1}, {8, 9, -1, -1}};

static void check(KpoolResult result, const KpoolDiagnostic *diagnostic)
{
    if (result != KPOOL_SUCCESS) {
        fail(kpoolResultString(result), diagnostic->message);
    }
}

/* Keys that say their position, gates that say it plus one half, and a ring that says "nothing". */
static void fill(const Runtime *runtime, const KpoolBindings *bindings)
{
    float *tail = (float *)(runtime->mapped + bindings->tail.offset);
    float *k = (float *)(runtime->mapped + bindings->k.offset);
    float *gate = (float *)(runtime->mapped + bindings->gate.offset);
    for (size_t i = 0; i < (size_t)SLOTS * 2 * KPOOL * HEAD_DIM; i++) {
        tail[i] = -1.0f;
    }
    for (uint32_t r = 0; r < REQUESTS; r++) {
        for (uint32_t row = input_row_offsets[r]; row < input_row_offsets[r + 1]; row++) {
            for (uint32_t channel = 0; channel < HEAD_DIM; channel++) {
                k[row * HEAD_DIM + channel] = (float)(cache_lengths[r] + row - input_row_offsets[r]);
                gate[row * HEAD_DIM + channel] = k[row * HEAD_DIM + channel] + 0.5f;
            }
        }
    }
    memcpy(runtime->mapped + bindings->input_row_offsets.offset, input_row_offsets, sizeof input_row_offsets);
    memcpy(runtime->mapped + bindings->cache_lengths.offset, cache_lengths, sizeof cache_lengths);
    memcpy(runtime->mapped + bindings->slot_idx.offset, slot_idx, sizeof slot_idx);
}

/* Prints what the ring and status hold; whether it is what must be there. */
static int report(const Runtime *runtime, const KpoolBindings *bindings)
{
    const float *tail = (const float *)(runtime->mapped + bindings->tail.offset);
    const uint32_t *status = (const uint32_t *)(runtime->mapped + bindings->status.offset);
    int right = 1;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        printf("slot %u:", slot);
        for (uint32_t member = 0; member < KPOOL; member++) {
            const float *key = tail + ((size_t)slot * 2 * KPOOL + member) * HEAD_DIM;
            const float *gate = key + (size_t)KPOOL * HEAD_DIM;
            const float position = expected[slot][member];
            for (uint32_t channel = 0; channel < HEAD_DIM; channel++) {
                right &= key[channel] == position && gate[channel] == (position < 0 ? -1.0f : position + 0.5f);
            }
            if (key[0] < 0) {
                printf("  -");
            } else {
                printf("  %g", (double)key[0]);
            }
        }
        printf("\n");
    }
    printf("requests refused for their slot: %u\n", status[KPOOL_STATUS_SLOT_RANGE]);
    for (uint32_t i = 0; i < KPOOL_STATUS_COUNT; i++) {
        right &= status[i] == (i == KPOOL_STATUS_SLOT_RANGE ? 1u : 0u);
    }
    printf("%s\n", right ? "as it must be" : "WRONG");
    return right;
}

int main(void)
{
    Runtime runtime = {0};
    create_device(&runtime);
    printf("device: %s\n", runtime.properties.deviceName);

    /* Once per device and geometry. */
    KpoolDiagnostic diagnostic;
    const KpoolGeometry geometry = {.head_dim = HEAD_DIM, .kpool = KPOOL, .type = KPOOL_TYPE_F32};
    KpoolRequirements needs;
    check(kpoolGetRequirements(&runtime.properties.limits, &geometry, &needs, &diagnostic), &diagnostic);
    const KpoolContextCreateInfo contextInfo = {
        .apiVersion = VK_API_VERSION_1_1,
        .instance = runtime.instance,
        .physicalDevice = runtime.physicalDevice,
        .device = runtime.device,
        .pfnGetInstanceProcAddr = vkGetInstanceProcAddr,
    };
    KpoolContext context;
    check(kpoolCreateContext(&contextInfo, &context, &diagnostic), &diagnostic);
    const KpoolKernelCreateInfo kernelInfo = {.operation = KPOOL_OPERATION_SEED_TAIL, .geometry = geometry};
    KpoolKernel kernel;
    check(kpoolCreateKernel(context, &kernelInfo, &kernel, &diagnostic), &diagnostic);

    /* Once per set of buffers: where the tensors are (here one after the other in one buffer), and a set for them. */
    const KpoolCall call = {.max_slots = SLOTS, .requests = REQUESTS, .rows = ROWS};
    KpoolBindings bindings;
    check(kpoolGetSizes(&kernelInfo, &call, &bindings, &diagnostic), &diagnostic);
    KpoolRange *const ranges[] = {&bindings.tail, &bindings.k, &bindings.gate, &bindings.input_row_offsets,
                                  &bindings.cache_lengths, &bindings.slot_idx, &bindings.status};
    const size_t range_count = sizeof ranges / sizeof ranges[0];
    VkDeviceSize size = 0;
    for (size_t i = 0; i < range_count; i++) {
        ranges[i]->offset = (size + needs.offsetAlignment - 1) / needs.offsetAlignment * needs.offsetAlignment;
        size = ranges[i]->offset + ranges[i]->size;
    }
    create_buffer(&runtime, size, needs.usage | VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    for (size_t i = 0; i < range_count; i++) {
        ranges[i]->buffer = runtime.buffer;
    }
    create_pool(&runtime, 1, kpoolGetDescriptorCount(context, kernelInfo.operation));
    const VkDescriptorSet set = create_set(&runtime, kpoolGetDescriptorSetLayout(context, kernelInfo.operation));
    check(kpoolWriteDescriptorSet(context, kernelInfo.operation, set, &bindings, &diagnostic), &diagnostic);

    /* Once per command buffer, which may then be submitted every step with new contents in the buffers. */
    begin(&runtime);
    vkCmdFillBuffer(runtime.commandBuffer, bindings.status.buffer, bindings.status.offset, bindings.status.size, 0);
    barrier(&runtime, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
            VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    check(kpoolCmdSeedTail(runtime.commandBuffer, kernel, set, &bindings, &call, &diagnostic), &diagnostic);
    barrier(&runtime, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
            VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    end(&runtime);

    /* Every step. */
    fill(&runtime, &bindings);
    submit(&runtime);
    const int right = report(&runtime, &bindings);

    kpoolDestroyKernel(kernel);
    kpoolDestroyContext(context);
    destroy_runtime(&runtime);
    return right ? 0 : 1;
}
