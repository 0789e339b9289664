/* `kpool run`: one case from a safetensors file, executed, compared and written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "case.h"
#include "command.h"
#include "complaint.h"

typedef struct Arguments {
    const char *file;
    const char *out; /* NULL: nothing is written */
    GpuOptions gpu;
    bool json;
} Arguments;

enum { KEY_LAYOUT = 0x100, KEY_JSON };

static error_t parse(int key, char *argument, struct argp_state *state)
{
    Arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        arguments_quiet(state);
        return 0;
    case 'o':
        arguments->out = argument;
        return 0;
    case 'd':
        arguments->gpu.device = argument;
        return 0;
    case KEY_LAYOUT:
        if (strcmp(argument, "wide") == 0) {
            arguments->gpu.bindingLayout = KPOOL_BINDING_LAYOUT_WIDE;
        } else if (strcmp(argument, "floor") == 0) {
            arguments->gpu.bindingLayout = KPOOL_BINDING_LAYOUT_FLOOR;
        } else {
            return arguments_refuse(state, "--layout: is '%s', must be wide or floor", argument);
        }
        return 0;
    case KEY_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0) {
            return arguments_refuse(state, "FILE: '%s' is one too many", argument);
        }
        arguments->file = argument;
        return 0;
    case ARGP_KEY_END:
        return arguments->file != NULL ? 0 : arguments_refuse(state, "FILE: is missing");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int refuse(int code, const char *sentence)
{
    complain_aloud("kpool run: %s", sentence);
    return code;
}

/* ------------------------------------------------------------------------------ reporting ------- */

typedef struct Report {
    const Case *made;
    const char *device;
    const char *layout;
    char expected[256]; /* what was compared; empty where the file expects nothing */
    bool right;
} Report;

static const char *const causes[KPOOL_STATUS_COUNT] = {
    [KPOOL_STATUS_OFFSETS_DESCEND] = "input_row_offsets descends",
    [KPOOL_STATUS_ROWS_EXCEED] = "rows out of range",
    [KPOOL_STATUS_SLOT_RANGE] = "slot out of range",
    [KPOOL_STATUS_LENGTH_WRAPS] = "cache_lengths wraps",
    [KPOOL_STATUS_POOL_ID] = "pool id of no complete pool",
    [KPOOL_STATUS_PAIR_RANGE] = "pair out of range",
    [KPOOL_STATUS_POOLED_ROW] = "row of pooled that disagrees with pool_row_offsets",
};

static void print_text(const Report *report)
{
    const Case *made = report->made;
    const uint32_t *status = case_status(made);
    char held[96];
    case_describe_call(made, held, sizeof held);
    printf("%s: %s, ", made->op, held);
    bool any = false;
    for (uint32_t i = 0; i < KPOOL_STATUS_COUNT; i++) {
        if (status[i] != 0) {
            printf("%sstatus[%u] = %u (%s), ", any ? "" : "dropped: ", i, status[i],
                   causes[i] != NULL ? causes[i] : "no cause");
            any = true;
        }
    }
    printf("%s%s%s on %s, %s layout\n", any ? "" : "none dropped, ", report->expected[0] != '\0' ? "matches " : "ran",
           report->expected, report->device, report->layout);
}

static bool print_json(const Report *report, const char *mismatch)
{
    const Case *made = report->made;
    const char *result = !report->right ? "mismatch" : report->expected[0] != '\0' ? "match" : "ran";
    json_t *status = json_array();
    json_int_t dropped = 0;
    for (uint32_t i = 0; i < KPOOL_STATUS_COUNT; i++) {
        json_array_append_new(status, json_integer(case_status(made)[i]));
        dropped += i < KPOOL_STATUS_DUPLICATE_SLOT ? case_status(made)[i] : 0;
    }
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:s*}", "op", made->op, "device",
                             report->device, "layout", report->layout, "result", result, "compared",
                             report->expected, "requests", (json_int_t)made->call.requests, "rows",
                             (json_int_t)made->call.rows, "pooled_rows", (json_int_t)made->call.pooled_rows,
                             "pairs", (json_int_t)made->call.pair_count, "dropped", dropped, "status", status,
                             "mismatch", mismatch);
    const bool printed = root != NULL && json_dumpf(root, stdout, 0) == 0 && putchar('\n') != EOF;
    json_decref(root);
    return printed;
}

