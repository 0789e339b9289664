// One request of the call, read and judged: the order of the tests is the contract's (section 9).

#define ACCEPTED 0xffffffffu
#define EMPTY 0xfffffffeu

struct Request {
    uint first;  // its first row
    uint tokens; // n
    uint cached; // L
};

// Of a request with the rows [first, last): ACCEPTED, EMPTY, or the index of status that counts the cause. Only an
// accepted one may be used to address anything. slot is checked against slots; a kernel that uses none passes 0 and 1.
uint judge(uint first, uint last, uint cached, uint slot, uint slots, out Request request) {
    request.first = first;
    request.tokens = last - first;
    request.cached = cached;
    // From the last test to the first, so that the first that applies stands; selections make smaller modules than
    // branches. L + n > 2^32 - 1 is asked without the sum that could wrap.
    uint verdict = request.tokens > 0xffffffffu - request.cached ? 3u : ACCEPTED;
    verdict = slot >= slots ? 2u : verdict;
    verdict = last > pc.rows ? 1u : verdict;
    verdict = last < first ? 0u : verdict;
    return last == first ? EMPTY : verdict;
}

// Reads request r and judges it.
uint read_request(uint r, uint slot, uint slots, out Request request) {
    const uint first = AT(input_row_offsets, r);
    return judge(first, AT(input_row_offsets, r + 1u), AT(cache_lengths, r), slot, slots, request);
}

// Adds a request that was dropped to its count; one invocation of each request calls it.
void count_dropped(uint verdict) {
    if (verdict != ACCEPTED && verdict != EMPTY) {
        atomicAdd(AT(status, verdict), 1u);
    }
}

// L + n of an accepted request: at most 2^32 - 1.
uint request_end(Request request) { return request.cached + request.tokens; }

// The first pool whose members are all new, and how many such pools an accepted request has.
uint first_new_pool(Request request) { return request.cached / kpool + (request.cached % kpool != 0u ? 1u : 0u); }

uint count_new_pools(Request request) {
    const uint complete = request_end(request) / kpool;
    const uint first = first_new_pool(request);
    return complete > first ? complete - first : 0u;
}

// What seed_tail keeps of an accepted request: `count` members from position `begin` on, which stand in the rows from
// `row` on. count is below kpool + rollback.
struct Seed {
    uint begin;
    uint count;
    uint row;
};

Seed find_seed(Request request) {
    const uint end = request_end(request);
    const uint kept = end > rollback ? end - rollback : 0u;
    // Never below cached, nor beyond end.
    const uint begin = max(request.cached, kept - kept % kpool);
    return Seed(begin, end - begin, request.first + (begin - request.cached));
}
