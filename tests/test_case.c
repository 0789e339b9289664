/* What a case file may say: how kpool, ring and rollback are found, and which file is refused with which words; and
 * what a comparison finds, planted into the images of a case that never meets a device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "case.h"

#define MOST 12u

/* A file to be: its tensors, all of zeros unless data is set, and its options. */
typedef struct Draft {
    SafetensorsTensor tensors[MOST];
    size_t count;
    SafetensorsOption options[MOST];
    size_t option_count;
} Draft;

static const unsigned char zeros[1u << 16];

/* 3 slots of 4 positions of 8 channels; 2 requests; 5 rows. */
static Draft make_draft(void)
{
    return (Draft){
        .tensors =
            {
                {.name = "tail", .type = SAFETENSORS_F32, .rank = 4, .shape = {3, 2, 4, 8}},
                {.name = "k", .type = SAFETENSORS_F32, .rank = 2, .shape = {5, 8}},
                {.name = "gate", .type = SAFETENSORS_F32, .rank = 2, .shape = {5, 8}},
                {.name = "input_row_offsets", .type = SAFETENSORS_U32, .rank = 1, .shape = {3}},
                {.name = "cache_lengths", .type = SAFETENSORS_U32, .rank = 1, .shape = {2}},
                {.name = "slot_idx", .type = SAFETENSORS_U32, .rank = 1, .shape = {2}},
            },
        .count = 6,
        .options = {{"op", "seed_tail"}},
        .option_count = 1,
    };
}

static SafetensorsTensor *find(Draft *draft, const char *name)
{
    for (size_t i = 0; i < draft->count; i++) {
        if (strcmp(draft->tensors[i].name, name) == 0) {
            return &draft->tensors[i];
        }
    }
    return NULL;
}

/* Replaces the tensor of the same name, or adds it. */
static void put_tensor(Draft *draft, const SafetensorsTensor *tensor)
{
    SafetensorsTensor *place = find(draft, tensor->name);
    if (place == NULL) {
        place = &draft->tensors[draft->count++];
    }
    *place = *tensor;
}

static void put_option(Draft *draft, const char *key, const char *value)
{
    for (size_t i = 0; i < draft->option_count; i++) {
        if (strcmp(draft->options[i].key, key) == 0) {
            draft->options[i].value = value;
            return;
        }
    }
    draft->options[draft->option_count++] = (SafetensorsOption){key, value};
}

/* Through a file, as the runner gets it. */
static bool read_draft(Draft *draft, Safetensors *file, Case *made, Complaint *complaint)
{
    for (size_t i = 0; i < draft->count; i++) {
        SafetensorsTensor *tensor = &draft->tensors[i];
        tensor->size = safetensors_type_size(tensor->type);
        for (uint32_t d = 0; d < tensor->rank; d++) {
            tensor->size *= tensor->shape[d];
        }
        assert_true(tensor->data != NULL || tensor->size <= sizeof zeros);
        tensor->data = tensor->data != NULL ? tensor->data : zeros;
    }
    char path[64];
    snprintf(path, sizeof path, "test_case.%ld.safetensors", (long)getpid());
    if (!safetensors_write(path, draft->tensors, draft->count, draft->options, draft->option_count, complaint) ||
        !safetensors_read(path, file, complaint)) {
        fail_msg("%s", complaint->text);
    }
    unlink(path);
    return case_read(file, made, complaint);
}

/* -------------------------------------------------------------------------- resolution --------- */

typedef struct Resolved {
    SafetensorsTensor tensors[2]; /* put into the draft, where named */
    SafetensorsOption options[3];
    KpoolGeometry geometry;
    uint32_t alignment;
} Resolved;

