#include "spirv_needs.h"

#include <stdlib.h>
#include <string.h>

enum {
    OP_EXECUTION_MODE = 16,
    OP_CAPABILITY = 17,
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_TYPE_VECTOR = 23,
    OP_TYPE_ARRAY = 28,
    OP_TYPE_POINTER = 32,
    OP_CONSTANT = 43,
    OP_CONSTANT_COMPOSITE = 44,
    OP_SPEC_CONSTANT = 50,
    OP_SPEC_CONSTANT_COMPOSITE = 51,
    OP_VARIABLE = 59,
    OP_DECORATE = 71,
};

enum {
    CAPABILITY_SHADER = 1,
    MODE_LOCAL_SIZE = 17,
    DECORATION_SPEC_ID = 1,
    DECORATION_BUILT_IN = 11,
    BUILT_IN_WORKGROUP_SIZE = 25,
    STORAGE_WORKGROUP = 4,
};

/* What is known of an id. */
typedef struct Id {
    bool is_specialized;
    uint32_t constant_id;
    bool is_workgroup_size;
    uint32_t value;   /* of a constant */
    uint32_t bytes;   /* of a type; a pointer has those of what it points to */
} Id;

static uint32_t specialized(const VkSpecializationInfo *specialization, const Id *id, uint32_t value)
{
    for (uint32_t i = 0; id->is_specialized && specialization != NULL && i < specialization->mapEntryCount; i++) {
        const VkSpecializationMapEntry *entry = &specialization->pMapEntries[i];
        if (entry->constantID == id->constant_id && entry->size == sizeof value) {
            memcpy(&value, (const char *)specialization->pData + entry->offset, sizeof value);
        }
    }
    return value;
}

/* SPIR-V declares before it uses, so one pass sees decorations, then types and constants, then variables. */
static void read_instruction(const uint32_t *at, Id *ids, const VkSpecializationInfo *specialization, SpirvNeeds *needs)
{
    switch (at[0] & 0xffffu) {
    case OP_CAPABILITY:
        if (at[1] != CAPABILITY_SHADER) {
            needs->beyond_shader = true;
            needs->capability = at[1];
        }
        break;
    case OP_EXECUTION_MODE:
        if (at[2] == MODE_LOCAL_SIZE) {
            memcpy(needs->local_size, at + 3, sizeof needs->local_size);
        }
        break;
    case OP_DECORATE:
        if (at[2] == DECORATION_SPEC_ID) {
            ids[at[1]].is_specialized = true;
            ids[at[1]].constant_id = at[3];
        } else if (at[2] == DECORATION_BUILT_IN && at[3] == BUILT_IN_WORKGROUP_SIZE) {
            ids[at[1]].is_workgroup_size = true;
        }
        break;
    case OP_TYPE_INT:
    case OP_TYPE_FLOAT:
        ids[at[1]].bytes = at[2] / 8;
        break;
    case OP_TYPE_VECTOR:
        ids[at[1]].bytes = ids[at[2]].bytes * at[3];
        break;
    case OP_TYPE_ARRAY:
        ids[at[1]].bytes = ids[at[2]].bytes * ids[at[3]].value;
        break;
    case OP_TYPE_POINTER:
        ids[at[1]].bytes = ids[at[3]].bytes;
        break;
    case OP_CONSTANT:
    case OP_SPEC_CONSTANT:
        ids[at[2]].value = specialized(specialization, &ids[at[2]], at[3]);
        break;
    case OP_CONSTANT_COMPOSITE:
    case OP_SPEC_CONSTANT_COMPOSITE:
        for (uint32_t i = 0; ids[at[2]].is_workgroup_size && i < 3; i++) {
            needs->local_size[i] = ids[at[3 + i]].value;
        }
        break;
    case OP_VARIABLE:
        if (at[3] == STORAGE_WORKGROUP) {
            needs->shared_bytes += ids[at[1]].bytes;
        }
        break;
    default:
        break;
    }
}

bool spirv_needs(const uint32_t *words, size_t count, const VkSpecializationInfo *specialization, SpirvNeeds *needs)
{
    *needs = (SpirvNeeds){0};
    Id *ids = count > 5 ? calloc(words[3], sizeof *ids) : NULL;
    size_t i = 5;
    while (ids != NULL && i < count && words[i] >> 16 != 0) {
        read_instruction(words + i, ids, specialization, needs);
        i += words[i] >> 16;
    }
    free(ids);
    return i == count && needs->local_size[0] != 0;
}
