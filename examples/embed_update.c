/*
 * Records one whole update (close, compress, seed) with the barriers that it needs, once, and submits it twice.
 *
 * One request of 13 tokens arrives as 6 and 7. Pool 0 comes whole in the first call; pool 1 begins there, waits in the
 * ring, and closes in the second; pool 2 comes whole in the second. Keys say their position and gates are all alike, so
 * the pooled key of pool p is the mean of four positions, 4p + 1.5. The exit status is 0 where it is.
 */
#include <stdio.h>
#include <string.h>

#include "kpool/kpool.h"
#include "runtime.h"

enum { HEAD_DIM = 128, KPOOL = 4, SLOTS = 2, SLOT = 1, REQUESTS = 1, ROWS = 8, POOLED_ROWS = ROWS / KPOOL };

/* In the order in which they are recorded. */
enum { OFFSETS, CLOSE, COMPRESS, SEED, KERNELS };

static const KpoolOperation operations[KERNELS] = {
    KPOOL_OPERATION_POOL_ROW_OFFSETS,
    KPOOL_OPERATION_RING_CLOSE,
    KPOOL_OPERATION_COMPRESS,
    KPOOL_OPERATION_SEED_TAIL,
};

static void check(KpoolResult result, const KpoolDiagnostic *diagnostic)
{
    if (result != KPOOL_SUCCESS) {
        fail(kpoolResultString(result), diagnostic->message);
    }
}

/* One buffer holds every tensor that any of the kernels uses. */
static void place_tensors(Runtime *runtime, const KpoolRequirements *needs, const KpoolKernelCreateInfo *infos,
                          const KpoolCall *call, KpoolBindings *bindings)
{
    /* KpoolBindings is a struct of ranges, so it can be walked as an array of them. */
    enum { RANGES = sizeof(KpoolBindings) / sizeof(KpoolRange) };
    KpoolRange ranges[RANGES] = {0};
    for (uint32_t i = 0; i < KERNELS; i++) {
        KpoolDiagnostic diagnostic;
        KpoolBindings sizes;
        check(kpoolGetSizes(&infos[i], call, &sizes, &diagnostic), &diagnostic);
        KpoolRange used[RANGES];
        memcpy(used, &sizes, sizeof used);
        for (uint32_t j = 0; j < RANGES; j++) {
            ranges[j].size = used[j].size > ranges[j].size ? used[j].size : ranges[j].size;
        }
    }
    VkDeviceSize size = 0;
    for (uint32_t j = 0; j < RANGES; j++) {
        if (ranges[j].size != 0) {
            ranges[j].offset = (size + needs->offsetAlignment - 1) / needs->offsetAlignment * needs->offsetAlignment;
            size = ranges[j].offset + ranges[j].size;
        }
    }
    create_buffer(runtime, size, needs->usage);
    for (uint32_t j = 0; j < RANGES; j++) {
        ranges[j].buffer = ranges[j].size != 0 ? runtime->buffer : VK_NULL_HANDLE;
    }
    memcpy(bindings, ranges, sizeof ranges);
}

/* What the next step reads: `tokens` tokens after `length`. Rows of k that nobody brings are left as they are. */
static void fill(const Runtime *runtime, const KpoolBindings *bindings, uint32_t length, uint32_t tokens)
{
    float *k = (float *)(runtime->mapped + bindings->k.offset);
    float *gate = (float *)(runtime->mapped + bindings->gate.offset);
    for (uint32_t i = 0; i < tokens * HEAD_DIM; i++) {
        const uint32_t position = length + i / HEAD_DIM;
        k[i] = (float)position;
        gate[i] = 0.25f;
    }
    const uint32_t offsets[REQUESTS + 1] = {0, tokens};
    const uint32_t slot = SLOT;
    memcpy(runtime->mapped + bindings->input_row_offsets.offset, offsets, sizeof offsets);
    memcpy(runtime->mapped + bindings->cache_lengths.offset, &length, sizeof length);
    memcpy(runtime->mapped + bindings->slot_idx.offset, &slot, sizeof slot);
}

static int report_key(uint32_t pool, const char *how, const float *key)
{
    printf("pool %u %s: %g\n", pool, how, (double)key[0]);
    int right = 1;
    for (uint32_t channel = 0; channel < HEAD_DIM; channel++) {
        right &= key[channel] == (float)(KPOOL * pool) + 1.5f;
    }
    return right;
}

