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
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        Sample *sample = make_sample(&shapes[i], SAFETENSORS_U32);
        write_sample(sample, "case");
        for (uint32_t layout = 0; layout < 2; layout++) {
            const Outcome outcome = run("", "run case -o made --layout %s", layout == 0 ? "wide" : "floor");
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
        for (uint32_t layout = 0; layout < 2; layout++) {
            const Outcome outcome = run("", "run --layout=%s case", layout == 0 ? "wide" : "floor");
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
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const Outcome outcome = run("", "%s", bad[i].arguments);
        assert_failed(&outcome, 2, bad[i].sentence);
    }
    Outcome outcome = run("", "%s", "");
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

/* The files that an independent program made. */
static void test_shared_cases(void **state)
{
    (void)state;
    glob_t found;
    if (glob(KPOOL_SHARED "/cases/seed_tail_*.safetensors", 0, NULL, &found) != 0) {
        const char *ci = getenv("CI");
        if (ci != NULL && strcmp(ci, "true") == 0) {
            fail_msg("%s", "no conformance files in " KPOOL_SHARED "/cases");
        }
        print_message("skipped: no conformance files in %s\n", KPOOL_SHARED "/cases");
        skip();
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        for (uint32_t layout = 0; layout < 2; layout++) {
            const Outcome outcome =
                run("", "run '%s' --layout %s", found.gl_pathv[i], layout == 0 ? "wide" : "floor");
            assert_right(&outcome, "matches expected.tail, expected.status on ");
        }
    }
    print_message("%zu conformance files, two layouts each\n", found.gl_pathc);
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
        cmocka_unit_test(test_devices),    cmocka_unit_test(test_shared_cases),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
