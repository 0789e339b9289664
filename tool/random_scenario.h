/* Random calls of any operation, sound and broken ones, in every geometry and layout. */
#ifndef KPOOL_TOOL_RANDOM_SCENARIO_H
#define KPOOL_TOOL_RANDOM_SCENARIO_H

#include "scenario.h"

/* Makes and fills one call of the operation. What the contract leaves open does not occur: no slot is used twice by
 * requests that are served, no two keys meet in the paged cache, and, for operations that work by row, offsets never
 * descend. The rest may be anything. False as scenario_allocate. */
bool random_scenario(KpoolOperation operation, Random *random, Scenario *scenario, Complaint *complaint);

/* What the calls of random_scenario have but for their index arrays: a kernel, a layout for the capacities in call,
 * and, once allocated, keys, gates and ape. */
KpoolKernelCreateInfo random_info(KpoolOperation operation, Random *random);
void random_layout(Random *random, const KpoolKernelCreateInfo *info, KpoolCall *call);
void random_keys(Random *random, Scenario *scenario);

/* Keys and gates as a model has them, with any bits here and there. */
void random_values(Random *random, KpoolType type, void *image, size_t elements);

#endif
