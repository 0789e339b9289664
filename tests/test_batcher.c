/* The batcher, over many traces and sizes: every token of every request once and in order, and no more of anything
 * than there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batcher.h"

enum { MOST_REQUESTS = 300, MOST_SLOTS = 40, NO_SLOT = 1000 };

/* What the steps so far amount to, kept apart from the batcher's own account. */
typedef struct Account {
    const Trace *trace;
    uint32_t slots;
    uint32_t batch_tokens;
    uint32_t done[MOST_REQUESTS];
    uint32_t slot_of[MOST_REQUESTS];
    uint32_t owner_of[MOST_SLOTS]; /* NO_REQUEST: free */
    uint32_t started;              /* requests that have begun */
    uint32_t steps;
    uint32_t waits[MOST_REQUESTS]; /* steps since the request was served */
    uint32_t longest_wait;
    bool empty_between; /* an empty request was followed by one that is not */
    uint64_t order;     /* of the requests in the last batch, as a hash */
    uint32_t orders;    /* how often it changed from one step to the next */
} Account;

static uint32_t total(const Account *account, uint32_t request)
{
    return account->trace->requests[request].context_tokens + account->trace->requests[request].generated_tokens;
}

static void take(Account *account, uint32_t request, uint32_t cache_length, uint32_t slot, uint32_t tokens)
{
    assert_true(request < account->trace->count);
    assert_true(slot < account->slots);
    const uint32_t done = account->done[request];
    assert_int_equal(cache_length, done);
    if (done == 0) {
        assert_int_equal(account->owner_of[slot], NO_REQUEST);
        account->owner_of[slot] = request;
        account->slot_of[request] = slot;
        account->started++;
    }
    assert_int_equal(account->owner_of[slot], request);
    assert_int_equal(account->slot_of[request], slot);
    assert_true(tokens <= total(account, request) - done);
    /* A chunk of the prompt, or one generated token. */
    const uint32_t context = account->trace->requests[request].context_tokens;
    assert_true(done < context ? tokens <= context - done : tokens == 1);
    account->done[request] = done + tokens;
    account->waits[request] = 0;
}

static void account_step(Account *account, const Batch *batch)
{
    uint32_t served[MOST_REQUESTS] = {0};
    uint64_t order = 0;
    bool empty_before = false;
    assert_int_equal(batch->capacity, batcher_capacity(account->slots));
    assert_int_equal(batch->input_row_offsets[0], 0);
    assert_int_equal(batch->input_row_offsets[batch->capacity], batch->rows);
    assert_true(batch->rows > 0 && batch->rows <= account->batch_tokens);
    for (uint32_t r = 0; r < batch->capacity; r++) {
        assert_true(batch->input_row_offsets[r + 1] >= batch->input_row_offsets[r]);
        const uint32_t tokens = batch->input_row_offsets[r + 1] - batch->input_row_offsets[r];
        assert_int_equal(tokens == 0, batch->request[r] == NO_REQUEST);
        if (tokens == 0) {
            empty_before = true;
            continue;
        }
        take(account, batch->request[r], batch->cache_lengths[r], batch->slot_idx[r], tokens);
        assert_int_equal(served[batch->request[r]]++, 0);
        account->empty_between = account->empty_between || empty_before;
        order = hash64(order + batch->request[r]);
    }
    assert_true(empty_before);
    account->steps++;
    account->orders += order != account->order ? 1 : 0;
    account->order = order;
    for (uint32_t slot = 0; slot < account->slots; slot++) {
        const uint32_t request = account->owner_of[slot];
        if (request == NO_REQUEST) {
            continue;
        }
        account->waits[request] += served[request] == 0 ? 1 : 0;
        account->longest_wait =
            account->waits[request] > account->longest_wait ? account->waits[request] : account->longest_wait;
        if (account->done[request] == total(account, request)) {
            account->owner_of[slot] = NO_REQUEST;
        }
    }
}

static Account *replay(const Trace *trace, uint32_t slots, uint32_t batch_tokens, uint64_t seed)
{
    Account *account = calloc(1, sizeof *account);
    assert_non_null(account);
    *account = (Account){.trace = trace, .slots = slots, .batch_tokens = batch_tokens};
    for (uint32_t slot = 0; slot < slots; slot++) {
        account->owner_of[slot] = NO_REQUEST;
    }
    Batcher batcher;
    assert_true(batcher_create(&batcher, trace, slots, batch_tokens, seed));
    while (batcher_next(&batcher)) {
        account_step(account, &batcher.batch);
    }
    assert_false(batcher_next(&batcher));
    assert_int_equal(batcher.finished, trace->count);
    batcher_destroy(&batcher);
    for (uint32_t request = 0; request < trace->count; request++) {
        assert_int_equal(account->done[request], total(account, request));
    }
    return account;
}

