#include "bench_pipelines.h"

#include <stdio.h>
#include <stdlib.h>

#include "../src/shape.h"
#include "../src/spirv.h"
#include "bench_sample.h"
#include "progress.h"

#define MOST_MODULES 64u

/* Milliseconds; below 0: refused. */
static double time_creation(Gpu *gpu, const KpoolKernelCreateInfo *info, KpoolDiagnostic *reason)
{
    KpoolKernel kernel;
    const double start = progress_clock();
    const KpoolResult result = kpoolCreateKernel(gpu->context, info, &kernel, reason);
    const double seconds = progress_clock() - start;
    kpoolDestroyKernel(kernel);
    return result == KPOOL_SUCCESS ? 1e3 * seconds : -1;
}

/* false: refused. */
static bool measure_creation(Gpu *gpu, const KpoolKernelCreateInfo *base, VkPipelineCache cache, uint32_t samples,
                             double *values, BenchPipeline *pipeline, KpoolDiagnostic *reason)
{
    for (uint32_t cached = 0; cached < 2; cached++) {
        KpoolKernelCreateInfo info = *base;
        info.pipelineCache = cached != 0 ? cache : VK_NULL_HANDLE;
        /* The first fills the cache; cold, there is nothing that it could fill but what the driver has of its own. */
        if (time_creation(gpu, &info, reason) < 0) {
            return false;
        }
        for (uint32_t i = 0; i < samples; i++) {
            values[i] = time_creation(gpu, &info, reason);
            if (values[i] < 0) {
                return false;
            }
        }
        *(cached != 0 ? &pipeline->cached : &pipeline->cold) = bench_median(values, samples);
    }
    return true;
}

static BenchMade measure_submissions(BenchScene *scene, uint32_t samples, double *firsts, double *seconds,
                                     KpoolDiagnostic *reason)
{
    BenchMade made = BENCH_MADE;
    for (uint32_t i = 0; i < samples && made == BENCH_MADE; i++) {
        BenchVariants variants;
        made = bench_variants_create(&variants, scene, NULL, 0, 0, reason);
        if (made == BENCH_MADE && (!bench_variant_time(&variants, BENCH_OURS, 1, &firsts[i]) ||
                                   !bench_variant_time(&variants, BENCH_OURS, 1, &seconds[i]))) {
            made = BENCH_FAILED;
        }
        bench_variants_destroy(&variants);
    }
    return made;
}

static BenchMade measure(BenchScene *scene, VkPipelineCache cache, uint32_t samples, double *values,
                         BenchPipeline *pipeline, KpoolDiagnostic *reason)
{
    Gpu *gpu = scene->gpu;
    if (!measure_creation(gpu, &scene->info, cache, samples, values, pipeline, reason)) {
        return BENCH_REFUSED;
    }
    if (!bench_scene_upload(scene)) {
        return BENCH_FAILED;
    }
    double *seconds = values + samples;
    const BenchMade made = measure_submissions(scene, samples, values, seconds, reason);
    pipeline->first = 1e3 * bench_median(values, samples);
    pipeline->second = 1e3 * bench_median(seconds, samples);
    return made;
}

BenchMade bench_pipeline(Gpu *gpu, const KpoolKernelCreateInfo *info, uint32_t samples, BenchPipeline *pipeline,
                         KpoolDiagnostic *reason)
{
    static const BenchMix mix = {"decode", 1, 4};
    *pipeline = (BenchPipeline){0};
    KpoolKernelCreateInfo resolved;
    if (kpoolResolveKernelInfo(info, &resolved, reason) != KPOOL_SUCCESS) {
        return BENCH_REFUSED;
    }
    pipeline->spirv =
        kpoolFindModule(resolved.operation, kpoolGetBindingLayout(gpu->context), kpoolWordSize(&resolved)).size;
    BenchScene scene;
    BenchMade made = bench_scene_create(&scene, gpu, info, &mix, 1, reason);
    if (made != BENCH_MADE) {
        return made;
    }
    const VkPipelineCacheCreateInfo cacheInfo = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache cache = VK_NULL_HANDLE;
    double *values = calloc(2 * (size_t)samples, sizeof *values);
    made = BENCH_FAILED;
    if (values == NULL || vkCreatePipelineCache(gpu->device, &cacheInfo, NULL, &cache) != VK_SUCCESS) {
        snprintf(gpu->error, sizeof gpu->error, "out of memory for a pipeline cache");
    } else {
        made = measure(&scene, cache, samples, values, pipeline, reason);
    }
    free(values);
    vkDestroyPipelineCache(gpu->device, cache, NULL);
    bench_scene_destroy(&scene);
    return made;
}

size_t bench_spirv_size(void)
{
    static const KpoolBindingLayout layouts[] = {KPOOL_BINDING_LAYOUT_WIDE, KPOOL_BINDING_LAYOUT_FLOOR};
    static const uint32_t word_sizes[] = {4, 16};
    const uint32_t *counted[MOST_MODULES] = {0};
    uint32_t count = 0;
    size_t size = 0;
    for (KpoolOperation operation = KPOOL_OPERATION_SEED_TAIL; operation <= KPOOL_OPERATION_CHECK_SLOTS; operation++) {
        for (uint32_t i = 0; i < 4; i++) {
            const KpoolModule module = kpoolFindModule(operation, layouts[i / 2], word_sizes[i % 2]);
            uint32_t known = 0;
            while (known < count && counted[known] != module.words) {
                known++;
            }
            if (known == count) {
                counted[count++] = module.words;
                size += module.size;
            }
        }
    }
    return size;
}
