#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

// compress and step, and in the floor layout ring_close: they are one module, since each holds the whole of
// pooled_key.glsl; the constant `operation` says which one a pipeline is, and the driver drops the rest.
//
// lanes_per_item invocations share an item; items_per_group items share a workgroup. An item is a request
// (ring_close), rows_per_item rows of pooled (compress), or, in step, the one in the first workgroups and the other in
// the rest, and where rows_per_item exceeds 1 both: no workgroup waits for another.

#define MOVES_16
#include "common.glsl"

const bool closes_rings = operation == KPOOL_RING_CLOSE || operation == KPOOL_STEP;
const bool compresses = operation == KPOOL_COMPRESS || operation == KPOOL_STEP;
const bool seeds = operation == KPOOL_STEP;
const bool pages_keys = operation == KPOOL_STEP && page_size != 0u;

OUTPUT_ROWS(tail)
INPUT_ROWS(k)
INPUT_ROWS(gate)
INPUT(uint, input_row_offsets)
INPUT(uint, cache_lengths)
INPUT(uint, slot_idx)
INPUT(uint, ape)
INPUT(uint, pool_row_offsets)
INPUT(uint, block_table)
OUTPUT(uint, closed_pool)
OUTPUT(uint, closed_pooled)
OUTPUT(uint, pooled)
OUTPUT(uint, status)

#include "request.glsl"
#include "owner.glsl"
#include "pooled_key.glsl"

DEFINE_FIND_OWNER(pool_row_offsets)

uint judge_request(uint r, out Request request) { return read_request(r, 0u, 1u, request); }

#include "closing.glsl"

// An item's lanes take runs of pairs in turn, again and again: of one pair, or, where the kernel's alignment allows it
// and each lane then has one, of the pairs in 16 bytes.
const uint pairs_in_16 = f32_in ? 2u : 4u;
const uint run = alignment == 16u ? (lanes_per_item * pairs_in_16 <= row_pairs ? pairs_in_16 : 1u) : 1u;
const uint runs = row_pairs / run;
const uint rounds = (runs + lanes_per_item - 1u) / lanes_per_item;

// The lane's pair number i.
uint lane_pair(uint i, uint lane) { return (i / run * lanes_per_item + lane) * run + i % run; }

// The row of closed_pooled (a pool that closes) or of pooled, or, once found, of the paged cache.
uint target;

// Whether the block table has a place for the key, which becomes its target. Both indices are checked.
bool find_page_row() {
    const uint column = pool / page_size;
    if (column >= pc.max_pages) {
        return false;
    }
    const uint page = AT(block_table, owner * pc.max_pages + column);
    // Below pages * page_size where it is used, and all elements of the cache lie below 2^31.
    target = page * page_size + pool % page_size;
    return page < pc.pages;
}

void make_key(uint lane) {
    const bool placed = !pages_keys || find_page_row();
    if (!placed && lane == 0u) {
        atomicAdd(AT(status, 6u), 1u);
    }
    uint i = 0u;
    uint pair = lane_pair(i, lane);
    if (placed && pair < row_pairs) {
        do {
            set_pair(pair);
            const uvec2 key = pooled_key();
            if (closes && !pages_keys) {
                STORE_PAIR(closed_pooled, target * pc.closed_pooled_row_stride, key)
            } else {
                STORE_PAIR(pooled, target * pc.pooled_row_stride, key)
            }
            i++;
            pair = lane_pair(i, lane);
        } while (lanes_per_item < row_pairs && pair < row_pairs);
    }
}

