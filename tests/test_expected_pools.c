/* What a replay compares pooled keys with: the plain-C reference of the whole update makes what is expected, forks and
 * preemptions included, and every wrong bit, missing key, stray row and miscount is found and named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "expected_pools.h"
#include "reference.h"

enum { SLOTS = 4, BATCH_TOKENS = 23, REQUESTS = 12 };

/* A device in plain C, and what a step has left in its tensors. */
typedef struct Machine {
    KpoolKernelCreateInfo info;
    KpoolCall call;
    size_t row_size;
    Batcher batcher;
    ExpectedPools pools;
    unsigned char *tail, *before;
    size_t tail_size;
    unsigned char *k, *gate;
    uint32_t *pool_row_offsets;
    int32_t *closed_pool;
    unsigned char *closed_pooled, *pooled;
} Machine;

static void *make(size_t size)
{
    void *memory = calloc(1, size);
    assert_non_null(memory);
    return memory;
}

static Machine make_machine(const Trace *trace, const KpoolGeometry *geometry, const BatcherOptions *options)
{
    Machine machine = {
        .info = {.geometry = *geometry},
        .call = {.max_slots = SLOTS,
                 .requests = batcher_capacity(SLOTS),
                 .rows = BATCH_TOKENS,
                 .pooled_rows = BATCH_TOKENS / geometry->kpool + 1,
                 .pair_count = BATCHER_MOST_FORKS},
        .row_size = (size_t)geometry->head_dim * kpoolTypeSize(geometry->type),
    };
    assert_true(batcher_create(&machine.batcher, trace, options));
    assert_true(expected_pools_create(&machine.pools, geometry, trace, machine.call.requests,
                                      machine.call.pooled_rows));
    machine.tail_size = SLOTS * 2 * geometry->kpool * machine.row_size;
    machine.tail = make(machine.tail_size);
    machine.before = make(machine.tail_size);
    machine.k = make(BATCH_TOKENS * machine.row_size);
    machine.gate = make(BATCH_TOKENS * machine.row_size);
    machine.pool_row_offsets = make((machine.call.requests + 1) * sizeof(uint32_t));
    machine.closed_pool = make(machine.call.requests * sizeof(int32_t));
    machine.closed_pooled = make(machine.call.requests * machine.row_size);
    machine.pooled = make(machine.call.pooled_rows * machine.row_size);
    return machine;
}

static void destroy_machine(Machine *machine)
{
    batcher_destroy(&machine->batcher);
    expected_pools_destroy(&machine->pools);
    free(machine->tail);
    free(machine->before);
    free(machine->k);
    free(machine->gate);
    free(machine->pool_row_offsets);
    free(machine->closed_pool);
    free(machine->closed_pooled);
    free(machine->pooled);
}

static void fill_rows(Machine *machine)
{
    const Batch *batch = &machine->batcher.batch;
    const KpoolGeometry *geometry = &machine->info.geometry;
    for (uint32_t r = 0; r < batch->capacity; r++) {
        for (uint32_t row = batch->input_row_offsets[r]; row < batch->input_row_offsets[r + 1]; row++) {
            const uint32_t position = batch->cache_lengths[r] + row - batch->input_row_offsets[r];
            const Sequence sequence = batch->sequence[r];
            const uint32_t author = position < sequence.forked_at ? sequence.parent : sequence.request;
            make_row(geometry->type, geometry->head_dim, author, position, PLANE_KEY,
                     machine->k + row * machine->row_size);
            make_row(geometry->type, geometry->head_dim, author, position, PLANE_GATE,
                     machine->gate + row * machine->row_size);
        }
    }
}

