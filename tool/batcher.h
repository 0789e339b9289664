/* Continuous batching: which tokens of which requests each step brings, in which rows and slots, who is forked and who
 * has to leave for a while. Pure: no Vulkan, no keys; the same trace and options give the same steps. */
#ifndef KPOOL_TOOL_BATCHER_H
#define KPOOL_TOOL_BATCHER_H

#include "keys.h"
#include "trace.h"

typedef struct BatcherOptions {
    uint32_t slots;        /* 1 to 2^30 */
    uint32_t batch_tokens; /* of a step, at most; at least 1 */
    uint32_t kpool;        /* tokens of a pool */
    uint32_t fork;         /* every fork-th request of the trace forks once; 0: none */
    uint32_t preempt;      /* every preempt-th step begins with a preemption; 0: none */
    uint64_t seed;         /* of the order in a batch, the choice of slots, and who is preempted */
} BatcherOptions;

/* Forks of one step, at most. */
#define BATCHER_MOST_FORKS 4u

/* One step: the pairs of copy_slots, which comes first, the index arrays of the update, and whose rows they are.
 * Empty requests hold nonsense in cache_lengths and slot_idx, and NO_REQUEST in sequence. */
typedef struct Batch {
    uint32_t capacity;                     /* requests the arrays hold: more than there are slots */
    uint32_t rows;                         /* tokens of this step */
    uint32_t *input_row_offsets;           /* [capacity + 1] */
    uint32_t *cache_lengths;               /* [capacity] */
    uint32_t *slot_idx;                    /* [capacity] */
    Sequence *sequence;                    /* [capacity] */
    uint32_t forks;                        /* of this step */
    Sequence twins[BATCHER_MOST_FORKS];    /* the first `forks` of them */
    uint32_t pairs[BATCHER_MOST_FORKS][2]; /* parent's slot, twin's slot; beyond `forks` padding */
} Batch;

typedef struct Running {
    Sequence sequence;
    uint32_t slot;
    uint32_t done;  /* tokens of earlier steps */
    uint32_t now;   /* tokens of this step */
    uint32_t known; /* tokens it had when it was preempted, or forked off: they come again as a prompt does */
    bool to_fork;   /* has to, as soon as it can */
} Running;

typedef struct Batcher {
    Batch batch; /* of the step that batcher_next made */
    BatcherOptions options;
    uint32_t finished; /* requests of the trace */
    uint32_t forks;
    uint32_t preemptions;
    uint64_t planned; /* tokens of all steps, those to come included, as far as is known */
    const Trace *trace;
    uint64_t steps;
    uint32_t next;        /* the first request that has not started */
    Running *running;     /* [slots], those first that have waited longest */
    uint32_t running_count;
    Running away;         /* the preempted one: never more than one at a time */
    bool is_away;
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
 *
 * Forks. A request that forks does so as soon as it is inside a pool and a slot is free that no preempted request
 * waits for: its slot is copied to that one, and the twin goes on from there to the same length. The twin of request r
 * has the number trace->count + r. A request for which this never comes does not fork.
 *
 * Preemptions. A running request that has got on since it last came gives up its slot, and gets one again from the
 * next step on, as soon as one is free and before new requests: it begins at position 0, and what it had comes in
 * chunks, generated tokens included.
 *
 *   trace  outlives the batcher
 * false: out of memory, or too many requests to number their twins; nothing is left behind.
 */
bool batcher_create(Batcher *batcher, const Trace *trace, const BatcherOptions *options);
void batcher_destroy(Batcher *batcher);

/* Positions that a request or a twin occupies. */
uint32_t batcher_length(const Trace *trace, uint32_t request);

/* Requests that a batch has room for, with that many slots: some are always empty. */
uint32_t batcher_capacity(uint32_t slots);

/* Makes the next step; false when every request has finished. */
bool batcher_next(Batcher *batcher);

#endif