// seed_tail's move, of the runs that this very lane has read in the ring: no lane waits for another.
void seed_request(Seed seed, uint lane) {
    // Below 2^12 rows of at most 2^9 pairs.
    const uint moves = seed.count * rounds;
    uint i = 0u;
    if (i < moves) {
        do {
            const uint member = i / rounds;
            const uint lane_run = i % rounds * lanes_per_item + lane;
            if (lane_run < runs) {
                const uint to = ring_word(seed.begin + member);
                const uint row = seed.row + member;
                if (run > 1u) {
                    // No quotient is cut off: with an alignment of 16, bases and strides are multiples of 4 words.
                    const uint to_16 = to / 4u + lane_run;
                    const uint gate_16 = row * pc.gate_row_stride / 4u + lane_run;
                    AT_16(tail, to_16) = AT_16(k, row * pc.k_row_stride / 4u + lane_run);
                    AT_16(tail, to_16 + pc.tail_plane_stride / 4u) = AT_16(gate, gate_16);
                } else {
                    set_pair(lane_run);
                    uvec4 words;
                    READ_PAIRS(words, gate, row * pc.gate_row_stride, k, row * pc.k_row_stride)
                    AT(tail, to + pair_words.x) = words.z;
                    AT(tail, to + pc.tail_plane_stride + pair_words.x) = words.x;
                    if (f32_in) {
                        AT(tail, to + pair_words.y) = words.w;
                        AT(tail, to + pc.tail_plane_stride + pair_words.y) = words.y;
                    }
                }
            }
            i++;
        } while (i < moves);
    }
}

// Row `row` of pooled, whose owner has been read as `request` with the verdict `verdict` and begins at row `start`.
void find_row(uint row, uint start, Request request, uint verdict, uint lane) {
    makes_key = verdict == ACCEPTED && row >= start && row - start < count_new_pools(request);
    closes = false;
    pending = 0u;
    if (!makes_key && lane == 0u) {
        atomicAdd(AT(status, 8u), 1u);
    }
    // Of use only where a key is made: then a complete pool ends within the request, and pool * kpool does not wrap.
    pool = first_new_pool(request) + (row - start);
    first = request.first + (pool * kpool - request.cached);
    target = row;
}

// The rows that there are to make. Without requests there is none, whatever the offsets hold.
uint rows_end() { return pc.requests == 0u ? 0u : min(pc.pooled_rows, AT(pool_row_offsets, pc.requests)); }

void main() {
    const uint lane = item_lane();
    const uint item = item_index();
    // Requests take whole workgroups, so that rows begin at one of their own. Where an item makes several rows, as on a
    // CPU, items have a request and rows: those whose only work is to find none would cost as much as others.
    const uint closing_items =
        closes_rings ? (pc.requests + items_per_group - 1u) / items_per_group * items_per_group : 0u;
    // An item's rows lie this far apart, so that items with nothing to do are the last ones. Nothing wraps: all stay
    // below 2^31, and row below twice that.
    const uint apart = (pc.pooled_rows + rows_per_item - 1u) / rows_per_item;
    uint row = rows_per_item > 1u ? item : item - closing_items;
    const uint end = compresses && row < apart ? rows_end() : 0u;
    bool is_request = closes_rings && item < pc.requests;
    bool seeding = false;
    Seed seed;
    if (!closes_rings) {
        count_dropped_requests();
    }
    do {
        const bool is_row = !is_request && row < end;
        if (is_request || is_row) {
            owner = item;
            uint slot = 0u;
            uint start;
            if (is_request) {
                slot = AT(slot_idx, item);
            } else {
                owner = find_owner(row);
                start = AT(pool_row_offsets, owner);
            }
            Request request;
            const uint verdict = read_request(owner, slot, is_request ? pc.max_slots : 1u, request);
            if (is_request) {
                find_pending(item, slot, request, verdict, lane);
                target = item;
                seeding = verdict == ACCEPTED;
                seed = find_seed(request);
            } else {
                find_row(row, start, request, verdict, lane);
            }
        }
        if (makes_key) {
            make_key(lane);
        }
        row += is_row ? apart : 0u;
        is_request = false;
        makes_key = false;
    } while (rows_per_item > 1u && row < end);
    if (seeds && seeding) {
        seed_request(seed, lane);
    }
}