/* One step; false when there is none left. */
static bool step(Machine *machine)
{
    const Batch *batch = &machine->batcher.batch;
    const KpoolGeometry *geometry = &machine->info.geometry;
    const KpoolCall *call = &machine->call;
    const float *ape = machine->pools.ape;
    if (!batcher_next(&machine->batcher)) {
        return false;
    }
    fill_rows(machine);
    memset(machine->closed_pooled, UNWRITTEN, call->requests * machine->row_size);
    memset(machine->pooled, UNWRITTEN, call->pooled_rows * machine->row_size);
    memcpy(machine->before, machine->tail, machine->tail_size);
    reference_copy_slots(geometry, call, machine->before, machine->tail, &batch->pairs[0][0], NULL);
    reference_pool_row_offsets(geometry->kpool, call, batch->input_row_offsets, batch->cache_lengths,
                               machine->pool_row_offsets, NULL);
    reference_ring_close(&machine->info, call, machine->tail, machine->k, machine->gate, ape, batch->input_row_offsets,
                         batch->cache_lengths, batch->slot_idx, machine->closed_pool, machine->closed_pooled, NULL);
    reference_compress(&machine->info, call, machine->k, machine->gate, ape, batch->input_row_offsets,
                       batch->cache_lengths, machine->pool_row_offsets, machine->pooled, NULL);
    reference_seed_tail(geometry, call, machine->tail, machine->k, machine->gate, batch->input_row_offsets,
                        batch->cache_lengths, batch->slot_idx, NULL);
    return true;
}

static uint64_t compare(Machine *machine, Complaint *complaint)
{
    const PoolOutputs actual = {machine->pool_row_offsets, machine->closed_pool, machine->closed_pooled,
                                machine->pooled};
    expected_pools_step(&machine->pools, &machine->batcher.batch);
    return expected_pools_compare(&machine->pools, &actual, machine->pool_row_offsets, complaint);
}

static const KpoolGeometry geometries[] = {
    {.head_dim = 6, .kpool = 4, .type = KPOOL_TYPE_BF16},
    {.head_dim = 18, .kpool = 3, .type = KPOOL_TYPE_F16},
    {.head_dim = 5, .kpool = 1, .type = KPOOL_TYPE_F32},
    {.head_dim = 3, .kpool = 7, .type = KPOOL_TYPE_F32},
};

static const TraceRequest requests[REQUESTS] = {{50, 20}, {1, 40}, {0, 9},  {13, 0}, {40, 31}, {7, 7},
                                                {29, 3},  {0, 0},  {90, 8}, {5, 22}, {11, 11}, {3, 60}};
static const Trace trace = {(TraceRequest *)requests, REQUESTS};

/* Pools that all requests must have made once, counted from their lengths alone. */
static uint64_t count_pools(uint32_t kpool)
{
    uint64_t pools = 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        pools += (requests[i].context_tokens + requests[i].generated_tokens) / kpool;
    }
    return pools;
}

static void the_reference_is_right(void **state)
{
    (void)state;
    static const struct {
        uint32_t fork, preempt;
    } kinds[] = {{0, 0}, {1, 0}, {0, 3}, {2, 4}};
    for (size_t g = 0; g < sizeof geometries / sizeof geometries[0]; g++) {
        const uint32_t P = geometries[g].kpool;
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            const BatcherOptions options = {SLOTS, BATCH_TOKENS, P, kinds[i].fork, kinds[i].preempt, g};
            Machine machine = make_machine(&trace, &geometries[g], &options);
            uint64_t of_twins = 0;
            while (step(&machine)) {
                const Batch *batch = &machine.batcher.batch;
                for (uint32_t f = 0; f < batch->forks; f++) {
                    of_twins +=
                        batcher_length(&trace, batch->twins[f].parent) / P - batch->twins[f].forked_at / P;
                }
                Complaint complaint = {""};
                const uint64_t mismatches = compare(&machine, &complaint);
                assert_string_equal(complaint.text, "");
                assert_int_equal(mismatches, 0);
            }
            Complaint complaint;
            assert_int_equal(expected_pools_miscount(&machine.pools, &complaint), 0);
            const ExpectedPools *pools = &machine.pools;
            assert_int_equal(pools->closed + pools->compressed - pools->remade, count_pools(P) + of_twins);
            assert_true((kinds[i].preempt != 0) == (pools->remade != 0));
            assert_true((kinds[i].fork != 0 && P > 1) == (machine.batcher.forks != 0));
            assert_true((P > 1) == (pools->closed != 0) && pools->compressed != 0);
            destroy_machine(&machine);
        }
    }
}

