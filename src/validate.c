/* The rules of section 9 of the contract for one call's index arrays, judged on the host, and the one index array
 * that the library makes. */
#include "diagnostic.h"

#define ACCEPTED UINT32_MAX
#define EMPTY (UINT32_MAX - 1)

/* The cause that drops request r, as an index of status, or ACCEPTED or EMPTY. Reads an array only where the
 * device would trust it. slot_idx is NULL for an operation that uses no slot. */
static uint32_t judge(const KpoolCall *call, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                      const uint32_t *slot_idx, uint32_t r)
{
    const uint32_t first = input_row_offsets[r];
    const uint32_t last = input_row_offsets[r + 1];
    if (last == first) {
        return EMPTY;
    }
    if (last < first) {
        return KPOOL_STATUS_OFFSETS_DESCEND;
    }
    if (last > call->rows) {
        return KPOOL_STATUS_ROWS_EXCEED;
    }
    if (slot_idx != NULL && slot_idx[r] >= call->max_slots) {
        return KPOOL_STATUS_SLOT_RANGE;
    }
    if (last - first > UINT32_MAX - cache_lengths[r]) {
        return KPOOL_STATUS_LENGTH_WRAPS;
    }
    return ACCEPTED;
}

static KpoolResult describe(const KpoolCall *call, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                            const uint32_t *slot_idx, uint32_t r, uint32_t cause, KpoolDiagnostic *diagnostic)
{
    const uint32_t first = input_row_offsets[r];
    const uint32_t last = input_row_offsets[r + 1];
    const KpoolResult result = KPOOL_ERROR_INVALID_DATA;
    switch (cause) {
    case KPOOL_STATUS_OFFSETS_DESCEND:
        return kpoolFail(diagnostic, result, "input_row_offsets",
                         "request %u: input_row_offsets goes from %u down to %u, must not decrease", r, first, last);
    case KPOOL_STATUS_ROWS_EXCEED:
        return kpoolFail(diagnostic, result, "input_row_offsets",
                         "request %u: input_row_offsets ends at %u, must be at most rows = %u", r, last, call->rows);
    case KPOOL_STATUS_SLOT_RANGE:
        return kpoolFail(diagnostic, result, "slot_idx", "request %u: slot_idx is %u, must be below max_slots = %u", r,
                         slot_idx[r], call->max_slots);
    default:
        return kpoolFail(diagnostic, result, "cache_lengths",
                         "request %u: cache_lengths is %u, with %u tokens of this call over 2^32 - 1", r,
                         cache_lengths[r], last - first);
    }
}

KpoolResult kpoolValidate(const KpoolCall *call, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                          const uint32_t *slot_idx, uint32_t status[KPOOL_STATUS_COUNT], KpoolDiagnostic *diagnostic)
{
    if (call == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "call", "call is NULL");
    }
    if (input_row_offsets == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "input_row_offsets", "input_row_offsets is NULL");
    }
    if (call->requests != 0 && (cache_lengths == NULL || slot_idx == NULL)) {
        const char *name = cache_lengths == NULL ? "cache_lengths" : "slot_idx";
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, name, "%s is NULL", name);
    }
    KpoolResult result = KPOOL_SUCCESS;
    for (uint32_t r = 0; r < call->requests; r++) {
        const uint32_t cause = judge(call, input_row_offsets, cache_lengths, slot_idx, r);
        if (cause == EMPTY) {
            continue;
        }
        if (cause != ACCEPTED) {
            if (status != NULL) {
                status[cause]++;
            }
            if (result == KPOOL_SUCCESS) {
                result = describe(call, input_row_offsets, cache_lengths, slot_idx, r, cause, diagnostic);
            }
            continue;
        }
        for (uint32_t other = 0; other < r; other++) {
            if (slot_idx[other] == slot_idx[r] &&
                judge(call, input_row_offsets, cache_lengths, slot_idx, other) == ACCEPTED) {
                if (status != NULL) {
                    status[KPOOL_STATUS_DUPLICATE_SLOT]++;
                }
                if (result == KPOOL_SUCCESS) {
                    result = kpoolFail(diagnostic, KPOOL_ERROR_INVALID_DATA, "slot_idx",
                                       "requests %u and %u: slot_idx is %u for both, must differ between non-empty "
                                       "requests of one call",
                                       other, r, slot_idx[r]);
                }
                break;
            }
        }
    }
    return result;
}

