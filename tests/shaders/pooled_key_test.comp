#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

// pooled_key.glsl alone: one pool of head_dim channels, as many as a test likes, a pair of them a lane.

#include "common.glsl"

layout(set = 0, binding = 0, std430) restrict readonly buffer GateBuffer { uint gate[]; };
layout(set = 0, binding = 1, std430) restrict readonly buffer ApeBuffer { uint ape[]; };
layout(set = 0, binding = 2, std430) restrict readonly buffer KBuffer { uint k[]; };
layout(set = 0, binding = 3, std430) restrict writeonly buffer PooledBuffer { uint pooled[]; };

#undef AT
#define AT(name, i) name[i]

#include "pooled_key.glsl"

uvec4 member_words(uint m) {
    uvec4 words;
    READ_PAIRS(words, gate, m * row_words, k, m * row_words)
    return words;
}

void main() {
    const uint pair = gl_GlobalInvocationID.x;
    if (2u * pair >= head_dim) {
        return;
    }
    set_pair(pair);
    const uvec2 key = pooled_key();
    STORE_PAIR(pooled, 0u, key)
}
