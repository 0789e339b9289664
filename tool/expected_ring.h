/* What every place of the ring must hold: which (request, position) was last written there, by the rule of the
 * contract's section 3, and the image that follows from it. Rows come from make_row by (request, position), not from
 * k and gate, so that a row taken from the wrong place is found. */
#ifndef KPOOL_TOOL_EXPECTED_RING_H
#define KPOOL_TOOL_EXPECTED_RING_H

#include <stdbool.h>

#include "keys.h"

typedef struct RingPlace {
    uint32_t request; /* NO_REQUEST where nothing was written; position is then the number of the place */
    uint32_t position;
} RingPlace;

typedef struct ExpectedRing {
    KpoolGeometry geometry; /* with ring filled in */
    uint32_t slots;
    RingPlace *places;     /* [slots, ring] */
    unsigned char *tail;   /* [slots, 2, ring, head_dim], dense */
    size_t size;           /* bytes of tail */
    uint64_t rows_written; /* by seed_tail so far, key and gate each one row */
} ExpectedRing;

typedef struct RingMismatch {
    RingPlace place; /* what was last written there */
    uint32_t slot;
    uint32_t plane;
    uint32_t member; /* position mod ring */
    uint32_t channel;
    uint32_t expected; /* bits */
    uint32_t actual;
} RingMismatch;

/* Nothing written yet; every place holds a row of its own, which the caller copies from `tail`. false: out of memory
 * or too large for this machine, and nothing is left behind. */
bool expected_ring_create(ExpectedRing *ring, const KpoolGeometry *geometry, uint32_t slots);
void expected_ring_destroy(ExpectedRing *ring);

/* seed_tail of one request: `tokens` tokens after `cached`. */
void expected_ring_seed(ExpectedRing *ring, Sequence sequence, uint32_t slot, uint32_t cached, uint32_t tokens);

/* copy_slots of one pair of slots that are no others' destination or source. */
void expected_ring_copy(ExpectedRing *ring, uint32_t source, uint32_t destination);

/* How many elements of tail differ; first is filled where any does. */
uint64_t expected_ring_compare(const ExpectedRing *ring, const void *tail, RingMismatch *first);

#endif
