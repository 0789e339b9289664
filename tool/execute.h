/* One operation on tensors in host memory: buffers made, guard words laid round each, recorded, submitted,
 * read back, guards looked at. For the runner's `run` and for tests; nothing is kept between calls. */
#ifndef KPOOL_TOOL_EXECUTE_H
#define KPOOL_TOOL_EXECUTE_H

#include "../shaders/interface.h"
#include "gpu.h"

/* An image of each tensor as its buffer holds it, base and strides included: what kpoolGetSizes says, in
 * bytes, and never fewer than 4. Tensors that the operation does not use are NULL. */
typedef struct TensorImages {
#define TENSOR_IMAGE(name, group) void *name;
    KPOOL_TENSORS(TENSOR_IMAGE)
#undef TENSOR_IMAGE
} TensorImages;

typedef struct Execution {
    KpoolResult result;
    KpoolDiagnostic diagnostic;     /* where result is not KPOOL_SUCCESS */
    const char *damaged;            /* the tensor with a changed guard word beside it, or NULL */
} Execution;

/* Makes a kernel of info, records the operation once, submits it `submissions` times, and copies every used
 * tensor back over its image. false: Vulkan failed, gpu->error says how. Otherwise execution says what the library
 * said. */
bool execute(Gpu *gpu, const KpoolKernelCreateInfo *info, const KpoolCall *call, uint32_t submissions,
             TensorImages *images, Execution *execution);

#endif
