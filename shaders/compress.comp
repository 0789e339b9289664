#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

// compress: the keys of pools whose members are all rows of this call.
// lanes_per_item invocations share a row of pooled; items_per_group rows share a workgroup.

#include "common.glsl"

INPUT(uint, k)
INPUT(uint, gate)
INPUT(uint, input_row_offsets)
INPUT(uint, cache_lengths)
INPUT(uint, ape)
INPUT(uint, pool_row_offsets)
OUTPUT(uint, pooled)
OUTPUT(uint, status)

#include "request.glsl"
#include "owner.glsl"
#include "pooled_key.glsl"

DEFINE_FIND_OWNER(pool_row_offsets)

uint judge_request(uint r, out Request request) { return read_request(r, 0u, 1u, request); }

uint first; // the row of member 0

uvec4 member_words(uint m) {
    const uint row = first + m;
    return uvec4(PAIR(gate, row * pc.gate_row_stride), PAIR(k, row * pc.k_row_stride));
}

void main() {
    count_dropped_requests();
    const uint lane = gl_LocalInvocationID.x % lanes_per_item;
    const uint row = group_index() * items_per_group + gl_LocalInvocationID.x / lanes_per_item;
    if (row >= pc.pooled_rows || pc.requests == 0u || row >= AT(pool_row_offsets, pc.requests)) {
        return;
    }
    const uint r = find_owner(row);
    const uint start = AT(pool_row_offsets, r);
    Request request;
    if (judge_request(r, request) != ACCEPTED || row < start || row - start >= count_new_pools(request)) {
        if (lane == 0u) {
            atomicAdd(AT(status, 8u), 1u);
        }
        return;
    }
    const uint align = (kpool - request.cached % kpool) % kpool;
    first = request.first + align + (row - start) * kpool;
    for (uint pair = lane; pair < row_pairs; pair += lanes_per_item) {
        set_pair(pair);
        const uvec2 key = pooled_key();
        STORE_PAIR(pooled, row * pc.pooled_row_stride, key);
    }
}
