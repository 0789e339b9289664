#include "bench_report.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

typedef struct Kind {
    const char *name;
    const char *title;
} Kind;

static const Kind kinds[] = {
    {"once", "one dispatch, submit to fence"},
    {"marginal", "one of 32 in a command buffer, less the empty submit"},
};
#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

static const BenchMeasure *find_measure(const BenchColumn *column, size_t kind, BenchVariant variant)
{
    return kind == 0 ? &column->result.once[variant] : &column->result.marginal[variant];
}

static void name_ratio(BenchVariant variant, char name[24])
{
    const char *ours = bench_variant_names[BENCH_OURS];
    const char *own = bench_variant_names[variant];
    if (variant == BENCH_OURS) {
        own = bench_variant_names[BENCH_EMPTY];
    }
    const bool first = variant == BENCH_OURS || variant == BENCH_FAST;
    snprintf(name, 24, "%s/%s", first ? ours : own, first ? own : ours);
}

static bool is_measured(const BenchColumn *column)
{
    return column->left_out[0] == '\0';
}

static const char *layout_name(const Gpu *gpu)
{
    return kpoolGetBindingLayout(gpu->context) == KPOOL_BINDING_LAYOUT_WIDE ? "wide" : "floor";
}

/* -------------------------------------------------------------------------------- table ------- */

#define LABEL_WIDTH 18

static void print_cell(const char *format, double value)
{
    char cell[32];
    snprintf(cell, sizeof cell, format, value);
    printf("%9s", cell);
}

static void print_shapes(const BenchBlock *block)
{
    printf("  %-*s", LABEL_WIDTH, "lanes x items");
    for (uint32_t i = 0; i < block->count; i++) {
        char cell[32] = "-";
        if (is_measured(&block->columns[i])) {
            snprintf(cell, sizeof cell, "%ux%u", block->columns[i].lanes, block->columns[i].items);
        }
        printf("%9s", cell);
    }
    putchar('\n');
}

static bool has_variant(const BenchBlock *block, BenchVariant variant)
{
    for (uint32_t i = 0; i < block->count; i++) {
        if (block->columns[i].present[variant]) {
            return true;
        }
    }
    return false;
}

static void print_line(const BenchBlock *block, size_t kind, BenchVariant variant, bool ratio)
{
    char label[24];
    if (ratio) {
        name_ratio(variant, label);
    } else {
        snprintf(label, sizeof label, "%s, us", bench_variant_names[variant]);
    }
    printf("  %-*s", LABEL_WIDTH, label);
    for (uint32_t i = 0; i < block->count; i++) {
        const BenchColumn *column = &block->columns[i];
        const BenchMeasure *measure = find_measure(column, kind, variant);
        if (!column->present[variant]) {
            printf("%9s", "-");
        } else if (ratio) {
            print_cell("%.2f", measure->ratio);
        } else {
            print_cell(measure->microseconds < 999.5 ? "%.2f" : "%.0f", measure->microseconds);
        }
    }
    putchar('\n');
}

static void print_table(const BenchBlock *block)
{
    printf("%s, %s, %s: head_dim %u, kpool %u, alignment %u", block->operation, block->type, block->mix,
           block->geometry.head_dim, block->geometry.kpool, block->alignment);
    if (block->plain_bits != 0) {
        printf(", plain port of %u bits", block->plain_bits);
    }
    putchar('\n');
    printf("  %-*s", LABEL_WIDTH, "requests");
    for (uint32_t i = 0; i < block->count; i++) {
        printf("%9u", block->columns[i].requests);
    }
    putchar('\n');
    print_shapes(block);
    for (size_t kind = 0; kind < KIND_COUNT; kind++) {
        printf(" %s\n", kinds[kind].title);
        for (uint32_t i = 0; i < 2 * BENCH_VARIANT_COUNT; i++) {
            const BenchVariant variant = i % BENCH_VARIANT_COUNT;
            const bool ratio = i >= BENCH_VARIANT_COUNT;
            if (has_variant(block, variant) && !(ratio && variant == BENCH_EMPTY)) {
                print_line(block, kind, variant, ratio);
            }
        }
    }
    for (uint32_t i = 0; i < block->count; i++) {
        if (!is_measured(&block->columns[i])) {
            printf(" %u requests: %s\n", block->columns[i].requests, block->columns[i].left_out);
        }
    }
    putchar('\n');
}

