/* `kpool check`: random calls of every operation, sound and broken, in both binding layouts, against the reference.
 * Each call is known by its seed, which says everything about it. */
#include <argp.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "broken_scenario.h"
#include "command.h"
#include "complaint.h"
#include "progress.h"
#include "random_scenario.h"

static const struct {
    KpoolOperation operation;
    const char *name;
} operations[] = {
    {KPOOL_OPERATION_SEED_TAIL, "seed_tail"},
    {KPOOL_OPERATION_RING_CLOSE, "ring_close"},
    {KPOOL_OPERATION_COMPRESS, "compress"},
    {KPOOL_OPERATION_POOL_ROW_OFFSETS, "pool_row_offsets"},
    {KPOOL_OPERATION_EXPAND_TOPK, "expand_topk"},
    {KPOOL_OPERATION_COPY_SLOTS, "copy_slots"},
    {KPOOL_OPERATION_STEP, "step"},
    {KPOOL_OPERATION_CHECK_SLOTS, "check_slots"},
};

#define OPERATION_COUNT (sizeof operations / sizeof operations[0])

typedef struct Options {
    const char *device;
    uint64_t seed;
    uint64_t calls;
    double minutes; /* 0: as many calls as said */
    bool broken;
    bool json;
} Options;

typedef struct Tally {
    uint64_t calls[OPERATION_COUNT];
    uint64_t wrong[OPERATION_COUNT];
    uint64_t cases; /* requests, rows of pool ids and pairs, in all calls */
    uint64_t first_wrong; /* its seed, where any is wrong */
    bool any_wrong;
    Complaint complaint; /* of the first wrong call, or of a failure */
} Tally;

enum { KEY_SEED = 's', KEY_CALLS = 'n', KEY_MINUTES = 'm', KEY_DEVICE = 'd', KEY_BROKEN = 'b', KEY_JSON = 'j' };

