#include "case_places.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pooled_model.h"
#include "reference.h"

/* ------------------------------------------------------------------------------- requests ------- */

/* Whether the operation serves the request: not empty, not dropped. */
static bool is_served(const Case *made, const uint32_t *slot_idx, uint32_t r)
{
    return reference_judge(made->call.rows, made->call.max_slots, made->images.input_row_offsets,
                           made->images.cache_lengths, slot_idx, r) == -2;
}

static uint64_t count_tokens(const Case *made, uint32_t r)
{
    const uint32_t *offsets = made->images.input_row_offsets;
    return (uint64_t)offsets[r + 1] - offsets[r];
}

static uint64_t count_cached(const Case *made, uint32_t r)
{
    return ((const uint32_t *)made->images.cache_lengths)[r];
}

/* The first request that may write the slot. */
static bool find_writer(const Case *made, uint64_t slot, uint32_t *writer)
{
    const uint32_t *slots = made->images.slot_idx;
    for (uint32_t r = 0; r < made->call.requests; r++) {
        if (slots[r] == slot && is_served(made, slots, r)) {
            *writer = r;
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------------------------- pools ------- */

bool case_find_closed(const Case *made, uint64_t row, CasePool *pool)
{
    const uint32_t r = (uint32_t)row;
    const uint64_t kpool = made->kernel.geometry.kpool;
    if (!is_served(made, made->images.slot_idx, r)) {
        return false;
    }
    const uint64_t phase = count_cached(made, r) % kpool;
    *pool = (CasePool){r, count_cached(made, r) - phase};
    return phase != 0 && count_tokens(made, r) >= kpool - phase;
}

/* The last request whose rows of pooled begin at or before this one; where the offsets descend, some request. */
static uint32_t find_owner(const Case *made, uint64_t row)
{
    const uint32_t *offsets = made->images.pool_row_offsets;
    uint32_t low = 0;
    uint32_t high = made->call.requests;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (offsets[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

bool case_find_pooled(const Case *made, uint64_t row, CasePool *pool)
{
    const uint32_t *offsets = made->images.pool_row_offsets;
    const uint64_t kpool = made->kernel.geometry.kpool;
    if (made->call.requests == 0 || row >= offsets[made->call.requests]) {
        return false;
    }
    const uint32_t r = find_owner(made, row);
    if (!is_served(made, NULL, r) || row < offsets[r]) {
        return false;
    }
    const uint64_t cached = count_cached(made, r);
    const uint64_t first = (cached + kpool - 1) / kpool + (row - offsets[r]);
    *pool = (CasePool){r, first * kpool};
    return first < (cached + count_tokens(made, r)) / kpool;
}

/* ----------------------------------------------------------------------------------- keys ------- */

static double read_number(const Case *made, const char *name, const uint64_t place[4], uint32_t rank)
{
    const CaseTensor *tensor = case_find_tensor(made, name);
    const size_t size = safetensors_type_size(tensor->type);
    uint64_t offset = tensor->places.base;
    for (uint32_t d = 0; d < rank; d++) {
        offset += place[d] * tensor->places.strides[d];
    }
    uint32_t bits = 0;
    memcpy(&bits, tensor->before + offset * size, size);
    return pooled_model_decode(made->kernel.geometry.type, bits);
}

/* max |k| over the members: what is cached in the ring, as it was before, and this call's rows. */
static double find_largest(const Case *made, const CasePool *pool, uint64_t channel)
{
    const KpoolGeometry *geometry = &made->kernel.geometry;
    const uint64_t cached = count_cached(made, pool->request);
    double largest = 0.0;
    for (uint64_t position = pool->position; position < pool->position + geometry->kpool; position++) {
        double key;
        if (position < cached) {
            const uint32_t slot = ((const uint32_t *)made->images.slot_idx)[pool->request];
            key = read_number(made, "tail", (const uint64_t[4]){slot, 0, position % geometry->ring, channel}, 4);
        } else {
            const uint64_t first = ((const uint32_t *)made->images.input_row_offsets)[pool->request];
            key = read_number(made, "k", (const uint64_t[4]){first + (position - cached), channel}, 2);
        }
        largest = fmax(largest, fabs(key));
    }
    return largest;
}

static double round_number(KpoolType type, uint32_t bits)
{
    const double number = pooled_model_decode(type, bits);
    return isinf(number) && type == KPOOL_TYPE_F16 ? copysign(65536.0, number) : number;
}

bool case_keys_are_near(const Case *made, const CasePool *pool, uint64_t channel, uint32_t expected, uint32_t actual)
{
    const KpoolType type = made->kernel.pooled_type;
    const double a = round_number(type, expected);
    const double b = round_number(type, actual);
    if (!isfinite(a) || !isfinite(b)) {
        return false;
    }
    const double rounding = 0.5 * (pooled_model_ulp(type, a) + pooled_model_ulp(type, b));
    return fabs(a - b) <= rounding + 2e-6 * find_largest(made, pool, channel) + 0x1p-126;
}

/* ---------------------------------------------------------------------------------- names ------- */

void case_name_in_list(const Case *made, uint64_t element, char *text, size_t size)
{
    (void)made;
    snprintf(text, size, "element %" PRIu64, element);
}

void case_name_in_offsets(const Case *made, uint64_t element, char *text, size_t size)
{
    (void)made;
    snprintf(text, size, "entry %" PRIu64, element);
}

void case_name_in_requests(const Case *made, uint64_t element, char *text, size_t size)
{
    (void)made;
    snprintf(text, size, "request %" PRIu64, element);
}

static void name_in_tail(const Case *made, const char *writer, uint64_t element, char *text, size_t size)
{
    const KpoolGeometry *geometry = &made->kernel.geometry;
    const uint64_t row = element / geometry->head_dim;
    const uint64_t plane = row / geometry->ring;
    snprintf(text, size, "%s, slot %" PRIu64 ", plane %s, member %" PRIu64 ", channel %" PRIu64, writer, plane / 2,
             plane % 2 == 0 ? "k" : "gate", row % geometry->ring, element % geometry->head_dim);
}

static uint64_t slot_of(const Case *made, uint64_t element)
{
    const KpoolGeometry *geometry = &made->kernel.geometry;
    return element / geometry->head_dim / geometry->ring / 2;
}

void case_name_in_seeded_tail(const Case *made, uint64_t element, char *text, size_t size)
{
    char writer[32] = "no request";
    uint32_t r;
    if (find_writer(made, slot_of(made, element), &r)) {
        snprintf(writer, sizeof writer, "request %u", r);
    }
    name_in_tail(made, writer, element, text, size);
}

void case_name_in_copied_tail(const Case *made, uint64_t element, char *text, size_t size)
{
    const uint32_t *pairs = made->images.pairs;
    const uint64_t slot = slot_of(made, element);
    char writer[32] = "no pair";
    for (size_t i = 0; i < made->call.pair_count; i++) {
        const uint32_t source = pairs[2 * i];
        if (pairs[2 * i + 1] == slot && source != slot && source < made->call.max_slots) {
            snprintf(writer, sizeof writer, "pair %zu", i);
            break;
        }
    }
    name_in_tail(made, writer, element, text, size);
}

void case_name_in_closed_pooled(const Case *made, uint64_t element, char *text, size_t size)
{
    const uint32_t head_dim = made->kernel.geometry.head_dim;
    snprintf(text, size, "request %" PRIu64 ", channel %" PRIu64, element / head_dim, element % head_dim);
}

void case_name_in_pooled(const Case *made, uint64_t element, char *text, size_t size)
{
    const uint32_t head_dim = made->kernel.geometry.head_dim;
    char owner[32] = "no request";
    CasePool pool;
    if (case_find_pooled(made, element / head_dim, &pool)) {
        snprintf(owner, sizeof owner, "request %u", pool.request);
    }
    snprintf(text, size, "row %" PRIu64 ", %s, channel %" PRIu64, element / head_dim, owner, element % head_dim);
}

void case_name_in_out(const Case *made, uint64_t element, char *text, size_t size)
{
    const uint64_t width = case_find_tensor(made, "out")->shape[1];
    snprintf(text, size, "row %" PRIu64 ", column %" PRIu64, element / width, element % width);
}
