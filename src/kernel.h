/* The kernel: one pipeline and what it was made from. */
#ifndef KPOOL_KERNEL_H
#define KPOOL_KERNEL_H

#include "context.h"

struct KpoolKernel_T {
    KpoolContext context;
    KpoolKernelCreateInfo info; /* defaults filled in */
    VkPipeline pipeline;
};

#endif
