/* What the GPU tests share: scenarios that fail a cmocka test where something goes wrong, and a test run on every kind
 * of context that the device takes. */
#ifndef KPOOL_TESTS_DEVICE_TESTS_H
#define KPOOL_TESTS_DEVICE_TESTS_H

#include "random_scenario.h"

/* scenario_allocate, scenario_copy_images, and a scenario_run that must be right. */
void must_allocate(Scenario *scenario, Random *random);
TensorImages must_copy_images(const Scenario *scenario);
void must_run(Scenario *scenario, Gpu *gpu, const TensorImages *expected);

/* Runs it, compares with the reference, and frees it. */
void must_match_reference(Scenario *scenario, Gpu *gpu);

/* Whether a layer makes every new pipeline cost seconds, so that fewer should be made. */
bool must_be_brief(void);

/* Random calls of the operation with the seeds [first, first + count); a sixth of them where it must be brief. */
void must_match_random(Gpu *gpu, KpoolOperation operation, uint64_t first, uint64_t count);

/* input_row_offsets from a first row and counts of tokens. */
void set_tokens(Scenario *scenario, uint32_t first_row, const uint32_t *tokens);

/* Opens the device that the environment names, in each binding layout that it takes and with push descriptors where it
 * has them, and calls the test once for each, first in the floor layout without. Fails on any validation message. */
void on_each_context(void (*test)(Gpu *gpu));

/* A cmocka test named test_<check> that does so with check. */
#define ON_EACH_CONTEXT(check)             \
    static void test_##check(void **state) \
    {                                      \
        (void)state;                       \
        on_each_context(check);            \
    }

#endif
