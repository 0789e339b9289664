/* Continuous batching: which tokens of which requests each step brings, in which rows and slots. Pure: no Vulkan, no
 * keys; the same trace, options and seed give the same steps. */
#ifndef KPOOL_TOOL_BATCHER_H
#define KPOOL_TOOL_BATCHER_H

#include "keys.h"
#include "trace.h"

/* One step: the index arrays of the call, and whose rows they are. Empty requests hold nonsense in cache_lengths and
 * slot_idx, and NO_REQUEST in request. */
typedef struct Batch {
    uint32_t capacity;           /* requests the arrays hold: more than there are slots */
    uint32_t rows;               /* tokens of this step */
    uint32_t *input_row_offsets; /* [capacity + 1] */
    uint32_t *cache_lengths;     /* [capacity] */
    uint32_t *slot_idx;          /* [capacity] */
    uint32_t *request;           /* [capacity]: index in the trace */
} Batch;

typedef struct Running {
    uint32_t request;
    uint32_t slot;
    uint32_t done; /* tokens of earlier steps */
    uint32_t now;  /* tokens of this step */
} Running;

typedef struct Batcher {
    Batch batch; /* of the step that batcher_next made */
    uint32_t finished;
    const Trace *trace;
    uint32_t batch_tokens;
    uint32_t slots;
    uint32_t next;        /* the first request that has not started */
    Running *running;     /* [slots], those first that have waited longest */
    uint32_t running_count;
    Running *served;      /* [slots]: of this step, in the order of the batch */
    uint32_t *free_slots; /* [slots], a ring */
    uint32_t free_first;
    uint32_t free_count;
    uint64_t random;
} Batcher;

/*
 * Each request occupies context_tokens + generated_tokens positions: the prompt comes in chunks as large as the step
 * has room for, then every generated token, the first included, in a step of its own. A request takes a slot as soon
 * as one is free, in the order of the trace, and keeps it until its last token. A step has at most batch_tokens
 * tokens and serves those first that have waited longest. A request without tokens never takes a slot.
 *   trace         outlives the batcher
 *   slots         at least 1, at most 2^30
 *   batch_tokens  at least 1
 * false: out of memory, and nothing is left behind.
 */
bool batcher_create(Batcher *batcher, const Trace *trace, uint32_t slots, uint32_t batch_tokens, uint64_t seed);
void batcher_destroy(Batcher *batcher);

/* Requests that a batch has room for, with that many slots: some are always empty. */
uint32_t batcher_capacity(uint32_t slots);

/* Makes the next step; false when every request has finished. */
bool batcher_next(Batcher *batcher);

#endif