/* -------------------------------------------------------------------------------- running ------- */

static int report(const Gpu *gpu, const Arguments *arguments, const Case *made, const Execution *execution)
{
    Report told = {
        .made = made,
        .device = gpu->properties.deviceName,
        .layout = kpoolGetBindingLayout(gpu->context) == KPOOL_BINDING_LAYOUT_WIDE ? "wide" : "floor",
    };
    Complaint mismatch;
    case_describe_expected(made, told.expected, sizeof told.expected);
    told.right = case_matches(made, &mismatch);
    if (told.right && execution->damaged != NULL) {
        told.right = complain(&mismatch, "%s: bytes beside its range changed", execution->damaged);
    }
    if (arguments->json && !print_json(&told, told.right ? NULL : mismatch.text)) {
        return refuse(EXIT_BAD_INPUT, "standard output cannot be written");
    }
    if (!told.right) {
        return refuse(EXIT_MISMATCH, mismatch.text);
    }
    if (!arguments->json) {
        print_text(&told);
    }
    return EXIT_RIGHT;
}

static int run_on(Gpu *gpu, const Arguments *arguments, Case *made)
{
    Complaint complaint;
    if (!case_lay_out(made, gpu->properties.limits.maxStorageBufferRange, &complaint)) {
        return refuse(EXIT_BAD_INPUT, complaint.text);
    }
    Execution execution;
    if (!execute(gpu, &made->kernel, &made->call, 1, &made->images, &execution)) {
        return refuse(EXIT_NO_DEVICE, gpu->error);
    }
    if (execution.result != KPOOL_SUCCESS) {
        const bool file_at_fault = execution.result == KPOOL_ERROR_INVALID_ARGUMENT ||
                                   execution.result == KPOOL_ERROR_LIMIT;
        return refuse(file_at_fault ? EXIT_BAD_INPUT : EXIT_NO_DEVICE, execution.diagnostic.message);
    }
    if (arguments->out != NULL && !case_write(made, arguments->out, &complaint)) {
        return refuse(EXIT_BAD_INPUT, complaint.text);
    }
    return report(gpu, arguments, made, &execution);
}

static int run_case(const Arguments *arguments, Case *made)
{
    Gpu gpu;
    if (!gpu_open(&gpu, &arguments->gpu)) {
        return refuse(EXIT_NO_DEVICE, gpu.error);
    }
    const int code = run_on(&gpu, arguments, made);
    gpu_close(&gpu);
    if (code == EXIT_RIGHT && gpu.validationMessages != 0) {
        return refuse(EXIT_NO_DEVICE, "the validation layer complained, as printed above");
    }
    return code;
}

int command_run(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"output", 'o', "OUT", 0, "Write what the operation makes to this safetensors file", 0},
        {"device", 'd', "SEL", 0, "An index that `kpool devices` lists, or part of a device's name", 0},
        {"layout", KEY_LAYOUT, "LAYOUT", 0, "wide: a binding per tensor; floor: four bindings", 0},
        {"json", KEY_JSON, NULL, 0, "Print one JSON object", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "FILE",
        .doc = "Runs the operation that a safetensors file holds, and compares with its expected.* tensors.\v"
               "Exit status: 0 nothing differs, 1 something differs (one line names the place), 2 a file or an "
               "argument breaks a rule, 3 no usable device or Vulkan failed.",
    };
    Arguments arguments = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &arguments) != 0) {
        return EXIT_BAD_INPUT;
    }
    Safetensors file;
    Complaint complaint;
    if (!safetensors_read(arguments.file, &file, &complaint)) {
        return refuse(EXIT_BAD_INPUT, complaint.text);
    }
    Case made;
    int code;
    if (case_read(&file, &made, &complaint)) {
        code = run_case(&arguments, &made);
    } else {
        complain_aloud("kpool run: %.128s: %s", arguments.file, complaint.text);
        code = EXIT_BAD_INPUT;
    }
    case_free(&made);
    safetensors_free(&file);
    return code;
}
