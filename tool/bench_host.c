#include "bench_host.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench_sample.h"
#include "keys.h"
#include "progress.h"

#define ROUNDS 100u
#define WARM_UP_ROUNDS 3u
#define RECORDS_A_ROUND 1000u
/* Recording does not depend on how many there are. */
#define REQUESTS 8u

#define COUNT_BYTES(name) +sizeof(uint32_t)
/* What the library pushes. */
#define PUSH_BYTES ((uint32_t)(0 KPOOL_PUSH_CONSTANTS(COUNT_BYTES)))

/* --------------------------------------------------------------------------- allocations ------ */

static VKAPI_ATTR void *VKAPI_CALL allocate(void *user, size_t size, size_t alignment, VkSystemAllocationScope scope)
{
    (void)scope;
    BenchAllocator *allocator = user;
    allocator->allocations++;
    if (size > SIZE_MAX - alignment) {
        return NULL;
    }
    /* aligned_alloc takes multiples of the alignment only. */
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static VKAPI_ATTR void *VKAPI_CALL reallocate(void *user, void *original, size_t size, size_t alignment,
                                              VkSystemAllocationScope scope)
{
    (void)scope;
    BenchAllocator *allocator = user;
    allocator->allocations++;
    /* What malloc aligns, realloc does as well; more is not asked for by what drivers let grow. */
    return alignment <= _Alignof(max_align_t) ? realloc(original, size) : NULL;
}

static VKAPI_ATTR void VKAPI_CALL release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

void bench_allocator_init(BenchAllocator *allocator)
{
    *allocator = (BenchAllocator){
        .callbacks =
            {
                .pUserData = allocator,
                .pfnAllocation = allocate,
                .pfnReallocation = reallocate,
                .pfnFree = release,
            },
    };
}

/* ------------------------------------------------------------------------------ recording ----- */

/* Vulkan's functions as the library has them: the device's own, without the loader's step between. */
#define RAW_FUNCTIONS(X)       \
    X(vkCmdBindPipeline)       \
    X(vkCmdBindDescriptorSets) \
    X(vkCmdPushConstants)      \
    X(vkCmdDispatch)

typedef struct Recorder {
    BenchVariants *variants;
    BenchStage stage;
    KpoolCommand command; /* of the stage's call */
    uint32_t groups[3];
    PlainPort raw; /* any pipeline costs the same to bind */
    VkCommandPool pool;
    VkCommandBuffer commandBuffer;
#define DECLARE(name) PFN_##name name;
    RAW_FUNCTIONS(DECLARE)
#undef DECLARE
} Recorder;

static bool record_ours(const Recorder *recorder)
{
    const BenchScene *scene = recorder->variants->scene;
    bool recorded = true;
    for (uint32_t i = 0; i < RECORDS_A_ROUND; i++) {
        recorded &= kpoolCmdSeedTail(recorder->commandBuffer, recorder->stage.kernel, recorder->stage.set,
                                     &scene->bindings, &scene->call, NULL) == KPOOL_SUCCESS;
    }
    return recorded;
}

static bool record_executed(const Recorder *recorder)
{
    bool recorded = true;
    for (uint32_t i = 0; i < RECORDS_A_ROUND; i++) {
        recorded &= kpoolCmdExecute(recorder->commandBuffer, recorder->command, recorder->stage.set, NULL) ==
                    KPOOL_SUCCESS;
    }
    return recorded;
}

static bool record_raw(const Recorder *recorder)
{
    const VkCommandBuffer commandBuffer = recorder->commandBuffer;
    const char push[PUSH_BYTES] = {0};
    for (uint32_t i = 0; i < RECORDS_A_ROUND; i++) {
        recorder->vkCmdBindPipeline(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, recorder->raw.pipeline);
        recorder->vkCmdBindDescriptorSets(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, recorder->raw.layout, 0, 1,
                                          &recorder->stage.set, 0, NULL);
        recorder->vkCmdPushConstants(commandBuffer, recorder->raw.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, PUSH_BYTES,
                                     push);
        recorder->vkCmdDispatch(commandBuffer, recorder->groups[0], recorder->groups[1], recorder->groups[2]);
    }
    return true;
}

/* Seconds for RECORDS_A_ROUND; below 0: Vulkan failed. */
static double time_records(const Recorder *recorder, bool (*record)(const Recorder *))
{
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    if (vkResetCommandBuffer(recorder->commandBuffer, 0) != VK_SUCCESS ||
        vkBeginCommandBuffer(recorder->commandBuffer, &begin) != VK_SUCCESS) {
        return -1;
    }
    const double start = progress_clock();
    const bool recorded = record(recorder);
    const double seconds = progress_clock() - start;
    return recorded && vkEndCommandBuffer(recorder->commandBuffer) == VK_SUCCESS ? seconds : -1;
}

static bool measure(const Recorder *recorder, const BenchAllocator *allocator, BenchHost *host)
{
    enum { OURS, EXECUTED, RAW, KINDS };
    static bool (*const kinds[KINDS])(const Recorder *) = {record_ours, record_executed, record_raw};
    double seconds[KINDS][ROUNDS];
    double ratios[KINDS][ROUNDS];
    *host = (BenchHost){.records = ROUNDS * RECORDS_A_ROUND};
    for (uint32_t i = 0; i < WARM_UP_ROUNDS + ROUNDS; i++) {
        const uint32_t round = i < WARM_UP_ROUNDS ? 0 : i - WARM_UP_ROUNDS;
        const uint32_t first = (uint32_t)(hash64(i) % KINDS);
        for (uint32_t k = 0; k < KINDS; k++) {
            const uint32_t kind = (first + k) % KINDS;
            const uint64_t before = allocator->allocations;
            seconds[kind][round] = time_records(recorder, kinds[kind]);
            host->allocations += kind != RAW ? allocator->allocations - before : 0;
            if (seconds[kind][round] < 0) {
                return false;
            }
        }
        for (uint32_t kind = 0; kind < KINDS; kind++) {
            ratios[kind][round] = seconds[kind][round] / seconds[RAW][round];
        }
    }
    host->ours = 1e9 * bench_median(seconds[OURS], ROUNDS) / RECORDS_A_ROUND;
    host->executed = 1e9 * bench_median(seconds[EXECUTED], ROUNDS) / RECORDS_A_ROUND;
    host->raw = 1e9 * bench_median(seconds[RAW], ROUNDS) / RECORDS_A_ROUND;
    host->ratio = bench_median(ratios[OURS], ROUNDS);
    host->executed_ratio = bench_median(ratios[EXECUTED], ROUNDS);
    return true;
}

/* ------------------------------------------------------------------------------- create ------- */

static bool create(Recorder *recorder, Gpu *gpu)
{
    const VkCommandPoolCreateInfo poolInfo = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = gpu->queueFamily,
    };
    if (vkCreateCommandPool(gpu->device, &poolInfo, NULL, &recorder->pool) != VK_SUCCESS) {
        return false;
    }
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = recorder->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
#define LOAD(name) recorder->name = (PFN_##name)vkGetDeviceProcAddr(gpu->device, #name);
    RAW_FUNCTIONS(LOAD)
#undef LOAD
    return vkAllocateCommandBuffers(gpu->device, &info, &recorder->commandBuffer) == VK_SUCCESS;
}

