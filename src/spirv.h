/* The precompiled SPIR-V: which module an operation runs. */
#ifndef KPOOL_SPIRV_H
#define KPOOL_SPIRV_H

#include "kpool/kpool.h"

typedef struct KpoolModule {
    const uint32_t *words;
    size_t size; /* bytes */
} KpoolModule;

/* bindingLayout is wide or floor, wordSize as kpoolWordSize has it. */
KpoolModule kpoolFindModule(KpoolOperation operation, KpoolBindingLayout bindingLayout, uint32_t wordSize);

#endif
