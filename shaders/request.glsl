// One request of the call, read and judged: the order of the tests is the contract's (section 9).

#define ACCEPTED 0xffffffffu
#define EMPTY 0xfffffffeu

struct Request {
    uint first;  // its first row
    uint tokens; // n
    uint cached; // L
    uint slot;
};

// ACCEPTED, EMPTY, or the index of status that counts the cause. Only an accepted request may be used to
// address anything. The four loads do not wait for one another.
uint read_request(uint r, out Request request) {
    const uint first = AT(input_row_offsets, r);
    const uint last = AT(input_row_offsets, r + 1u);
    request.first = first;
    request.tokens = last - first;
    request.cached = AT(cache_lengths, r);
    request.slot = AT(slot_idx, r);
    if (last == first) {
        return EMPTY;
    }
    if (last < first) {
        return 0u;
    }
    if (last > pc.rows) {
        return 1u;
    }
    if (request.slot >= pc.max_slots) {
        return 2u;
    }
    // L + n > 2^32 - 1, asked without the sum that could wrap.
    if (request.tokens > 0xffffffffu - request.cached) {
        return 3u;
    }
    return ACCEPTED;
}
