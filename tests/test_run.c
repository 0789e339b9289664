/* The runner from outside: `kpool run` and `kpool devices` on files made here and on the shared conformance files,
 * judged by exit code, the one line that is printed, and the file that is written. KPOOL_BINARY is the runner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reference.h"
#include "safetensors.h"
#include "strided.h"

/* ----------------------------------------------------------------------------- the runner ------ */

typedef struct Outcome {
    int code;
    char out[8192];
    char err[8192];
} Outcome;

static void read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

/* environment: "NAME=value " before the command, or "". */
static Outcome run(const char *environment, const char *format, ...) __attribute__((format(printf, 2, 3)));

static Outcome run(const char *environment, const char *format, ...)
{
    char arguments[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    char command[2048];
    snprintf(command, sizeof command, "%s'%s' %s >out 2>err </dev/null", environment, KPOOL_BINARY, arguments);
    const int status = system(command);
    Outcome outcome = {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1};
    read_text("out", outcome.out, sizeof outcome.out);
    read_text("err", outcome.err, sizeof outcome.err);
    return outcome;
}

/* Of "wide" and "floor" those that the device takes; returns how many. */
static size_t binding_layouts(const char *layouts[2])
{
    const Outcome outcome = run("", "devices --json");
    json_t *devices = json_loads(outcome.out, 0, NULL);
    json_t *taken = json_object_get(json_array_get(devices, 0), "bindingLayouts");
    const size_t count = json_array_size(taken);
    assert_in_range(count, 1, 2);
    layouts[0] = "wide";
    layouts[count - 1] = "floor";
    json_decref(devices);
    return count;
}

static bool is_one_line(const char *text)
{
    const char *end = strchr(text, '\n');
    return end != NULL && end != text && end[1] == '\0';
}

static void assert_failed(const Outcome *outcome, int code, const char *sentence)
{
    if (outcome->code != code || !is_one_line(outcome->err) || strstr(outcome->err, sentence) == NULL) {
        fail_msg("exit %d and '%s' wanted, got exit %d, stdout '%s', stderr '%s'", code, sentence, outcome->code,
                 outcome->out, outcome->err);
    }
    assert_string_equal(outcome->out, "");
}

static void assert_right(const Outcome *outcome, const char *sentence)
{
    if (outcome->code != 0 || outcome->err[0] != '\0' || strstr(outcome->out, sentence) == NULL) {
        fail_msg("exit 0 and '%s' wanted, got exit %d, stdout '%s', stderr '%s'", sentence, outcome->code, outcome->out,
                 outcome->err);
    }
}

/* --------------------------------------------------------------------------------- files ------- */

typedef struct Shape {
    SafetensorsType type;
    uint32_t slots, ring, head_dim, kpool, rollback, requests, rows;
    uint32_t lengths[4];
    uint32_t offsets[5];
    uint32_t slot_idx[4];
} Shape;

/* A whole file in memory; what the reference makes of it is what is expected. */
typedef struct Sample {
    Shape shape;
    uint32_t status[16];
    uint8_t tail[1u << 16], expected[1u << 16], k[1u << 14], gate[1u << 14];
    SafetensorsTensor tensors[9];
    size_t count;
    char kpool[12], rollback[12];
    SafetensorsOption options[12];
    size_t option_count;
} Sample;

static const Shape plain = {
    SAFETENSORS_F32, 5, 4, 4, 4, 0, 3, 9, {0, 6, 1}, {0, 2, 7, 9}, {3, 0, 4},
};

static void fill(uint8_t *bytes, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
}

static Sample *make_sample(const Shape *shape, SafetensorsType index_type)
{
    Sample *sample = calloc(1, sizeof *sample);
    assert_non_null(sample);
    sample->shape = *shape;
    const Shape *s = &sample->shape;
    const size_t row = s->head_dim * safetensors_type_size(s->type);
    const size_t tail_size = 2 * row * s->slots * s->ring;
    const size_t rows_size = row * s->rows;
    assert_true(tail_size <= sizeof sample->tail && rows_size <= sizeof sample->k);
    fill(sample->tail, tail_size, 1);
    fill(sample->k, rows_size, 2);
    fill(sample->gate, rows_size, 3);
    memcpy(sample->expected, sample->tail, tail_size);
    const KpoolGeometry geometry = {
        .head_dim = s->head_dim,
        .kpool = s->kpool,
        .type = s->type == SAFETENSORS_F32   ? KPOOL_TYPE_F32
                : s->type == SAFETENSORS_F16 ? KPOOL_TYPE_F16
                                             : KPOOL_TYPE_BF16,
        .ring = s->ring,
        .rollback = s->rollback,
    };
    const KpoolCall call = {.max_slots = s->slots, .requests = s->requests, .rows = s->rows};
    reference_seed_tail(&geometry, &call, sample->expected, sample->k, sample->gate, s->offsets, s->lengths,
                        s->slot_idx, sample->status);
    const uint32_t B = s->requests;
    const SafetensorsTensor tensors[] = {
        {"tail", s->type, 4, {s->slots, 2, s->ring, s->head_dim}, sample->tail, tail_size},
        {"odd", SAFETENSORS_U8, 1, {1}, sample->k, s->rows != 0}, /* moves all that follow off their alignment */
        {"k", s->type, 2, {s->rows, s->head_dim}, sample->k, rows_size},
        {"gate", s->type, 2, {s->rows, s->head_dim}, sample->gate, rows_size},
        {"input_row_offsets", index_type, 1, {B + 1}, (uint8_t *)sample->shape.offsets, 4 * (B + 1)},
        {"cache_lengths", index_type, 1, {B}, (uint8_t *)sample->shape.lengths, 4 * B},
        {"slot_idx", index_type, 1, {B}, (uint8_t *)sample->shape.slot_idx, 4 * B},
        {"expected.tail", s->type, 4, {s->slots, 2, s->ring, s->head_dim}, sample->expected, tail_size},
        {"expected.status", SAFETENSORS_U32, 1, {16}, (uint8_t *)sample->status, sizeof sample->status},
    };
    memcpy(sample->tensors, tensors, sizeof tensors);
    sample->tensors[1].shape[0] = sample->tensors[1].size;
    sample->count = sizeof tensors / sizeof tensors[0];
    snprintf(sample->kpool, sizeof sample->kpool, "%u", s->kpool);
    snprintf(sample->rollback, sizeof sample->rollback, "%u", s->rollback);
    sample->options[sample->option_count++] = (SafetensorsOption){"op", "seed_tail"};
    sample->options[sample->option_count++] = (SafetensorsOption){"kpool", sample->kpool};
    sample->options[sample->option_count++] = (SafetensorsOption){"rollback", sample->rollback};
    return sample;
}

static void write_sample(const Sample *sample, const char *path)
{
    Complaint complaint;
    if (!safetensors_write(path, sample->tensors, sample->count, sample->options, sample->option_count, &complaint)) {
        fail_msg("%s", complaint.text);
    }
}

/* --------------------------------------------------------------------------------- tests ------- */

static const Shape shapes[] = {
    {SAFETENSORS_F32, 5, 4, 4, 4, 0, 3, 9, {0, 6, 1}, {0, 2, 7, 9}, {3, 0, 4}},
    {SAFETENSORS_BF16, 4, 4, 128, 4, 0, 2, 12, {3, 17}, {1, 8, 12}, {2, 1}},
    {SAFETENSORS_F16, 3, 7, 6, 3, 2, 2, 8, {5, 0}, {0, 4, 8}, {2, 0}},
    {SAFETENSORS_F32, 2, 1, 1, 1, 0, 1, 3, {9}, {0, 3}, {1}},
    /* dropped by each cause, and an empty request with nonsense in its row */
    {SAFETENSORS_F32, 4, 4, 4, 4, 0, 4, 9, {0, 4294967295u, 0, 5}, {3, 2, 5, 5, 10}, {0, 1, 4000000000u, 2}},
    {SAFETENSORS_F32, 4, 4, 4, 4, 0, 1, 9, {0}, {0, 9}, {4}},
    {SAFETENSORS_F32, 4, 4, 4, 4, 0, 0, 9, {0}, {2}, {0}},
    {SAFETENSORS_F32, 4, 4, 4, 4, 0, 3, 0, {1, 2, 3}, {0}, {9, 9, 9}},
    {SAFETENSORS_BF16, 4, 4, 4, 4, 0, 0, 0, {0}, {0}, {0}},
};

static void test_right(void **state)
{
    (void)state;
    const char *layouts[2];
    const size_t layout_count = binding_layouts(layouts);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        Sample *sample = make_sample(&shapes[i], SAFETENSORS_U32);
        write_sample(sample, "case");
        for (size_t layout = 0; layout < layout_count; layout++) {
            const Outcome outcome = run("", "run case -o made --layout %s", layouts[layout]);
            assert_right(&outcome, "matches expected.tail, expected.status on ");
            assert_true(is_one_line(outcome.out));
            Safetensors made;
            Complaint complaint;
            assert_true(safetensors_read("made", &made, &complaint));
            assert_int_equal(made.count, 2);
            assert_memory_equal(safetensors_find(&made, "tail")->data, sample->expected, sample->tensors[0].size);
            assert_memory_equal(safetensors_find(&made, "tail")->shape, sample->tensors[0].shape, 4 * 8);
            assert_memory_equal(safetensors_find(&made, "status")->data, sample->status, sizeof sample->status);
            safetensors_free(&made);
        }
        free(sample);
    }
}

