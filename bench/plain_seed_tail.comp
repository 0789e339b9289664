#version 450
#extension GL_GOOGLE_include_directive : require

// seed_tail as a plain port would have it, to measure the library against: a workgroup a request, an invocation a
// channel, a loop over positions, dense tensors, nothing checked. Compiled for elements of 16 bits, which needs 16-bit
// storage, and for words of 32: then an invocation moves one f32 or two adjacent 2-byte channels.

#include "../shaders/interface.h"

#if KPOOL_WORD_BYTES == 2
#extension GL_EXT_shader_16bit_storage : require
#define WORD uint16_t
#else
#define WORD uint
#endif

// row_words invocations: head_dim in words.
layout(constant_id = 0) const uint row_words = 1;
layout(constant_id = 1) const uint kpool = 1;
layout(local_size_x_id = 0) in;

layout(binding = KPOOL_BINDING_tail, std430) restrict buffer Tail { WORD tail[]; };
layout(binding = KPOOL_BINDING_k, std430) restrict readonly buffer K { WORD k[]; };
layout(binding = KPOOL_BINDING_gate, std430) restrict readonly buffer Gate { WORD gate[]; };
layout(binding = KPOOL_BINDING_input_row_offsets, std430) restrict readonly buffer Offsets { uint offsets[]; };
layout(binding = KPOOL_BINDING_cache_lengths, std430) restrict readonly buffer Lengths { uint cache_lengths[]; };
layout(binding = KPOOL_BINDING_slot_idx, std430) restrict readonly buffer Slots { uint slot_idx[]; };

void main() {
    const uint r = gl_WorkGroupID.x;
    const uint channel = gl_LocalInvocationID.x;
    const uint first = offsets[r];
    const uint cached = cache_lengths[r];
    const uint end = cached + (offsets[r + 1u] - first);
    const uint keys = slot_idx[r] * 2u * kpool;
    for (uint position = max(cached, end / kpool * kpool); position < end; position++) {
        const uint from = (first + (position - cached)) * row_words + channel;
        const uint to = keys + position % kpool;
        tail[to * row_words + channel] = k[from];
        tail[(to + kpool) * row_words + channel] = gate[from];
    }
}
