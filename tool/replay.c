/* `kpool replay`: the traffic of real requests through the update on the device, the whole ring and every pooled key
 * compared every step. */
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "batcher.h"
#include "command.h"
#include "complaint.h"
#include "expected_pools.h"
#include "expected_ring.h"
#include "progress.h"
#include "replay_device.h"

/* ------------------------------------------------------------------------------ options ------- */

typedef struct Options {
    const char *path;
    uint32_t requests;
    BatcherOptions batcher; /* but kpool, which is the geometry's */
    KpoolGeometry geometry;
    const char *device;
    bool json;
} Options;

enum {
    KEY_REQUESTS = 0x100,
    KEY_SLOTS,
    KEY_BATCH_TOKENS,
    KEY_FORK,
    KEY_PREEMPT,
    KEY_DTYPE,
    KEY_HEAD_DIM,
    KEY_KPOOL,
    KEY_SEED,
    KEY_JSON
};

static const struct argp_option option_list[] = {
    {"requests", KEY_REQUESTS, "N", 0, "Replay the first N requests only", 0},
    {"slots", KEY_SLOTS, "N", 0, "Ring slots: requests that run at once (256)", 0},
    {"batch-tokens", KEY_BATCH_TOKENS, "N", 0, "Tokens that a step brings at most (2048)", 0},
    {"fork", KEY_FORK, "N", 0, "Fork every Nth request once, inside a pool, into another slot (none)", 0},
    {"preempt", KEY_PREEMPT, "N", 0, "Take the slot of a running request every Nth step; it begins again (never)", 0},
    {"dtype", KEY_DTYPE, "TYPE", 0, "f32, f16 or bf16 (bf16)", 0},
    {"head-dim", KEY_HEAD_DIM, "N", 0, "Channels per key (128)", 0},
    {"kpool", KEY_KPOOL, "N", 0, "Tokens per pool (4)", 0},
    {"seed", KEY_SEED, "N", 0, "Of the order in a batch, the choice of slots, and who is preempted (1)", 0},
    {"device", 'd', "SEL", 0, "A number of `kpool devices`, or part of a device's name", 0},
    {"json", KEY_JSON, NULL, 0, "Print the summary as one JSON object", 0},
    {0},
};

static const char documentation[] =
    "Replays TRACE.csv, columns TIMESTAMP, ContextTokens and GeneratedTokens, as a server would batch it: prompts in "
    "chunks, then one token a step. The order of the lines is the order of arrival. A request occupies "
    "ContextTokens + GeneratedTokens positions: every generated token, the first included, has a step of its own. "
    "One command buffer, recorded once, is submitted every step: copy_slots where requests fork, pool_row_offsets, "
    "ring_close, compress, seed_tail. After each step the whole ring, every pooled key and the offsets are compared "
    "bit for bit, and at the end every request must have made each of its pools once."
    "\n\n"
    "A fork copies the slot of a request to a free one; its twin goes on from there to the same length, with tokens of "
    "its own. A request that is preempted loses its slot and, as soon as another is free, comes back from position 0: "
    "its pools are made again, with the same bits."
    "\v"
    "Exit status: 0 right; 1 a mismatch, a pool not made once, or a dropped request; 2 a bad argument or trace; 3 no "
    "usable device or Vulkan failed; 130 or 143 interrupted by SIGINT or SIGTERM, with nothing wrong so far. The first "
    "signal ends the replay after the step that is running, the second at once.";

