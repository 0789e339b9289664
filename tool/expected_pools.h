/* Which pooled keys every step must make, their bits, and that each pool of a request is made once. The keys follow
 * from (request, pool) through make_row and the reference, not from k, gate and the ring; which pools a step makes
 * follows from the positions alone: those whose last token it brings. */
#ifndef KPOOL_TOOL_EXPECTED_POOLS_H
#define KPOOL_TOOL_EXPECTED_POOLS_H

#include "batcher.h"
#include "complaint.h"

/* The byte that a step's outputs are full of before it, so that what it does not write is seen: no key and no entry of
 * an index array is made of it. */
#define UNWRITTEN 0xfe

/* What a step makes, expected or actual. */
typedef struct PoolOutputs {
    uint32_t *pool_row_offsets; /* [capacity + 1] */
    int32_t *closed_pool;       /* [capacity] */
    void *closed_pooled;        /* [capacity, head_dim] */
    void *pooled;               /* [pooled_rows, head_dim] */
} PoolOutputs;

/* One pool of a step. */
typedef struct PoolPlace {
    uint32_t request;
    uint32_t pool;
    bool closes;  /* ring_close makes it, else compress */
    uint32_t row; /* of closed_pooled or of pooled */
} PoolPlace;

/* Of one request. A twin has its parent's pools from before the fork. */
typedef struct PoolAccount {
    uint32_t due;       /* that its length has */
    uint32_t made;      /* since position 0 */
    uint32_t most_made; /* before a preemption too */
} PoolAccount;

typedef struct ExpectedPools {
    KpoolGeometry geometry;
    uint32_t capacity;
    uint32_t pooled_rows;
    float *ape;            /* [kpool, head_dim] */
    PoolAccount *accounts; /* [requests]: batcher.h numbers the twins */
    uint32_t requests;
    PoolOutputs outputs; /* of the step; UNWRITTEN where it writes nothing */
    PoolPlace *places;   /* [capacity + pooled_rows]: the pools of the step */
    uint32_t place_count;
    unsigned char *k;    /* [kpool, head_dim]: of the latest pool */
    unsigned char *gate; /* [kpool, head_dim] */
    uint64_t closed;     /* pools that ring_close made, so far */
    uint64_t compressed; /* pools that compress made */
    uint64_t remade;     /* of both: made before a preemption too */
} ExpectedPools;

/* capacity is the batch's; pooled_rows is more than a step can need. The trace is not kept. false: out of memory, and
 * nothing is left behind. */
bool expected_pools_create(ExpectedPools *pools, const KpoolGeometry *geometry, const Trace *trace, uint32_t capacity,
                           uint32_t pooled_rows);
void expected_pools_destroy(ExpectedPools *pools);

/* What the step of this batch must make, into pools->outputs. */
void expected_pools_step(ExpectedPools *pools, const Batch *batch);

/*
 * What that step made, compared with what it must have made, and counted. Returns the mismatches: elements of keys,
 * entries of closed_pool and pool_row_offsets, keys missing, and rows written that belong to no pool. complaint says
 * which was the first, where there is any.
 *   host_offsets  [capacity + 1]: what the host's function makes of the same step
 */
uint64_t expected_pools_compare(ExpectedPools *pools, const PoolOutputs *actual, const uint32_t *host_offsets,
                                Complaint *complaint);

/* After the last step: how many pools of all requests were made beyond once or not at all. */
uint64_t expected_pools_miscount(const ExpectedPools *pools, Complaint *complaint);

#endif