static void test_strided(void **state)
{
    (void)state;
    const char *layouts[2];
    const size_t layout_count = binding_layouts(layouts);
    const SafetensorsOption strides[][3] = {
        {{"tail_slot_stride", "48"}},
        {{"tail_row_stride", "6"}, {"tail_base", "14"}},
        /* the planes outside the slots; the ring's members outside the slots */
        {{"tail_slot_stride", "16"}, {"tail_plane_stride", "80"}},
        {{"tail_slot_stride", "8"}, {"tail_plane_stride", "4"}, {"tail_row_stride", "40"}},
        {{"k_row_stride", "8"}, {"gate_row_stride", "8"}, {"gate_base", "4"}},
        {{"k_row_stride", "9"}, {"gate_row_stride", "5"}, {"k_base", "3"}},
    };
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
        Sample *sample = make_sample(&plain, SAFETENSORS_I32);
        for (size_t o = 0; o < 3 && strides[i][o].key != NULL; o++) {
            sample->options[sample->option_count++] = strides[i][o];
        }
        write_sample(sample, "case");
        for (size_t layout = 0; layout < layout_count; layout++) {
            const Outcome outcome = run("", "run --layout=%s case", layouts[layout]);
            assert_right(&outcome, "seed_tail: 3 requests, 9 rows, none dropped, matches expected.tail");
        }
        free(sample);
    }
}

static void test_reports(void **state)
{
    (void)state;
    Sample *sample = make_sample(&shapes[4], SAFETENSORS_U32);
    sample->count -= 2;
    write_sample(sample, "case");
    Outcome outcome = run("", "run case");
    assert_right(&outcome, "seed_tail: 4 requests, 9 rows, dropped: status[0] = 1 (input_row_offsets descends), "
                           "status[1] = 1 (rows out of range), status[3] = 1 (cache_lengths wraps), ran on ");
    outcome = run("", "run --json case");
    assert_right(&outcome, "\"result\": \"ran\"");
    json_t *json = json_loads(outcome.out, 0, NULL);
    assert_non_null(json);
    assert_int_equal(json_integer_value(json_object_get(json, "dropped")), 3);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(json, "status"), 3)), 1);
    assert_string_equal(json_string_value(json_object_get(json, "op")), "seed_tail");
    assert_non_null(json_string_value(json_object_get(json, "device")));
    json_decref(json);
    free(sample);
}

