/* Calls of any operation whose index arrays hold random words, thousands in a call: for `kpool check --broken`. */
#ifndef KPOOL_TOOL_BROKEN_SCENARIO_H
#define KPOOL_TOOL_BROKEN_SCENARIO_H

#include "scenario.h"

/* Makes and fills one call of the operation. Every word of offsets, lengths, slots, pool ids, pairs and block tables
 * may be anything, with a liking for those at which a check or a sum could go wrong; offsets may descend. In one
 * call of eight requests may share slots, keys places or pairs destinations, and the scenario says so; in the others
 * none do. False as scenario_allocate. */
bool broken_scenario(KpoolOperation operation, Random *random, Scenario *scenario, Complaint *complaint);

/* How many requests, rows of pool ids and pairs the operation reads. */
uint64_t scenario_cases(const Scenario *scenario);

#endif