static const Resolved resolved[] = {
    {{{0}}, {{0}}, {8, 4, KPOOL_TYPE_F32, 4, 0}, 16},
    {{{0}}, {{"kpool", "3"}}, {8, 3, KPOOL_TYPE_F32, 4, 0}, 16},
    {{{0}}, {{"kpool", "1"}, {"rollback", "3"}}, {8, 1, KPOOL_TYPE_F32, 4, 3}, 16},
    {{{0}}, {{"kpool", "4"}, {"rollback", "0"}, {"note", "ignored"}}, {8, 4, KPOOL_TYPE_F32, 4, 0}, 16},
    {{{.name = "ape", .type = SAFETENSORS_F32, .rank = 2, .shape = {2, 8}}}, {{0}}, {8, 2, KPOOL_TYPE_F32, 4, 0}, 16},
    {{{.name = "ape", .type = SAFETENSORS_F32, .rank = 2, .shape = {2, 8}}}, {{"kpool", "2"}, {"rollback", "2"}},
     {8, 2, KPOOL_TYPE_F32, 4, 2}, 16},
    /* The words the kernel moves: 16 bytes only where every row starts at a multiple. */
    {{{0}}, {{"tail_row_stride", "12"}}, {8, 4, KPOOL_TYPE_F32, 4, 0}, 16},
    {{{0}}, {{"tail_row_stride", "9"}}, {8, 4, KPOOL_TYPE_F32, 4, 0}, 4},
    {{{0}}, {{"tail_slot_stride", "65"}}, {8, 4, KPOOL_TYPE_F32, 4, 0}, 4},
    {{{0}}, {{"tail_plane_stride", "33"}}, {8, 4, KPOOL_TYPE_F32, 4, 0}, 4},
    {{{0}}, {{"k_row_stride", "10"}}, {8, 4, KPOOL_TYPE_F32, 4, 0}, 4},
    {{{0}}, {{"gate_row_stride", "10"}}, {8, 4, KPOOL_TYPE_F32, 4, 0}, 4},
    {{{0}}, {{"tail_base", "2"}}, {8, 4, KPOOL_TYPE_F32, 4, 0}, 4},
    {{{0}}, {{"k_base", "1"}}, {8, 4, KPOOL_TYPE_F32, 4, 0}, 4},
    {{{0}}, {{"gate_base", "4"}}, {8, 4, KPOOL_TYPE_F32, 4, 0}, 16},
};

static void test_resolution(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof resolved / sizeof resolved[0]; i++) {
        Draft draft = make_draft();
        for (size_t t = 0; t < 2 && resolved[i].tensors[t].name != NULL; t++) {
            put_tensor(&draft, &resolved[i].tensors[t]);
        }
        for (size_t o = 0; o < 3 && resolved[i].options[o].key != NULL; o++) {
            put_option(&draft, resolved[i].options[o].key, resolved[i].options[o].value);
        }
        Safetensors file;
        Case made;
        Complaint complaint;
        if (!read_draft(&draft, &file, &made, &complaint)) {
            fail_msg("row %zu: %s", i, complaint.text);
        }
        assert_memory_equal(&made.kernel.geometry, &resolved[i].geometry, sizeof made.kernel.geometry);
        assert_int_equal(made.kernel.alignment, resolved[i].alignment);
        assert_int_equal(made.call.max_slots, 3);
        assert_int_equal(made.call.requests, 2);
        assert_int_equal(made.call.rows, 5);
        case_free(&made);
        safetensors_free(&file);
    }
}

/* ----------------------------------------------------------------------------- refusal --------- */

typedef struct Refused {
    const char *dropped;      /* a tensor taken out, where named */
    SafetensorsTensor tensor; /* put in, where named */
    SafetensorsOption options[2];
    const char *sentence;
} Refused;