static void test_mismatches(void **state)
{
    (void)state;
    /* Request 1 brings positions 6 to 10 to slot 0, so its pool at 8 has members 0 to 2. */
    const struct {
        uint32_t slot, plane, member, channel;
        const char *owner;
    } places[] = {
        {0, 1, 2, 3, "request 1"}, {3, 0, 1, 0, "request 0"}, {4, 1, 0, 0, "request 2"}, {1, 0, 3, 2, "no request"},
    };
    Sample *sample = make_sample(&plain, SAFETENSORS_U32);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const size_t element = ((places[i].slot * 2 + places[i].plane) * 4 + places[i].member) * 4 + places[i].channel;
        uint32_t bits;
        memcpy(&bits, sample->expected + 4 * element, 4);
        sample->expected[4 * element + 3] ^= 0x10;
        write_sample(sample, "case");
        char sentence[256];
        snprintf(sentence, sizeof sentence,
                 "expected.tail differs at %s, slot %u, plane %s, member %u, channel %u: expected 0x%08x, got 0x%08x\n",
                 places[i].owner, places[i].slot, places[i].plane == 0 ? "k" : "gate", places[i].member,
                 places[i].channel, bits ^ 0x10000000u, bits);
        const Outcome outcome = run("", "run case");
        assert_failed(&outcome, 1, sentence);
        sample->expected[4 * element + 3] ^= 0x10;
    }
    sample->status[2] = 7;
    write_sample(sample, "case");
    Outcome outcome = run("", "run case");
    assert_failed(&outcome, 1, "expected.status differs at element 2: expected 0x00000007, got 0x00000000");
    outcome = run("", "run case --json");
    assert_int_equal(outcome.code, 1);
    assert_true(is_one_line(outcome.err));
    assert_non_null(strstr(outcome.out, "\"result\": \"mismatch\""));
    assert_non_null(strstr(outcome.out, "\"mismatch\": \"expected.status differs at element 2"));

    sample->tensors[sample->count - 1].name = "expected.dropped";
    sample->tensors[sample->count - 1].shape[0] = 4;
    sample->tensors[sample->count - 1].size = 16;
    write_sample(sample, "case");
    outcome = run("", "run case");
    assert_failed(&outcome, 1, "expected.dropped differs at element 2: expected 0x00000007, got 0x00000000");
    free(sample);
}

static void test_bad_input(void **state)
{
    (void)state;
    FILE *file = fopen("junk", "w");
    assert_non_null(file);
    fputs("\xff\xff\xff\xff\xff\xff\xff\xff{}", file);
    fclose(file);
    Outcome outcome = run("", "run junk");
    assert_failed(&outcome, 2, "junk: the header length is 18446744073709551615");
    outcome = run("", "run missing");
    assert_failed(&outcome, 2, "missing: cannot be opened");
    outcome = run("", "run .");
    assert_failed(&outcome, 2, ".: is not a regular file");

    Sample *sample = make_sample(&plain, SAFETENSORS_U32);
    sample->options[sample->option_count] = (SafetensorsOption){"tail_slot_stride", "31"};
    sample->option_count++;
    write_sample(sample, "case");
    outcome = run("", "run case");
    assert_failed(&outcome, 2, "case: tail_slot_stride is 31, must exceed 31");
    /* 2^31 bytes of ring: within the rules, over what a software device takes. */
    sample->options[sample->option_count - 1].value = "134217728";
    write_sample(sample, "case");
    outcome = run("", "run case");
    assert_failed(&outcome, 2, "tail: needs a buffer of");
    sample->option_count--;

    sample->options[0].value = "no_such_thing";
    write_sample(sample, "case");
    outcome = run("", "run case");
    assert_failed(&outcome, 2, "op: 'no_such_thing' is not supported");
    sample->options[0].value = "seed_tail";
    write_sample(sample, "case");
    const char *const unwritable[] = {"missing/out", ".", "/dev/null"};
    for (size_t i = 0; i < sizeof unwritable / sizeof unwritable[0]; i++) {
        outcome = run("", "run case -o %s", unwritable[i]);
        assert_failed(&outcome, 2, unwritable[i]);
    }
    free(sample);
}

