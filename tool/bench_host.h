/* `kpool bench --host`: what the host pays to record one operation. */
#ifndef KPOOL_TOOL_BENCH_HOST_H
#define KPOOL_TOOL_BENCH_HOST_H

#include "bench_scene.h"

/* For GpuOptions::allocator: counts the allocations of the library's own objects. */
typedef struct BenchAllocator {
    VkAllocationCallbacks callbacks; /* pUserData is the allocator, so it must stay where it is */
    uint64_t allocations;
} BenchAllocator;

void bench_allocator_init(BenchAllocator *allocator);

typedef struct BenchHost {
    uint32_t records;     /* of each kind */
    double ours;           /* nanoseconds for one kpoolCmdSeedTail */
    double executed;       /* for one kpoolCmdExecute of the same call */
    double raw;            /* for the same calls of Vulkan: pipeline, set, push constants, dispatch */
    double ratio;          /* ours / raw: the median of the rounds' own */
    double executed_ratio; /* executed / raw */
    uint64_t allocations;  /* during all of both, through the allocator */
} BenchHost;

/* Records 100,000 of each in turn, a command buffer of 1,000 at a time that is reset before. allocator is the gpu's.
 * made != BENCH_MADE: as bench_scene_create. */
BenchMade bench_host(Gpu *gpu, const BenchAllocator *allocator, const KpoolKernelCreateInfo *info, BenchHost *host,
                     KpoolDiagnostic *reason);

#endif
