#include "expected_pools.h"

#include <stdlib.h>
#include <string.h>

#include "reference.h"

static size_t row_size(const ExpectedPools *pools)
{
    return (size_t)pools->geometry.head_dim * kpoolTypeSize(pools->geometry.type);
}

bool expected_pools_create(ExpectedPools *pools, const KpoolGeometry *geometry, const Trace *trace, uint32_t capacity,
                           uint32_t pooled_rows)
{
    *pools = (ExpectedPools){
        .geometry = *geometry,
        .capacity = capacity,
        .pooled_rows = pooled_rows,
        .requests = trace->count * 2,
    };
    const size_t size = row_size(pools);
    pools->ape = calloc((size_t)geometry->kpool * geometry->head_dim, sizeof(float));
    pools->accounts = calloc(pools->requests, sizeof(PoolAccount));
    pools->outputs = (PoolOutputs){
        .pool_row_offsets = calloc((size_t)capacity + 1, sizeof(uint32_t)),
        .closed_pool = calloc(capacity, sizeof(int32_t)),
        .closed_pooled = calloc(capacity, size),
        .pooled = calloc(pooled_rows, size),
    };
    pools->places = calloc((size_t)capacity + pooled_rows, sizeof(PoolPlace));
    pools->k = calloc(geometry->kpool, size);
    pools->gate = calloc(geometry->kpool, size);
    if (pools->ape == NULL || pools->accounts == NULL || pools->outputs.pool_row_offsets == NULL ||
        pools->outputs.closed_pool == NULL || pools->outputs.closed_pooled == NULL || pools->outputs.pooled == NULL ||
        pools->places == NULL || pools->k == NULL || pools->gate == NULL) {
        expected_pools_destroy(pools);
        return false;
    }
    for (uint32_t m = 0; m < geometry->kpool; m++) {
        float *row = pools->ape + (size_t)m * geometry->head_dim;
        make_row(KPOOL_TYPE_F32, geometry->head_dim, NO_REQUEST, m, PLANE_APE, row);
    }
    for (uint32_t request = 0; request < trace->count; request++) {
        pools->accounts[request].due = batcher_length(trace, request) / geometry->kpool;
    }
    return true;
}

void expected_pools_destroy(ExpectedPools *pools)
{
    free(pools->ape);
    free(pools->accounts);
    free(pools->outputs.pool_row_offsets);
    free(pools->outputs.closed_pool);
    free(pools->outputs.closed_pooled);
    free(pools->outputs.pooled);
    free(pools->places);
    free(pools->k);
    free(pools->gate);
    *pools = (ExpectedPools){0};
}

/* ------------------------------------------------------------------------------ expecting ------ */

/* The key of one pool: compress of a request that is this pool and nothing else. */
static void make_key(const ExpectedPools *pools, Sequence sequence, uint32_t pool, void *key)
{
    const KpoolKernelCreateInfo info = {.geometry = pools->geometry};
    const uint32_t P = pools->geometry.kpool;
    const uint32_t D = pools->geometry.head_dim;
    const KpoolType type = pools->geometry.type;
    for (uint32_t m = 0; m < P; m++) {
        const uint32_t position = pool * P + m;
        const uint32_t author = sequence_author(sequence, position);
        make_row(type, D, author, position, PLANE_KEY, pools->k + m * row_size(pools));
        make_row(type, D, author, position, PLANE_GATE, pools->gate + m * row_size(pools));
    }
    const KpoolCall call = {.requests = 1, .rows = P, .pooled_rows = 1};
    const uint32_t input_row_offsets[2] = {0, P};
    const uint32_t cache_lengths[1] = {0};
    const uint32_t pool_row_offsets[2] = {0, 1};
    reference_compress(&info, &call, pools->k, pools->gate, pools->ape, input_row_offsets, cache_lengths,
                       pool_row_offsets, key, NULL);
}

static unsigned char *find_row(const ExpectedPools *pools, const PoolOutputs *outputs, bool closes, uint32_t row)
{
    unsigned char *tensor = closes ? outputs->closed_pooled : outputs->pooled;
    return tensor + row * row_size(pools);
}

void expected_pools_step(ExpectedPools *pools, const Batch *batch)
{
    PoolOutputs *outputs = &pools->outputs;
    const uint32_t P = pools->geometry.kpool;
    for (uint32_t i = 0; i < batch->forks; i++) {
        const Sequence twin = batch->twins[i];
        const uint32_t inherited = twin.forked_at / P;
        pools->accounts[twin.request] = (PoolAccount){pools->accounts[twin.parent].due, inherited, inherited};
    }
    memset(outputs->closed_pooled, UNWRITTEN, pools->capacity * row_size(pools));
    memset(outputs->pooled, UNWRITTEN, pools->pooled_rows * row_size(pools));
    pools->place_count = 0;
    uint32_t rows = 0; /* of pooled, so far */
    for (uint32_t r = 0; r < batch->capacity; r++) {
        const Sequence sequence = batch->sequence[r];
        const bool is_empty = sequence.request == NO_REQUEST;
        const uint32_t cached = is_empty ? 0 : batch->cache_lengths[r];
        const uint32_t end = cached + (batch->input_row_offsets[r + 1] - batch->input_row_offsets[r]);
        outputs->pool_row_offsets[r] = rows;
        outputs->closed_pool[r] = -1;
        if (!is_empty && cached == 0) {
            pools->accounts[sequence.request].made = 0;
        }
        for (uint32_t pool = cached / P; pool < end / P; pool++) {
            PoolPlace *place = &pools->places[pools->place_count++];
            *place = (PoolPlace){sequence.request, pool, pool * P < cached, r};
            if (place->closes) {
                outputs->closed_pool[r] = (int32_t)pool;
            } else {
                place->row = rows++;
            }
            make_key(pools, sequence, pool, find_row(pools, outputs, place->closes, place->row));
        }
    }
    outputs->pool_row_offsets[batch->capacity] = rows;
}