static const struct argp_option option_list[] = {
    {"calls", KEY_CALLS, "N", 0, "How many calls (default 140)", 0},
    {"minutes", KEY_MINUTES, "N", 0, "Go on for so long instead", 0},
    {"seed", KEY_SEED, "N", 0, "The seed of the first call; each next one has the next (default 1)", 0},
    {"broken", KEY_BROKEN, NULL, 0, "Random words in every index array, thousands in a call", 0},
    {"device", KEY_DEVICE, "SEL", 0, "An index of `kpool devices`, or part of a device's name", 0},
    {"json", KEY_JSON, NULL, 0, "Print the result as one JSON object", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    Options *options = state->input;
    char *end = NULL;
    switch (key) {
    case ARGP_KEY_INIT:
        arguments_quiet(state);
        return 0;
    case KEY_CALLS:
        return arguments_number(state, "--calls", argument, 1, INT64_MAX, &options->calls);
    case KEY_SEED:
        return arguments_number(state, "--seed", argument, 0, INT64_MAX, &options->seed);
    case KEY_MINUTES:
        options->minutes = strtod(argument, &end);
        if (end == argument || *end != '\0' || !(options->minutes > 0) || options->minutes > 1e6) {
            return arguments_refuse(state, "--minutes: '%s' must be a number above 0", argument);
        }
        return 0;
    case KEY_DEVICE:
        options->device = argument;
        return 0;
    case KEY_BROKEN:
        options->broken = true;
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        return arguments_refuse(state, "takes no argument, got '%s'", argument);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    option_list,
    parse,
    NULL,
    "Runs random calls of every operation on a device, in both binding layouts, and compares every bit with the "
    "reference. Half of the calls hold broken index arrays, whose refusals are compared too; with --broken all are "
    "large calls of random words.\v"
    "Exit status: 0 the device gives the reference's bits, 1 it does not, 2 bad arguments, 3 no usable device or "
    "Vulkan failed.",
    NULL,
    NULL,
    NULL,
};

/* ------------------------------------------------------------------------------- crash -------- */

/* A shader that writes where it must not can end the process through a driver that runs on the CPU. What is said then
 * is ready before each call, since a handler of signals may do little. */
static char crash_line[128];
static struct sigaction before_crash[3];
static const int crash_signals[3] = {SIGSEGV, SIGBUS, SIGABRT};

static void on_crash(int number)
{
    const ssize_t written = write(STDERR_FILENO, crash_line, strlen(crash_line));
    (void)written;
    /* The signal comes again when this returns. */
    for (size_t i = 0; i < 3; i++) {
        if (crash_signals[i] == number) {
            sigaction(number, &before_crash[i], NULL);
        }
    }
}

static void watch_crashes(void)
{
    const struct sigaction action = {.sa_handler = on_crash};
    for (size_t i = 0; i < 3; i++) {
        sigaction(crash_signals[i], &action, &before_crash[i]);
    }
}

static void unwatch_crashes(void)
{
    for (size_t i = 0; i < 3; i++) {
        sigaction(crash_signals[i], &before_crash[i], NULL);
    }
}

static void foresee_crash(uint64_t seed, bool broken)
{
    snprintf(crash_line, sizeof crash_line,
             "\nkpool check: crashed; to see it again: kpool check %s--seed %llu --calls 1\n",
             broken ? "--broken " : "", (unsigned long long)seed);
}

/* ------------------------------------------------------------------------------- calls -------- */

/* The seed alone decides the operation; the layouts take turns. */
static ScenarioOutcome run_call(Gpu *gpu, uint64_t seed, bool broken, Tally *tally)
{
    const size_t kind = seed % OPERATION_COUNT;
    Random random = {seed};
    Scenario scenario = {0};
    TensorImages expected;
    Complaint complaint = {0};
    if (!(broken ? broken_scenario : random_scenario)(operations[kind].operation, &random, &scenario, &complaint)) {
        tally->complaint = complaint;
        return SCENARIO_FAILED;
    }
    ScenarioOutcome outcome = SCENARIO_FAILED;
    if (scenario_copy_images(&scenario, &expected)) {
        scenario_apply_reference(&scenario, &expected);
        outcome = scenario_run(&scenario, gpu, &expected, &complaint);
        scenario_free_images(&expected);
    } else {
        complain(&complaint, "out of memory");
    }
    tally->calls[kind]++;
    tally->cases += scenario_cases(&scenario);
    scenario_free(&scenario);
    if (outcome == SCENARIO_WRONG) {
        tally->wrong[kind]++;
        if (!tally->any_wrong) {
            tally->any_wrong = true;
            tally->first_wrong = seed;
            tally->complaint = complaint;
        }
    } else if (outcome == SCENARIO_FAILED) {
        tally->complaint = complaint;
    }
    return outcome;
}

static uint64_t sum(const uint64_t counts[OPERATION_COUNT])
{
    uint64_t total = 0;
    for (size_t i = 0; i < OPERATION_COUNT; i++) {
        total += counts[i];
    }
    return total;
}

/* False where the device failed. */
static bool run_calls(Gpu *gpu, KpoolContext contexts[2], const Options *options, Tally *tally)
{
    const bool terminal = isatty(STDERR_FILENO) == 1;
    const double start = progress_clock();
    double drawn = start;
    bool failed = false;
    for (uint64_t i = 0; !failed; i++) {
        const double now = progress_clock();
        if (options->minutes > 0 ? now - start >= 60 * options->minutes : i == options->calls) {
            break;
        }
        if (terminal && now - drawn > 0.1) {
            fprintf(stderr, "\rcheck: %llu calls, %llu cases, %llu wrong ", (unsigned long long)sum(tally->calls),
                    (unsigned long long)tally->cases, (unsigned long long)sum(tally->wrong));
            drawn = now;
        }
        const uint64_t seed = options->seed + i;
        gpu->context = contexts[seed / OPERATION_COUNT % 2];
        foresee_crash(seed, options->broken);
        failed = run_call(gpu, seed, options->broken, tally) == SCENARIO_FAILED;
        if (failed) {
            fprintf(stderr, "%skpool check: seed %llu: %s\n", terminal ? "\r" : "", (unsigned long long)seed,
                    tally->complaint.text);
        }
    }
    if (terminal) {
        fputs("\r\033[K", stderr);
    }
    return !failed;
}

static void print_result(const Gpu *gpu, const Options *options, const Tally *tally)
{
    if (options->json) {
        json_t *calls = json_object();
        json_t *wrong = json_object();
        for (size_t i = 0; i < OPERATION_COUNT; i++) {
            json_object_set_new(calls, operations[i].name, json_integer((json_int_t)tally->calls[i]));
            json_object_set_new(wrong, operations[i].name, json_integer((json_int_t)tally->wrong[i]));
        }
        json_t *result = json_pack("{s:s, s:b, s:I, s:I, s:o, s:o}", "device", gpu->properties.deviceName, "right",
                                   !tally->any_wrong, "seed", (json_int_t)options->seed, "cases",
                                   (json_int_t)tally->cases, "calls", calls, "wrong", wrong);
        if (tally->any_wrong) {
            json_object_set_new(result, "first_wrong", json_integer((json_int_t)tally->first_wrong));
            json_object_set_new(result, "mismatch", json_string(tally->complaint.text));
        }
        json_dumpf(result, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(result);
        return;
    }
    for (size_t i = 0; i < OPERATION_COUNT; i++) {
        printf("%-18s%8llu calls%8llu wrong\n", operations[i].name, (unsigned long long)tally->calls[i],
               (unsigned long long)tally->wrong[i]);
    }
    printf("%llu requests, rows of pool ids and pairs\n", (unsigned long long)tally->cases);
    if (tally->any_wrong) {
        printf("WRONG on %s: %s\nto see it again: kpool check %s--seed %llu --calls 1\n", gpu->properties.deviceName,
               tally->complaint.text, options->broken ? "--broken " : "", (unsigned long long)tally->first_wrong);
    } else {
        printf("the reference's bits on %s\n", gpu->properties.deviceName);
    }
}

int command_check(int argc, char **argv)
{
    Options options = {.seed = 1, .calls = 140};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options) != 0) {
        return EXIT_BAD_INPUT;
    }
    Gpu gpu;
    const GpuOptions gpuOptions = {.device = options.device};
    if (!gpu_open(&gpu, &gpuOptions)) {
        complain_aloud("kpool check: %s", gpu.error);
        return EXIT_NO_DEVICE;
    }
    KpoolContext contexts[2] = {gpu.context, NULL};
    KpoolDiagnostic diagnostic;
    const KpoolContextCreateInfo floor = {
        .apiVersion = VK_API_VERSION_1_1,
        .instance = gpu.instance,
        .physicalDevice = gpu.physicalDevice,
        .device = gpu.device,
        .pfnGetInstanceProcAddr = vkGetInstanceProcAddr,
        .bindingLayout = KPOOL_BINDING_LAYOUT_FLOOR,
    };
    Tally tally = {0};
    bool ran = false;
    if (kpoolCreateContext(&floor, &contexts[1], &diagnostic) != KPOOL_SUCCESS) {
        complain_aloud("kpool check: %s", diagnostic.message);
    } else {
        watch_crashes();
        ran = run_calls(&gpu, contexts, &options, &tally);
        unwatch_crashes();
        gpu.context = contexts[0];
        kpoolDestroyContext(contexts[1]);
    }
    if (ran) {
        print_result(&gpu, &options, &tally);
    }
    gpu_close(&gpu);
    if (!ran || gpu.validationMessages != 0) {
        return EXIT_NO_DEVICE;
    }
    return tally.any_wrong ? EXIT_MISMATCH : EXIT_RIGHT;
}
