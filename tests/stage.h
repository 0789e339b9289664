/* A device with a buffer for every tensor that seeding, closing or compressing uses, and a command buffer to record them
 * in: for tests of what the validation layer says. What fails here fails the cmocka test. */
#ifndef KPOOL_TESTS_STAGE_H
#define KPOOL_TESTS_STAGE_H

#include "gpu.h"

enum { STAGE_RANGES = sizeof(KpoolBindings) / sizeof(KpoolRange), STAGE_MOST_SETS = 4 };

typedef struct Stage {
    Gpu gpu;
    KpoolCall call;
    KpoolBindings bindings;
    GpuBuffer buffers[STAGE_RANGES];
    VkDescriptorPool pool;
    VkCommandBuffer commandBuffer; /* begun; VK_NULL_HANDLE once it was submitted */
    KpoolKernel kernels[STAGE_MOST_SETS];
    uint32_t kernel_count;
} Stage;

typedef KpoolResult StageCommand(VkCommandBuffer, KpoolKernel, VkDescriptorSet, const KpoolBindings *,
                                 const KpoolCall *, KpoolDiagnostic *);

/* What the kernels are made of. */
KpoolGeometry stage_geometry(void);

/* Each buffer is filled with zeros. */
void stage_open(Stage *stage);
/* At most STAGE_MOST_SETS times. */
void stage_record(Stage *stage, KpoolOperation operation, StageCommand *command);
/* Puts bytes at the beginning of a range of the stage's bindings. */
void stage_fill(Stage *stage, const KpoolRange *range, const void *bytes, size_t size);
/* Submits what was recorded and waits, which stage_close does where nobody did. */
void stage_submit(Stage *stage);
/* Returns how many messages there were from beginning to end. */
uint32_t stage_close(Stage *stage);

/* Write-after-read needs no more than this. */
void stage_execution_dependency(VkCommandBuffer commandBuffer);
void stage_write_to_read(VkCommandBuffer commandBuffer);

#endif