/* ------------------------------------------------------------------------------ comparing ------ */

/* A step that is being compared. */
typedef struct Comparison {
    ExpectedPools *pools;
    const PoolOutputs *actual;
    uint64_t mismatches;
    Complaint *complaint;
} Comparison;

static void mismatch(Comparison *comparison, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void mismatch(Comparison *comparison, const char *format, ...)
{
    if (comparison->mismatches++ == 0) {
        va_list arguments;
        va_start(arguments, format);
        complain_list(comparison->complaint, format, arguments);
        va_end(arguments);
    }
}

static bool is_unwritten(const unsigned char *row, size_t size)
{
    size_t i = 0;
    while (i < size && row[i] == UNWRITTEN) {
        i++;
    }
    return i == size;
}

/* Any key that was made counts, a wrong one too. */
static void count_pool(ExpectedPools *pools, const PoolPlace *place)
{
    PoolAccount *account = &pools->accounts[place->request];
    account->made++;
    pools->remade += account->made <= account->most_made ? 1 : 0;
    account->most_made = account->made > account->most_made ? account->made : account->most_made;
    *(place->closes ? &pools->closed : &pools->compressed) += 1;
}

static void compare_key(Comparison *comparison, const PoolPlace *place)
{
    ExpectedPools *pools = comparison->pools;
    const KpoolType type = pools->geometry.type;
    const int digits = (int)kpoolTypeSize(type) * 2;
    const char *operation = place->closes ? "ring_close" : "compress";
    const unsigned char *expected_row = find_row(pools, &pools->outputs, place->closes, place->row);
    const unsigned char *actual_row = find_row(pools, comparison->actual, place->closes, place->row);
    if (is_unwritten(actual_row, row_size(pools))) {
        mismatch(comparison, "request %u pool %u: %s has not made its key", place->request, place->pool, operation);
        return;
    }
    count_pool(pools, place);
    if (memcmp(expected_row, actual_row, row_size(pools)) == 0) {
        return;
    }
    for (uint32_t c = 0; c < pools->geometry.head_dim; c++) {
        const uint32_t expected = element_bits(type, expected_row, c);
        const uint32_t actual = element_bits(type, actual_row, c);
        if (expected != actual) {
            mismatch(comparison, "request %u pool %u, made by %s, channel %u: expected %0*x, actual %0*x",
                     place->request, place->pool, operation, c, digits, expected, digits, actual);
        }
    }
}

/* What belongs to no pool must be as it was. */
static void compare_unwritten(Comparison *comparison, bool closes, uint32_t row)
{
    const ExpectedPools *pools = comparison->pools;
    if (!is_unwritten(find_row(pools, comparison->actual, closes, row), row_size(pools))) {
        mismatch(comparison, "row %u of %s belongs to no pool, and is written", row,
                 closes ? "closed_pooled" : "pooled");
    }
}

uint64_t expected_pools_compare(ExpectedPools *pools, const PoolOutputs *actual, const uint32_t *host_offsets,
                                Complaint *complaint)
{
    const PoolOutputs *expected = &pools->outputs;
    Comparison comparison = {.pools = pools, .actual = actual, .complaint = complaint};
    for (uint32_t r = 0; r <= pools->capacity; r++) {
        const uint32_t offset = expected->pool_row_offsets[r];
        if (actual->pool_row_offsets[r] != offset || host_offsets[r] != offset) {
            mismatch(&comparison, "pool_row_offsets[%u]: expected %u, actual %u, on the host %u", r, offset,
                     actual->pool_row_offsets[r], host_offsets[r]);
        }
    }
    for (uint32_t r = 0; r < pools->capacity; r++) {
        if (actual->closed_pool[r] != expected->closed_pool[r]) {
            mismatch(&comparison, "closed_pool[%u]: expected %d, actual %d", r, (int)expected->closed_pool[r],
                     (int)actual->closed_pool[r]);
        }
    }
    for (uint32_t i = 0; i < pools->place_count; i++) {
        compare_key(&comparison, &pools->places[i]);
    }
    for (uint32_t r = 0; r < pools->capacity; r++) {
        if (expected->closed_pool[r] == -1) {
            compare_unwritten(&comparison, true, r);
        }
    }
    for (uint32_t row = expected->pool_row_offsets[pools->capacity]; row < pools->pooled_rows; row++) {
        compare_unwritten(&comparison, false, row);
    }
    return comparison.mismatches;
}

uint64_t expected_pools_miscount(const ExpectedPools *pools, Complaint *complaint)
{
    uint64_t miscount = 0;
    for (uint32_t request = 0; request < pools->requests; request++) {
        const PoolAccount account = pools->accounts[request];
        if (account.made != account.due && miscount == 0) {
            complain(complaint, "request %u has made %u pools, and must have made %u", request, account.made,
                     account.due);
        }
        miscount += account.made > account.due ? account.made - account.due : account.due - account.made;
    }
    return miscount;
}
