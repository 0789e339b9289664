#include "expected_pools.h"

#include <stdlib.h>
#include <string.h>

#include "reference.h"

bool expected_pools_create(ExpectedPools *pools, const KpoolGeometry *geometry, const Trace *trace)
{
    const size_t row_size = (size_t)geometry->head_dim * kpoolTypeSize(geometry->type);
    const size_t P = geometry->kpool;
    *pools = (ExpectedPools){
        .geometry = *geometry,
        .ape = calloc(P * geometry->head_dim, sizeof(float)),
        .accounts = calloc((size_t)trace->count * 2, sizeof(PoolAccount)),
        .requests = trace->count * 2,
        .k = malloc(P * row_size),
        .gate = malloc(P * row_size),
        .key = malloc(row_size),
    };
    if (pools->ape == NULL || pools->accounts == NULL || pools->k == NULL || pools->gate == NULL ||
        pools->key == NULL) {
        expected_pools_destroy(pools);
        return false;
    }
    for (uint32_t m = 0; m < P; m++) {
        make_row(KPOOL_TYPE_F32, geometry->head_dim, NO_REQUEST, m, PLANE_APE, pools->ape + m * geometry->head_dim);
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
    free(pools->k);
    free(pools->gate);
    free(pools->key);
    *pools = (ExpectedPools){0};
}

/* ---------------------------------------------------------------------------------- keys ------- */

/* The key of one pool into pools->key: compress of a request that is this pool and nothing else. */
static void make_key(ExpectedPools *pools, Sequence sequence, uint32_t pool)
{
    const KpoolKernelCreateInfo info = {.geometry = pools->geometry};
    const uint32_t P = pools->geometry.kpool;
    const KpoolType type = pools->geometry.type;
    const uint32_t D = pools->geometry.head_dim;
    const size_t row_size = (size_t)D * kpoolTypeSize(type);
    for (uint32_t m = 0; m < P; m++) {
        const uint32_t position = pool * P + m;
        const uint32_t author = sequence_author(sequence, position);
        make_row(type, D, author, position, PLANE_KEY, pools->k + m * row_size);
        make_row(type, D, author, position, PLANE_GATE, pools->gate + m * row_size);
    }
    const KpoolCall call = {.requests = 1, .rows = P, .pooled_rows = 1};
    const uint32_t input_row_offsets[2] = {0, P};
    const uint32_t cache_lengths[1] = {0};
    const uint32_t pool_row_offsets[2] = {0, 1};
    reference_compress(&info, &call, pools->k, pools->gate, pools->ape, input_row_offsets, cache_lengths,
                       pool_row_offsets, pools->key, NULL);
}

static bool is_unwritten(const void *row, size_t size)
{
    const unsigned char *bytes = row;
    size_t i = 0;
    while (i < size && bytes[i] == UNWRITTEN) {
        i++;
    }
    return i == size;
}

/* ------------------------------------------------------------------------------- comparing ----- */

/* A step that is being compared. */
typedef struct Comparison {
    ExpectedPools *pools;
    const Batch *batch;
    const PoolOutputs *outputs;
    const uint32_t *host_offsets;
    size_t row_size;
    uint32_t rows; /* of pooled, in the requests so far */
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

static void compare_key(Comparison *comparison, Sequence sequence, uint32_t pool, const char *operation,
                        const unsigned char *row, uint64_t *made_by_operation)
{
    ExpectedPools *pools = comparison->pools;
    if (is_unwritten(row, comparison->row_size)) {
        mismatch(comparison, "request %u pool %u: %s has not made its key", sequence.request, pool, operation);
        return;
    }
    PoolAccount *account = &pools->accounts[sequence.request];
    account->made++;
    pools->remade += account->made <= account->most_made ? 1 : 0;
    account->most_made = account->made > account->most_made ? account->made : account->most_made;
    (*made_by_operation)++;

    make_key(pools, sequence, pool);
    if (memcmp(row, pools->key, comparison->row_size) == 0) {
        return;
    }
    const int digits = (int)kpoolTypeSize(pools->geometry.type) * 2;
    for (uint32_t c = 0; c < pools->geometry.head_dim; c++) {
        const uint32_t expected = element_bits(pools->geometry.type, pools->key, c);
        const uint32_t actual = element_bits(pools->geometry.type, row, c);
        if (expected != actual) {
            mismatch(comparison, "request %u pool %u, made by %s, channel %u: expected %0*x, actual %0*x",
                     sequence.request, pool, operation, c, digits, expected, digits, actual);
        }
    }
}

static void compare_unwritten(Comparison *comparison, const char *tensor, uint32_t row, const unsigned char *bytes)
{
    if (!is_unwritten(bytes, comparison->row_size)) {
        mismatch(comparison, "row %u of %s belongs to no pool, and is written", row, tensor);
    }
}

static void compare_offset(Comparison *comparison, uint32_t r)
{
    const uint32_t actual = comparison->outputs->pool_row_offsets[r];
    const uint32_t on_host = comparison->host_offsets[r];
    if (actual != comparison->rows || on_host != comparison->rows) {
        mismatch(comparison, "pool_row_offsets[%u]: expected %u, actual %u, on the host %u", r, comparison->rows,
                 actual, on_host);
    }
}

static void compare_request(Comparison *comparison, uint32_t r)
{
    ExpectedPools *pools = comparison->pools;
    const Batch *batch = comparison->batch;
    const PoolOutputs *outputs = comparison->outputs;
    const uint32_t P = pools->geometry.kpool;
    const unsigned char *closed_row = (const unsigned char *)outputs->closed_pooled + r * comparison->row_size;
    const unsigned char *pooled = outputs->pooled;
    const Sequence sequence = batch->sequence[r];
    const bool is_empty = sequence.request == NO_REQUEST;
    const uint32_t cached = is_empty ? 0 : batch->cache_lengths[r];
    const uint32_t end = cached + (batch->input_row_offsets[r + 1] - batch->input_row_offsets[r]);
    int32_t closed_pool = -1;
    if (!is_empty && cached == 0) {
        pools->accounts[sequence.request].made = 0;
    }
    compare_offset(comparison, r);
    for (uint32_t pool = cached / P; pool < end / P; pool++) {
        if (pool * P < cached) {
            closed_pool = (int32_t)pool;
            compare_key(comparison, sequence, pool, "ring_close", closed_row, &pools->closed);
        } else {
            const unsigned char *row = pooled + comparison->rows++ * comparison->row_size;
            compare_key(comparison, sequence, pool, "compress", row, &pools->compressed);
        }
    }
    if (outputs->closed_pool[r] != closed_pool) {
        mismatch(comparison, "closed_pool[%u]: expected %d, actual %d", r, (int)closed_pool,
                 (int)outputs->closed_pool[r]);
    }
    if (closed_pool == -1) {
        compare_unwritten(comparison, "closed_pooled", r, closed_row);
    }
}

uint64_t expected_pools_compare(ExpectedPools *pools, const Batch *batch, const PoolOutputs *outputs,
                                const uint32_t *host_offsets, Complaint *complaint)
{
    Comparison comparison = {
        .pools = pools,
        .batch = batch,
        .outputs = outputs,
        .host_offsets = host_offsets,
        .row_size = (size_t)pools->geometry.head_dim * kpoolTypeSize(pools->geometry.type),
        .complaint = complaint,
    };
    for (uint32_t i = 0; i < batch->forks; i++) {
        const Sequence twin = batch->twins[i];
        const uint32_t inherited = twin.forked_at / pools->geometry.kpool;
        pools->accounts[twin.request] = (PoolAccount){pools->accounts[twin.parent].due, inherited, inherited};
    }
    for (uint32_t r = 0; r < batch->capacity; r++) {
        compare_request(&comparison, r);
    }
    compare_offset(&comparison, batch->capacity);
    for (uint32_t row = comparison.rows; row < outputs->pooled_rows; row++) {
        const unsigned char *bytes = (const unsigned char *)outputs->pooled + row * comparison.row_size;
        compare_unwritten(&comparison, "pooled", row, bytes);
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
