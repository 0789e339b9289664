/* The batcher, over many traces and sizes: every token of every request once and in order, forks and preemptions
 * included, and no more of anything than there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batcher.h"

enum { MOST_REQUESTS = 300, MOST_SLOTS = 40, NO_SLOT = 1000 };

/* What the steps so far amount to, kept apart from the batcher's own account. Twins are numbered as batcher.h says. */
typedef struct Account {
    const Trace *trace;
    BatcherOptions options;
    uint32_t done[2 * MOST_REQUESTS];
    uint32_t known[2 * MOST_REQUESTS]; /* where it was forked off, or what it had when it began again */
    uint32_t slot_of[2 * MOST_REQUESTS];
    bool exists[2 * MOST_REQUESTS]; /* it has begun, or was forked off */
    uint32_t owner_of[MOST_SLOTS];  /* NO_REQUEST: free; one that was preempted stays until the slot is taken */
    uint32_t forks;
    uint32_t restarts;
    uint32_t moves; /* restarts in another slot */
    uint32_t steps;
    uint64_t rows;
    uint32_t waits[2 * MOST_REQUESTS]; /* steps since the request was served */
    uint32_t longest_wait;
    bool empty_between; /* an empty request was followed by one that is not */
    uint64_t order;     /* of the requests in the last batch, as a hash */
    uint32_t orders;    /* how often it changed from one step to the next */
} Account;

static uint32_t total(const Account *account, uint32_t request)
{
    const TraceRequest *found = &account->trace->requests[request % account->trace->count];
    return found->context_tokens + found->generated_tokens;
}

/* The slot was free, or its owner has had to leave it: then every slot is in use, or was. */
static void occupy(Account *account, uint32_t request, uint32_t slot)
{
    assert_true(slot < account->options.slots);
    assert_true(account->owner_of[slot] == NO_REQUEST || account->options.preempt != 0);
    account->owner_of[slot] = request;
    account->slot_of[request] = slot;
}

static void begin(Account *account, uint32_t request, uint32_t slot)
{
    if (account->exists[request]) {
        /* Again, after a preemption; and it had got on since the last. */
        assert_true(account->options.preempt != 0);
        assert_true(account->done[request] > account->known[request]);
        account->restarts++;
        account->moves += slot != account->slot_of[request] ? 1 : 0;
        account->known[request] = account->done[request];
        account->done[request] = 0;
    } else {
        assert_true(request < account->trace->count);
        account->exists[request] = true;
    }
    if (account->owner_of[account->slot_of[request]] == request) {
        account->owner_of[account->slot_of[request]] = NO_REQUEST;
    }
    occupy(account, request, slot);
}

static void take_fork(Account *account, Sequence twin, const uint32_t pair[2])
{
    const uint32_t parent = twin.parent;
    assert_true(parent < account->trace->count);
    assert_int_equal(twin.request, account->trace->count + parent);
    assert_int_equal(parent % account->options.fork, account->options.fork - 1);
    assert_false(account->exists[twin.request]);
    assert_true(account->exists[parent]);
    assert_int_equal(account->owner_of[pair[0]], parent);
    assert_int_equal(twin.forked_at, account->done[parent]);
    assert_true(twin.forked_at % account->options.kpool != 0);
    assert_true(twin.forked_at < total(account, parent));
    assert_int_not_equal(pair[0], pair[1]);
    account->exists[twin.request] = true;
    account->done[twin.request] = account->known[twin.request] = twin.forked_at;
    account->forks++;
    occupy(account, twin.request, pair[1]);
}

static void take(Account *account, Sequence sequence, uint32_t cache_length, uint32_t slot, uint32_t tokens,
                 bool is_full)
{
    const uint32_t request = sequence.request;
    assert_true(request < 2 * account->trace->count);
    assert_int_equal(sequence.parent, request % account->trace->count);
    if (cache_length == 0) {
        begin(account, request, slot);
    }
    const uint32_t done = account->done[request];
    assert_true(account->exists[request]);
    assert_int_equal(cache_length, done);
    assert_int_equal(account->owner_of[slot], request);
    assert_int_equal(account->slot_of[request], slot);
    assert_true(tokens <= total(account, request) - done);
    /* All that is left of the prompt, or of what was there before, or as much as fits; or one generated token. */
    const uint32_t context = account->trace->requests[request % account->trace->count].context_tokens;
    const uint32_t prompt = context > account->known[request] ? context : account->known[request];
    assert_true(done < prompt ? tokens == prompt - done || (tokens < prompt - done && is_full) : tokens == 1);
    account->done[request] = done + tokens;
    account->waits[request] = 0;
}

