#include "batcher.h"

#include <stdlib.h>
#include <string.h>

/* Uniform enough in [0, bound). */
static uint32_t random_below(Batcher *batcher, uint32_t bound)
{
    return (uint32_t)(((hash64(batcher->random++) >> 32) * bound) >> 32);
}

/* -------------------------------------------------------------------------------- slots -------- */

/* From either end: the slot given back last, or the one that has lain longest. */
static uint32_t take_slot(Batcher *batcher)
{
    uint32_t place = batcher->free_first;
    batcher->free_count--;
    if (random_below(batcher, 2) == 0) {
        batcher->free_first = (batcher->free_first + 1) % batcher->options.slots;
    } else {
        place = (batcher->free_first + batcher->free_count) % batcher->options.slots;
    }
    return batcher->free_slots[place];
}

static void give_slot(Batcher *batcher, uint32_t slot)
{
    batcher->free_slots[(batcher->free_first + batcher->free_count) % batcher->options.slots] = slot;
    batcher->free_count++;
}

/* ----------------------------------------------------------------------------- schedule -------- */

static const TraceRequest *find_request(const Trace *trace, uint32_t request)
{
    return &trace->requests[request % trace->count];
}

uint32_t batcher_length(const Trace *trace, uint32_t request)
{
    const TraceRequest *found = find_request(trace, request);
    return found->context_tokens + found->generated_tokens;
}

/* Takes a slot for one that has none. */
static void run(Batcher *batcher, Running running)
{
    running.slot = take_slot(batcher);
    batcher->running[batcher->running_count++] = running;
}

/* Gives each free slot to the next request that has tokens; those without have finished. */
static void start_requests(Batcher *batcher)
{
    const uint32_t fork = batcher->options.fork;
    for (; batcher->next < batcher->trace->count && batcher->free_count != 0; batcher->next++) {
        const uint32_t request = batcher->next;
        if (batcher_length(batcher->trace, request) == 0) {
            batcher->finished++;
            continue;
        }
        const Sequence sequence = {.request = request, .parent = request};
        run(batcher, (Running){.sequence = sequence, .to_fork = fork != 0 && request % fork == fork - 1});
    }
}

static void fork_requests(Batcher *batcher)
{
    Batch *batch = &batcher->batch;
    const uint32_t count = batcher->running_count;
    batch->forks = 0;
    for (uint32_t i = 0; i < count && batch->forks < BATCHER_MOST_FORKS && batcher->free_count != 0; i++) {
        Running *parent = &batcher->running[i];
        if (!parent->to_fork || parent->done % batcher->options.kpool == 0) {
            continue;
        }
        const uint32_t request = parent->sequence.request;
        const Sequence twin = {batcher->trace->count + request, request, parent->done};
        parent->to_fork = false;
        run(batcher, (Running){.sequence = twin, .done = parent->done, .known = parent->done});
        batch->twins[batch->forks] = twin;
        batch->pairs[batch->forks][0] = parent->slot;
        batch->pairs[batch->forks][1] = batcher->running[batcher->running_count - 1].slot;
        batch->forks++;
        batcher->forks++;
        batcher->planned += batcher_length(batcher->trace, request) - parent->done;
    }
    for (uint32_t i = batch->forks; i < BATCHER_MOST_FORKS; i++) {
        batch->pairs[i][0] = batch->pairs[i][1] = random_below(batcher, 2 * batcher->options.slots);
    }
}

/* The first, from one at random on, that has got on since it came. */
static bool preempt(Batcher *batcher, Running *victim)
{
    const uint32_t every = batcher->options.preempt;
    const uint32_t count = batcher->running_count;
    if (every == 0 || batcher->steps == 0 || batcher->steps % every != 0 || count == 0) {
        return false;
    }
    uint32_t place = random_below(batcher, count);
    uint32_t seen = 0;
    for (; seen < count && batcher->running[place].done <= batcher->running[place].known; seen++) {
        place = (place + 1) % count;
    }
    if (seen == count) {
        return false;
    }
    *victim = batcher->running[place];
    give_slot(batcher, victim->slot);
    victim->known = victim->done;
    victim->done = 0;
    batcher->planned += victim->known;
    batcher->preemptions++;
    batcher->running_count--;
    memmove(&batcher->running[place], &batcher->running[place + 1], (count - 1 - place) * sizeof *batcher->running);
    return true;
}

static void let_back(Batcher *batcher)
{
    if (batcher->is_away && batcher->free_count != 0) {
        run(batcher, batcher->away);
        batcher->is_away = false;
    }
}

/* Settles who runs in the next step. */
static void admit(Batcher *batcher)
{
    Running victim;
    const bool preempted = preempt(batcher, &victim);
    let_back(batcher);
    fork_requests(batcher);
    start_requests(batcher);
    if (preempted) {
        batcher->away = victim;
        batcher->is_away = true;
    }
    if (batcher->running_count == 0) {
        let_back(batcher);
    }
}

/* What is left of the prompt or of what was known, or the next generated token. */
static uint32_t wanted(const Batcher *batcher, const Running *running)
{
    const uint32_t context = find_request(batcher->trace, running->sequence.request)->context_tokens;
    const uint32_t prompt = running->known > context ? running->known : context;
    return running->done < prompt ? prompt - running->done : 1;
}

