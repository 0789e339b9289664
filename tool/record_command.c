#include "record_command.h"

#include <stddef.h>

RecordCommand *record_command(KpoolOperation operation)
{
    switch (operation) {
    case KPOOL_OPERATION_SEED_TAIL:
        return kpoolCmdSeedTail;
    case KPOOL_OPERATION_RING_CLOSE:
        return kpoolCmdRingClose;
    case KPOOL_OPERATION_COMPRESS:
        return kpoolCmdCompress;
    case KPOOL_OPERATION_POOL_ROW_OFFSETS:
        return kpoolCmdPoolRowOffsets;
    case KPOOL_OPERATION_EXPAND_TOPK:
        return kpoolCmdExpandTopk;
    case KPOOL_OPERATION_COPY_SLOTS:
        return kpoolCmdCopySlots;
    case KPOOL_OPERATION_STEP:
        return kpoolCmdStep;
    case KPOOL_OPERATION_CHECK_SLOTS:
        return kpoolCmdCheckSlots;
    case KPOOL_OPERATION_NONE:
        break;
    }
    return NULL;
}