/* ---------------------------------------------------------------------------------- CSV ------- */

static void print_csv(const BenchBlock *block)
{
    for (uint32_t i = 0; i < block->count; i++) {
        const BenchColumn *column = &block->columns[i];
        for (size_t kind = 0; kind < KIND_COUNT; kind++) {
            for (BenchVariant variant = 0; variant < BENCH_VARIANT_COUNT; variant++) {
                const BenchMeasure *measure = find_measure(column, kind, variant);
                char ratio[24] = "";
                if (!column->present[variant]) {
                    continue;
                }
                printf("%s,%s,%s,%u,%u,%u,%u,%u,%u,%s,%s,%.4f,", block->operation, block->type, block->mix,
                       block->geometry.head_dim, block->geometry.kpool, column->requests, column->lanes,
                       column->items, column->result.rounds, kinds[kind].name, bench_variant_names[variant],
                       measure->microseconds);
                if (variant != BENCH_EMPTY) {
                    name_ratio(variant, ratio);
                    printf("%s,%.4f\n", ratio, measure->ratio);
                } else {
                    printf(",\n");
                }
            }
        }
    }
}

/* --------------------------------------------------------------------------------- JSON ------- */

static json_t *make_measures(const BenchColumn *column, size_t kind)
{
    json_t *measures = json_object();
    for (BenchVariant variant = 0; variant < BENCH_VARIANT_COUNT; variant++) {
        const BenchMeasure *measure = find_measure(column, kind, variant);
        char name[24];
        if (!column->present[variant]) {
            continue;
        }
        char microseconds[32];
        snprintf(microseconds, sizeof microseconds, "%s_us", bench_variant_names[variant]);
        json_object_set_new(measures, microseconds, json_real(measure->microseconds));
        if (variant != BENCH_EMPTY) {
            name_ratio(variant, name);
            json_object_set_new(measures, name, json_real(measure->ratio));
        }
    }
    return measures;
}

static void print_object(json_t *object)
{
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(object);
}

/* One line an object, so that the whole is written as it is measured. */
static void print_json(const BenchBlock *block, bool first)
{
    for (uint32_t i = 0; i < block->count; i++) {
        const BenchColumn *column = &block->columns[i];
        json_t *row = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i}", "op", block->operation, "dtype", block->type,
                                "mix", block->mix, "head_dim", (int)block->geometry.head_dim, "kpool",
                                (int)block->geometry.kpool, "alignment", (int)block->alignment, "requests",
                                (int)column->requests);
        if (is_measured(column)) {
            json_object_set_new(row, "lanes", json_integer(column->lanes));
            json_object_set_new(row, "items", json_integer(column->items));
            json_object_set_new(row, "rounds", json_integer(column->result.rounds));
            if (block->plain_bits != 0) {
                json_object_set_new(row, "plain_bits", json_integer(block->plain_bits));
            }
            for (size_t kind = 0; kind < KIND_COUNT; kind++) {
                json_object_set_new(row, kinds[kind].name, make_measures(column, kind));
            }
        } else {
            json_object_set_new(row, "left_out", json_string(column->left_out));
        }
        fputs(first && i == 0 ? "\n  " : ",\n  ", stdout);
        json_dumpf(row, stdout, JSON_REAL_PRECISION(6));
        json_decref(row);
    }
}

/* -------------------------------------------------------------------------------- report ------ */

void bench_report_start(BenchFormat format, const Gpu *gpu)
{
    if (format == BENCH_TABLE) {
        printf("%s, %s layout; medians, and medians of each round's ratio\n\n", gpu->properties.deviceName,
               layout_name(gpu));
    } else if (format == BENCH_CSV) {
        puts("op,dtype,mix,head_dim,kpool,requests,lanes,items,rounds,kind,variant,microseconds,ratio_of,ratio");
    } else {
        json_t *name = json_string(gpu->properties.deviceName);
        fputs("{\"device\": ", stdout);
        json_dumpf(name, stdout, JSON_ENCODE_ANY);
        printf(", \"layout\": \"%s\", \"rows\": [", layout_name(gpu));
        json_decref(name);
    }
}