static error_t parse_type(const struct argp_state *state, const char *text, KpoolType *type)
{
    static const char *const names[] = {[KPOOL_TYPE_F32] = "f32", [KPOOL_TYPE_F16] = "f16", [KPOOL_TYPE_BF16] = "bf16"};
    for (KpoolType candidate = KPOOL_TYPE_F32; candidate <= KPOOL_TYPE_BF16; candidate++) {
        if (strcmp(text, names[candidate]) == 0) {
            *type = candidate;
            return 0;
        }
    }
    return arguments_refuse(state, "--dtype: is '%s', must be f32, f16 or bf16", text);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    Options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        arguments_quiet(state);
        return 0;
    case KEY_REQUESTS:
        return arguments_count(state, "--requests", text, UINT32_MAX, &options->requests);
    case KEY_SLOTS:
        return arguments_count(state, "--slots", text, 1u << 20, &options->batcher.slots);
    case KEY_BATCH_TOKENS:
        return arguments_count(state, "--batch-tokens", text, 1u << 24, &options->batcher.batch_tokens);
    case KEY_FORK:
        return arguments_count(state, "--fork", text, UINT32_MAX, &options->batcher.fork);
    case KEY_PREEMPT:
        return arguments_count(state, "--preempt", text, UINT32_MAX, &options->batcher.preempt);
    case KEY_DTYPE:
        return parse_type(state, text, &options->geometry.type);
    case KEY_HEAD_DIM:
        return arguments_count(state, "--head-dim", text, KPOOL_MAX_HEAD_DIM, &options->geometry.head_dim);
    case KEY_KPOOL:
        return arguments_count(state, "--kpool", text, KPOOL_MAX_KPOOL, &options->geometry.kpool);
    case KEY_SEED:
        return arguments_number(state, "--seed", text, 0, UINT64_MAX, &options->batcher.seed);
    case 'd':
        options->device = text;
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->path != NULL) {
            return arguments_refuse(state, "TRACE.csv: '%s' is one too many", text);
        }
        options->path = text;
        return 0;
    case ARGP_KEY_END:
        return options->path != NULL ? 0 : arguments_refuse(state, "TRACE.csv: is missing");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ------------------------------------------------------------------------------- replay ------- */

typedef struct Replay {
    Options options;
    Trace trace;
    Batcher batcher;
    ExpectedRing ring;
    ExpectedPools pools;
    uint32_t *host_offsets; /* [capacity + 1]: pool_row_offsets of the step, made on the host */
    KpoolCall call;
    Gpu gpu;
    ReplayDevice device;
    Progress progress;
    uint64_t steps;
    uint64_t tokens;
    uint64_t drops;      /* the sum of status, so far */
    uint64_t mismatches; /* of tail, where each counts once and is then put right, and of what the update makes */
    uint64_t miscount;   /* pools made beyond once or not at all */
    double start;
    double wall_seconds;
    double device_seconds; /* from submission to the fence; the host expects meanwhile, which may take longer */
} Replay;

static volatile sig_atomic_t stop_signal;

