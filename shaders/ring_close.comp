#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

// ring_close in the wide layout: the key of each request's pending pool, where this call brings the tokens it lacks. A
// module of its own, unlike in pools.comp, because here the ring is declared as what it is: only read.
//
// lanes_per_item invocations share a request; items_per_group requests share a workgroup.

#include "common.glsl"

const bool closes_rings = true;
const bool compresses = false;

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
#include "closing.glsl"

void main() {
    const uint lane = item_lane();
    const uint r = item_index();
    if (r < pc.requests) {
        const uint slot = AT(slot_idx, r);
        Request request;
        const uint verdict = read_request(r, slot, pc.max_slots, request);
        find_pending(r, slot, request, verdict, lane);
    }
    uint pair = lane;
    if (makes_key && pair < row_pairs) {
        do {
            set_pair(pair);
            const uvec2 key = pooled_key();
            STORE_PAIR(closed_pooled, r * pc.closed_pooled_row_stride, key)
            pair += lanes_per_item;
        } while (lanes_per_item < row_pairs && pair < row_pairs);
    }
}
