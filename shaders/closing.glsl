// A pool about to become a key, in the ring and in this call's rows, and whether a request's pending pool is one.
// The kernel declares tail, k, gate, cache_lengths, slot_idx, closed_pool and status, and includes pooled_key.glsl.

// The key that this item makes, if any: pool `pool` of request `owner`. Its members are `pending` ones in the ring from
// position `begin` of the request on, then rows from `first` on.
bool makes_key = false;
bool closes = false;
uint owner;
uint pool;
uint pending = 0u;
uint begin;
uint first;
uint slot_word;

uint ring_word(uint position) { return slot_word + (position % ring) * pc.tail_row_stride; }

uvec4 member_words(uint m) {
    uvec4 words;
    // The first is pending wherever rings are closed and nothing else is done, the last never.
    if (closes_rings && m + 1u < kpool && (m < pending || m == 0u && !compresses)) {
        const uint row = ring_word(begin + m);
        READ_PAIRS(words, tail, row + pc.tail_plane_stride, tail, row)
    } else {
        const uint row = first + (m - pending);
        READ_PAIRS(words, gate, row * pc.gate_row_stride, k, row * pc.k_row_stride)
    }
    return words;
}

// What request r closes, read as `request` with the verdict `verdict`.
void find_pending(uint r, uint slot, Request request, uint verdict, uint lane) {
    pending = request.cached % kpool;
    closes = verdict == ACCEPTED && pending != 0u && request.tokens >= kpool - pending;
    makes_key = closes;
    owner = r;
    pool = request.cached / kpool;
    begin = request.cached - pending;
    first = request.first;
    slot_word = slot * pc.tail_slot_stride;
    if (lane == 0u) {
        count_dropped(verdict);
        AT(closed_pool, r) = closes ? pool : 0xffffffffu;
    }
}