static void on_signal(int number)
{
    stop_signal = number;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void fill_rows(const Replay *replay, const Batch *batch)
{
    const KpoolGeometry *geometry = &replay->options.geometry;
    const size_t row_size = (size_t)geometry->head_dim * kpoolTypeSize(geometry->type);
    for (uint32_t r = 0; r < batch->capacity; r++) {
        const uint32_t first = batch->input_row_offsets[r];
        for (uint32_t row = first; row < batch->input_row_offsets[r + 1]; row++) {
            const uint32_t position = batch->cache_lengths[r] + (row - first);
            char *k = (char *)replay->device.tensors.k + row * row_size;
            char *gate = (char *)replay->device.tensors.gate + row * row_size;
            const uint32_t author = sequence_author(batch->sequence[r], position);
            make_row(geometry->type, geometry->head_dim, author, position, PLANE_KEY, k);
            make_row(geometry->type, geometry->head_dim, author, position, PLANE_GATE, gate);
        }
    }
}

static void fill_indices(const Replay *replay, const Batch *batch)
{
    const ReplayTensors *tensors = &replay->device.tensors;
    memcpy(tensors->input_row_offsets, batch->input_row_offsets, ((size_t)batch->capacity + 1) * sizeof(uint32_t));
    memcpy(tensors->cache_lengths, batch->cache_lengths, batch->capacity * sizeof(uint32_t));
    memcpy(tensors->slot_idx, batch->slot_idx, batch->capacity * sizeof(uint32_t));
    if (replay->call.pair_count != 0) {
        memcpy(tensors->pairs, batch->pairs, sizeof batch->pairs);
    }
}

static void clear_outputs(const Replay *replay)
{
    const ReplayTensors *tensors = &replay->device.tensors;
    const KpoolBindings *bindings = &replay->device.bindings;
    memset(tensors->pool_row_offsets, UNWRITTEN, (size_t)bindings->pool_row_offsets.size);
    memset(tensors->closed_pool, UNWRITTEN, (size_t)bindings->closed_pool.size);
    memset(tensors->closed_pooled, UNWRITTEN, (size_t)bindings->closed_pooled.size);
    memset(tensors->pooled, UNWRITTEN, (size_t)bindings->pooled.size);
}

/* What the step must leave behind, while the device is at it. */
static void expect(Replay *replay)
{
    ExpectedRing *ring = &replay->ring;
    const Batch *batch = &replay->batcher.batch;
    for (uint32_t i = 0; i < batch->forks; i++) {
        expected_ring_copy(ring, batch->pairs[i][0], batch->pairs[i][1]);
    }
    for (uint32_t r = 0; r < batch->capacity; r++) {
        const uint32_t tokens = batch->input_row_offsets[r + 1] - batch->input_row_offsets[r];
        if (tokens != 0) {
            expected_ring_seed(ring, batch->sequence[r], batch->slot_idx[r], batch->cache_lengths[r], tokens);
        }
    }
    expected_pools_step(&replay->pools, batch);
    kpoolPoolRowOffsets(replay->options.geometry.kpool, &replay->call, batch->input_row_offsets, batch->cache_lengths,
                        replay->host_offsets, NULL, NULL);
}

static void report_mismatch(const Replay *replay, const RingMismatch *mismatch)
{
    const int digits = (int)kpoolTypeSize(replay->options.geometry.type) * 2;
    char owner[64] = "written by no request";
    if (mismatch->place.request != NO_REQUEST) {
        snprintf(owner, sizeof owner, "request %u position %u", (unsigned)mismatch->place.request,
                 (unsigned)mismatch->place.position);
    }
    fprintf(stderr,
            "mismatch in step %llu: %s, slot %u, plane %u (%s), member %u, channel %u: expected %0*x, actual %0*x\n",
            (unsigned long long)replay->steps, owner, (unsigned)mismatch->slot, (unsigned)mismatch->plane,
            mismatch->plane == PLANE_KEY ? "key" : "gate", (unsigned)mismatch->member, (unsigned)mismatch->channel,
            digits, (unsigned)mismatch->expected, digits, (unsigned)mismatch->actual);
}

/* And puts the ring right so that one fault counts once. */
static void check_ring(Replay *replay)
{
    RingMismatch first;
    void *tail = replay->device.tensors.tail;
    const uint64_t mismatches = expected_ring_compare(&replay->ring, tail, &first);
    if (mismatches != 0) {
        if (replay->mismatches == 0) {
            progress_clear(&replay->progress);
            report_mismatch(replay, &first);
        }
        replay->mismatches += mismatches;
        memcpy(tail, replay->ring.tail, replay->ring.size);
    }
}

static void check_pools(Replay *replay)
{
    const ReplayTensors *tensors = &replay->device.tensors;
    const PoolOutputs actual = {
        .pool_row_offsets = tensors->pool_row_offsets,
        .closed_pool = tensors->closed_pool,
        .closed_pooled = tensors->closed_pooled,
        .pooled = tensors->pooled,
    };
    Complaint first;
    const uint64_t mismatches = expected_pools_compare(&replay->pools, &actual, replay->host_offsets, &first);
    if (mismatches != 0 && replay->mismatches == 0) {
        progress_clear(&replay->progress);
        fprintf(stderr, "mismatch in step %llu: %s\n", (unsigned long long)replay->steps, first.text);
    }
    replay->mismatches += mismatches;
}

static void check_status(Replay *replay)
{
    uint32_t status[KPOOL_STATUS_COUNT];
    memcpy(status, replay->device.tensors.status, sizeof status);
    uint64_t drops = 0;
    for (uint32_t cause = 0; cause < KPOOL_STATUS_COUNT; cause++) {
        if (status[cause] != 0 && replay->drops == 0) {
            progress_clear(&replay->progress);
            fprintf(stderr, "drop in step %llu: status[%u] is %u, and must be 0\n", (unsigned long long)replay->steps,
                    (unsigned)cause, (unsigned)status[cause]);
        }
        drops += status[cause];
    }
    replay->drops = drops;
}

static void check_counts(Replay *replay)
{
    Complaint first;
    replay->miscount = expected_pools_miscount(&replay->pools, &first);
    if (replay->miscount != 0) {
        fprintf(stderr, "%s\n", first.text);
    }
}

static bool run_steps(Replay *replay)
{
    const Batch *batch = &replay->batcher.batch;
    progress_start(&replay->progress, trace_tokens(&replay->trace));
    bool running = true;
    bool left = true;
    while (running && stop_signal == 0 && (left = batcher_next(&replay->batcher))) {
        fill_rows(replay, batch);
        fill_indices(replay, batch);
        clear_outputs(replay);
        const double submitted = progress_clock();
        running = replay_device_start(&replay->device);
        if (running) {
            expect(replay);
            running = replay_device_wait(&replay->device);
        }
        replay->device_seconds += progress_clock() - submitted;
        if (running) {
            check_ring(replay);
            check_pools(replay);
            check_status(replay);
            replay->steps++;
            replay->tokens += batch->rows;
            replay->progress.total = replay->batcher.planned;
            progress_update(&replay->progress, replay->steps, replay->tokens);
        }
    }
    progress_clear(&replay->progress);
    if (!left) {
        check_counts(replay);
    }
    return running;
}

/* ------------------------------------------------------------------------------ summary ------- */

static bool is_right(const Replay *replay)
{
    return replay->mismatches == 0 && replay->miscount == 0 && replay->drops == 0;
}

static double tokens_per_second(const Replay *replay)
{
    return replay->wall_seconds > 0 ? (double)replay->tokens / replay->wall_seconds : 0;
}

static void print_text(const Replay *replay)
{
    printf("%s%s on %s\n", is_right(replay) ? "right" : "WRONG", stop_signal != 0 ? ", interrupted" : "",
           replay->gpu.properties.deviceName);
    printf("requests      %u of %u, %u forks, %u preemptions\n", (unsigned)replay->batcher.finished,
           (unsigned)replay->trace.count, (unsigned)replay->batcher.forks, (unsigned)replay->batcher.preemptions);
    printf("steps         %llu\n", (unsigned long long)replay->steps);
    printf("tokens        %llu\n", (unsigned long long)replay->tokens);
    printf("rows written  %llu\n", (unsigned long long)replay->ring.rows_written);
    printf("pools         %llu closed, %llu compressed, %llu of both made again\n",
           (unsigned long long)replay->pools.closed, (unsigned long long)replay->pools.compressed,
           (unsigned long long)replay->pools.remade);
    printf("drops         %llu\n", (unsigned long long)replay->drops);
    printf("mismatches    %llu\n", (unsigned long long)replay->mismatches);
    printf("miscounts     %llu\n", (unsigned long long)replay->miscount);
    printf("device time   %.2f s\n", replay->device_seconds);
    printf("wall time     %.2f s, %.0f tokens/s\n", replay->wall_seconds, tokens_per_second(replay));
}

static void print_json(const Replay *replay)
{
    json_t *summary = json_object();
    json_object_set_new(summary, "right", json_boolean(is_right(replay)));
    json_object_set_new(summary, "interrupted", json_boolean(stop_signal != 0));
    json_object_set_new(summary, "device", json_string(replay->gpu.properties.deviceName));
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        {"requests", replay->trace.count},
        {"requests_finished", replay->batcher.finished},
        {"forks", replay->batcher.forks},
        {"preemptions", replay->batcher.preemptions},
        {"steps", replay->steps},
        {"tokens", replay->tokens},
        {"rows_written", replay->ring.rows_written},
        {"pools_closed", replay->pools.closed},
        {"pools_compressed", replay->pools.compressed},
        {"pools_remade", replay->pools.remade},
        {"drops", replay->drops},
        {"mismatches", replay->mismatches},
        {"miscounts", replay->miscount},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        json_object_set_new(summary, counts[i].name, json_integer((json_int_t)counts[i].value));
    }
    json_object_set_new(summary, "device_seconds", json_real(replay->device_seconds));
    json_object_set_new(summary, "wall_seconds", json_real(replay->wall_seconds));
    json_object_set_new(summary, "tokens_per_second", json_real(tokens_per_second(replay)));
    json_dumpf(summary, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(summary);
}

/* ------------------------------------------------------------------------------ command ------- */

static int refuse(int code, const char *message)
{
    complain_aloud("kpool replay: %s", message);
    return code;
}

static int read_trace(Replay *replay)
{
    const char *path = replay->options.path;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        complain_aloud("kpool replay: %.400s: %s", path, strerror(errno));
        return EXIT_BAD_INPUT;
    }
    TraceError error;
    const bool read = trace_read(file, &replay->trace, &error);
    fclose(file);
    if (!read && error.line != 0) {
        complain_aloud("kpool replay: %.128s:%zu: %s", path, error.line, error.complaint.text);
    } else if (!read) {
        complain_aloud("kpool replay: %.128s: %s", path, error.complaint.text);
    }
    trace_truncate(&replay->trace, replay->options.requests);
    return read ? EXIT_RIGHT : EXIT_BAD_INPUT;
}

