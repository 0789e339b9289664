/* `kpool bench`: what each operation costs beside an empty dispatch and beside other ways of doing the same. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "bench_report.h"
#include "command.h"
#include "complaint.h"

/* ------------------------------------------------------------------------------ options ------- */

typedef struct Named {
    const char *name;
    uint32_t value;
} Named;

static const Named operations[] = {
    {"seed_tail", KPOOL_OPERATION_SEED_TAIL},
    {"ring_close", KPOOL_OPERATION_RING_CLOSE},
    {"compress", KPOOL_OPERATION_COMPRESS},
    {"pool_row_offsets", KPOOL_OPERATION_POOL_ROW_OFFSETS},
    {"expand_topk", KPOOL_OPERATION_EXPAND_TOPK},
    {"copy_slots", KPOOL_OPERATION_COPY_SLOTS},
    {"step", KPOOL_OPERATION_STEP},
    {"check_slots", KPOOL_OPERATION_CHECK_SLOTS},
};
static const Named types[] = {{"f16", KPOOL_TYPE_F16}, {"bf16", KPOOL_TYPE_BF16}, {"f32", KPOOL_TYPE_F32}};
static const Named layouts[] = {{"wide", KPOOL_BINDING_LAYOUT_WIDE}, {"floor", KPOOL_BINDING_LAYOUT_FLOOR}};
enum { MIX_DECODE, MIX_PREFILL, MIX_LONG_PREFILL };
static const BenchMix mixes[] = {
    [MIX_DECODE] = {"decode", 1, 4},
    [MIX_PREFILL] = {"prefill-8", 8, 8},
    [MIX_LONG_PREFILL] = {"prefill-512", 512, 512},
};
static const Named mix_sets[] = {
    {"decode", 1u << MIX_DECODE},
    {"prefill", 1u << MIX_PREFILL | 1u << MIX_LONG_PREFILL},
};

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof(array)[0]))
#define MOST_NAMES 8u
/* expand_topk: pool ids a row, as indexers of this family choose. */
#define TOPK 512u
#define PIPELINE_SAMPLES 9u

typedef enum Mode { MODE_DEVICE, MODE_HOST, MODE_PIPELINES } Mode;

typedef struct Options {
    Mode mode;
    const char *device;
    uint32_t operation_set; /* bit i: operations[i]; likewise below */
    uint32_t type_set;
    uint32_t mix_set; /* bit i: mixes[i] */
    uint32_t batches[BENCH_MOST_BATCHES];
    uint32_t batch_count;
    KpoolGeometry geometry; /* but type */
    uint32_t layout;
    uint32_t alignment;
    uint32_t lanes;
    uint32_t items;
    uint32_t samples;
    BenchFormat format;
} Options;

enum {
    KEY_OP = 0x100,
    KEY_DTYPE,
    KEY_HEAD_DIM,
    KEY_KPOOL,
    KEY_BATCHES,
    KEY_MIX,
    KEY_SAMPLES,
    KEY_LANES,
    KEY_ITEMS,
    KEY_ALIGNMENT,
    KEY_LAYOUT,
    KEY_HOST,
    KEY_PIPELINES,
    KEY_CSV,
    KEY_JSON
};

