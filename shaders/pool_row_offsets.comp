#version 450
#extension GL_GOOGLE_include_directive : require

// pool_row_offsets: the exclusive prefix sum of the whole pools each request brings, in one workgroup. A lane takes
// a run of neighbouring requests, so one scan over the lanes serves any number of requests.

#include "common.glsl"

INPUT(uint, input_row_offsets)
INPUT(uint, cache_lengths)
OUTPUT(uint, pool_row_offsets)
OUTPUT(uint, status)

#include "request.glsl"
#include "scan.glsl"

void main() {
    const uint lane = gl_LocalInvocationID.x;
    // Fewer than 2^31 requests, so neither the sum nor the product wraps.
    const uint run = (pc.requests + local_size - 1u) / local_size;
    const uint begin = min(lane * run, pc.requests);
    const uint end = min(begin + run, pc.requests);

    // Twice over the run: first its sum, then, when the scan has said where it starts, its entries.
    uint total;
    uint offset = 0u;
    for (uint pass = 0u; pass < 2u; pass++) {
        for (uint r = begin; r < end; r++) {
            Request request;
            const uint verdict = read_request(r, 0u, 1u, request);
            if (pass == 0u) {
                count_dropped(verdict);
            } else {
                AT(pool_row_offsets, r) = offset;
            }
            if (verdict == ACCEPTED) {
                offset = add_saturating(offset, count_new_pools(request));
            }
        }
        if (pass == 0u) {
            offset = scan_exclusive(offset, total);
        }
    }
    if (lane == 0u) {
        AT(pool_row_offsets, pc.requests) = total;
    }
}
