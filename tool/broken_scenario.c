#include "broken_scenario.h"

#include <stdlib.h>

#include "random_scenario.h"
#include "reference.h"

#define WORDS SCENARIO_WORDS

/* Any word; often one beside the capacity that bounds it, beside where signs and sums change, or such that the sum with
 * the capacity, or the product with a stride, comes out small again. */
static uint32_t random_word(Random *random, uint32_t capacity)
{
    const uint32_t beside = random_between(random, 0, 6) - 3;
    switch (random_between(random, 0, 11)) {
    case 0:
        return (uint32_t)random_next(random);
    case 1:
        return (uint32_t)random_next(random) >> random_between(random, 0, 31);
    case 2:
        return random_between(random, 0, 8);
    case 3:
    case 4:
        return capacity + beside;
    case 5:
        return 0x80000000u + beside;
    case 6:
        return 0x7fffffffu - capacity + beside;
    case 7:
        return UINT32_MAX - random_between(random, 0, 8);
    case 8:
        return UINT32_MAX - capacity + beside;
    case 9:
        return (1u << random_between(random, 0, 31)) + beside;
    default:
        return random_between(random, 0, capacity);
    }
}

static int compare_words(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void sort_words(uint32_t *words, size_t count)
{
    qsort(words, count, sizeof *words, compare_words);
}

/* Requests in a row, but for one word in three; in one call of three, and so that isolation holds by row too, in
 * order. */
static void break_offsets(Random *random, Scenario *scenario)
{
    const KpoolCall *call = &scenario->call;
    uint32_t *offsets = WORDS(scenario, input_row_offsets);
    for (uint32_t r = 0; r <= call->requests; r++) {
        const uint32_t before = r != 0 && offsets[r - 1] <= call->rows ? offsets[r - 1] : 0;
        const uint32_t left = call->rows - before;
        offsets[r] = random_one_in(random, 3) ? random_word(random, call->rows)
                                              : before + random_between(random, 0, left < 40 ? left : 40);
    }
    if (random_one_in(random, 3)) {
        sort_words(offsets, (size_t)call->requests + 1);
    }
}

static void break_requests(Random *random, Scenario *scenario)
{
    const KpoolCall *call = &scenario->call;
    const uint32_t *offsets = WORDS(scenario, input_row_offsets);
    const uint32_t longest = random_one_in(random, 2) ? 60 : 1000;
    for (uint32_t r = 0; r < call->requests; r++) {
        WORDS(scenario, cache_lengths)[r] = random_one_in(random, 3) ? random_word(random, offsets[r + 1] - offsets[r])
                                                                     : random_between(random, 0, longest);
        if (scenario->sizes.slot_idx.size != 0) {
            WORDS(scenario, slot_idx)[r] =
                random_one_in(random, 3) ? random_word(random, call->max_slots) : r % call->max_slots;
        }
    }
}

/* The true offsets, true ones with rows of nobody in between, words in order, or words. */
static void break_pool_row_offsets(Random *random, Scenario *scenario)
{
    const KpoolCall *call = &scenario->call;
    const uint32_t kind = random_between(random, 0, 3);
    uint32_t *pools = WORDS(scenario, pool_row_offsets);
    uint32_t more = 0;
    reference_pool_row_offsets(scenario->info.geometry.kpool, call, WORDS(scenario, input_row_offsets),
                               WORDS(scenario, cache_lengths), pools, NULL);
    for (uint32_t r = 0; kind != 0 && r <= call->requests; r++) {
        pools[r] = kind == 1 ? pools[r] + more : random_word(random, call->pooled_rows);
        more += random_one_in(random, 4) ? random_between(random, 0, 3) : 0;
    }
    if (kind == 2) {
        sort_words(pools, (size_t)call->requests + 1);
    }
}

static void break_words(Random *random, uint32_t *words, uint64_t count, uint32_t capacity)
{
    for (uint64_t i = 0; i < count; i++) {
        words[i] = random_one_in(random, 2) ? random_word(random, capacity) : (uint32_t)(i % ((uint64_t)capacity + 1));
    }
}

/* Whether the word is below capacity and was not met before. */
static bool take(unsigned char *taken, uint32_t capacity, uint32_t word)
{
    const bool free = word < capacity && taken[word] == 0;
    if (free) {
        taken[word] = 1;
    }
    return free;
}

static uint32_t word_beyond(Random *random, uint32_t capacity)
{
    return capacity + random_between(random, 0, UINT32_MAX - capacity);
}

/* Leaves each slot, page and destination to the first that uses it; the others get one that does not exist. */
static bool part(Random *random, Scenario *scenario)
{
    const KpoolCall *call = &scenario->call;
    unsigned char *slots = calloc((size_t)call->max_slots + 1, 1);
    unsigned char *pages = calloc((size_t)call->pages + 1, 1);
    const bool allocated = slots != NULL && pages != NULL;
    const bool seeds = scenario->info.operation == KPOOL_OPERATION_SEED_TAIL ||
                       scenario->info.operation == KPOOL_OPERATION_STEP;
    for (uint32_t r = 0; allocated && seeds && r < call->requests; r++) {
        uint32_t *slot = &WORDS(scenario, slot_idx)[r];
        if (reference_judge(call->rows, call->max_slots, WORDS(scenario, input_row_offsets),
                            WORDS(scenario, cache_lengths), WORDS(scenario, slot_idx), r) == -2 &&
            !take(slots, call->max_slots, *slot)) {
            *slot = word_beyond(random, call->max_slots);
        }
    }
    const uint32_t entries = scenario->sizes.block_table.size != 0 ? call->requests * call->max_pages : 0;
    for (uint32_t i = 0; allocated && i < entries; i++) {
        uint32_t *page = &WORDS(scenario, block_table)[i];
        if (*page < call->pages && !take(pages, call->pages, *page)) {
            *page = word_beyond(random, call->pages);
        }
    }
    const uint32_t pairs = scenario->info.operation == KPOOL_OPERATION_COPY_SLOTS ? call->pair_count : 0;
    for (uint32_t i = 0; allocated && i < pairs; i++) {
        uint32_t *pair = &WORDS(scenario, pairs)[2 * (size_t)i];
        if (pair[0] != pair[1] && pair[0] < call->max_slots && pair[1] < call->max_slots &&
            !take(slots, call->max_slots, pair[1])) {
            pair[1] = word_beyond(random, call->max_slots);
        }
    }
    free(slots);
    free(pages);
    return allocated;
}

/* Small keys, so that a call holds many. */
static KpoolKernelCreateInfo small_info(KpoolOperation operation, Random *random)
{
    KpoolKernelCreateInfo info;
    do {
        info = random_info(operation, random);
    } while (info.geometry.head_dim > 16 || info.geometry.kpool > 16 || info.topk > 16);
    return info;
}

bool broken_scenario(KpoolOperation operation, Random *random, Scenario *scenario, Complaint *complaint)
{
    *scenario = (Scenario){.info = small_info(operation, random)};
    KpoolCall *call = &scenario->call;
    call->max_slots = random_between(random, 1, 1000);
    call->requests = random_between(random, 1, random_one_in(random, 4) ? 20 : 4000);
    call->rows = random_between(random, 0, 2000);
    if (operation == KPOOL_OPERATION_POOL_ROW_OFFSETS && random_one_in(random, 2)) {
        call->rows = (uint32_t)random_next(random); /* no buffer has them, and their pools may be too many to count */
    }
    call->pooled_rows = random_between(random, 0, 1000);
    call->pair_count = random_between(random, 1, 2000);
    if (operation == KPOOL_OPERATION_STEP && random_one_in(random, 2)) {
        scenario->info.page_size = 1u << random_between(random, 0, 3);
        call->max_pages = random_between(random, 0, 12);
        call->pages = random_between(random, 0, 3000);
    }
    if (!random_one_in(random, 3)) {
        random_layout(random, &scenario->info, call);
    }
    if (!scenario_allocate(scenario, random, complaint)) {
        return false;
    }
    random_keys(random, scenario);
    if (scenario->sizes.input_row_offsets.size != 0) {
        break_offsets(random, scenario);
        break_requests(random, scenario);
    }
    if (operation == KPOOL_OPERATION_COMPRESS || operation == KPOOL_OPERATION_STEP) {
        break_pool_row_offsets(random, scenario);
    }
    if (scenario->sizes.block_table.size != 0) {
        break_words(random, WORDS(scenario, block_table), (uint64_t)call->requests * call->max_pages, call->pages);
    }
    if (operation == KPOOL_OPERATION_EXPAND_TOPK) {
        break_words(random, WORDS(scenario, pool_ids), (uint64_t)call->rows * scenario->info.topk, 250);
    }
    if (operation == KPOOL_OPERATION_COPY_SLOTS) {
        break_words(random, WORDS(scenario, pairs), 2 * (uint64_t)call->pair_count, call->max_slots);
    }
    const bool may_collide = operation == KPOOL_OPERATION_SEED_TAIL || operation == KPOOL_OPERATION_STEP ||
                             operation == KPOOL_OPERATION_COPY_SLOTS;
    scenario->collides = may_collide && random_one_in(random, 8);
    if (!scenario->collides && !part(random, scenario)) {
        scenario_free(scenario);
        return complain(complaint, "out of memory");
    }
    return true;
}

uint64_t scenario_cases(const Scenario *scenario)
{
    switch (scenario->info.operation) {
    case KPOOL_OPERATION_COPY_SLOTS:
        return scenario->call.pair_count;
    case KPOOL_OPERATION_EXPAND_TOPK:
        return (uint64_t)scenario->call.requests + scenario->call.rows;
    default:
        return scenario->call.requests;
    }
}