static void test_arguments(void **state)
{
    (void)state;
    const struct {
        const char *arguments;
        const char *sentence;
    } bad[] = {
        {"frobnicate", "'frobnicate' is no command"},
        {"run", "FILE: is missing"},
        {"run a b", "FILE: 'b' is one too many"},
        {"run --frob a", "unrecognized option '--frob'"},
        {"run a -o", "option requires an argument"},
        {"run --layout tall a", "--layout: is 'tall', must be wide or floor"},
        {"devices all", "'all': takes no such argument"},
        {"devices --frob", "unrecognized option '--frob'"},
        {"'\x1b[2J\xc2\x9b" "2J\x9b'", "'?[2J??2J?' is no command"},
        {"run '\x1b[31m\nno'", "kpool run: ?[31m?no: cannot be opened"},
        {"replay '\x1b[31m\nno'", "kpool replay: ?[31m?no: No such file"},
        {"bench '--\x1b[31m=x'", "unrecognized option '--?[31m=x'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const Outcome outcome = run("", "%s", bad[i].arguments);
        assert_failed(&outcome, 2, bad[i].sentence);
    }
    Outcome outcome = run("", "check --device '\x1b[31m'");
    assert_failed(&outcome, 3, "?[31m");
    outcome = run("", "%s", "");
    assert_int_equal(outcome.code, 2);
    assert_non_null(strstr(outcome.err, "Usage: kpool COMMAND"));
    outcome = run("", "--help");
    assert_right(&outcome, "Usage: kpool COMMAND");
    outcome = run("", "--version");
    assert_right(&outcome, "kpool 0.");
    outcome = run("", "run --help");
    assert_right(&outcome, "Usage: kpool run [OPTION...] FILE");
    outcome = run("", "devices --help");
    assert_right(&outcome, "Usage: kpool devices [OPTION...]");
}

static void test_devices(void **state)
{
    (void)state;
    Outcome outcome = run("", "devices");
    assert_right(&outcome, " (default)\n");
    assert_non_null(strstr(outcome.out, "maxPerStageDescriptorStorageBuffers"));
    outcome = run("", "devices --json");
    assert_right(&outcome, "\"default\": true");
    json_t *json = json_loads(outcome.out, 0, NULL);
    assert_true(json_array_size(json) > 0);
    json_decref(json);

    Sample *sample = make_sample(&plain, SAFETENSORS_U32);
    write_sample(sample, "case");
    free(sample);
    outcome = run("", "run case --device 0");
    assert_right(&outcome, "matches");
    const char *layouts[2];
    outcome = run("", "run case --layout wide");
    if (binding_layouts(layouts) == 2) {
        assert_right(&outcome, "matches");
    } else {
        assert_failed(&outcome, 3, "kpool run: createInfo.bindingLayout is wide, too many storage buffers");
    }
    outcome = run("", "run case --device 'no such device'");
    assert_failed(&outcome, 3, "no Vulkan device matches 'no such device'");
    const char *none = "VK_ICD_FILENAMES=/nonexistent VK_DRIVER_FILES=/nonexistent ";
    outcome = run(none, "run case");
    assert_failed(&outcome, 3, "kpool run: no Vulkan device");
    outcome = run(none, "devices");
    assert_failed(&outcome, 3, "kpool devices: no Vulkan device");
    outcome = run(none, "devices --json");
    assert_int_equal(outcome.code, 3);
    assert_string_equal(outcome.out, "[]\n");
    /* A bad file is told before a device is looked for. */
    outcome = run(none, "run junk");
    assert_failed(&outcome, 2, "junk: ");
}

/* ------------------------------------------------------------------- the other operations ------ */

/* One call for all of them: slots, positions of the ring, channels, tokens of a pool, requests, rows, pool ids a row,
 * pairs. Request 0 brings pool 0 whole; request 1 closes pool 1 and brings pool 2 whole; request 2 brings neither;
 * request 3 is dropped, and its slot is out of range too. */
enum { SLOTS = 5, RING = 4, CHANNELS = 4, POOL = 4, REQUESTS = 4, ROWS = 15, TOPK = 2, WIDTH = TOPK * POOL + POOL - 1,
       PAIRS = 4, POOLED_ROWS = 3 };

static const uint32_t family_offsets[REQUESTS + 1] = {0, 5, 12, 14, 99};
static const uint32_t family_lengths[REQUESTS] = {0, 6, 1, 0};
static const uint32_t family_slots[REQUESTS] = {3, 0, 4, 7};
static const uint32_t family_pairs[PAIRS][2] = {{0, 1}, {1, 0}, {2, 2}, {3, 5}};

typedef struct Family {
    SafetensorsType type, pooled_type;
    uint8_t tail[SLOTS * 2 * RING * CHANNELS * 4];
    uint8_t copied[SLOTS * 2 * RING * CHANNELS * 4], seeded[SLOTS * 2 * RING * CHANNELS * 4];
    uint8_t k[ROWS * CHANNELS * 4], gate[ROWS * CHANNELS * 4];
    float ape[POOL * CHANNELS];
    uint32_t pool_offsets[REQUESTS + 1];
    int32_t pool_ids[ROWS * TOPK], out[ROWS * WIDTH];
    int32_t closed_pool[REQUESTS];
    uint8_t closed_pooled[REQUESTS * CHANNELS * 4], pooled[POOLED_ROWS * CHANNELS * 4];
    uint32_t status[6][16]; /* by operation */
} Family;

static const struct {
    const char *op;
    const char *inputs;
    const char *results; /* in the order in which the runner says them */
    const char *begins;  /* what it prints */
} operations[] = {
    {"ring_close", "tail k gate ape input_row_offsets cache_lengths slot_idx ",
     "expected.closed_pool, expected.closed_pooled (1 of 4 rows made), expected.status",
     "ring_close: 4 requests, 15 rows, dropped: "},
    {"compress", "k gate ape input_row_offsets cache_lengths pool_row_offsets ",
     "expected.pooled (2 of 3 rows made), expected.status",
     "compress: 4 requests, 15 rows, 3 rows of pooled, dropped: "},
    /* k says how many rows there are. */
    {"pool_row_offsets", "k input_row_offsets cache_lengths ", "expected.pool_row_offsets, expected.status",
     "pool_row_offsets: 4 requests, dropped: "},
    {"expand_topk", "pool_ids input_row_offsets cache_lengths ", "expected.out, expected.status",
     "expand_topk: 4 requests, 15 rows, dropped: "},
    {"copy_slots", "tail pairs ", "expected.tail, expected.status",
     "copy_slots: 4 pairs, dropped: status[7] = 1 (pair out of range), "},
    {"step", "tail k gate ape input_row_offsets cache_lengths slot_idx pool_row_offsets ",
     "expected.closed_pool, expected.closed_pooled (1 of 4 rows made), expected.pooled (2 of 3 rows made), "
     "expected.tail, expected.status",
     "step: 4 requests, 15 rows, 3 rows of pooled, dropped: "},
};

enum { RING_CLOSE, COMPRESS, POOL_ROW_OFFSETS, EXPAND_TOPK, COPY_SLOTS, STEP, OPERATIONS };

static KpoolType kpool_type(SafetensorsType type)
{
    return type == SAFETENSORS_F32 ? KPOOL_TYPE_F32 : type == SAFETENSORS_F16 ? KPOOL_TYPE_F16 : KPOOL_TYPE_BF16;
}

/* Numbers from -2 to 2 in eighths, whatever the type. */
static void fill_numbers(uint8_t *bytes, size_t count, SafetensorsType type, uint32_t seed)
{
    static const uint16_t halves[] = {0x0000, 0x3000, 0x3800, 0x3c00, 0x4000, 0xb000, 0xb800, 0xbc00, 0xc000};
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        const float number = (float)((int)(seed >> 27) - 16) * 0.125f;
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        bits = type == SAFETENSORS_BF16 ? bits >> 16 : type == SAFETENSORS_F16 ? halves[(seed >> 24) % 9] : bits;
        memcpy(bytes + i * safetensors_type_size(type), &bits, safetensors_type_size(type));
    }
}

