#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

// ring_close: the key of each request's pending pool, where this call brings the tokens it lacks.
// lanes_per_item invocations share a request; items_per_group requests share a workgroup.

#include "common.glsl"

INPUT(uint, tail)
INPUT(uint, k)
INPUT(uint, gate)
INPUT(uint, input_row_offsets)
INPUT(uint, cache_lengths)
INPUT(uint, slot_idx)
INPUT(uint, ape)
OUTPUT(uint, closed_pool)
OUTPUT(uint, closed_pooled)
OUTPUT(uint, status)

#include "request.glsl"
#include "pooled_key.glsl"

// The pool being closed: `pending` members in the ring from position `begin` of the request, the rest from row
// `first` on.
uint pending;
uint begin;
uint first;
uint slot_word;

uvec4 member_words(uint m) {
    if (m < pending) {
        const uint row = slot_word + ((begin + m) % ring) * pc.tail_row_stride;
        return uvec4(PAIR(tail, row + pc.tail_plane_stride), PAIR(tail, row));
    }
    const uint row = first + (m - pending);
    return uvec4(PAIR(gate, row * pc.gate_row_stride), PAIR(k, row * pc.k_row_stride));
}

void main() {
    const uint lane = gl_LocalInvocationID.x % lanes_per_item;
    const uint r = group_index() * items_per_group + gl_LocalInvocationID.x / lanes_per_item;
    if (r >= pc.requests) {
        return;
    }
    const uint slot = AT(slot_idx, r);
    Request request;
    const uint verdict = read_request(r, slot, pc.max_slots, request);
    pending = request.cached % kpool;
    const bool closes = verdict == ACCEPTED && pending != 0u && request.tokens >= kpool - pending;
    if (lane == 0u) {
        count_dropped(verdict);
        AT(closed_pool, r) = closes ? request.cached / kpool : 0xffffffffu;
    }
    if (!closes) {
        return;
    }
    begin = request.cached - pending;
    first = request.first;
    slot_word = slot * pc.tail_slot_stride;
    for (uint pair = lane; pair < row_pairs; pair += lanes_per_item) {
        set_pair(pair);
        const uvec2 key = pooled_key();
        STORE_PAIR(closed_pooled, r * pc.closed_pooled_row_stride, key);
    }
}