static Trace make_trace(uint32_t count, uint32_t longest, uint64_t seed)
{
    Trace trace = {calloc(count, sizeof(TraceRequest)), count};
    assert_non_null(trace.requests);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t hash = hash64(seed * MOST_REQUESTS + i);
        trace.requests[i].context_tokens = hash % 7 == 0 ? 0 : (uint32_t)(hash >> 8) % longest;
        trace.requests[i].generated_tokens = hash % 5 == 0 ? 0 : (uint32_t)(hash >> 32) % (longest / 4 + 1);
    }
    return trace;
}

static void every_token_once_and_in_order(void **state)
{
    (void)state;
    static const uint32_t slots[] = {1, 2, 3, 8, MOST_SLOTS};
    static const uint32_t budgets[] = {1, 2, 5, 64, 100000};
    for (uint64_t seed = 0; seed < 4; seed++) {
        Trace trace = make_trace(MOST_REQUESTS, 60, seed);
        for (size_t s = 0; s < sizeof slots / sizeof slots[0]; s++) {
            for (size_t b = 0; b < sizeof budgets / sizeof budgets[0]; b++) {
                free(replay(&trace, slots[s], budgets[b], seed));
            }
        }
        trace_destroy(&trace);
    }
}

/* The same requests in every step, and hardly ever in the same order. */
static void a_batch_is_reordered_and_has_empty_requests(void **state)
{
    (void)state;
    TraceRequest requests[8];
    for (uint32_t i = 0; i < 8; i++) {
        requests[i] = (TraceRequest){0, 100};
    }
    const Trace trace = {requests, 8};
    Account *account = replay(&trace, 8, 64, 1);
    assert_int_equal(account->steps, 100);
    assert_true(account->orders > 90);
    assert_true(account->empty_between);
    free(account);
}

/* With more requests generating than a step has tokens, nobody waits longer than one round. */
static void a_small_budget_goes_round(void **state)
{
    (void)state;
    TraceRequest requests[30];
    for (uint32_t i = 0; i < 30; i++) {
        requests[i] = (TraceRequest){0, 50};
    }
    const Trace trace = {requests, 30};
    Account *account = replay(&trace, 30, 7, 1);
    assert_int_equal(account->longest_wait, (30 + 6) / 7 - 1);
    assert_int_equal(account->steps, (30 * 50 + 6) / 7);
    free(account);
}

/* The first step of a request that fits is its whole prompt, and then each generated token has a step. */
static void generated_tokens_come_one_a_step(void **state)
{
    (void)state;
    TraceRequest request = {100, 9};
    const Trace trace = {&request, 1};
    Account *account = replay(&trace, 4, 2048, 1);
    assert_int_equal(account->steps, 1 + 9);
    free(account);
    account = replay(&trace, 4, 30, 1);
    assert_int_equal(account->steps, 4 + 9);
    free(account);
}

static void requests_without_tokens_need_no_step(void **state)
{
    (void)state;
    TraceRequest requests[3] = {{0, 0}, {0, 0}, {0, 0}};
    const Trace trace = {requests, 3};
    Account *account = replay(&trace, 1, 1, 1);
    assert_int_equal(account->steps, 0);
    free(account);
}

/* Slots are reused at once as well as late, as the seed says, and the seed decides alone. */
static void the_seed_decides(void **state)
{
    (void)state;
    Trace trace = make_trace(MOST_REQUESTS, 60, 2);
    Account *first = replay(&trace, 8, 64, 5);
    Account *again = replay(&trace, 8, 64, 5);
    Account *other = replay(&trace, 8, 64, 6);
    assert_memory_equal(first->slot_of, again->slot_of, sizeof first->slot_of);
    assert_memory_not_equal(first->slot_of, other->slot_of, sizeof first->slot_of);
    free(first);
    free(again);
    free(other);
    trace_destroy(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_once_and_in_order),
        cmocka_unit_test(a_batch_is_reordered_and_has_empty_requests),
        cmocka_unit_test(a_small_budget_goes_round),
        cmocka_unit_test(generated_tokens_come_one_a_step),
        cmocka_unit_test(requests_without_tokens_need_no_step),
        cmocka_unit_test(the_seed_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
