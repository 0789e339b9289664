#version 450
#extension GL_GOOGLE_include_directive : require

// expand_topk: pool ids into token positions, one workgroup a row.

#include "common.glsl"

INPUT(uint, input_row_offsets)
INPUT(uint, cache_lengths)
INPUT(uint, pool_ids)
OUTPUT(uint, out)
OUTPUT(uint, status)

#include "request.glsl"
#include "owner.glsl"
#include "scan.glsl"

DEFINE_FIND_OWNER(input_row_offsets)

const uint UNUSED = 0xffffffffu; // -1
const uint tail_width = with_tail != 0u ? kpool - 1u : 0u;
const uint row_width = topk * kpool + tail_width;

// As read_request, with the limit of this operation: positions are i32.
uint judge_request(uint r, out Request request) {
    const uint verdict = read_request(r, 0u, 1u, request);
    return verdict == ACCEPTED && request_end(request) > 0x7fffffffu ? 3u : verdict;
}

// How many tokens the row sees: 0 for rows of no request or of a dropped one. A row before its owner's first wraps to
// beyond its last.
uint visible_tokens(uint row) {
    uint visible = 0u;
    if (pc.requests != 0u) {
        const uint r = find_owner(row);
        Request request;
        if (judge_request(r, request) == ACCEPTED && row - request.first < request.tokens) {
            visible = request.cached + (row - request.first) + 1u;
        }
    }
    return visible;
}

// The first position of the pool that the row's id j names, or UNUSED. Counts an id that is no complete pool.
uint read_pool(uint row, uint j, uint complete, bool counts) {
    const uint id = AT(pool_ids, row * topk + j);
    if (counts && id >= complete && id < 0x80000000u) {
        atomicAdd(AT(status, 5u), 1u);
    }
    return id < complete ? id * kpool : UNUSED;
}

void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint row = group_index();
    count_dropped_requests();
    if (row >= pc.rows) {
        return;
    }
    // Rows of no request have no complete pool, and their ids are not counted.
    const uint visible = visible_tokens(row);
    const uint complete = visible / kpool;
    const uint start = row * row_width;
    const bool compact = topk_layout != 0u;
    uint used = compact ? 0u : topk * kpool; // where the tail positions begin

    for (uint first = 0u; first < topk; first += local_size) {
        const uint j = first + lane;
        const uint base = j < topk ? read_pool(row, j, complete, visible != 0u) : UNUSED;
        uint column = j * kpool;
        if (compact) {
            uint total;
            column = used + scan_exclusive(base == UNUSED ? 0u : 1u, total) * kpool;
            used += total * kpool;
        }
        if (j < topk && (!compact || base != UNUSED)) {
            for (uint member = 0u; member < kpool; member++) {
                AT(out, start + column + member) = base == UNUSED ? UNUSED : base + member;
            }
        }
    }
    const uint tail_count = with_tail != 0u ? visible % kpool : 0u;
    for (uint column = used + lane; column < row_width; column += local_size) {
        const uint member = column - used;
        AT(out, start + column) = member < tail_count ? complete * kpool + member : UNUSED;
    }
}