/* The arguments may be beyond what the library or the device takes: then they are at fault, not the device. */
static int open_device(Replay *replay)
{
    const Options *options = &replay->options;
    const GpuOptions gpu_options = {.device = options->device};
    if (!gpu_open(&replay->gpu, &gpu_options)) {
        return refuse(EXIT_NO_DEVICE, replay->gpu.error);
    }
    const BatcherOptions *batcher = &options->batcher;
    replay->call = (KpoolCall){
        .max_slots = batcher->slots,
        .requests = batcher_capacity(batcher->slots),
        .rows = batcher->batch_tokens,
        .pooled_rows = batcher->batch_tokens / options->geometry.kpool + 1, /* one more than a step can make */
        .pair_count = batcher->fork != 0 ? BATCHER_MOST_FORKS : 0,
    };
    KpoolDiagnostic diagnostic;
    switch (replay_device_create(&replay->device, &replay->gpu, &options->geometry, &replay->call, &diagnostic)) {
    case KPOOL_SUCCESS:
        return EXIT_RIGHT;
    case KPOOL_ERROR_INVALID_ARGUMENT:
    case KPOOL_ERROR_LIMIT:
        return refuse(EXIT_BAD_INPUT, diagnostic.message);
    default:
        return refuse(EXIT_NO_DEVICE, diagnostic.message);
    }
}