/* Prints what the step has made; adds its pools to *made. */
static int report(const Runtime *runtime, const KpoolBindings *bindings, uint32_t length, uint32_t *made)
{
    const int32_t *closed_pool = (const int32_t *)(runtime->mapped + bindings->closed_pool.offset);
    const uint32_t *offsets = (const uint32_t *)(runtime->mapped + bindings->pool_row_offsets.offset);
    const float *closed_pooled = (const float *)(runtime->mapped + bindings->closed_pooled.offset);
    const float *pooled = (const float *)(runtime->mapped + bindings->pooled.offset);
    const uint32_t *status = (const uint32_t *)(runtime->mapped + bindings->status.offset);
    int right = 1;
    if (closed_pool[0] >= 0) {
        right &= report_key((uint32_t)closed_pool[0], "closed", closed_pooled);
        *made += 1;
    }
    for (uint32_t row = 0; row < offsets[REQUESTS]; row++) {
        right &= report_key((length + KPOOL - 1) / KPOOL + row, "compressed", pooled + (size_t)row * HEAD_DIM);
        *made += 1;
    }
    for (uint32_t i = 0; i < KPOOL_STATUS_COUNT; i++) {
        right &= status[i] == 0;
    }
    return right;
}

int main(void)
{
    Runtime runtime = {0};
    create_device(&runtime);
    printf("device: %s\n", runtime.properties.deviceName);

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

    KpoolKernelCreateInfo infos[KERNELS];
    KpoolKernel kernels[KERNELS];
    uint32_t descriptors = 0;
    for (uint32_t i = 0; i < KERNELS; i++) {
        infos[i] = (KpoolKernelCreateInfo){.operation = operations[i], .geometry = geometry};
        check(kpoolCreateKernel(context, &infos[i], &kernels[i], &diagnostic), &diagnostic);
        descriptors += kpoolGetDescriptorCount(context, operations[i]);
    }
    const KpoolCall call = {
        .max_slots = SLOTS, .requests = REQUESTS, .rows = ROWS, .pooled_rows = POOLED_ROWS};
    KpoolBindings bindings;
    place_tensors(&runtime, &needs, infos, &call, &bindings);
    memset(runtime.mapped + bindings.status.offset, 0, (size_t)bindings.status.size);
    memset(runtime.mapped + bindings.ape.offset, 0, (size_t)bindings.ape.size);
    create_pool(&runtime, KERNELS, descriptors);
    VkDescriptorSet sets[KERNELS];
    for (uint32_t i = 0; i < KERNELS; i++) {
        sets[i] = create_set(&runtime, kpoolGetDescriptorSetLayout(context, operations[i]));
        check(kpoolWriteDescriptorSet(context, operations[i], sets[i], &bindings, &diagnostic), &diagnostic);
    }

    const VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    VkCommandBuffer commands = runtime.commandBuffer;
    begin(&runtime);
    /* The seed of the step before is visible to this close, also across submissions. */
    barrier(&runtime, compute, VK_ACCESS_SHADER_WRITE_BIT, compute, VK_ACCESS_SHADER_READ_BIT);
    check(kpoolCmdPoolRowOffsets(commands, kernels[OFFSETS], sets[OFFSETS], &bindings, &call, &diagnostic),
          &diagnostic);
    check(kpoolCmdRingClose(commands, kernels[CLOSE], sets[CLOSE], &bindings, &call, &diagnostic), &diagnostic);
    /* The offsets are visible to the compress: a write, then a read. */
    barrier(&runtime, compute, VK_ACCESS_SHADER_WRITE_BIT, compute,
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    check(kpoolCmdCompress(commands, kernels[COMPRESS], sets[COMPRESS], &bindings, &call, &diagnostic), &diagnostic);
    /* The close has read the ring before the seed writes it. The barrier above says so already, since it stands between
     * the two; with the compress left out this would do:
     *     barrier(&runtime, compute, 0, compute, 0); */
    check(kpoolCmdSeedTail(commands, kernels[SEED], sets[SEED], &bindings, &call, &diagnostic), &diagnostic);
    barrier(&runtime, compute, VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    end(&runtime);

    static const uint32_t arrivals[] = {6, 7};
    uint32_t length = 0;
    uint32_t made = 0;
    int right = 1;
    for (uint32_t step = 0; step < 2; step++) {
        fill(&runtime, &bindings, length, arrivals[step]);
        submit(&runtime);
        right &= report(&runtime, &bindings, length, &made);
        length += arrivals[step];
    }
    right &= made == length / KPOOL;
    printf("%s\n", right ? "as it must be" : "WRONG");

    for (uint32_t i = KERNELS; i-- > 0;) {
        kpoolDestroyKernel(kernels[i]);
    }
    kpoolDestroyContext(context);
    destroy_runtime(&runtime);
    return right ? 0 : 1;
}
