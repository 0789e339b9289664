#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

// compress and step, and in the floor layout ring_close: they are one module, since each holds the whole of
// pooled_key.glsl; the constant `operation` says which one a pipeline is, and the driver drops the rest.
//
// lanes_per_item invocations share an item; items_per_group items share a workgroup. An item is a request
// (ring_close), rows_per_item rows of pooled (compress), or, in step, the one in the first workgroups and the other in
// the rest: no workgroup waits for another.

#include "common.glsl"

const bool closes_rings = operation == KPOOL_RING_CLOSE || operation == KPOOL_STEP;
const bool compresses = operation == KPOOL_COMPRESS || operation == KPOOL_STEP;
const bool seeds = operation == KPOOL_STEP;
const bool pages_keys = operation == KPOOL_STEP && page_size != 0u;

OUTPUT(uint, tail)
INPUT(uint, k)
INPUT(uint, gate)
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
    uint pair = lane;
    if (placed && pair < row_pairs) {
        do {
            set_pair(pair);
            const uvec2 key = pooled_key();
            if (closes && !pages_keys) {
                STORE_PAIR(closed_pooled, target * pc.closed_pooled_row_stride, key)
            } else {
                STORE_PAIR(pooled, target * pc.pooled_row_stride, key)
            }
            pair += lanes_per_item;
        } while (lanes_per_item < row_pairs && pair < row_pairs);
    }
}

// How often the lanes of an item go over a row.
const uint rounds = (row_pairs + lanes_per_item - 1u) / lanes_per_item;

// seed_tail's move, of the pairs that this very lane has read in the ring: no lane waits for another.
void seed_request(Request request, uint lane) {
    const Seed seed = find_seed(request);
    // Below 2^12 rows of at most 2^9 pairs.
    const uint moves = seed.count * rounds;
    uint i = 0u;
    if (i < moves) {
        do {
            const uint member = i / rounds;
            const uint pair = i % rounds * lanes_per_item + lane;
            if (pair < row_pairs) {
                set_pair(pair);
                const uint to = ring_word(seed.begin + member);
                const uint row = seed.row + member;
                uvec4 words;
                READ_PAIRS(words, gate, row * pc.gate_row_stride, k, row * pc.k_row_stride)
                AT(tail, to + pair_words.x) = words.z;
                AT(tail, to + pc.tail_plane_stride + pair_words.x) = words.x;
                if (f32_in) {
                    AT(tail, to + pair_words.y) = words.w;
                    AT(tail, to + pc.tail_plane_stride + pair_words.y) = words.y;
                }
            }
            i++;
        } while (i < moves);
    }
}

// Reads row `row` of pooled, below rows_end(): its owner, and whether it is one of its pools.
void read_row(uint row, uint lane) {
    owner = find_owner(row);
    const uint start = AT(pool_row_offsets, owner);
    Request request;
    makes_key = judge_request(owner, request) == ACCEPTED && row >= start && row - start < count_new_pools(request);
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
    // Requests take whole workgroups, so that rows begin at one of their own.
    const uint closing_items =
        closes_rings ? (pc.requests + items_per_group - 1u) / items_per_group * items_per_group : 0u;
    const bool is_request = closes_rings && (!compresses || item < closing_items);
    // An item's rows lie this far apart, so that items with nothing to do are the last ones. Nothing wraps: all stay
    // below 2^31, and row below twice that.
    const uint apart = (pc.pooled_rows + rows_per_item - 1u) / rows_per_item;
    uint row = item - closing_items;
    uint end = 0u;
    Request request;
    bool seeding = false;
    if (is_request) {
        seeding = read_closing(item, lane, request);
        target = item;
    } else if (row < apart) {
        end = rows_end();
    }
    if (!closes_rings) {
        count_dropped_requests();
    }
    do {
        if (row < end) {
            read_row(row, lane);
        }
        if (makes_key) {
            make_key(lane);
        }
        row += apart;
    } while (rows_per_item > 1u && row < end);
    if (seeds && seeding) {
        seed_request(request, lane);
    }
}