/* Each comparison counts the pools again: the accounts are wrong after a second one. */
static void expect_found(Machine *machine, uint64_t mismatches, const char *words)
{
    Complaint complaint = {""};
    assert_int_equal(compare(machine, &complaint), mismatches);
    if (strstr(complaint.text, words) == NULL) {
        fail_msg("'%s' does not say '%s'", complaint.text, words);
    }
}

static void flip_bits(Machine *machine, void *tensor, size_t size, const char *words)
{
    unsigned char *bytes = tensor;
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        expect_found(machine, 1, words);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

/* Of steps that close and compress. */
static void every_wrong_bit_is_found_and_named(void **state)
{
    (void)state;
    for (size_t g = 0; g < sizeof geometries / sizeof geometries[0]; g++) {
        const BatcherOptions options = {SLOTS, BATCH_TOKENS, geometries[g].kpool, 0, 0, 5};
        Machine machine = make_machine(&trace, &geometries[g], &options);
        for (uint32_t i = 0; i < 12; i++) {
            assert_true(step(&machine));
            expect_found(&machine, 0, "");
            const uint32_t capacity = machine.call.requests;
            flip_bits(&machine, machine.closed_pool, capacity * sizeof(int32_t), "closed_pool[");
            flip_bits(&machine, machine.closed_pooled, capacity * machine.row_size, "close");
            flip_bits(&machine, machine.pooled, machine.call.pooled_rows * machine.row_size, "pool");
            /* The host's entries are the same array here. */
            flip_bits(&machine, machine.pool_row_offsets, (capacity + 1) * sizeof(uint32_t), "pool_row_offsets[");
        }
        destroy_machine(&machine);
    }
}

static void a_missing_key_is_found_and_not_counted(void **state)
{
    (void)state;
    const BatcherOptions options = {SLOTS, BATCH_TOKENS, 4, 0, 0, 5};
    Machine machine = make_machine(&trace, &geometries[0], &options);
    assert_true(step(&machine));
    assert_true(machine.pool_row_offsets[machine.call.requests] > 2);
    memset(machine.pooled + machine.row_size, UNWRITTEN, machine.row_size);
    expect_found(&machine, 1, ": compress has not made its key");
    while (step(&machine)) {
        expect_found(&machine, 0, "");
    }
    Complaint complaint;
    assert_int_equal(expected_pools_miscount(&machine.pools, &complaint), 1);
    assert_non_null(strstr(complaint.text, " pools, and must have made "));
    destroy_machine(&machine);
}

static bool begins_a_request(const Batch *batch)
{
    for (uint32_t r = 0; r < batch->capacity; r++) {
        if (batch->sequence[r].request != NO_REQUEST && batch->cache_lengths[r] == 0) {
            return true;
        }
    }
    return false;
}

static void a_pool_made_twice_is_counted(void **state)
{
    (void)state;
    const BatcherOptions options = {SLOTS, BATCH_TOKENS, 4, 0, 0, 5};
    Machine machine = make_machine(&trace, &geometries[0], &options);
    const ExpectedPools *pools = &machine.pools;
    uint64_t again = 0;
    while (step(&machine)) {
        const uint64_t before = pools->closed + pools->compressed;
        expect_found(&machine, 0, "");
        const uint64_t made = pools->closed + pools->compressed - before;
        if (again == 0 && made != 0 && !begins_a_request(&machine.batcher.batch)) {
            expect_found(&machine, 0, "");
            again = made;
        }
    }
    Complaint complaint;
    assert_true(again != 0);
    assert_int_equal(expected_pools_miscount(pools, &complaint), again);
    destroy_machine(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_is_right),
        cmocka_unit_test(every_wrong_bit_is_found_and_named),
        cmocka_unit_test(a_missing_key_is_found_and_not_counted),
        cmocka_unit_test(a_pool_made_twice_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
