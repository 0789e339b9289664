/* Which kpoolCmd... function records an operation. */
#ifndef KPOOL_TOOL_RECORD_COMMAND_H
#define KPOOL_TOOL_RECORD_COMMAND_H

#include "kpool/kpool.h"

typedef KpoolResult RecordCommand(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                                  const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic);

RecordCommand *record_command(KpoolOperation operation);

#endif