static int run(Replay *replay)
{
    const Options *options = &replay->options;
    replay->start = progress_clock();
    int code = read_trace(replay);
    if (code == EXIT_RIGHT) {
        code = open_device(replay);
    }
    if (code != EXIT_RIGHT) {
        return code;
    }
    BatcherOptions batcher = options->batcher;
    batcher.kpool = options->geometry.kpool;
    replay->host_offsets = calloc((size_t)replay->call.requests + 1, sizeof(uint32_t));
    if (replay->host_offsets == NULL || !batcher_create(&replay->batcher, &replay->trace, &batcher) ||
        !expected_ring_create(&replay->ring, &options->geometry, batcher.slots) ||
        !expected_pools_create(&replay->pools, &options->geometry, &replay->trace, replay->call.requests,
                               replay->call.pooled_rows)) {
        return refuse(EXIT_BAD_INPUT, "out of memory for that many slots and requests");
    }
    const ReplayTensors *tensors = &replay->device.tensors;
    memcpy(tensors->tail, replay->ring.tail, replay->ring.size);
    memcpy(tensors->ape, replay->pools.ape, (size_t)replay->device.bindings.ape.size);
    memset(tensors->k, 0xff, (size_t)replay->device.bindings.k.size);
    memset(tensors->gate, 0xff, (size_t)replay->device.bindings.gate.size);

    catch_signals();
    if (!run_steps(replay)) {
        return refuse(EXIT_NO_DEVICE, replay->gpu.error);
    }
    replay->wall_seconds = progress_clock() - replay->start;
    if (options->json) {
        print_json(replay);
    } else {
        print_text(replay);
    }
    if (!is_right(replay)) {
        return EXIT_MISMATCH;
    }
    return stop_signal != 0 ? 128 + (int)stop_signal : EXIT_RIGHT;
}

int command_replay(int argc, char **argv)
{
    static const struct argp argp = {option_list, parse_option, "TRACE.csv", documentation, NULL, NULL, NULL};
    Replay replay = {
        .options =
            {
                .requests = UINT32_MAX,
                .batcher = {.slots = 256, .batch_tokens = 2048, .seed = 1},
                .geometry = {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_BF16},
            },
    };
    if (argp_parse(&argp, argc, argv, 0, NULL, &replay.options) != 0) {
        return EXIT_BAD_INPUT;
    }
    const int code = run(&replay);
    replay_device_destroy(&replay.device);
    gpu_close(&replay.gpu);
    expected_pools_destroy(&replay.pools);
    expected_ring_destroy(&replay.ring);
    free(replay.host_offsets);
    batcher_destroy(&replay.batcher);
    trace_destroy(&replay.trace);
    return code;
}