#define PUT(its_name, its_type, its_rank, ...) \
    {.name = its_name, .type = SAFETENSORS_##its_type, .rank = its_rank, .shape = {__VA_ARGS__}}
#define NO_TENSOR {0}

static const int32_t negative[2] = {7, -1};

static const Refused refused[] = {
    {NULL, NO_TENSOR, {{"op", "nothing"}}, "op: 'nothing' is not supported"},
    {NULL, NO_TENSOR, {{"op", ""}}, "op: '' is not supported"},
    {"tail", NO_TENSOR, {{0}}, "tail: is missing, seed_tail needs it"},
    {"k", NO_TENSOR, {{0}}, "k: is missing"},
    {"gate", NO_TENSOR, {{0}}, "gate: is missing"},
    {"input_row_offsets", NO_TENSOR, {{0}}, "input_row_offsets: is missing"},
    {"cache_lengths", NO_TENSOR, {{0}}, "cache_lengths: is missing"},
    {"slot_idx", NO_TENSOR, {{0}}, "slot_idx: is missing"},

    {NULL, PUT("tail", U32, 4, 3, 2, 4, 8), {{0}}, "tail: dtype is U32, must be F32, F16 or BF16"},
    {NULL, PUT("tail", F64, 4, 3, 2, 4, 8), {{0}}, "tail: dtype is F64, must be F32, F16 or BF16"},
    {NULL, PUT("k", F16, 2, 5, 8), {{0}}, "k: dtype is F16, must be F32 as in tail"},
    {NULL, PUT("gate", BF16, 2, 5, 8), {{0}}, "gate: dtype is BF16, must be F32 as in tail"},
    {NULL, PUT("ape", BF16, 2, 4, 8), {{0}}, "ape: dtype is BF16, must be F32"},
    {NULL, PUT("slot_idx", F32, 1, 2), {{0}}, "slot_idx: dtype is F32, must be U32 or I32"},
    {NULL, PUT("slot_idx", I64, 1, 2), {{0}}, "slot_idx: dtype is I64, must be U32 or I32"},
    {NULL, {"cache_lengths", SAFETENSORS_I32, 1, {2}, (const unsigned char *)negative, 0}, {{0}},
     "cache_lengths: element 1 is -1, must not be negative"},

    {NULL, PUT("tail", F32, 3, 3, 2, 32), {{0}}, "tail: shape has 3 dimensions, must be [S, 2, R, D]"},
    {NULL, PUT("tail", F32, 4, 3, 3, 4, 8), {{0}}, "tail: shape[1] is 3, must be [S, 2, R, D]"},
    {NULL, PUT("tail", F32, 4, 0, 2, 4, 8), {{0}}, "tail: max_slots is 0, must be at least 1"},
    {NULL, PUT("tail", F32, 4, 3, 2, 0, 8), {{0}}, "tail: shape[2] is 0"},
    {NULL, PUT("tail", F32, 4, 3, 2, 0, 8), {{"kpool", "4"}}, "tail: shape[2] is 0"},
    {NULL, PUT("tail", F32, 4, 4294967296, 2, 0, 8), {{0}}, "tail: shape[0] is 4294967296, must be at most 2^32 - 1"},
    {NULL, PUT("k", F32, 2, 5, 7), {{0}}, "k: shape[1] is 7, must be [T, D] with D = 8 as in tail"},
    {NULL, PUT("gate", F32, 2, 4, 8), {{0}}, "gate: shape[0] is 4, must be [T, D] with T = 5 as in k"},
    {NULL, PUT("gate", F32, 1, 40), {{0}}, "gate: shape has 1 dimensions, must be [T, D]"},
    {NULL, PUT("input_row_offsets", U32, 1, 0), {{0}}, "input_row_offsets: shape[0] is 0, must be [B + 1]"},
    {NULL, PUT("cache_lengths", U32, 1, 3), {{0}},
     "cache_lengths: shape[0] is 3, must be [B] with B = 2 as in input_row_offsets"},
    {NULL, PUT("slot_idx", U32, 2, 2, 1), {{0}}, "slot_idx: shape has 2 dimensions, must be [B]"},
    {NULL, PUT("status", U32, 1, 4), {{0}}, "status: shape[0] is 4, must be [16]"},
    {NULL, PUT("ape", F32, 2, 3, 8), {{"kpool", "4"}}, "ape: shape[0] is 3, must be [P, D] with P = 4 as in kpool"},
    {NULL, PUT("ape", F32, 2, 4, 4), {{0}}, "ape: shape[1] is 4, must be [P, D] with D = 8 as in tail"},
    {NULL, PUT("ape", F32, 2, 5, 8), {{0}}, "tail: ring is 4, must be kpool + rollback = 5"},

    {NULL, NO_TENSOR, {{"kpool", "5"}}, "tail: ring is 4, must be kpool + rollback = 5"},
    {NULL, NO_TENSOR, {{"rollback", "1"}}, "tail: ring is 4, must be kpool + rollback = 5"},
    {NULL, NO_TENSOR, {{"kpool", "0"}}, "kpool: kpool is 0, must be 1 to 128"},
    {NULL, NO_TENSOR, {{"kpool", "129"}}, "kpool: kpool is 129, must be 1 to 128"},
    {NULL, PUT("tail", F32, 4, 3, 2, 129, 8), {{0}}, "tail: kpool is 129, must be 1 to 128"},
    {NULL, NO_TENSOR, {{"kpool", ""}}, "kpool: is '', must be a number"},
    {NULL, NO_TENSOR, {{"kpool", "-4"}}, "kpool: is '-4', must be a number"},
    {NULL, NO_TENSOR, {{"kpool", "4x"}}, "kpool: is '4x', must be a number"},
    {NULL, NO_TENSOR, {{"kpool", "4294967300"}}, "kpool: is '4294967300', must be a number from 0 to 4294967295"},
    {NULL, NO_TENSOR, {{"rollback", "4294967295"}}, "rollback: rollback is 4294967295"},
    {NULL, NO_TENSOR, {{"rollback", " 1"}}, "rollback: is ' 1', must be a number"},

    {NULL, NO_TENSOR, {{"tail_row_stride", "7"}}, "tail_row_stride is 7, must exceed 7"},
    {NULL, NO_TENSOR, {{"tail_plane_stride", "31"}}, "tail_plane_stride is 31, must exceed 31"},
    {NULL, NO_TENSOR, {{"tail_slot_stride", "63"}}, "tail_slot_stride is 63, must exceed 63"},
    {NULL, NO_TENSOR, {{"k_row_stride", "7"}}, "k_row_stride is 7, must exceed 7"},
    {NULL, NO_TENSOR, {{"gate_row_stride", "1"}}, "gate_row_stride"},
    {NULL, NO_TENSOR, {{"tail_slot_stride", "18446744073709551615"}}, "tail_slot_stride"},
    {NULL, NO_TENSOR, {{"tail_slot_stride", "18446744073709551616"}}, "tail_slot_stride: is '18446744073709551616'"},
    {NULL, NO_TENSOR, {{"tail_base", "2147483648"}}, "tail_base is 2147483648, every element offset must stay below"},
    {NULL, NO_TENSOR, {{"k_base", "0x10"}}, "k_base: is '0x10', must be a number"},
    {NULL, NO_TENSOR, {{"gate_base", "1.5"}}, "gate_base: is '1.5', must be a number"},

    {NULL, PUT("expected.tail", F32, 4, 3, 2, 4, 7), {{0}}, "expected.tail: shape[3] is 7"},
    {NULL, PUT("expected.tail", BF16, 4, 3, 2, 4, 8), {{0}}, "expected.tail: dtype is BF16, must be F32 as in tail"},
    {NULL, PUT("expected.status", U32, 1, 15), {{0}}, "expected.status: shape[0] is 15, must be [16]"},
    {NULL, PUT("expected.dropped", U32, 1, 16), {{0}}, "expected.dropped: shape[0] is 16, must be [4]"},
    {NULL, PUT("expected.dropped", F32, 1, 4), {{0}}, "expected.dropped: dtype is F32"},
    {NULL, PUT("expected.k", F32, 2, 5, 8), {{0}}, "expected.k: is not something that seed_tail makes"},
    {NULL, PUT("expected.tial", F32, 1, 1), {{0}}, "expected.tial: is not something that seed_tail makes"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const Refused *row = &refused[i];
        Draft draft = make_draft();
        if (row->dropped != NULL) {
            *find(&draft, row->dropped) = draft.tensors[draft.count - 1];
            draft.count--;
        }
        if (row->tensor.name != NULL) {
            put_tensor(&draft, &row->tensor);
        }
        for (size_t o = 0; o < 2 && row->options[o].key != NULL; o++) {
            put_option(&draft, row->options[o].key, row->options[o].value);
        }
        Safetensors file;
        Case made;
        Complaint complaint;
        const bool accepted = read_draft(&draft, &file, &made, &complaint);
        if (accepted || strncmp(complaint.text, row->sentence, strlen(row->sentence)) != 0) {
            fail_msg("'%s' wanted, got '%s'", row->sentence, accepted ? "no complaint" : complaint.text);
        }
        case_free(&made);
        safetensors_free(&file);
    }
}

static void test_two_byte_strides_are_even(void **state)
{
    (void)state;
    const char *const keys[] = {"tail_slot_stride", "tail_plane_stride", "tail_row_stride", "k_row_stride",
                                "gate_row_stride",  "tail_base",         "k_base",          "gate_base"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        Draft draft = make_draft();
        for (size_t t = 0; t < 3; t++) {
            draft.tensors[t].type = SAFETENSORS_BF16;
        }
        put_option(&draft, keys[i], "1001");
        Safetensors file;
        Case made;
        Complaint complaint;
        assert_false(read_draft(&draft, &file, &made, &complaint));
        assert_non_null(strstr(complaint.text, keys[i]));
        assert_non_null(strstr(complaint.text, "must be even"));
        case_free(&made);
        safetensors_free(&file);
    }
}

static void test_missing_op(void **state)
{
    (void)state;
    Draft draft = make_draft();
    draft.option_count = 0;
    Safetensors file;
    Case made;
    Complaint complaint;
    assert_false(read_draft(&draft, &file, &made, &complaint));
    assert_string_equal(complaint.text, "op: is missing from the metadata");
    safetensors_free(&file);
}

/* -------------------------------------------------------------------------- comparison --------- */

/* One request of two rows in slot 2, kpool 4: element 136 of tail is slot 2, plane k, member 1, channel 0. */
static void open_case(Draft *draft, Safetensors *file, Case *made)
{
    static const uint32_t offsets[3] = {0, 0, 2};
    static const uint32_t slots[2] = {1, 2};
    Complaint complaint;
    find(draft, "input_row_offsets")->data = (const unsigned char *)offsets;
    find(draft, "slot_idx")->data = (const unsigned char *)slots;
    put_tensor(draft, &(SafetensorsTensor)PUT("expected.tail", F32, 4, 3, 2, 4, 8));
    put_tensor(draft, &(SafetensorsTensor)PUT("expected.status", U32, 1, 16));
    put_tensor(draft, &(SafetensorsTensor)PUT("expected.dropped", U32, 1, 4));
    put_option(draft, "tail_slot_stride", "70");
    put_option(draft, "tail_base", "4");
    put_option(draft, "k_row_stride", "16");
    if (!read_draft(draft, file, made, &complaint) || !case_lay_out(made, 1u << 20, &complaint)) {
        fail_msg("%s", complaint.text);
    }
}

static void test_comparison(void **state)
{
    (void)state;
    const struct {
        size_t image; /* offset of the tensor's image in TensorImages */
        size_t word;
        const char *sentence;
    } planted[] = {
        {offsetof(TensorImages, tail), 4 + 2 * 70 + 9,
         "expected.tail differs at request 1, slot 2, plane k, member 1, channel 1: "
         "expected 0x00000000, got 0x12345678"},
        {offsetof(TensorImages, tail), 4 + 2 * 70 + 32 + 31,
         "expected.tail differs at request 1, slot 2, plane gate, member 3, channel 7: "
         "expected 0x00000000, got 0x12345678"},
        /* Request 0 has slot 1, and is empty. */
        {offsetof(TensorImages, tail), 4 + 70,
         "expected.tail differs at no request, slot 1, plane k, member 0, channel 0"},
        {offsetof(TensorImages, tail), 4 + 64, "tail: byte 272 of its buffer, padding, changed"},
        {offsetof(TensorImages, tail), 0, "tail: byte 0 of its buffer, padding, changed"},
        {offsetof(TensorImages, k), 16, "k: byte 64 of its buffer, only to be read, changed"},
        {offsetof(TensorImages, k), 8, "k: byte 32 of its buffer, only to be read, changed"},
        {offsetof(TensorImages, cache_lengths), 0, "cache_lengths: byte 0 of its buffer, only to be read, changed"},
        {offsetof(TensorImages, status), 7,
         "expected.status differs at element 7: expected 0x00000000, got 0x12345678"},
    };
    for (size_t i = 0; i < sizeof planted / sizeof planted[0]; i++) {
        Draft draft = make_draft();
        Safetensors file;
        Case made;
        Complaint mismatch;
        open_case(&draft, &file, &made);
        char expected[128];
        case_describe_expected(&made, expected, sizeof expected);
        assert_string_equal(expected, "expected.tail, expected.status, expected.dropped");
        assert_true(case_matches(&made, &mismatch));
        unsigned char *image = *(unsigned char **)(void *)((char *)&made.images + planted[i].image);
        memcpy(image + 4 * planted[i].word, (const uint32_t[]){0x12345678}, 4);
        const bool matches = case_matches(&made, &mismatch);
        if (matches || strncmp(mismatch.text, planted[i].sentence, strlen(planted[i].sentence)) != 0) {
            fail_msg("'%s' wanted, got '%s'", planted[i].sentence, matches ? "a match" : mismatch.text);
        }
        case_free(&made);
        safetensors_free(&file);
    }
}

static void test_dropped(void **state)
{
    (void)state;
    Draft draft = make_draft();
    Safetensors file;
    Case made;
    Complaint mismatch;
    open_case(&draft, &file, &made);
    for (uint32_t i = 0; i < made.count; i++) {
        made.tensors[i].expected = NULL;
    }
    /* Beyond the four that expected.dropped names nothing is compared. */
    ((uint32_t *)made.images.status)[4] = 1;
    assert_true(case_matches(&made, &mismatch));
    ((uint32_t *)made.images.status)[3] = 1;
    assert_false(case_matches(&made, &mismatch));
    assert_non_null(strstr(mismatch.text, "expected.dropped differs at element 3"));
    case_free(&made);
    safetensors_free(&file);
}

static void test_too_large_for_the_device(void **state)
{
    (void)state;
    Draft draft = make_draft();
    Safetensors file;
    Case made;
    Complaint complaint;
    assert_true(read_draft(&draft, &file, &made, &complaint));
    assert_false(case_lay_out(&made, 3 * 2 * 4 * 8 * 4 - 1, &complaint));
    assert_string_equal(complaint.text, "tail: needs a buffer of 768 bytes, the device takes at most 767");
    case_free(&made);
    safetensors_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resolution), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_two_byte_strides_are_even), cmocka_unit_test(test_missing_op),
        cmocka_unit_test(test_comparison), cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_too_large_for_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
