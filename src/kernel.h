/* The kernel: the pipeline of each of its passes, and what it was made from. */
#ifndef KPOOL_KERNEL_H
#define KPOOL_KERNEL_H

#include "context.h"

struct KpoolKernel_T {
    KpoolContext context;
    KpoolKernelCreateInfo info; /* defaults filled in */
    KpoolTensorList tensors;    /* what it uses */
    uint32_t passes; /* dispatches one call records: 2 for copy_slots */
    VkPipeline pipelines[2];
};

#endif
