/* The elements of a case's tensors in the terms of its operation: how a place is called, which pool a row of keys
 * holds, and how far apart two keys may be. Trusts no index array, and reads nothing outside the images. */
#ifndef KPOOL_TOOL_CASE_PLACES_H
#define KPOOL_TOOL_CASE_PLACES_H

#include "case.h"

/* Names an element of the dense tensor. */
typedef void CaseNamePlace(const Case *made, uint64_t element, char *text, size_t size);

CaseNamePlace case_name_in_list;        /* "element 3" */
CaseNamePlace case_name_in_offsets;     /* "entry 3" */
CaseNamePlace case_name_in_requests;    /* "request 3" */
CaseNamePlace case_name_in_seeded_tail; /* by the request that may write there */
CaseNamePlace case_name_in_copied_tail; /* by the pair that may write there */
CaseNamePlace case_name_in_closed_pooled;
CaseNamePlace case_name_in_pooled;
CaseNamePlace case_name_in_out;

/* A pool that the operation makes a key of. */
typedef struct CasePool {
    uint32_t request;
    uint64_t position; /* of its first member, in the request */
} CasePool;

/* Of a row of closed_pooled and of pooled. false: the operation leaves the row alone. */
typedef bool CaseFindPool(const Case *made, uint64_t row, CasePool *pool);

CaseFindPool case_find_closed;
CaseFindPool case_find_pooled;

/* Whether two keys of that channel of the pool may both be what fast numerics make: each within half a unit in its
 * last place, and together 2e-6 * max |k| and 2^-126. NaN and infinities are not near to anything, except f16's
 * infinity, which rounding takes for the number after the largest. */
bool case_keys_are_near(const Case *made, const CasePool *pool, uint64_t channel, uint32_t expected, uint32_t actual);

#endif