void bench_report_block(BenchFormat format, const BenchBlock *block, bool first)
{
    if (format == BENCH_TABLE) {
        print_table(block);
    } else if (format == BENCH_CSV) {
        print_csv(block);
    } else {
        print_json(block, first);
    }
    fflush(stdout);
}

void bench_report_end(BenchFormat format)
{
    if (format == BENCH_JSON) {
        puts("\n]}");
    }
}

void bench_report_host(BenchFormat format, const Gpu *gpu, const BenchHost *host)
{
    if (format == BENCH_TABLE) {
        printf("%s, %s layout; medians of %u records each\n\n", gpu->properties.deviceName, layout_name(gpu),
               host->records);
        printf("  %-24s%9.1f ns\n", "kpoolCmdSeedTail", host->ours);
        printf("  %-24s%9.1f ns\n", "kpoolCmdExecute", host->executed);
        printf("  %-24s%9.1f ns\n", "the raw calls", host->raw);
        printf("  %-24s%9.2f\n", "ours/raw", host->ratio);
        printf("  %-24s%9.2f\n", "execute/raw", host->executed_ratio);
        printf("  %-24s%9llu\n", "allocations", (unsigned long long)host->allocations);
    } else if (format == BENCH_CSV) {
        printf("records,ours_ns,execute_ns,raw_ns,ours/raw,execute/raw,allocations\n%u,%.2f,%.2f,%.2f,%.4f,%.4f,%llu\n",
               host->records, host->ours, host->executed, host->raw, host->ratio, host->executed_ratio,
               (unsigned long long)host->allocations);
    } else {
        print_object(json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:I}", "device", gpu->properties.deviceName,
                               "layout", layout_name(gpu), "records", (json_int_t)host->records, "ours_ns", host->ours,
                               "execute_ns", host->executed, "raw_ns", host->raw, "ours/raw", host->ratio,
                               "execute/raw", host->executed_ratio, "allocations", (json_int_t)host->allocations));
    }
}

void bench_report_pipelines(BenchFormat format, const Gpu *gpu, const BenchPipelineRow *rows, uint32_t count,
                            size_t spirv)
{
    if (format == BENCH_JSON) {
        json_t *array = json_array();
        for (uint32_t i = 0; i < count; i++) {
            const BenchPipeline *pipeline = &rows[i].pipeline;
            json_array_append_new(array, json_pack("{s:s, s:f, s:f, s:f, s:f, s:I}", "op", rows[i].operation, "cold_ms",
                                                   pipeline->cold, "cached_ms", pipeline->cached, "first_submit_ms",
                                                   pipeline->first, "second_submit_ms", pipeline->second,
                                                   "spirv_bytes", (json_int_t)pipeline->spirv));
        }
        print_object(json_pack("{s:s, s:s, s:o, s:I}", "device", gpu->properties.deviceName, "layout",
                               layout_name(gpu), "rows", array, "spirv_bytes", (json_int_t)spirv));
        return;
    }
    const bool table = format == BENCH_TABLE;
    if (table) {
        printf("%s, %s layout; medians in ms; the device's own caches apply\n\n", gpu->properties.deviceName,
               layout_name(gpu));
        printf("  %-18s%10s%10s%14s%14s%14s\n", "", "create", "cached", "first submit", "second submit",
               "SPIR-V bytes");
    } else {
        puts("op,cold_ms,cached_ms,first_submit_ms,second_submit_ms,spirv_bytes");
    }
    for (uint32_t i = 0; i < count; i++) {
        const BenchPipeline *pipeline = &rows[i].pipeline;
        printf(table ? "  %-18s%10.3f%10.3f%14.3f%14.3f%14zu\n" : "%s,%.4f,%.4f,%.4f,%.4f,%zu\n", rows[i].operation,
               pipeline->cold, pipeline->cached, pipeline->first, pipeline->second, pipeline->spirv);
    }
    if (table) {
        printf("\n  all SPIR-V, both layouts: %zu bytes\n", spirv);
    }
}