static const struct argp_option option_list[] = {
    {"op", KEY_OP, "OPS", 0, "Operations, separated by commas (all of them)", 0},
    {"dtype", KEY_DTYPE, "TYPES", 0, "Of f16, bf16 and f32, separated by commas (f16)", 0},
    {"batches", KEY_BATCHES, "LIST", 0, "Numbers of requests, at most 8, separated by commas (1,8,64,256,1024)", 0},
    {"mix", KEY_MIX, "MIXES", 0,
     "decode: 1 to 4 tokens a request; prefill: 8, and 512; separated by commas (both)", 0},
    {"head-dim", KEY_HEAD_DIM, "N", 0, "Channels per key (128)", 0},
    {"kpool", KEY_KPOOL, "N", 0, "Tokens per pool (4)", 0},
    {"lanes", KEY_LANES, "N", 0, "Invocations that share an item (the library's choice)", 0},
    {"items", KEY_ITEMS, "N", 0, "Items in a workgroup (the library's choice)", 0},
    {"alignment", KEY_ALIGNMENT, "N", 0, "Bytes that rows start at a multiple of, 4 or 16 (the most they keep)", 0},
    {"layout", KEY_LAYOUT, "LAYOUT", 0, "wide or floor bindings (wide where the device takes it)", 0},
    {"samples", KEY_SAMPLES, "N", 0, "Rounds of samples (7 to 100, as many as fit in 3 seconds)", 0},
    {"host", KEY_HOST, NULL, 0,
     "Instead, what the host pays to record one seed_tail, beside the same raw calls; of the options above only "
     "--head-dim, --kpool, --alignment, --layout and the first --dtype count", 0},
    {"pipelines", KEY_PIPELINES, NULL, 0,
     "Instead, how long it takes until each operation can run: creation, from a VkPipelineCache, first submission; "
     "--batches, --mix, --lanes and --items do not count", 0},
    {"device", 'd', "SEL", 0, "A number of `kpool devices`, or part of a device's name", 0},
    {"csv", KEY_CSV, NULL, 0, "Print CSV, a line for each median", 0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object", 0},
    {0},
};

static const char documentation[] =
    "Measures each operation of the library in one process with what it is compared with, one sample of each in turn, "
    "in a shuffled order: an empty dispatch; for seed_tail a plain port (a workgroup a request, an invocation a "
    "channel, a loop over positions), vkCmdCopyBuffer with the regions computed and the command buffer recorded each "
    "time, memcpy of the same rows, and, for 8 tokens a request, itself on 512 (long); for compress fast numerics; for "
    "step the three dispatches with their barrier. Each is compared with the reference first, and what is wrong is not "
    "timed."
    "\v"
    "Exit status: 0 measured; 1 a variant differs from the reference; 2 a bad argument; 3 no usable device or Vulkan "
    "failed.";

/* The bits of the names, one or several with commas between; bit i is names[i]. */
static error_t parse_names(const struct argp_state *state, const char *option, const char *text, const Named *names,
                           uint32_t count, uint32_t *set)
{
    *set = 0;
    while (true) {
        const size_t length = strcspn(text, ",");
        uint32_t i = 0;
        while (i < count && (strlen(names[i].name) != length || strncmp(names[i].name, text, length) != 0)) {
            i++;
        }
        if (i == count) {
            return arguments_refuse(state, "%s: '%.*s' is none of its names; `kpool bench --help` lists them", option,
                                    (int)length, text);
        }
        *set |= 1u << i;
        if (text[length] == '\0') {
            return 0;
        }
        text += length + 1;
    }
}

static error_t parse_mixes(const struct argp_state *state, const char *text, uint32_t *set)
{
    uint32_t chosen = 0;
    const error_t error = parse_names(state, "--mix", text, mix_sets, COUNT(mix_sets), &chosen);
    *set = 0;
    for (uint32_t i = 0; i < COUNT(mix_sets); i++) {
        *set |= (chosen & (1u << i)) != 0 ? mix_sets[i].value : 0;
    }
    return error;
}

static error_t parse_batches(const struct argp_state *state, const char *text, Options *options)
{
    options->batch_count = 0;
    while (true) {
        const size_t length = strcspn(text, ",");
        char number[32];
        snprintf(number, sizeof number, "%.*s", (int)length, text);
        if (options->batch_count == BENCH_MOST_BATCHES) {
            return arguments_refuse(state, "--batches: has more than %u numbers", BENCH_MOST_BATCHES);
        }
        const error_t error =
            arguments_count(state, "--batches", number, 65536, &options->batches[options->batch_count]);
        if (error != 0) {
            return error;
        }
        options->batch_count++;
        if (text[length] == '\0') {
            return 0;
        }
        text += length + 1;
    }
}

static error_t parse_layout(const struct argp_state *state, const char *text, uint32_t *layout)
{
    for (uint32_t i = 0; i < COUNT(layouts); i++) {
        if (strcmp(text, layouts[i].name) == 0) {
            *layout = layouts[i].value;
            return 0;
        }
    }
    return arguments_refuse(state, "--layout: is '%s', must be wide or floor", text);
}

static error_t choose_mode(const struct argp_state *state, Mode mode, Options *options)
{
    if (options->mode != MODE_DEVICE && options->mode != mode) {
        return arguments_refuse(state, "--host: excludes --pipelines");
    }
    options->mode = mode;
    return 0;
}

static error_t choose_format(const struct argp_state *state, BenchFormat format, Options *options)
{
    if (options->format != BENCH_TABLE && options->format != format) {
        return arguments_refuse(state, "--json: excludes --csv");
    }
    options->format = format;
    return 0;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    Options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        arguments_quiet(state);
        return 0;
    case KEY_OP:
        return parse_names(state, "--op", text, operations, COUNT(operations), &options->operation_set);
    case KEY_DTYPE:
        return parse_names(state, "--dtype", text, types, COUNT(types), &options->type_set);
    case KEY_MIX:
        return parse_mixes(state, text, &options->mix_set);
    case KEY_BATCHES:
        return parse_batches(state, text, options);
    case KEY_HEAD_DIM:
        return arguments_count(state, "--head-dim", text, KPOOL_MAX_HEAD_DIM, &options->geometry.head_dim);
    case KEY_KPOOL:
        return arguments_count(state, "--kpool", text, KPOOL_MAX_KPOOL, &options->geometry.kpool);
    case KEY_LANES:
        return arguments_count(state, "--lanes", text, 128, &options->lanes);
    case KEY_ITEMS:
        return arguments_count(state, "--items", text, 128, &options->items);
    case KEY_ALIGNMENT:
        return arguments_count(state, "--alignment", text, 16, &options->alignment);
    case KEY_LAYOUT:
        return parse_layout(state, text, &options->layout);
    case KEY_SAMPLES:
        return arguments_count(state, "--samples", text, 100000, &options->samples);
    case 'd':
        options->device = text;
        return 0;
    case KEY_HOST:
        return choose_mode(state, MODE_HOST, options);
    case KEY_PIPELINES:
        return choose_mode(state, MODE_PIPELINES, options);
    case KEY_CSV:
        return choose_format(state, BENCH_CSV, options);
    case KEY_JSON:
        return choose_format(state, BENCH_JSON, options);
    case ARGP_KEY_ARG:
        return arguments_refuse(state, "'%s': takes no such argument", text);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---------------------------------------------------------------------------- measuring ------- */

typedef struct Bench {
    Options options;
    Gpu gpu;
    bool terminal; /* stderr is one, so progress is shown */
    bool any;      /* a block was reported */
} Bench;

static void show_progress(const Bench *bench, const BenchBlock *block, uint32_t requests)
{
    if (bench->terminal) {
        fprintf(stderr, "\r%s, %s, %s, %u requests\x1b[K", block->operation, block->type, block->mix, requests);
        fflush(stderr);
    }
}

static void clear_progress(const Bench *bench)
{
    if (bench->terminal) {
        fputs("\r\x1b[K", stderr);
    }
}

static int refuse(const Bench *bench, int code, const char *message)
{
    clear_progress(bench);
    complain_aloud("kpool bench: %s", message);
    return code;
}

static int refuse_unmade(const Bench *bench, BenchMade made, const KpoolDiagnostic *reason)
{
    return made == BENCH_REFUSED ? refuse(bench, EXIT_BAD_INPUT, reason->message)
                                 : refuse(bench, EXIT_NO_DEVICE, bench->gpu.error);
}

static int measure_variants(Bench *bench, BenchVariants *variants, BenchBlock *block, BenchColumn *column)
{
    Complaint complaint;
    switch (bench_variants_verify(variants, &complaint)) {
    case BENCH_WRONG: {
        Complaint whole;
        complain(&whole, "%s, %s, %s, %u requests: %s", block->operation, block->type, block->mix, column->requests,
                 complaint.text);
        return refuse(bench, EXIT_MISMATCH, whole.text);
    }
    case BENCH_NOT_RUN:
        return refuse(bench, EXIT_NO_DEVICE, bench->gpu.error);
    case BENCH_RIGHT:
        break;
    }
    if (!bench_sample(variants, bench->options.samples, &column->result)) {
        return refuse(bench, EXIT_NO_DEVICE, bench->gpu.error);
    }
    const KpoolKernelCreateInfo info =
        kpoolGetKernelInfo(variants->stages[variants->scene->info.operation].kernel);
    column->lanes = info.lanesPerItem;
    column->items = info.itemsPerGroup;
    block->alignment = info.alignment;
    block->plain_bits = variants->present[BENCH_PLAIN] ? variants->plain.element_bits : 0;
    memcpy(column->present, variants->present, sizeof column->present);
    return EXIT_RIGHT;
}

/* Without `longer` where it is NULL. */
static int measure_scenes(Bench *bench, BenchScene *scene, BenchScene *longer, BenchBlock *block, BenchColumn *column)
{
    BenchVariants variants;
    KpoolDiagnostic reason;
    const BenchMade made = bench_variants_create(&variants, scene, longer, bench->options.lanes, bench->options.items,
                                                 &reason);
    const int code = made == BENCH_MADE ? measure_variants(bench, &variants, block, column)
                                        : refuse_unmade(bench, made, &reason);
    bench_variants_destroy(&variants);
    return code;
}

static int measure_column(Bench *bench, const KpoolKernelCreateInfo *info, const BenchMix *mix, BenchBlock *block,
                          BenchColumn *column)
{
    BenchScene scene;
    KpoolDiagnostic reason;
    BenchMade made = bench_scene_create(&scene, &bench->gpu, info, mix, column->requests, &reason);
    if (made == BENCH_TOO_LARGE) {
        snprintf(column->left_out, sizeof column->left_out, "left out: tensors of one group would exceed %llu MiB",
                 (unsigned long long)(BENCH_MOST_BYTES >> 20));
        return EXIT_RIGHT;
    }
    if (made != BENCH_MADE) {
        return refuse_unmade(bench, made, &reason);
    }
    /* What seed_tail costs must not grow with the rows that stay, so both are measured in one run. */
    const bool has_longer = info->operation == KPOOL_OPERATION_SEED_TAIL && mix == &mixes[MIX_PREFILL];
    BenchScene longer = {.gpu = &bench->gpu};
    made = has_longer ? bench_scene_create(&longer, &bench->gpu, info, &mixes[MIX_LONG_PREFILL], column->requests,
                                           &reason)
                      : BENCH_TOO_LARGE;
    const int code = made == BENCH_MADE || made == BENCH_TOO_LARGE
                         ? measure_scenes(bench, &scene, made == BENCH_MADE ? &longer : NULL, block, column)
                         : refuse_unmade(bench, made, &reason);
    bench_scene_destroy(&longer);
    bench_scene_destroy(&scene);
    return code;
}

/* Fills in what the options say and the library's limits allow. false: refused. */
static bool make_info(const Bench *bench, const Named *operation, const Named *type, KpoolKernelCreateInfo *info,
                      KpoolDiagnostic *reason)
{
    const Options *options = &bench->options;
    *info = (KpoolKernelCreateInfo){
        .operation = (KpoolOperation)operation->value,
        .geometry = options->geometry,
        .pooled_type = (KpoolType)type->value,
        .topk = TOPK,
        .with_tail = VK_TRUE,
    };
    info->geometry.type = (KpoolType)type->value;
    KpoolRequirements requirements;
    const KpoolResult result =
        kpoolGetRequirements(&bench->gpu.properties.limits, &info->geometry, &requirements, reason);
    info->alignment = options->alignment != 0 ? options->alignment : requirements.alignment;
    return result == KPOOL_SUCCESS;
}

static int measure_block(Bench *bench, const Named *operation, const Named *type, const BenchMix *mix)
{
    const Options *options = &bench->options;
    KpoolKernelCreateInfo info;
    KpoolDiagnostic reason;
    if (!make_info(bench, operation, type, &info, &reason)) {
        return refuse(bench, EXIT_BAD_INPUT, reason.message);
    }
    BenchBlock block = {
        .operation = operation->name,
        .type = type->name,
        .mix = mix->name,
        .geometry = info.geometry,
        .alignment = info.alignment,
        .count = options->batch_count,
    };
    for (uint32_t i = 0; i < block.count; i++) {
        block.columns[i].requests = options->batches[i];
        show_progress(bench, &block, options->batches[i]);
        const int code = measure_column(bench, &info, mix, &block, &block.columns[i]);
        if (code != EXIT_RIGHT) {
            return code;
        }
    }
    clear_progress(bench);
    bench_report_block(options->format, &block, !bench->any);
    bench->any = true;
    return EXIT_RIGHT;
}

static bool is_chosen(uint32_t set, uint32_t index)
{
    return (set >> index & 1u) != 0;
}

static int measure_all(Bench *bench)
{
    const Options *options = &bench->options;
    for (uint32_t operation = 0; operation < COUNT(operations); operation++) {
        for (uint32_t type = 0; type < COUNT(types); type++) {
            for (uint32_t mix = 0; mix < COUNT(mixes); mix++) {
                if (!is_chosen(options->operation_set, operation) || !is_chosen(options->type_set, type) ||
                    !is_chosen(options->mix_set, mix)) {
                    continue;
                }
                const int code = measure_block(bench, &operations[operation], &types[type], &mixes[mix]);
                if (code != EXIT_RIGHT) {
                    return code;
                }
            }
        }
    }
    return EXIT_RIGHT;
}

static const Named *first_type(const Options *options)
{
    uint32_t type = 0;
    while (!is_chosen(options->type_set, type)) {
        type++;
    }
    return &types[type];
}

static int measure_host(const Bench *bench, Gpu *gpu, const BenchAllocator *allocator)
{
    KpoolKernelCreateInfo info;
    KpoolDiagnostic reason;
    BenchHost host;
    if (!make_info(bench, &operations[0], first_type(&bench->options), &info, &reason)) {
        return refuse(bench, EXIT_BAD_INPUT, reason.message);
    }
    const BenchMade made = bench_host(gpu, allocator, &info, &host, &reason);
    if (made != BENCH_MADE) {
        return refuse_unmade(bench, made, &reason);
    }
    bench_report_host(bench->options.format, gpu, &host);
    return EXIT_RIGHT;
}

static int measure_pipelines(const Bench *bench, Gpu *gpu)
{
    const Options *options = &bench->options;
    BenchPipelineRow rows[COUNT(operations)];
    uint32_t count = 0;
    for (uint32_t i = 0; i < COUNT(operations); i++) {
        KpoolKernelCreateInfo info;
        KpoolDiagnostic reason;
        if (!is_chosen(options->operation_set, i)) {
            continue;
        }
        if (!make_info(bench, &operations[i], first_type(options), &info, &reason)) {
            return refuse(bench, EXIT_BAD_INPUT, reason.message);
        }
        BenchPipelineRow *row = &rows[count++];
        row->operation = operations[i].name;
        const BenchMade made = bench_pipeline(gpu, &info, options->samples != 0 ? options->samples : PIPELINE_SAMPLES,
                                              &row->pipeline, &reason);
        if (made != BENCH_MADE) {
            return refuse_unmade(bench, made, &reason);
        }
    }
    bench_report_pipelines(options->format, gpu, rows, count, bench_spirv_size());
    return EXIT_RIGHT;
}

static int measure(Bench *bench, const BenchAllocator *allocator)
{
    if (bench->options.mode == MODE_HOST) {
        return measure_host(bench, &bench->gpu, allocator);
    }
    if (bench->options.mode == MODE_PIPELINES) {
        return measure_pipelines(bench, &bench->gpu);
    }
    bench_report_start(bench->options.format, &bench->gpu);
    const int code = measure_all(bench);
    bench_report_end(bench->options.format);
    return code;
}

int command_bench(int argc, char **argv)
{
    static const struct argp argp = {option_list, parse_option, NULL, documentation, NULL, NULL, NULL};
    Bench bench = {
        .options =
            {
                .operation_set = (1u << COUNT(operations)) - 1,
                .type_set = 1u, /* f16 */
                .mix_set = (1u << COUNT(mixes)) - 1,
                .batches = {1, 8, 64, 256, 1024},
                .batch_count = 5,
                .geometry = {.head_dim = 128, .kpool = 4},
            },
        .terminal = isatty(STDERR_FILENO) == 1,
    };
    if (argp_parse(&argp, argc, argv, 0, NULL, &bench.options) != 0) {
        return EXIT_BAD_INPUT;
    }
    BenchAllocator allocator;
    bench_allocator_init(&allocator);
    const GpuOptions gpu_options = {
        .device = bench.options.device,
        .bindingLayout = (KpoolBindingLayout)bench.options.layout,
        .storage16 = true,
        .allocator = bench.options.mode == MODE_HOST ? &allocator.callbacks : NULL,
    };
    if (!gpu_open(&bench.gpu, &gpu_options)) {
        return refuse(&bench, EXIT_NO_DEVICE, bench.gpu.error);
    }
    const int code = measure(&bench, &allocator);
    gpu_close(&bench.gpu);
    return code;
}
