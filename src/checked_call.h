/* The command: one call that was checked, as it goes into command buffers. */
#ifndef KPOOL_CHECKED_CALL_H
#define KPOOL_CHECKED_CALL_H

#include "bindings.h"
#include "kernel.h"
#include "shape.h"

struct KpoolCommand_T {
    KpoolKernel kernel;
    uint32_t groups[3]; /* 0 where there is nothing to record */
    KpoolPushConstants push;
    KpoolDescriptors descriptors; /* of a context with push descriptors only */
};

/* Checks everything that kernel, bindings and call can say; kernel is not NULL. On failure command is of no meaning. */
KpoolResult kpoolResolveCommand(KpoolKernel kernel, const KpoolBindings *bindings, const KpoolCall *call,
                                struct KpoolCommand_T *command, KpoolDiagnostic *diagnostic);

#endif
