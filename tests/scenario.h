/* What the GPU tests share: a repeatable source of random numbers, tensors allocated to a call's sizes and
 * filled, an operation run on a device and compared, image for image, with what the reference made of a copy. */
#ifndef KPOOL_TESTS_SCENARIO_H
#define KPOOL_TESTS_SCENARIO_H

#include "execute.h"

/* splitmix64: the whole state is one word, so a failure is repeated from its seed. */
typedef struct Random {
    uint64_t state;
} Random;

uint64_t random_next(Random *random);
/* In [low, high]. */
uint32_t random_between(Random *random, uint32_t low, uint32_t high);

typedef struct Scenario {
    KpoolKernelCreateInfo info;
    KpoolCall call;
    KpoolBindings sizes;
    TensorImages images; /* what the device works on */
} Scenario;

/* Allocates the images for info and call and fills them with random bits, status and index arrays with zeros.
 * Fails the test where the library refuses the call. */
void scenario_allocate(Scenario *scenario, Random *random);
void scenario_free(Scenario *scenario);
/* Images of the same contents. */
TensorImages scenario_copy_images(const Scenario *scenario);
void scenario_free_images(TensorImages *images);

/* input_row_offsets from a first row and counts of tokens; images are allocated. */
void scenario_set_tokens(Scenario *scenario, uint32_t first_row, const uint32_t *tokens);

/* Runs it on the device, and compares all images with expected, bit for bit, but for those that are NULL there; the
 * guards are checked too. */
void scenario_run(Scenario *scenario, Gpu *gpu, const TensorImages *expected);

/* Opens the device that the environment names, in each binding layout and with push descriptors where the device
 * has them, and calls the test once for each. Fails on any validation message. */
void scenario_each_device(void (*test)(Gpu *gpu));

#endif
