/* A sound call of any operation on the fake device, for tests to which it does not matter what is recorded. */
#ifndef KPOOL_TESTS_SAMPLE_CALL_H
#define KPOOL_TESTS_SAMPLE_CALL_H

#include <stdbool.h>

#include "kpool/kpool.h"

KpoolContextCreateInfo sample_context_info(KpoolBindingLayout layout, uint32_t flags,
                                           const VkAllocationCallbacks *callbacks);
KpoolKernelCreateInfo sample_kernel_info(KpoolOperation operation);

KpoolResult sample_command(KpoolKernel kernel, VkBuffer buffer, KpoolCommand *command, KpoolDiagnostic *diagnostic);

/* Writes the set, where the context has no push descriptors, and records. Which buffer is bound tells calls apart. */
KpoolResult sample_record(KpoolContext context, KpoolKernel kernel, VkBuffer buffer, KpoolDiagnostic *diagnostic);

#endif
