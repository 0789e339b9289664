// What every kernel includes: constants, push constants, and tensors addressed as base + index in
// either binding layout. A kernel is compiled with KPOOL_FLOOR 0 and 1, and, where it moves rows, with
// KPOOL_WORD_BYTES 4 and 16.

#include "interface.h"

#define SPECIALIZATION_CONSTANT(id, name) layout(constant_id = id) const uint name = 1;
KPOOL_SPECIALIZATION(SPECIALIZATION_CONSTANT)

layout(local_size_x_id = 0) in;

#define PUSH_CONSTANT(name) uint name;
struct PushConstants { KPOOL_PUSH_CONSTANTS(PUSH_CONSTANT) };
layout(push_constant, std430) uniform Push { PushConstants push_constants; };

// Read once, before any branch: lavapipe (Mesa 22) reads a push constant in a branch or a loop for each lane anew.
PushConstants pc = push_constants;

#if KPOOL_WORD_BYTES == 16
#define ROW_WORD uvec4
#else
#define ROW_WORD uint
#endif

// INPUT and OUTPUT declare a tensor that the kernel reads only, or also writes; AT(name, i) is its word i. A kernel
// that defines MOVES_16 declares tail, k and gate with INPUT_ROWS and OUTPUT_ROWS: their words have 4 bytes, and the
// same memory in words of 16 is AT_16(name, i), where the kernel's alignment allows.
//
// Two declarations of one memory say so: SPIR-V takes them for apart where neither has Aliased, whatever GLSL's lack of
// `restrict` means, and a read of the ring could be moved behind the write that replaces it. glslang does not say it.
#ifdef MOVES_16
#extension GL_EXT_spirv_intrinsics : require
#define ALIASED 20
#define ROWS spirv_decorate(ALIASED)
#else
#define ROWS restrict
#endif

#if KPOOL_FLOOR
layout(set = 0, binding = KPOOL_GROUP_tail, std430) ROWS buffer TailGroup { ROW_WORD tail_group[]; };
layout(set = 0, binding = KPOOL_GROUP_rows, std430) ROWS readonly buffer RowsGroup { ROW_WORD rows_group[]; };
layout(set = 0, binding = KPOOL_GROUP_words, std430) restrict buffer WordsGroup { uint words_group[]; };
layout(set = 0, binding = KPOOL_GROUP_out, std430) restrict buffer OutGroup { ROW_WORD out_group[]; };

#ifdef MOVES_16
layout(set = 0, binding = KPOOL_GROUP_tail, std430) ROWS buffer TailGroup16 { uvec4 tail_group_16[]; };
layout(set = 0, binding = KPOOL_GROUP_rows, std430) ROWS readonly buffer RowsGroup16 { uvec4 rows_group_16[]; };
#endif

#define INPUT(word, name)
#define OUTPUT(word, name)
#define INPUT_ROWS(name)
#define OUTPUT_ROWS(name)

#define GROUP_OF_tail tail_group
#define GROUP_OF_k rows_group
#define GROUP_OF_gate rows_group
#define GROUP_OF_input_row_offsets words_group
#define GROUP_OF_cache_lengths words_group
#define GROUP_OF_slot_idx words_group
#define GROUP_OF_status words_group
#define GROUP_OF_ape words_group
#define GROUP_OF_pool_row_offsets words_group
#define GROUP_OF_closed_pool words_group
#define GROUP_OF_closed_pooled out_group
#define GROUP_OF_pooled out_group
#define GROUP_OF_pool_ids words_group
#define GROUP_OF_out out_group
#define GROUP_OF_pairs words_group
#define GROUP_OF_scratch out_group
#define GROUP_OF_block_table words_group

#define GROUP_16_OF_tail tail_group_16
#define GROUP_16_OF_k rows_group_16
#define GROUP_16_OF_gate rows_group_16

#define AT(name, i) GROUP_OF_##name[pc.name##_base + (i)]
#define AT_16(name, i) GROUP_16_OF_##name[pc.name##_base / 4u + (i)]
#else
#define INPUT(word, name) \
    layout(set = 0, binding = KPOOL_BINDING_##name, std430) restrict readonly buffer Buffer_##name { \
        word tensor_##name[];                                                                        \
    };
#define OUTPUT(word, name)                                                                  \
    layout(set = 0, binding = KPOOL_BINDING_##name, std430) restrict buffer Buffer_##name { \
        word tensor_##name[];                                                               \
    };

#define ROWS_TWICE(access, name)                                                                 \
    layout(set = 0, binding = KPOOL_BINDING_##name, std430) ROWS access buffer Buffer_##name {   \
        uint tensor_##name[];                                                                    \
    };                                                                                           \
    layout(set = 0, binding = KPOOL_BINDING_##name, std430) ROWS access buffer Buffer16_##name { \
        uvec4 tensor_16_##name[];                                                                \
    };
#define INPUT_ROWS(name) ROWS_TWICE(readonly, name)
#define OUTPUT_ROWS(name) ROWS_TWICE(, name)

#define AT(name, i) tensor_##name[pc.name##_base + (i)]
#define AT_16(name, i) tensor_16_##name[pc.name##_base / 4u + (i)]
#endif

// A row of tail, k or gate, in the words that are moved.
const uint row_words = head_dim * element_size / KPOOL_WORD_BYTES;

// More workgroups than a row holds lie in further rows. The product is below 2^31 + 2^16: the host refuses more.
uint group_index() { return gl_WorkGroupID.y * KPOOL_GROUP_ROW + gl_WorkGroupID.x; }

// The item this invocation works on, and which of its lanes it is. With one item a workgroup a factor is 0, so the
// compiler sees that the item is the same for all, and reads what belongs to it once.
const uint items_within = items_per_group == 1u ? 0u : 1u;

uint item_index() {
    return group_index() * items_per_group + items_within * (gl_LocalInvocationID.x / lanes_per_item);
}

uint item_lane() { return gl_LocalInvocationID.x - items_within * (gl_LocalInvocationID.x & ~(lanes_per_item - 1u)); }
