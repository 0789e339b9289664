/* What one row of `kpool bench` works on: the traffic of a mix in numbers and tensors, on the host and, dense, in
 * device-local memory; and what the tensors must hold afterwards, by the reference. */
#ifndef KPOOL_TOOL_BENCH_SCENE_H
#define KPOOL_TOOL_BENCH_SCENE_H

#include "execute.h"

/* The tokens that each request brings: from least to most, at random. */
typedef struct BenchMix {
    const char *name;
    uint32_t least;
    uint32_t most;
} BenchMix;

typedef struct BenchScene {
    Gpu *gpu;
    KpoolKernelCreateInfo info;
    KpoolCall call;
    KpoolBindings bindings;
    TensorImages before;
    TensorImages after;
    TensorImages found; /* what bench_scene_download read */
    GpuBuffer buffers[KPOOL_GROUP_COUNT]; /* one a group, which serves both binding layouts */
    GpuBuffer staging[KPOOL_GROUP_COUNT]; /* the same places, mapped */
    void *memory[2][KPOOL_GROUP_COUNT];   /* of before and after */
    VkCommandBuffer upload;
    VkCommandBuffer download;
} BenchScene;

typedef enum BenchMade { BENCH_MADE, BENCH_TOO_LARGE, BENCH_REFUSED, BENCH_FAILED } BenchMade;

/* A call of info's operation with that many requests. info->pooled_type is a type. TOO_LARGE: a group of tensors would
 * not fit BENCH_MOST_BYTES. REFUSED: the library says no, and reason why. FAILED: Vulkan does, or memory ran out;
 * gpu->error says so. Nothing is left behind but after MADE. */
#define BENCH_MOST_BYTES ((VkDeviceSize)64 << 20)
BenchMade bench_scene_create(BenchScene *scene, Gpu *gpu, const KpoolKernelCreateInfo *info, const BenchMix *mix,
                             uint32_t requests, KpoolDiagnostic *reason);
void bench_scene_destroy(BenchScene *scene);

/* Puts the device's tensors back to what they were before. */
bool bench_scene_upload(BenchScene *scene);
/* Reads them into found. */
bool bench_scene_download(BenchScene *scene);

/* The first tensor of found that is not the expected one, or NULL. Keys in fast numerics may differ as the contract
 * allows; scratch may hold anything. */
const char *bench_scene_compare(const BenchScene *scene, const TensorImages *expected, KpoolNumerics numerics);

#endif