/* Moves the first of `running` to `served`, as many as the step has tokens for. */
static uint32_t serve(Batcher *batcher)
{
    uint32_t budget = batcher->options.batch_tokens;
    uint32_t count = 0;
    for (; count < batcher->running_count && budget != 0; count++) {
        Running *served = &batcher->served[count];
        *served = batcher->running[count];
        const uint32_t tokens = wanted(batcher, served);
        served->now = tokens < budget ? tokens : budget;
        budget -= served->now;
    }
    batcher->running_count -= count;
    memmove(batcher->running, batcher->running + count, batcher->running_count * sizeof *batcher->running);
    return count;
}

/* Puts the served behind the others; those that are over leave instead, and give their slots back. */
static void requeue(Batcher *batcher, uint32_t served)
{
    for (uint32_t i = 0; i < served; i++) {
        Running running = batcher->served[i];
        running.done += running.now;
        if (running.done == batcher_length(batcher->trace, running.sequence.request)) {
            give_slot(batcher, running.slot);
            batcher->finished += running.sequence.request < batcher->trace->count ? 1 : 0;
        } else {
            batcher->running[batcher->running_count++] = running;
        }
    }
}

/* -------------------------------------------------------------------------------- batch -------- */

static void shuffle(Batcher *batcher, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        const uint32_t j = random_below(batcher, i);
        const Running swapped = batcher->served[i - 1];
        batcher->served[i - 1] = batcher->served[j];
        batcher->served[j] = swapped;
    }
}

static void put(Batch *batch, uint32_t r, Sequence sequence, uint32_t cache_length, uint32_t slot, uint32_t tokens)
{
    batch->sequence[r] = sequence;
    batch->cache_lengths[r] = cache_length;
    batch->slot_idx[r] = slot;
    batch->rows += tokens;
    batch->input_row_offsets[r + 1] = batch->rows;
}

/* The slot of an empty request is one in use, a free one or none at all: it must not matter. */
static void put_empty(Batcher *batcher, uint32_t r)
{
    const uint32_t cache_length = random_below(batcher, UINT32_MAX);
    const uint32_t slot = random_below(batcher, 2 * batcher->options.slots);
    put(&batcher->batch, r, (Sequence){.request = NO_REQUEST, .parent = NO_REQUEST}, cache_length, slot, 0);
}

/* The served in their order, here and there an empty request between, and empty ones up to the capacity. */
static void fill_batch(Batcher *batcher, uint32_t served)
{
    Batch *batch = &batcher->batch;
    uint32_t spare = batch->capacity - served;
    uint32_t next = 0;
    batch->rows = 0;
    batch->input_row_offsets[0] = 0;
    for (uint32_t r = 0; r < batch->capacity; r++) {
        if (next == served || (spare != 0 && random_below(batcher, 16) == 0)) {
            put_empty(batcher, r);
            spare--;
        } else {
            const Running *running = &batcher->served[next++];
            put(batch, r, running->sequence, running->done, running->slot, running->now);
        }
    }
}

bool batcher_next(Batcher *batcher)
{
    admit(batcher);
    const uint32_t served = serve(batcher);
    requeue(batcher, served);
    shuffle(batcher, served);
    fill_batch(batcher, served);
    batcher->steps++;
    return served != 0;
}

/* ------------------------------------------------------------------------------- object -------- */

uint32_t batcher_capacity(uint32_t slots)
{
    return slots + slots / 8 + 1;
}

bool batcher_create(Batcher *batcher, const Trace *trace, const BatcherOptions *options)
{
    const uint32_t slots = options->slots;
    const uint32_t capacity = batcher_capacity(slots);
    *batcher = (Batcher){
        .batch = {.capacity = capacity,
                  .input_row_offsets = calloc((size_t)capacity + 1, sizeof(uint32_t)),
                  .cache_lengths = calloc(capacity, sizeof(uint32_t)),
                  .slot_idx = calloc(capacity, sizeof(uint32_t)),
                  .sequence = calloc(capacity, sizeof(Sequence))},
        .options = *options,
        .planned = trace_tokens(trace),
        .trace = trace,
        .running = calloc(slots, sizeof(Running)),
        .served = calloc(slots, sizeof(Running)),
        .free_slots = calloc(slots, sizeof(uint32_t)),
        .free_count = slots,
        .random = hash64(options->seed),
    };
    const Batch *batch = &batcher->batch;
    if (trace->count > NO_REQUEST / 2 || batch->input_row_offsets == NULL || batch->cache_lengths == NULL ||
        batch->slot_idx == NULL || batch->sequence == NULL || batcher->running == NULL || batcher->served == NULL ||
        batcher->free_slots == NULL) {
        batcher_destroy(batcher);
        return false;
    }
    for (uint32_t i = 0; i < slots; i++) {
        batcher->free_slots[i] = i;
    }
    return true;
}

void batcher_destroy(Batcher *batcher)
{
    free(batcher->batch.input_row_offsets);
    free(batcher->batch.cache_lengths);
    free(batcher->batch.slot_idx);
    free(batcher->batch.sequence);
    free(batcher->running);
    free(batcher->served);
    free(batcher->free_slots);
    *batcher = (Batcher){0};
}