KpoolResult kpoolValidatePairs(const KpoolCall *call, const uint32_t *pairs, uint32_t status[KPOOL_STATUS_COUNT],
                               KpoolDiagnostic *diagnostic)
{
    if (call == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "call", "call is NULL");
    }
    if (call->pair_count != 0 && pairs == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "pairs", "pairs is NULL");
    }
    KpoolResult result = KPOOL_SUCCESS;
    for (uint32_t i = 0; i < call->pair_count; i++) {
        const uint32_t *pair = &pairs[2 * (size_t)i];
        if (pair[0] == pair[1]) {
            continue;
        }
        if (pair[0] >= call->max_slots || pair[1] >= call->max_slots) {
            if (status != NULL) {
                status[KPOOL_STATUS_PAIR_RANGE]++;
            }
            if (result == KPOOL_SUCCESS) {
                result = kpoolFail(diagnostic, KPOOL_ERROR_INVALID_DATA, "pairs",
                                   "pair %u: copies slot %u to %u, both must be below max_slots = %u", i, pair[0],
                                   pair[1], call->max_slots);
            }
            continue;
        }
        /* While nothing was refused, every pair before this one is in range. */
        for (uint32_t j = 0; j < i && result == KPOOL_SUCCESS; j++) {
            const uint32_t *other = &pairs[2 * (size_t)j];
            if (other[1] == pair[1] && other[0] != other[1]) {
                result = kpoolFail(diagnostic, KPOOL_ERROR_INVALID_DATA, "pairs",
                                   "pairs %u and %u: both copy to slot %u, destinations must differ", j, i, pair[1]);
            }
        }
    }
    return result;
}

KpoolResult kpoolPoolRowOffsets(uint32_t kpool, const KpoolCall *call, const uint32_t *input_row_offsets,
                                const uint32_t *cache_lengths, uint32_t *pool_row_offsets,
                                uint32_t status[KPOOL_STATUS_COUNT], KpoolDiagnostic *diagnostic)
{
    if (kpool == 0 || kpool > KPOOL_MAX_KPOOL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "kpool", "kpool is %u, must be 1 to %u", kpool,
                         KPOOL_MAX_KPOOL);
    }
    if (call == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "call", "call is NULL");
    }
    const char *missing = input_row_offsets == NULL                             ? "input_row_offsets"
                          : cache_lengths == NULL && call->requests != 0 ? "cache_lengths"
                          : pool_row_offsets == NULL                            ? "pool_row_offsets"
                                                                                : NULL;
    if (missing != NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, missing, "%s is NULL", missing);
    }
    uint32_t offset = 0;
    for (uint32_t r = 0; r < call->requests; r++) {
        pool_row_offsets[r] = offset;
        const uint32_t cause = judge(call, input_row_offsets, cache_lengths, NULL, r);
        if (cause == ACCEPTED) {
            const uint32_t length = cache_lengths[r];
            const uint32_t complete = (length + (input_row_offsets[r + 1] - input_row_offsets[r])) / kpool;
            const uint32_t first = length / kpool + (length % kpool != 0 ? 1 : 0);
            const uint32_t pools = complete > first ? complete - first : 0;
            offset = offset > UINT32_MAX - pools ? UINT32_MAX : offset + pools;
        } else if (cause != EMPTY && status != NULL) {
            status[cause]++;
        }
    }
    pool_row_offsets[call->requests] = offset;
    return KPOOL_SUCCESS;
}
