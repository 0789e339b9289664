/* Samples of the variants of one row, taken in turn in a shuffled order, and what they come to. */
#ifndef KPOOL_TOOL_BENCH_SAMPLE_H
#define KPOOL_TOOL_BENCH_SAMPLE_H

#include "bench_variants.h"

/* Medians over the rounds; a ratio is the median of each round's own ratio. */
typedef struct BenchMeasure {
    double microseconds;
    double ratio; /* of empty: 0; of ours: to empty; of fast: of ours to it; of the others: to ours */
} BenchMeasure;

typedef struct BenchResult {
    uint32_t rounds;
    BenchMeasure once[BENCH_VARIANT_COUNT];     /* submit to fence of one */
    BenchMeasure marginal[BENCH_VARIANT_COUNT]; /* of one in many: without the submission's share */
} BenchResult;

/* rounds 0: as many as fit in three seconds, from 7 to 100. false: gpu->error says why. */
bool bench_sample(BenchVariants *variants, uint32_t rounds, BenchResult *result);

/* Reorders values. The mean of the middle two where count is even; 0 where it is 0. */
double bench_median(double *values, size_t count);

#endif