static Family *make_family(SafetensorsType type, SafetensorsType pooled_type)
{
    Family *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->type = type;
    f->pooled_type = pooled_type;
    fill_numbers(f->tail, SLOTS * 2 * RING * CHANNELS, type, 11);
    fill_numbers(f->k, ROWS * CHANNELS, type, 12);
    fill_numbers(f->gate, ROWS * CHANNELS, type, 13);
    fill_numbers((uint8_t *)f->ape, POOL * CHANNELS, SAFETENSORS_F32, 14);
    memcpy(f->copied, f->tail, sizeof f->tail);
    memcpy(f->seeded, f->tail, sizeof f->tail);
    for (size_t i = 0; i < ROWS * TOPK; i++) {
        f->pool_ids[i] = (int32_t)(i % 4) - 1;
    }
    const KpoolKernelCreateInfo info = {
        .geometry = {.head_dim = CHANNELS, .kpool = POOL, .type = kpool_type(type), .ring = RING},
        .pooled_type = kpool_type(pooled_type),
    };
    const KpoolCall call = {.max_slots = SLOTS, .requests = REQUESTS, .rows = ROWS, .pooled_rows = POOLED_ROWS,
                            .pair_count = PAIRS};
    reference_ring_close(&info, &call, f->tail, f->k, f->gate, f->ape, family_offsets, family_lengths, family_slots,
                         f->closed_pool, f->closed_pooled, f->status[RING_CLOSE]);
    reference_pool_row_offsets(POOL, &call, family_offsets, family_lengths, f->pool_offsets,
                               f->status[POOL_ROW_OFFSETS]);
    reference_compress(&info, &call, f->k, f->gate, f->ape, family_offsets, family_lengths, f->pool_offsets, f->pooled,
                       f->status[COMPRESS]);
    reference_expand_topk(POOL, TOPK, KPOOL_TOPK_LAYOUT_FIXED, true, &call, family_offsets, family_lengths,
                          f->pool_ids, f->out, f->status[EXPAND_TOPK]);
    reference_copy_slots(&info.geometry, &call, f->tail, f->copied, &family_pairs[0][0], f->status[COPY_SLOTS]);
    reference_step(&info, &call, f->seeded, f->k, f->gate, f->ape, family_offsets, family_lengths, family_slots,
                   f->pool_offsets, NULL, f->closed_pool, f->closed_pooled, f->pooled, f->status[STEP]);
    assert_int_equal(f->closed_pool[1], 1);
    assert_int_equal(f->pool_offsets[REQUESTS], 2);
    return f;
}

/* The tensors of one operation that the lists name. */
typedef struct FamilyFile {
    SafetensorsTensor tensors[16];
    size_t count;
    SafetensorsOption options[6];
    size_t option_count;
} FamilyFile;

static FamilyFile make_file(const Family *f, size_t operation)
{
    const SafetensorsTensor all[] = {
        {"tail", f->type, 4, {SLOTS, 2, RING, CHANNELS}, f->tail, 0},
        {"k", f->type, 2, {ROWS, CHANNELS}, f->k, 0},
        {"gate", f->type, 2, {ROWS, CHANNELS}, f->gate, 0},
        {"ape", SAFETENSORS_F32, 2, {POOL, CHANNELS}, (const uint8_t *)f->ape, 0},
        {"input_row_offsets", SAFETENSORS_U32, 1, {REQUESTS + 1}, (const uint8_t *)family_offsets, 0},
        {"cache_lengths", SAFETENSORS_I32, 1, {REQUESTS}, (const uint8_t *)family_lengths, 0},
        {"slot_idx", SAFETENSORS_U32, 1, {REQUESTS}, (const uint8_t *)family_slots, 0},
        {"pool_row_offsets", SAFETENSORS_U32, 1, {REQUESTS + 1}, (const uint8_t *)f->pool_offsets, 0},
        {"pool_ids", SAFETENSORS_I32, 2, {ROWS, TOPK}, (const uint8_t *)f->pool_ids, 0},
        {"pairs", SAFETENSORS_U32, 2, {PAIRS, 2}, (const uint8_t *)family_pairs, 0},
        {"expected.closed_pool", SAFETENSORS_I32, 1, {REQUESTS}, (const uint8_t *)f->closed_pool, 0},
        {"expected.closed_pooled", f->pooled_type, 2, {REQUESTS, CHANNELS}, f->closed_pooled, 0},
        {"expected.pooled", f->pooled_type, 2, {POOLED_ROWS, CHANNELS}, f->pooled, 0},
        {"expected.pool_row_offsets", SAFETENSORS_U32, 1, {REQUESTS + 1}, (const uint8_t *)f->pool_offsets, 0},
        {"expected.out", SAFETENSORS_I32, 2, {ROWS, WIDTH}, (const uint8_t *)f->out, 0},
        {"expected.tail", f->type, 4, {SLOTS, 2, RING, CHANNELS}, operation == STEP ? f->seeded : f->copied, 0},
        {"expected.status", SAFETENSORS_U32, 1, {16}, (const uint8_t *)f->status[operation], 0},
    };
    FamilyFile file = {.options = {{"op", operations[operation].op}, {"kpool", "4"}}, .option_count = 2};
    char wanted[256];
    snprintf(wanted, sizeof wanted, " %s%s,", operations[operation].inputs, operations[operation].results);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char name[2][40];
        snprintf(name[0], sizeof name[0], " %s ", all[i].name);
        snprintf(name[1], sizeof name[1], " %s,", all[i].name);
        if (strstr(wanted, name[0]) == NULL && strstr(wanted, name[1]) == NULL) {
            continue;
        }
        SafetensorsTensor *tensor = &file.tensors[file.count++];
        *tensor = all[i];
        tensor->size = safetensors_type_size(tensor->type);
        for (uint32_t d = 0; d < tensor->rank; d++) {
            tensor->size *= tensor->shape[d];
        }
    }
    if (f->pooled_type != f->type) {
        file.options[file.option_count++] = (SafetensorsOption){
            "pooled_dtype", safetensors_type_name(f->pooled_type)};
    }
    return file;
}

