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
        batcher->free_first = (batcher->free_first + 1) % batcher->slots;
    } else {
        place = (batcher->free_first + batcher->free_count) % batcher->slots;
    }
    return batcher->free_slots[place];
}

static void give_slot(Batcher *batcher, uint32_t slot)
{
    batcher->free_slots[(batcher->free_first + batcher->free_count) % batcher->slots] = slot;
    batcher->free_count++;
}

/* ----------------------------------------------------------------------------- schedule -------- */

/* Gives each free slot to the next request that has tokens; those without have finished. */
static void start_requests(Batcher *batcher)
{
    const Trace *trace = batcher->trace;
    for (; batcher->next < trace->count && batcher->free_count != 0; batcher->next++) {
        const TraceRequest request = trace->requests[batcher->next];
        if (request.context_tokens == 0 && request.generated_tokens == 0) {
            batcher->finished++;
            continue;
        }
        batcher->running[batcher->running_count++] = (Running){.request = batcher->next, .slot = take_slot(batcher)};
    }
}

/* What is left of the prompt, or the next generated token. */
static uint32_t wanted(const Batcher *batcher, const Running *running)
{
    const uint32_t context = batcher->trace->requests[running->request].context_tokens;
    return running->done < context ? context - running->done : 1;
}

/* Moves the first of `running` to `served`, as many as the step has tokens for. */
static uint32_t serve(Batcher *batcher)
{
    uint32_t budget = batcher->batch_tokens;
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
        const TraceRequest request = batcher->trace->requests[running.request];
        running.done += running.now;
        if (running.done == request.context_tokens + request.generated_tokens) {
            give_slot(batcher, running.slot);
            batcher->finished++;
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

static void put(Batch *batch, uint32_t r, uint32_t request, uint32_t cache_length, uint32_t slot, uint32_t tokens)
{
    batch->request[r] = request;
    batch->cache_lengths[r] = cache_length;
    batch->slot_idx[r] = slot;
    batch->rows += tokens;
    batch->input_row_offsets[r + 1] = batch->rows;
}

/* The slot of an empty request is one in use, a free one or none at all: it must not matter. */
static void put_empty(Batcher *batcher, uint32_t r)
{
    const uint32_t cache_length = random_below(batcher, UINT32_MAX);
    put(&batcher->batch, r, NO_REQUEST, cache_length, random_below(batcher, 2 * batcher->slots), 0);
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
            put(batch, r, running->request, running->done, running->slot, running->now);
        }
    }
}

bool batcher_next(Batcher *batcher)
{
    start_requests(batcher);
    const uint32_t served = serve(batcher);
    requeue(batcher, served);
    shuffle(batcher, served);
    fill_batch(batcher, served);
    return served != 0;
}

/* ------------------------------------------------------------------------------- object -------- */

uint32_t batcher_capacity(uint32_t slots)
{
    return slots + slots / 8 + 1;
}

bool batcher_create(Batcher *batcher, const Trace *trace, uint32_t slots, uint32_t batch_tokens, uint64_t seed)
{
    const uint32_t capacity = batcher_capacity(slots);
    *batcher = (Batcher){
        .batch = {.capacity = capacity,
                  .input_row_offsets = calloc((size_t)capacity + 1, sizeof(uint32_t)),
                  .cache_lengths = calloc(capacity, sizeof(uint32_t)),
                  .slot_idx = calloc(capacity, sizeof(uint32_t)),
                  .request = calloc(capacity, sizeof(uint32_t))},
        .trace = trace,
        .batch_tokens = batch_tokens,
        .slots = slots,
        .running = calloc(slots, sizeof(Running)),
        .served = calloc(slots, sizeof(Running)),
        .free_slots = calloc(slots, sizeof(uint32_t)),
        .free_count = slots,
        .random = hash64(seed),
    };
    const Batch *batch = &batcher->batch;
    if (batch->input_row_offsets == NULL || batch->cache_lengths == NULL || batch->slot_idx == NULL ||
        batch->request == NULL || batcher->running == NULL || batcher->served == NULL || batcher->free_slots == NULL) {
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
    free(batcher->batch.request);
    free(batcher->running);
    free(batcher->served);
    free(batcher->free_slots);
    *batcher = (Batcher){0};
}
