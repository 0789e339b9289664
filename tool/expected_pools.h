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

typedef struct PoolOutputs {
    const uint32_t *pool_row_offsets; /* [capacity + 1] */
    const int32_t *closed_pool;       /* [capacity] */
    const void *closed_pooled;        /* [capacity, head_dim] */
    const void *pooled;               /* [pooled_rows, head_dim] */
    uint32_t pooled_rows;
} PoolOutputs;

/* Of one request. A twin has its parent's pools from before the fork. */
typedef struct PoolAccount {
    uint32_t due;       /* that its length has */
    uint32_t made;      /* since position 0 */
    uint32_t most_made; /* before a preemption too */
} PoolAccount;

typedef struct ExpectedPools {
    KpoolGeometry geometry;
    float *ape;            /* [kpool, head_dim] */
    PoolAccount *accounts; /* [requests]: batcher.h numbers the twins */
    uint32_t requests;
    uint64_t closed;     /* pools that ring_close made, so far */
    uint64_t compressed; /* pools that compress made */
    uint64_t remade;     /* of both: made before a preemption too */
    unsigned char *k;    /* [kpool, head_dim]: of the pool that is being compared, and so are the two below */
    unsigned char *gate; /* [kpool, head_dim] */
    unsigned char *key;  /* [head_dim] */
} ExpectedPools;

/* The trace is not kept. false: out of memory, and nothing is left behind. */
bool expected_pools_create(ExpectedPools *pools, const KpoolGeometry *geometry, const Trace *trace);
void expected_pools_destroy(ExpectedPools *pools);

/*
 * What a step made, compared with what it must have made. Returns the mismatches: elements of keys, entries of
 * closed_pool and pool_row_offsets, keys missing, and rows written that belong to no pool. complaint says which was
 * the first, where there is any.
 *   host_offsets  [capacity + 1]: what the host's function makes of the same step
 */
uint64_t expected_pools_compare(ExpectedPools *pools, const Batch *batch, const PoolOutputs *outputs,
                                const uint32_t *host_offsets, Complaint *complaint);

/* After the last step: how many pools of all requests were made beyond once or not at all. */
uint64_t expected_pools_miscount(const ExpectedPools *pools, Complaint *complaint);

#endif