static SafetensorsTensor *find_in(FamilyFile *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->tensors[i].name, name) == 0) {
            return &file->tensors[i];
        }
    }
    fail_msg("no %s", name);
    return NULL;
}

static void write_file(const FamilyFile *file, const char *path)
{
    Complaint complaint;
    if (!safetensors_write(path, file->tensors, file->count, file->options, file->option_count, &complaint)) {
        fail_msg("%s", complaint.text);
    }
}

/* Every expected tensor is in the written file, to the bit where the operation makes something. */
static void assert_written(const FamilyFile *file, size_t operation)
{
    Safetensors made;
    Complaint complaint;
    assert_true(safetensors_read("made", &made, &complaint));
    assert_string_equal(safetensors_metadata(&made, "op"), operations[operation].op);
    size_t results = 0;
    for (size_t i = 0; i < file->count; i++) {
        const SafetensorsTensor *expected = &file->tensors[i];
        if (strncmp(expected->name, "expected.", 9) != 0) {
            continue;
        }
        results++;
        const SafetensorsTensor *actual = safetensors_find(&made, expected->name + 9);
        assert_non_null(actual);
        assert_int_equal(actual->type, expected->type);
        assert_memory_equal(actual->shape, expected->shape, sizeof expected->shape);
        const size_t row = CHANNELS * safetensors_type_size(expected->type);
        if (strcmp(expected->name, "expected.closed_pooled") == 0) {
            assert_memory_equal(actual->data + row, expected->data + row, row);
        } else if (strcmp(expected->name, "expected.pooled") == 0) {
            assert_memory_equal(actual->data, expected->data, 2 * row);
        } else {
            assert_memory_equal(actual->data, expected->data, expected->size);
        }
    }
    assert_int_equal(made.count, results);
    safetensors_free(&made);
}

static void test_family(void **state)
{
    (void)state;
    const char *layouts[2];
    const size_t layout_count = binding_layouts(layouts);
    const SafetensorsType types[][2] = {
        {SAFETENSORS_F32, SAFETENSORS_F32},  {SAFETENSORS_F16, SAFETENSORS_F16}, {SAFETENSORS_BF16, SAFETENSORS_BF16},
        {SAFETENSORS_BF16, SAFETENSORS_F32}, {SAFETENSORS_F32, SAFETENSORS_F16},
    };
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        Family *family = make_family(types[t][0], types[t][1]);
        for (size_t operation = 0; operation < OPERATIONS; operation++) {
            const FamilyFile file = make_file(family, operation);
            write_file(&file, "case");
            for (size_t layout = 0; layout < layout_count; layout++) {
                const Outcome outcome = run("", "run case -o made --layout %s", layouts[layout]);
                char matches[256];
                snprintf(matches, sizeof matches, "matches %s on ", operations[operation].results);
                assert_right(&outcome, matches);
                assert_int_equal(strncmp(outcome.out, operations[operation].begins,
                                         strlen(operations[operation].begins)), 0);
                assert_written(&file, operation);
            }
        }
        free(family);
    }
}

/* Without anything expected it runs, and says what it did. */
static void test_family_expects_nothing(void **state)
{
    (void)state;
    Family *family = make_family(SAFETENSORS_F32, SAFETENSORS_F32);
    for (size_t operation = 0; operation < OPERATIONS; operation++) {
        FamilyFile file = make_file(family, operation);
        while (strncmp(file.tensors[file.count - 1].name, "expected.", 9) == 0) {
            file.count--;
        }
        write_file(&file, "case");
        Outcome outcome = run("", "run case -o made");
        assert_right(&outcome, ", ran on ");
        outcome = run("", "run case --json");
        assert_right(&outcome, "\"result\": \"ran\"");
        json_t *json = json_loads(outcome.out, 0, NULL);
        /* With no pooled in the file the offsets say how much there is. */
        assert_int_equal(json_integer_value(json_object_get(json, "pooled_rows")),
                         operation == COMPRESS || operation == STEP ? 2 : 0);
        assert_int_equal(json_integer_value(json_object_get(json, "pairs")), operation == COPY_SLOTS ? PAIRS : 0);
        json_decref(json);
        if (operation == EXPAND_TOPK) {
            Safetensors made;
            Complaint complaint;
            assert_true(safetensors_read("made", &made, &complaint));
            /* and no out no tail positions. */
            assert_int_equal(safetensors_find(&made, "out")->shape[1], TOPK * POOL);
            safetensors_free(&made);
        }
    }
    free(family);
}