static void account_step(Account *account, const Batch *batch)
{
    uint32_t served[2 * MOST_REQUESTS] = {0};
    uint64_t order = 0;
    bool empty_before = false;
    const bool is_full = batch->rows == account->options.batch_tokens;
    assert_int_equal(batch->capacity, batcher_capacity(account->options.slots));
    assert_int_equal(batch->input_row_offsets[0], 0);
    assert_int_equal(batch->input_row_offsets[batch->capacity], batch->rows);
    assert_true(batch->rows > 0 && batch->rows <= account->options.batch_tokens);
    for (uint32_t i = 0; i < BATCHER_MOST_FORKS; i++) {
        if (i < batch->forks) {
            take_fork(account, batch->twins[i], batch->pairs[i]);
        } else {
            assert_int_equal(batch->pairs[i][0], batch->pairs[i][1]);
        }
    }
    for (uint32_t r = 0; r < batch->capacity; r++) {
        assert_true(batch->input_row_offsets[r + 1] >= batch->input_row_offsets[r]);
        const uint32_t tokens = batch->input_row_offsets[r + 1] - batch->input_row_offsets[r];
        assert_int_equal(tokens == 0, batch->sequence[r].request == NO_REQUEST);
        if (tokens == 0) {
            empty_before = true;
            continue;
        }
        const uint32_t request = batch->sequence[r].request;
        take(account, batch->sequence[r], batch->cache_lengths[r], batch->slot_idx[r], tokens, is_full);
        assert_int_equal(served[request]++, 0);
        account->empty_between = account->empty_between || empty_before;
        order = hash64(order + request);
    }
    assert_true(empty_before);
    account->steps++;
    account->rows += batch->rows;
    account->orders += order != account->order ? 1 : 0;
    account->order = order;
    for (uint32_t slot = 0; slot < account->options.slots; slot++) {
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

static Account *replay(const Trace *trace, const BatcherOptions *options)
{
    Account *account = calloc(1, sizeof *account);
    assert_non_null(account);
    *account = (Account){.trace = trace, .options = *options};
    for (uint32_t slot = 0; slot < options->slots; slot++) {
        account->owner_of[slot] = NO_REQUEST;
    }
    Batcher batcher;
    assert_true(batcher_create(&batcher, trace, options));
    while (batcher_next(&batcher)) {
        account_step(account, &batcher.batch);
    }
    assert_false(batcher_next(&batcher));
    assert_int_equal(batcher.finished, trace->count);
    assert_int_equal(batcher.forks, account->forks);
    assert_int_equal(batcher.preemptions, account->restarts);
    assert_int_equal(batcher.planned, account->rows);
    for (uint32_t request = 0; request < 2 * trace->count; request++) {
        const bool must = request < trace->count || account->exists[request];
        assert_int_equal(account->done[request], must ? total(account, request) : 0);
        assert_int_equal(batcher_length(trace, request), total(account, request));
    }
    batcher_destroy(&batcher);
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
    static const struct {
        uint32_t kpool, fork, preempt;
    } kinds[] = {{4, 0, 0}, {4, 1, 0}, {3, 3, 0}, {4, 0, 1}, {4, 0, 7}, {4, 1, 1}, {5, 2, 5}, {1, 1, 3}};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (uint64_t seed = 0; seed < 2; seed++) {
            Trace trace = make_trace(MOST_REQUESTS / 4, 60, seed);
            for (size_t s = 0; s < sizeof slots / sizeof slots[0]; s++) {
                for (size_t b = 0; b < sizeof budgets / sizeof budgets[0]; b++) {
                    const BatcherOptions options = {.slots = slots[s],
                                                    .batch_tokens = budgets[b],
                                                    .kpool = kinds[k].kpool,
                                                    .fork = kinds[k].fork,
                                                    .preempt = kinds[k].preempt,
                                                    .seed = seed};
                    Account *account = replay(&trace, &options);
                    const bool can_fork = options.fork != 0 && options.kpool > 1 && options.slots > 1;
                    assert_true(can_fork ? account->forks > 0 : account->forks == 0);
                    assert_true(options.preempt != 0 ? account->restarts > 0 : account->restarts == 0);
                    assert_true(options.preempt == 0 || account->restarts <= account->steps / options.preempt);
                    free(account);
                }
            }
            trace_destroy(&trace);
        }
    }
}

/* The slot that a preempted request gives up goes to one that waits, and it comes back elsewhere. */
static void a_preempted_request_makes_room(void **state)
{
    (void)state;
    TraceRequest requests[40];
    for (uint32_t i = 0; i < 40; i++) {
        requests[i] = (TraceRequest){20, 50};
    }
    const Trace trace = {requests, 40};
    const BatcherOptions options = {.slots = 4, .batch_tokens = 64, .kpool = 4, .preempt = 3, .seed = 1};
    Account *account = replay(&trace, &options);
    assert_true(account->restarts > 100);
    assert_true(account->moves > account->restarts / 2);
    free(account);
}

/* Alone it comes back at once, and still every step gets on. */
static void one_request_survives_preemption_every_step(void **state)
{
    (void)state;
    TraceRequest request = {7, 9};
    const Trace trace = {&request, 1};
    const BatcherOptions options = {.slots = 1, .batch_tokens = 4, .kpool = 4, .preempt = 1, .seed = 1};
    Account *account = replay(&trace, &options);
    assert_true(account->restarts > 3);
    free(account);
}

/* With a slot for each, every request of more than a pool forks, and at most BATCHER_MOST_FORKS in one step. */
static void every_request_forks(void **state)
{
    (void)state;
    TraceRequest requests[20];
    for (uint32_t i = 0; i < 20; i++) {
        requests[i] = (TraceRequest){4 + i % 4, 9};
    }
    const Trace trace = {requests, 20};
    BatcherOptions options = {.slots = MOST_SLOTS, .batch_tokens = 1000, .kpool = 4, .fork = 1, .seed = 1};
    Account *account = replay(&trace, &options);
    assert_int_equal(account->forks, 20);
    free(account);
    options.fork = 7;
    account = replay(&trace, &options);
    assert_int_equal(account->forks, 2);
    assert_true(account->exists[20 + 6] && account->exists[20 + 13]);
    free(account);
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
    Account *account = replay(&trace, &(BatcherOptions){.slots = 8, .batch_tokens = 64, .kpool = 4, .seed = 1});
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
    Account *account = replay(&trace, &(BatcherOptions){.slots = 30, .batch_tokens = 7, .kpool = 4, .seed = 1});
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
    Account *account = replay(&trace, &(BatcherOptions){.slots = 4, .batch_tokens = 2048, .kpool = 4, .seed = 1});
    assert_int_equal(account->steps, 1 + 9);
    free(account);
    account = replay(&trace, &(BatcherOptions){.slots = 4, .batch_tokens = 30, .kpool = 4, .seed = 1});
    assert_int_equal(account->steps, 4 + 9);
    free(account);
}

static void requests_without_tokens_need_no_step(void **state)
{
    (void)state;
    TraceRequest requests[3] = {{0, 0}, {0, 0}, {0, 0}};
    const Trace trace = {requests, 3};
    Account *account = replay(&trace, &(BatcherOptions){.slots = 1, .batch_tokens = 1, .kpool = 4, .seed = 1});
    assert_int_equal(account->steps, 0);
    free(account);
}

/* Slots are reused at once as well as late, as the seed says, and the seed decides alone. */
static void the_seed_decides(void **state)
{
    (void)state;
    Trace trace = make_trace(MOST_REQUESTS, 60, 2);
    Account *first = replay(&trace, &(BatcherOptions){.slots = 8, .batch_tokens = 64, .kpool = 4, .seed = 5});
    Account *again = replay(&trace, &(BatcherOptions){.slots = 8, .batch_tokens = 64, .kpool = 4, .seed = 5});
    Account *other = replay(&trace, &(BatcherOptions){.slots = 8, .batch_tokens = 64, .kpool = 4, .seed = 6});
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
        cmocka_unit_test(a_preempted_request_makes_room),
        cmocka_unit_test(one_request_survives_preemption_every_step),
        cmocka_unit_test(every_request_forks),
        cmocka_unit_test(a_batch_is_reordered_and_has_empty_requests),
        cmocka_unit_test(a_small_budget_goes_round),
        cmocka_unit_test(generated_tokens_come_one_a_step),
        cmocka_unit_test(requests_without_tokens_need_no_step),
        cmocka_unit_test(the_seed_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
