#version 450
#extension GL_GOOGLE_include_directive : require

// pool_row_offsets: the exclusive prefix sum of the whole pools each request brings. check_slots: counts requests whose
// slot an earlier one has. One module, since both walk over all requests in one workgroup; the constant `operation`
// says which one a pipeline is. A lane takes a run of neighbouring requests, so one scan over the lanes serves any
// number of requests.

#include "common.glsl"

const bool checks_slots = operation == KPOOL_CHECK_SLOTS;
const uint passes = checks_slots ? 1u : 2u;

INPUT(uint, input_row_offsets)
INPUT(uint, cache_lengths)
INPUT(uint, slot_idx)
OUTPUT(uint, pool_row_offsets)
OUTPUT(uint, scratch)
OUTPUT(uint, status)

#include "request.glsl"
#include "scan.glsl"

// scratch has a bit for each slot. All accesses are atomic, so each lane sees what the others have done.
void clear_slots() {
    // There is at least one slot. At most 2^27 words: nothing wraps.
    for (uint word = gl_LocalInvocationID.x; word <= (pc.max_slots - 1u) / 32u; word += local_size) {
        atomicAnd(AT(scratch, word), 0u);
    }
    memoryBarrierBuffer();
    barrier();
}

// Of those that share a slot all but one, whichever comes first, find it taken.
void take_slot(uint slot) {
    const uint bit = 1u << slot % 32u;
    if ((atomicOr(AT(scratch, slot / 32u), bit) & bit) != 0u) {
        atomicAdd(AT(status, 4u), 1u);
    }
}

void main() {
    const uint lane = gl_LocalInvocationID.x;
    // Fewer than 2^31 requests, so neither the sum nor the product wraps.
    const uint run = (pc.requests + local_size - 1u) / local_size;
    const uint begin = min(lane * run, pc.requests);
    const uint end = min(begin + run, pc.requests);

    if (checks_slots) {
        clear_slots();
    }
    // Twice over the run: first its sum, then, when the scan has said where it starts, its entries.
    uint total;
    uint offset = 0u;
    for (uint pass = 0u; pass < passes; pass++) {
        for (uint r = begin; r < end; r++) {
            const uint slot = checks_slots ? AT(slot_idx, r) : 0u;
            Request request;
            const uint verdict = read_request(r, slot, checks_slots ? pc.max_slots : 1u, request);
            if (pass == 0u) {
                count_dropped(verdict);
            } else {
                AT(pool_row_offsets, r) = offset;
            }
            if (verdict == ACCEPTED) {
                if (checks_slots) {
                    take_slot(slot);
                } else {
                    offset = add_saturating(offset, count_new_pools(request));
                }
            }
        }
        if (!checks_slots && pass == 0u) {
            offset = scan_exclusive(offset, total);
        }
    }
    if (!checks_slots && lane == 0u) {
        AT(pool_row_offsets, pc.requests) = total;
    }
}