static void test_family_mismatches(void **state)
{
    (void)state;
    const struct {
        size_t operation;
        const char *tensor;
        size_t element;
        const char *place; /* NULL: not compared */
    } planted[] = {
        {RING_CLOSE, "expected.closed_pool", 1, "request 1"},
        {RING_CLOSE, "expected.closed_pool", 3, "request 3"},
        {RING_CLOSE, "expected.closed_pooled", 1 * CHANNELS + 2, "request 1, channel 2"},
        {RING_CLOSE, "expected.closed_pooled", 0, NULL},
        {RING_CLOSE, "expected.closed_pooled", 3 * CHANNELS, NULL},
        {RING_CLOSE, "expected.status", 1, "element 1"},
        {COMPRESS, "expected.pooled", 3, "row 0, request 0, channel 3"},
        {COMPRESS, "expected.pooled", CHANNELS, "row 1, request 1, channel 0"},
        {COMPRESS, "expected.pooled", 2 * CHANNELS, NULL},
        {COMPRESS, "expected.status", 8, "element 8"},
        {POOL_ROW_OFFSETS, "expected.pool_row_offsets", 0, "entry 0"},
        {POOL_ROW_OFFSETS, "expected.pool_row_offsets", REQUESTS, "entry 4"},
        {EXPAND_TOPK, "expected.out", 0, "row 0, column 0"},
        {EXPAND_TOPK, "expected.out", 13 * WIDTH + 10, "row 13, column 10"},
        {EXPAND_TOPK, "expected.status", 5, "element 5"},
        /* Slots 0 and 1 change places; slot 2 is its own source; slot 3 has none. */
        {COPY_SLOTS, "expected.tail", (1 * 2 + 1) * RING * CHANNELS + 2 * CHANNELS + 3,
         "pair 0, slot 1, plane gate, member 2, channel 3"},
        {COPY_SLOTS, "expected.tail", 0, "pair 1, slot 0, plane k, member 0, channel 0"},
        {COPY_SLOTS, "expected.tail", 2 * 2 * RING * CHANNELS, "no pair, slot 2, plane k, member 0, channel 0"},
        {COPY_SLOTS, "expected.status", 7, "element 7"},
        {STEP, "expected.closed_pool", 0, "request 0"},
        {STEP, "expected.closed_pooled", CHANNELS + 3, "request 1, channel 3"},
        {STEP, "expected.closed_pooled", 0, NULL},
        {STEP, "expected.pooled", CHANNELS + 1, "row 1, request 1, channel 1"},
        {STEP, "expected.pooled", 2 * CHANNELS, NULL},
        {STEP, "expected.tail", 0, "request 1, slot 0, plane k, member 0, channel 0"},
        {STEP, "expected.tail", (3 * 2 + 1) * RING * CHANNELS, "request 0, slot 3, plane gate, member 0, channel 0"},
        {STEP, "expected.tail", 1 * 2 * RING * CHANNELS, "no request, slot 1, plane k, member 0, channel 0"},
        {STEP, "expected.status", 1, "element 1"},
    };
    Family *family = make_family(SAFETENSORS_F32, SAFETENSORS_F32);
    for (size_t i = 0; i < sizeof planted / sizeof planted[0]; i++) {
        FamilyFile file = make_file(family, planted[i].operation);
        SafetensorsTensor *tensor = find_in(&file, planted[i].tensor);
        uint8_t bytes[2048];
        assert_true(tensor->size <= sizeof bytes);
        memcpy(bytes, tensor->data, tensor->size);
        tensor->data = bytes;
        bytes[4 * planted[i].element] ^= 0x40;
        write_file(&file, "case");
        const Outcome outcome = run("", "run case");
        if (planted[i].place == NULL) {
            assert_right(&outcome, "matches");
            continue;
        }
        char sentence[256];
        snprintf(sentence, sizeof sentence, "%s differs at %s: expected ", planted[i].tensor, planted[i].place);
        assert_failed(&outcome, 1, sentence);
    }
    free(family);
}

/* What the file holds of pooled is where it comes from, and all of it is compared. */
static void test_family_given(void **state)
{
    (void)state;
    Family *family = make_family(SAFETENSORS_F32, SAFETENSORS_F32);
    uint8_t given[REQUESTS * CHANNELS * 4];
    memset(given, 0x5a, sizeof given);
    memcpy(family->pooled + 2 * CHANNELS * 4, given, CHANNELS * 4);
    FamilyFile file = make_file(family, COMPRESS);
    file.tensors[file.count++] = (SafetensorsTensor){
        "pooled", SAFETENSORS_F32, 2, {POOLED_ROWS, CHANNELS}, given, POOLED_ROWS * CHANNELS * 4};
    write_file(&file, "case");
    Outcome outcome = run("", "run case");
    assert_right(&outcome, "matches expected.pooled");
    family->pooled[2 * CHANNELS * 4] ^= 1;
    write_file(&file, "case");
    outcome = run("", "run case");
    assert_failed(&outcome, 1, "expected.pooled differs at row 2, no request, channel 0: expected 0x5a5a5a5b, got "
                               "0x5a5a5a5a");

    /* Rows of closed_pooled that nothing closes are not, whatever the file holds. */
    file = make_file(family, RING_CLOSE);
    file.tensors[file.count++] = (SafetensorsTensor){
        "closed_pooled", SAFETENSORS_F32, 2, {REQUESTS, CHANNELS}, given, sizeof given};
    write_file(&file, "case");
    outcome = run("", "run case -o made");
    assert_right(&outcome, "matches expected.closed_pool, expected.closed_pooled");
    Safetensors made;
    Complaint complaint;
    assert_true(safetensors_read("made", &made, &complaint));
    assert_memory_equal(safetensors_find(&made, "closed_pooled")->data, given, CHANNELS * 4);
    safetensors_free(&made);
    free(family);
}

