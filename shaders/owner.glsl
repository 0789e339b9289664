// For kernels whose work is a row: which request the row belongs to, and counting dropped requests, which no row
// leads to.

// The kernel's own read_request.
uint judge_request(uint r, out Request request);

// The last r < requests with table[r] <= row, where there is one; 0 otherwise. In a table that descends somewhere
// it is still some r < requests; the caller checks that the row is really in it. table is a tensor's name.
#define DEFINE_FIND_OWNER(table)                         \
    uint find_owner(uint row) {                          \
        uint low = 0u;                                   \
        uint high = pc.requests;                         \
        while (high - low > 1u) {                        \
            const uint middle = low + (high - low) / 2u; \
            if (AT(table, middle) <= row) {              \
                low = middle;                            \
            } else {                                     \
                high = middle;                           \
            }                                            \
        }                                                \
        return low;                                      \
    }

// The first workgroups also judge the requests, one an invocation. Fewer than 2^31 requests: nothing wraps.
void count_dropped_requests() {
    if (group_index() < (pc.requests + local_size - 1u) / local_size) {
        const uint r = group_index() * local_size + gl_LocalInvocationID.x;
        Request request;
        if (r < pc.requests) {
            count_dropped(judge_request(r, request));
        }
    }
}
