/* `kpool bench --pipelines`: what it takes until an operation can run, and how large its SPIR-V is. */
#ifndef KPOOL_TOOL_BENCH_PIPELINES_H
#define KPOOL_TOOL_BENCH_PIPELINES_H

#include "bench_scene.h"

/* Medians, in milliseconds. */
typedef struct BenchPipeline {
    double cold;      /* kpoolCreateKernel without a VkPipelineCache */
    double cached;    /* with one that has seen the same */
    double first;     /* the first submission to its fence, of a kernel that was made cold: some drivers compile then */
    double second;    /* the second */
    size_t spirv;     /* bytes of the module in use */
} BenchPipeline;

/* made != BENCH_MADE: as bench_scene_create. */
BenchMade bench_pipeline(Gpu *gpu, const KpoolKernelCreateInfo *info, uint32_t samples, BenchPipeline *pipeline,
                         KpoolDiagnostic *reason);

/* Bytes of all modules of both layouts. */
size_t bench_spirv_size(void);

#endif
