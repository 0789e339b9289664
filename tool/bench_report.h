/* What `kpool bench` prints: a table for each operation, type and mix with a column for each number of requests, or all
 * of it as CSV or JSON. */
#ifndef KPOOL_TOOL_BENCH_REPORT_H
#define KPOOL_TOOL_BENCH_REPORT_H

#include "bench_host.h"
#include "bench_pipelines.h"
#include "bench_sample.h"

typedef enum BenchFormat { BENCH_TABLE, BENCH_CSV, BENCH_JSON } BenchFormat;

#define BENCH_MOST_BATCHES 8u

/* One number of requests. */
typedef struct BenchColumn {
    uint32_t requests;
    uint32_t lanes; /* the shape of ours */
    uint32_t items;
    char left_out[256]; /* why it was not measured; empty where it was */
    bool present[BENCH_VARIANT_COUNT];
    BenchResult result;
} BenchColumn;

/* One operation on one type and mix. */
typedef struct BenchBlock {
    const char *operation;
    const char *type;
    const char *mix;
    KpoolGeometry geometry;
    uint32_t alignment;
    uint32_t plain_bits; /* of a word that an invocation of the plain port moves; 0 where there is none */
    uint32_t count;
    BenchColumn columns[BENCH_MOST_BATCHES];
} BenchBlock;

/* One block after the other is printed, so they are called before, for each, and after. */
void bench_report_start(BenchFormat format, const Gpu *gpu);
void bench_report_block(BenchFormat format, const BenchBlock *block, bool first);
void bench_report_end(BenchFormat format);

void bench_report_host(BenchFormat format, const Gpu *gpu, const BenchHost *host);

typedef struct BenchPipelineRow {
    const char *operation;
    BenchPipeline pipeline;
} BenchPipelineRow;

/* spirv: bytes of all modules. */
void bench_report_pipelines(BenchFormat format, const Gpu *gpu, const BenchPipelineRow *rows, uint32_t count,
                            size_t spirv);

#endif
