/* The ways of doing the work of one row of `kpool bench`: the library's, and what it is measured against. */
#ifndef KPOOL_TOOL_BENCH_VARIANTS_H
#define KPOOL_TOOL_BENCH_VARIANTS_H

#include "bench_scene.h"
#include "complaint.h"
#include "plain_port.h"

typedef enum BenchVariant {
    BENCH_EMPTY,  /* one workgroup of one invocation that does nothing: the latency floor */
    BENCH_OURS,   /* the library's one call */
    BENCH_PLAIN,  /* seed_tail: the plain port */
    BENCH_COPY,   /* seed_tail: vkCmdCopyBuffer, its regions computed and the command buffer recorded each time */
    BENCH_MEMCPY, /* seed_tail: the same rows moved in the host's memory */
    BENCH_LONG,   /* seed_tail: the library's on the longer scene, where as many rows move */
    BENCH_FAST,   /* compress: fast numerics */
    BENCH_THREE,  /* step: ring_close, compress, seed_tail with the barrier that they need */
    BENCH_VARIANT_COUNT
} BenchVariant;

extern const char *const bench_variant_names[BENCH_VARIANT_COUNT];

/* Repetitions in one command buffer, a barrier after each, whose cost less that of an empty submission is the marginal
 * cost. */
#define BENCH_REPETITIONS 32u

/* A call of the library that is ready to be recorded. */
typedef struct BenchStage {
    KpoolKernel kernel;
    VkDescriptorSet set;
} BenchStage;

typedef struct BenchVariants {
    BenchScene *scene;
    BenchScene *longer; /* the scene of BENCH_LONG, or NULL */
    bool present[BENCH_VARIANT_COUNT];
    BenchStage stages[KPOOL_OPERATION_CHECK_SLOTS + 1]; /* by operation */
    BenchStage fast;
    BenchStage on_longer;
    PlainPort empty;
    PlainPort plain;
    VkDescriptorPool pool;
    VkBufferCopy *regions;  /* of BENCH_COPY: room for every row that can move */
    VkCommandPool copyPool; /* its command buffers can be reset one by one */
    VkCommandBuffer copy;
    VkCommandBuffer nothing;                    /* an empty submission */
    VkCommandBuffer once[BENCH_VARIANT_COUNT];  /* VK_NULL_HANDLE where nothing is recorded beforehand */
    VkCommandBuffer many[BENCH_VARIANT_COUNT];
} BenchVariants;

/* Makes and records what the scene's operation is measured with. longer, of the same operation, or NULL. lanes and
 * items as in KpoolKernelCreateInfo, for BENCH_OURS, BENCH_LONG and BENCH_FAST. REFUSED: the library says no, and
 * reason why. */
BenchMade bench_variants_create(BenchVariants *variants, BenchScene *scene, BenchScene *longer, uint32_t lanes,
                                uint32_t items, KpoolDiagnostic *reason);
void bench_variants_destroy(BenchVariants *variants);

typedef enum BenchVerdict { BENCH_RIGHT, BENCH_WRONG, BENCH_NOT_RUN } BenchVerdict;

/* Runs each once on the tensors as they were before and compares. WRONG: complaint names the variant and the tensor.
 * NOT_RUN: gpu->error says why. */
BenchVerdict bench_variants_verify(BenchVariants *variants, Complaint *complaint);

/* Seconds from before the submission (BENCH_COPY: from before its regions are computed) to after the fence. times is 1
 * or BENCH_REPETITIONS. false: gpu->error says why. */
bool bench_variant_time(BenchVariants *variants, BenchVariant variant, uint32_t times, double *seconds);
/* The same of an empty command buffer. */
bool bench_submission_time(BenchVariants *variants, double *seconds);

#endif