/* Without pool_row_offsets step has those of its own call. */
static void test_step_alone(void **state)
{
    (void)state;
    Family *family = make_family(SAFETENSORS_BF16, SAFETENSORS_F32);
    FamilyFile file = make_file(family, STEP);
    *find_in(&file, "pool_row_offsets") = file.tensors[file.count - 1];
    file.count--;
    write_file(&file, "case");
    Outcome outcome = run("", "run case");
    assert_right(&outcome, "step: 4 requests, 15 rows, 3 rows of pooled, dropped: ");
    assert_non_null(strstr(outcome.out, "matches expected.closed_pool, expected.closed_pooled (1 of 4 rows made), "
                                        "expected.pooled (2 of 3 rows made)"));
    *find_in(&file, "expected.pooled") = file.tensors[file.count - 1];
    file.count--;
    write_file(&file, "case");
    outcome = run("", "run case");
    assert_right(&outcome, "step: 4 requests, 15 rows, 3 rows of pooled, dropped: ");
    free(family);
}

static void test_fast(void **state)
{
    (void)state;
    const size_t making[] = {RING_CLOSE, COMPRESS, STEP};
    for (size_t i = 0; i < 3; i++) {
        const size_t operation = making[i];
        const bool closes = operation == RING_CLOSE;
        Family *family = make_family(SAFETENSORS_F32, SAFETENSORS_F32);
        uint8_t *made = closes ? family->closed_pooled + CHANNELS * 4 : family->pooled;
        FamilyFile file = make_file(family, operation);
        file.options[file.option_count++] = (SafetensorsOption){"numerics", "fast"};
        write_file(&file, "case");
        Outcome outcome = run("", "run case");
        assert_right(&outcome, "matches");
        /* Far less than 2e-6 of the largest key, and far more. */
        made[0] ^= 2;
        write_file(&file, "case");
        outcome = run("", "run case");
        assert_right(&outcome, "matches");
        file.option_count--;
        write_file(&file, "case");
        outcome = run("", "run case");
        assert_failed(&outcome, 1, closes ? "expected.closed_pooled differs at request 1, channel 0"
                                          : "expected.pooled differs at row 0, request 0, channel 0");
        file.option_count++;
        made[4 + 1] ^= 4;
        write_file(&file, "case");
        outcome = run("", "run case");
        assert_failed(&outcome, 1, closes ? "expected.closed_pooled differs at request 1, channel 1"
                                          : "expected.pooled differs at row 0, request 0, channel 1");
        free(family);
    }
}

/* layout and with_tail change what comes out, and the width of out says the second where nothing else does. */
static void test_topk_options(void **state)
{
    (void)state;
    Family *family = make_family(SAFETENSORS_F32, SAFETENSORS_F32);
    const KpoolCall call = {.requests = REQUESTS, .rows = ROWS};
    for (uint32_t row = 0; row < 8; row++) {
        const bool compact = row % 2 != 0;
        const bool with_tail = row / 2 % 2 != 0;
        const bool is_said = row / 4 != 0;
        uint32_t status[16] = {0};
        reference_expand_topk(POOL, TOPK, compact ? KPOOL_TOPK_LAYOUT_COMPACT : KPOOL_TOPK_LAYOUT_FIXED, with_tail,
                              &call, family_offsets, family_lengths, family->pool_ids, family->out, status);
        FamilyFile file = make_file(family, EXPAND_TOPK);
        SafetensorsTensor *out = find_in(&file, "expected.out");
        out->shape[1] = with_tail ? WIDTH : TOPK * POOL;
        out->size = ROWS * out->shape[1] * 4;
        if (compact || is_said) {
            file.options[file.option_count++] = (SafetensorsOption){"layout", compact ? "compact" : "fixed"};
        }
        if (is_said) {
            file.options[file.option_count++] = (SafetensorsOption){"with_tail", with_tail ? "1" : "0"};
        }
        write_file(&file, "case");
        const Outcome outcome = run("", "run case");
        assert_right(&outcome, "matches expected.out, expected.status");
    }
    free(family);
}

/* The files that an independent program made. */
static void test_shared_cases(void **state)
{
    (void)state;
    glob_t found;
    if (glob(KPOOL_SHARED "/cases/*.safetensors", 0, NULL, &found) != 0) {
        const char *ci = getenv("CI");
        if (ci != NULL && strcmp(ci, "true") == 0) {
            fail_msg("%s", "no conformance files in " KPOOL_SHARED "/cases");
        }
        print_message("skipped: no conformance files in %s\n", KPOOL_SHARED "/cases");
        skip();
    }
    const char *layouts[2];
    const size_t layout_count = binding_layouts(layouts);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        for (size_t layout = 0; layout < layout_count; layout++) {
            const Outcome outcome = run("", "run '%s' --layout %s", found.gl_pathv[i], layouts[layout]);
            assert_right(&outcome, ", matches expected.");
        }
    }
    print_message("%zu conformance files, %zu layouts each\n", found.gl_pathc, layout_count);
    globfree(&found);
}

static int enter_directory(void **state)
{
    char *directory = strdup("test_run.XXXXXX");
    *state = directory;
    return directory != NULL && mkdtemp(directory) != NULL && chdir(directory) == 0 ? 0 : -1;
}

static int leave_directory(void **state)
{
    const char *const files[] = {"out", "err", "case", "made", "junk"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        unlink(files[i]);
    }
    const int result = chdir("..") == 0 ? rmdir(*state) : -1;
    free(*state);
    return result;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),      cmocka_unit_test(test_strided),   cmocka_unit_test(test_reports),
        cmocka_unit_test(test_mismatches), cmocka_unit_test(test_bad_input), cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_devices),    cmocka_unit_test(test_family),
        cmocka_unit_test(test_family_expects_nothing),
        cmocka_unit_test(test_family_mismatches),
        cmocka_unit_test(test_family_given),
        cmocka_unit_test(test_step_alone),
        cmocka_unit_test(test_fast),
        cmocka_unit_test(test_topk_options),
        cmocka_unit_test(test_shared_cases),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
