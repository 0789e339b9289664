/* What the parser fuzzers share: invariants that hold whatever the input. A broken one ends the program, with a line
 * that says which. */
#ifndef KPOOL_TESTS_FUZZ_H
#define KPOOL_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "complaint.h"

/* What libFuzzer calls. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

void must_hold(bool condition, const char *invariant);

/* Fills it, so that a text that nobody wrote is noticed. */
void spoil_complaint(Complaint *complaint);
/* A line that says something, ends, and moves no cursor. */
void must_be_a_line(const Complaint *complaint);

#endif