static BenchMade run(BenchVariants *variants, const BenchAllocator *allocator, BenchHost *host)
{
    Gpu *gpu = variants->scene->gpu;
    Recorder recorder = {.variants = variants, .stage = variants->stages[KPOOL_OPERATION_SEED_TAIL]};
    BenchMade made = BENCH_FAILED;
    snprintf(gpu->error, sizeof gpu->error, "recording failed");
    if (plain_port_create_empty(&recorder.raw, gpu,
                                kpoolGetDescriptorSetLayout(gpu->context, KPOOL_OPERATION_SEED_TAIL), PUSH_BYTES) &&
        create(&recorder, gpu) &&
        kpoolCreateCommand(recorder.stage.kernel, &variants->scene->bindings, &variants->scene->call,
                           &recorder.command, NULL) == KPOOL_SUCCESS &&
        kpoolGetGroupCount(recorder.stage.kernel, &variants->scene->call, recorder.groups, NULL) == KPOOL_SUCCESS &&
        measure(&recorder, allocator, host)) {
        made = BENCH_MADE;
    }
    kpoolDestroyCommand(recorder.command);
    vkDestroyCommandPool(gpu->device, recorder.pool, NULL);
    plain_port_destroy(&recorder.raw);
    return made;
}

BenchMade bench_host(Gpu *gpu, const BenchAllocator *allocator, const KpoolKernelCreateInfo *info, BenchHost *host,
                     KpoolDiagnostic *reason)
{
    static const BenchMix mix = {"decode", 1, 4};
    BenchScene scene;
    BenchMade made = bench_scene_create(&scene, gpu, info, &mix, REQUESTS, reason);
    if (made != BENCH_MADE) {
        return made;
    }
    BenchVariants variants;
    made = bench_variants_create(&variants, &scene, NULL, 0, 0, reason);
    if (made == BENCH_MADE) {
        made = run(&variants, allocator, host);
    }
    bench_variants_destroy(&variants);
    bench_scene_destroy(&scene);
    return made;
}
