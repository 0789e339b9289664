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

#define PUT(its_name, its_type, its_rank, ...) \
    {.name = its_name, .type = SAFETENSORS_##its_type, .rank = its_rank, .shape = {__VA_ARGS__}}

/* 3 slots of 4 positions of 8 channels; 2 requests; 5 rows; 2 pool ids a row; 3 pairs. */
static Draft make_draft_of(const char *op)
{
    static const SafetensorsTensor all[] = {
        PUT("tail", F32, 4, 3, 2, 4, 8),       PUT("k", F32, 2, 5, 8),         PUT("gate", F32, 2, 5, 8),
        PUT("input_row_offsets", U32, 1, 3),   PUT("cache_lengths", U32, 1, 2), PUT("slot_idx", U32, 1, 2),
        PUT("ape", F32, 2, 4, 8),              PUT("pool_ids", I32, 2, 5, 2),  PUT("pairs", U32, 2, 3, 2),
        PUT("pool_row_offsets", U32, 1, 3),
    };
    static const struct {
        const char *op;
        const char *tensors; /* by their place above */
    } drafts[] = {
        {"seed_tail", "012345"},   {"ring_close", "0123456"},      {"compress", "123469"}, {"pool_row_offsets", "34"},
        {"expand_topk", "347"},    {"copy_slots", "08"},           {"step", "0123456"},
    };
    Draft draft = {.options = {{"op", op}}, .option_count = 1};
    for (size_t i = 0; i < sizeof drafts / sizeof drafts[0]; i++) {
        for (const char *c = drafts[i].tensors; strcmp(op, drafts[i].op) == 0 && *c != '\0'; c++) {
            draft.tensors[draft.count++] = all[*c - '0'];
        }
    }
    return draft;
}

static Draft make_draft(void)
{
    return make_draft_of("seed_tail");
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

/* What the other operations find in the file. */
typedef struct ResolvedOf {
    const char *op;
    SafetensorsTensor tensor; /* put in, where named */
    SafetensorsOption options[2];
    KpoolKernelCreateInfo kernel; /* of it: geometry.kpool, pooled_type, numerics, topk, topk_layout, with_tail */
    uint32_t rows, pooled_rows, pair_count;
} ResolvedOf;

#define KERNEL(its_kpool, its_pooled_type, its_numerics, its_topk, its_layout, its_tail)       \
    {.geometry = {.kpool = its_kpool}, .pooled_type = KPOOL_TYPE_##its_pooled_type,            \
     .numerics = KPOOL_NUMERICS_##its_numerics, .topk = its_topk,                              \
     .topk_layout = KPOOL_TOPK_LAYOUT_##its_layout, .with_tail = its_tail}

static const uint32_t nine_rows[3] = {1, 9, 4};
static const uint32_t one_pool[3] = {0, 0, 1};

static const ResolvedOf resolved_of[] = {
    {"ring_close", {0}, {{0}}, KERNEL(4, F32, EXACT, 0, FIXED, 0), 5, 0, 0},
    {"ring_close", {0}, {{"pooled_dtype", "BF16"}, {"numerics", "fast"}}, KERNEL(4, BF16, FAST, 0, FIXED, 0), 5, 0, 0},
    {"ring_close", {0}, {{"pooled_dtype", "F16"}, {"numerics", "exact"}}, KERNEL(4, F16, EXACT, 0, FIXED, 0), 5, 0, 0},
    {"ring_close", PUT("expected.closed_pooled", F16, 2, 2, 8), {{"pooled_dtype", "F16"}},
     KERNEL(4, F16, EXACT, 0, FIXED, 0), 5, 0, 0},
    /* Rows of pooled: the file's, else what the offsets claim. */
    {"compress", {0}, {{0}}, KERNEL(4, F32, EXACT, 0, FIXED, 0), 5, 0, 0},
    {"compress", {"pool_row_offsets", SAFETENSORS_U32, 1, {3}, (const unsigned char *)one_pool, 0}, {{0}},
     KERNEL(4, F32, EXACT, 0, FIXED, 0), 5, 1, 0},
    {"compress", PUT("expected.pooled", F32, 2, 7, 8), {{0}}, KERNEL(4, F32, EXACT, 0, FIXED, 0), 5, 7, 0},
    {"compress", PUT("pooled", F32, 2, 7, 8), {{0}}, KERNEL(4, F32, EXACT, 0, FIXED, 0), 5, 7, 0},
    {"step", {0}, {{0}}, KERNEL(4, F32, EXACT, 0, FIXED, 0), 5, 1, 0},
    {"step", PUT("pool_row_offsets", U32, 1, 3), {{0}}, KERNEL(4, F32, EXACT, 0, FIXED, 0), 5, 0, 0},
    /* Where nothing has rows, none is out of range. */
    {"pool_row_offsets", {"input_row_offsets", SAFETENSORS_U32, 1, {3}, (const unsigned char *)nine_rows, 0},
     {{"kpool", "3"}}, KERNEL(3, F32, EXACT, 0, FIXED, 0), 9, 0, 0},
    {"pool_row_offsets", PUT("k", BF16, 2, 5, 8), {{"kpool", "3"}}, KERNEL(3, BF16, EXACT, 0, FIXED, 0), 5, 0, 0},
    {"pool_row_offsets", PUT("ape", F32, 2, 2, 7), {{0}}, KERNEL(2, F32, EXACT, 0, FIXED, 0), 0, 0, 0},
    {"pool_row_offsets", PUT("tail", F32, 4, 1, 2, 7, 7), {{0}}, KERNEL(7, F32, EXACT, 0, FIXED, 0), 0, 0, 0},
    {"expand_topk", {0}, {{"kpool", "4"}}, KERNEL(4, F32, EXACT, 2, FIXED, 0), 5, 0, 0},
    {"expand_topk", {0}, {{"kpool", "4"}, {"layout", "compact"}}, KERNEL(4, F32, EXACT, 2, COMPACT, 0), 5, 0, 0},
    {"expand_topk", {0}, {{"kpool", "4"}, {"with_tail", "1"}}, KERNEL(4, F32, EXACT, 2, FIXED, 1), 5, 0, 0},
    {"expand_topk", PUT("expected.out", I32, 2, 5, 11), {{"kpool", "4"}}, KERNEL(4, F32, EXACT, 2, FIXED, 1), 5, 0, 0},
    {"expand_topk", PUT("out", I32, 2, 5, 11), {{"kpool", "4"}}, KERNEL(4, F32, EXACT, 2, FIXED, 1), 5, 0, 0},
    {"expand_topk", PUT("expected.out", I32, 2, 5, 8), {{"kpool", "4"}}, KERNEL(4, F32, EXACT, 2, FIXED, 0), 5, 0, 0},
    {"expand_topk", PUT("expected.out", I32, 2, 5, 2), {{"kpool", "1"}}, KERNEL(1, F32, EXACT, 2, FIXED, 0), 5, 0, 0},
    {"expand_topk", PUT("expected.out", I32, 2, 5, 2), {{"kpool", "1"}, {"with_tail", "1"}},
     KERNEL(1, F32, EXACT, 2, FIXED, 1), 5, 0, 0},
    {"copy_slots", {0}, {{0}}, KERNEL(4, F32, EXACT, 0, FIXED, 0), 0, 0, 3},
    {"copy_slots", PUT("ape", F32, 2, 2, 8), {{0}}, KERNEL(2, F32, EXACT, 0, FIXED, 0), 0, 0, 3},
};

static void test_resolution_of_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof resolved_of / sizeof resolved_of[0]; i++) {
        const ResolvedOf *row = &resolved_of[i];
        Draft draft = make_draft_of(row->op);
        if (row->tensor.name != NULL) {
            put_tensor(&draft, &row->tensor);
        }
        for (size_t o = 0; o < 2 && row->options[o].key != NULL; o++) {
            put_option(&draft, row->options[o].key, row->options[o].value);
        }
        Safetensors file;
        Case made;
        Complaint complaint;
        if (!read_draft(&draft, &file, &made, &complaint) || !case_lay_out(&made, 1u << 20, &complaint)) {
            fail_msg("row %zu: %s", i, complaint.text);
        }
        const KpoolKernelCreateInfo *kernel = &made.kernel;
        if (kernel->geometry.kpool != row->kernel.geometry.kpool || kernel->pooled_type != row->kernel.pooled_type ||
            kernel->numerics != row->kernel.numerics || kernel->topk != row->kernel.topk ||
            kernel->topk_layout != row->kernel.topk_layout || kernel->with_tail != row->kernel.with_tail ||
            made.call.rows != row->rows || made.call.pooled_rows != row->pooled_rows ||
            made.call.pair_count != row->pair_count) {
            fail_msg("row %zu: kpool %u, pooled_type %d, numerics %d, topk %u, layout %d, with_tail %u, %u rows, %u "
                     "rows of pooled, %u pairs", i, kernel->geometry.kpool, (int)kernel->pooled_type,
                     (int)kernel->numerics, kernel->topk, (int)kernel->topk_layout, kernel->with_tail, made.call.rows,
                     made.call.pooled_rows, made.call.pair_count);
        }
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

typedef struct RefusedOf {
    const char *op;
    Refused row;
} RefusedOf;

static const uint32_t two_pools[3] = {0, 0, 2};
static const uint32_t most_pools[3] = {0, 0, 0xffffffffu};

static const RefusedOf refused_of[] = {
    {"ring_close", {"ape", NO_TENSOR, {{0}}, "ape: is missing, ring_close needs it"}},
    {"ring_close", {"tail", NO_TENSOR, {{0}}, "tail: is missing, ring_close needs it"}},
    {"ring_close", {"slot_idx", NO_TENSOR, {{0}}, "slot_idx: is missing, ring_close needs it"}},
    {"compress", {"ape", NO_TENSOR, {{0}}, "ape: is missing, compress needs it"}},
    {"compress", {"pool_row_offsets", NO_TENSOR, {{0}}, "pool_row_offsets: is missing, compress needs it"}},
    {"expand_topk", {"pool_ids", NO_TENSOR, {{0}}, "pool_ids: is missing, expand_topk needs it"}},
    {"copy_slots", {"pairs", NO_TENSOR, {{0}}, "pairs: is missing, copy_slots needs it"}},
    {"step", {"ape", NO_TENSOR, {{0}}, "ape: is missing, step needs it"}},
    {"step", {"slot_idx", NO_TENSOR, {{0}}, "slot_idx: is missing, step needs it"}},
    {"pool_row_offsets", {NULL, NO_TENSOR, {{0}}, "kpool: is missing from the metadata, and there is no ape"}},
    {"expand_topk", {NULL, NO_TENSOR, {{0}}, "kpool: is missing from the metadata, and there is no ape"}},

    {"ring_close", {NULL, NO_TENSOR, {{"pooled_dtype", "F64"}}, "pooled_dtype: is 'F64', must be F32, F16 or BF16"}},
    {"ring_close", {NULL, NO_TENSOR, {{"numerics", "Fast"}}, "numerics: is 'Fast', must be exact or fast"}},
    {"expand_topk", {NULL, NO_TENSOR, {{"kpool", "4"}, {"layout", ""}}, "layout: is '', must be fixed or compact"}},
    {"expand_topk", {NULL, NO_TENSOR, {{"kpool", "4"}, {"with_tail", "2"}},
                     "with_tail: is '2', must be a number from 0 to 1"}},

    {"ring_close", {NULL, PUT("expected.closed_pooled", BF16, 2, 2, 8), {{0}},
                    "expected.closed_pooled: dtype is BF16, must be F32 as in tail"}},
    {"ring_close", {NULL, PUT("expected.closed_pooled", F32, 2, 2, 8), {{"pooled_dtype", "F16"}},
                    "expected.closed_pooled: dtype is F32, must be F16 as in pooled_dtype"}},
    {"ring_close", {NULL, PUT("closed_pooled", F16, 2, 2, 8), {{0}}, "closed_pooled: dtype is F16, must be F32 as in"}},
    {"ring_close", {NULL, PUT("expected.closed_pooled", F32, 2, 3, 8), {{0}},
                    "expected.closed_pooled: shape[0] is 3, must be [B, D] with B = 2 as in input_row_offsets"}},
    {"ring_close", {NULL, PUT("expected.closed_pool", U32, 1, 2), {{0}},
                    "expected.closed_pool: dtype is U32, must be I32"}},
    {"ring_close", {NULL, PUT("expected.closed_pool", I32, 1, 1), {{0}},
                    "expected.closed_pool: shape[0] is 1, must be [B]"}},
    {"ring_close", {NULL, PUT("expected.tail", F32, 4, 3, 2, 4, 8), {{0}},
                    "expected.tail: is not something that ring_close makes"}},
    {"ring_close", {NULL, PUT("expected.pooled", F32, 2, 2, 8), {{0}},
                    "expected.pooled: is not something that ring_close makes"}},
    {"compress", {NULL, PUT("expected.pool_row_offsets", U32, 1, 3), {{0}},
                  "expected.pool_row_offsets: is not something that compress makes"}},
    {"compress", {NULL, PUT("tail", F32, 4, 3, 2, 3, 8), {{0}}, "tail: ring is 3, must be kpool + rollback = 4"}},
    {"compress", {NULL, PUT("ape", F32, 2, 0, 8), {{0}}, "ape: kpool is 0, must be 1 to 128"}},
    {"compress", {NULL, {"pool_row_offsets", SAFETENSORS_U32, 1, {3}, (const unsigned char *)two_pools, 0}, {{0}},
                  "pool_row_offsets: element 2 is 2, 5 rows hold fewer pools, and no pooled says otherwise"}},
    {"compress", {NULL, {"pool_row_offsets", SAFETENSORS_U32, 1, {3}, (const unsigned char *)most_pools, 0}, {{0}},
                  "pool_row_offsets: element 2 is 4294967295, 5 rows hold fewer pools"}},
    {"compress", {NULL, {"pool_row_offsets", SAFETENSORS_I32, 1, {3}, (const unsigned char *)most_pools, 0}, {{0}},
                  "pool_row_offsets: element 2 is -1, must not be negative"}},
    {"step", {NULL, {"pool_row_offsets", SAFETENSORS_U32, 1, {3}, (const unsigned char *)two_pools, 0}, {{0}},
              "pool_row_offsets: element 2 is 2, 5 rows hold fewer pools"}},
    {"pool_row_offsets", {NULL, PUT("expected.pool_row_offsets", U32, 1, 2), {{"kpool", "4"}},
                          "expected.pool_row_offsets: shape[0] is 2, must be [B + 1] with B = 2"}},
    {"pool_row_offsets", {NULL, PUT("ape", F32, 2, 3, 8), {{"kpool", "4"}},
                          "ape: shape[0] is 3, must be [P, D] with P = 4"}},
    {"pool_row_offsets", {NULL, NO_TENSOR, {{"kpool", "0"}}, "kpool: kpool is 0, must be 1 to 128"}},

    {"expand_topk", {NULL, PUT("pool_ids", U32, 2, 5, 2), {{"kpool", "4"}}, "pool_ids: dtype is U32, must be I32"}},
    {"expand_topk", {NULL, PUT("pool_ids", I32, 2, 5, 0), {{"kpool", "4"}}, "pool_ids: topk is 0, must be at least 1"}},
    {"expand_topk", {NULL, PUT("pool_ids", I32, 2, 0, 4294967295), {{"kpool", "4"}}, "pool_ids: topk is 4294967295"}},
    {"expand_topk", {NULL, PUT("expected.out", I32, 2, 4, 8), {{"kpool", "4"}},
                     "expected.out: shape[0] is 4, must be [T, W]"}},
    {"expand_topk", {NULL, PUT("expected.out", I32, 2, 5, 10), {{"kpool", "4"}},
                     "expected.out: shape[1] is 10, must be topk * kpool + kpool - 1 = 11"}},
    {"expand_topk", {NULL, PUT("expected.out", I32, 2, 5, 11), {{"kpool", "4"}, {"with_tail", "0"}},
                     "expected.out: shape[1] is 11, must be topk * kpool = 8"}},
    {"expand_topk", {NULL, PUT("out", I32, 2, 5, 8), {{"kpool", "4"}, {"with_tail", "1"}},
                     "out: shape[1] is 8, must be topk * kpool + kpool - 1 = 11"}},
    {"expand_topk", {NULL, PUT("expected.out", U32, 2, 5, 8), {{"kpool", "4"}},
                     "expected.out: dtype is U32, must be I32"}},
    {"expand_topk", {NULL, PUT("expected.out", I32, 2, 5, 0), {{"kpool", "0"}}, "kpool: kpool is 0, must be 1 to 128"}},

    {"copy_slots", {NULL, PUT("pairs", U32, 2, 3, 3), {{0}}, "pairs: shape[1] is 3, must be [N, 2]"}},
    {"copy_slots", {NULL, PUT("pairs", F32, 2, 3, 2), {{0}}, "pairs: dtype is F32, must be U32 or I32"}},
    {"copy_slots", {NULL, PUT("expected.pairs", U32, 2, 3, 2), {{0}},
                    "expected.pairs: is not something that copy_slots makes"}},
    {"copy_slots", {NULL, PUT("expected.scratch", F32, 1, 8), {{0}},
                    "expected.scratch: is not something that copy_slots makes"}},
};

static void assert_refused(const char *op, const Refused *row)
{
    Draft draft = make_draft_of(op);
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
        fail_msg("%s: '%s' wanted, got '%s'", op, row->sentence, accepted ? "no complaint" : complaint.text);
    }
    case_free(&made);
    safetensors_free(&file);
}

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_refused("seed_tail", &refused[i]);
    }
    for (size_t i = 0; i < sizeof refused_of / sizeof refused_of[0]; i++) {
        assert_refused(refused_of[i].op, &refused_of[i].row);
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

/* What the operation must leave alone, in images that no device has seen. */
static void test_left_alone(void **state)
{
    (void)state;
    /* Request 0 is empty, request 1 brings pool 0 whole, so there is one row of pooled of three. */
    static const uint32_t offsets[3] = {0, 0, 5};
    const struct {
        const char *op;
        size_t image;
        size_t word;
        const char *sentence; /* NULL: it is made */
    } planted[] = {
        {"compress", offsetof(TensorImages, pooled), 7, NULL},
        {"compress", offsetof(TensorImages, pooled), 8,
         "pooled, to be left alone, differs at row 1, no request, channel 0: expected 0x"},
        {"compress", offsetof(TensorImages, pooled), 23,
         "pooled, to be left alone, differs at row 2, no request, channel 7"},
        {"compress", offsetof(TensorImages, ape), 31, "ape: byte 124 of its buffer, only to be read, changed"},
        {"compress", offsetof(TensorImages, pool_row_offsets), 0,
         "pool_row_offsets: byte 0 of its buffer, only to be read, changed"},
        /* cache_lengths is 0, so nothing closes. */
        {"ring_close", offsetof(TensorImages, closed_pool), 1, NULL},
        {"ring_close", offsetof(TensorImages, closed_pooled), 9,
         "closed_pooled, to be left alone, differs at request 1, channel 1: expected 0x"},
        {"ring_close", offsetof(TensorImages, tail), 5, "tail: byte 20 of its buffer, only to be read, changed"},
        {"step", offsetof(TensorImages, tail), 5, NULL},
        {"step", offsetof(TensorImages, pooled), 1, NULL},
        {"step", offsetof(TensorImages, pool_row_offsets), 2,
         "pool_row_offsets: byte 8 of its buffer, only to be read, changed"},
        {"expand_topk", offsetof(TensorImages, pool_ids), 9,
         "pool_ids: byte 36 of its buffer, only to be read, changed"},
        {"copy_slots", offsetof(TensorImages, pairs), 0, "pairs: byte 0 of its buffer, only to be read, changed"},
        {"copy_slots", offsetof(TensorImages, scratch), 0, NULL},
    };
    for (size_t i = 0; i < sizeof planted / sizeof planted[0]; i++) {
        Draft draft = make_draft_of(planted[i].op);
        if (find(&draft, "input_row_offsets") != NULL) {
            find(&draft, "input_row_offsets")->data = (const unsigned char *)offsets;
        }
        if (strcmp(planted[i].op, "compress") == 0) {
            find(&draft, "pool_row_offsets")->data = (const unsigned char *)one_pool;
            put_tensor(&draft, &(SafetensorsTensor)PUT("expected.pooled", F32, 2, 3, 8));
        }
        put_option(&draft, "kpool", "4");
        Safetensors file;
        Case made;
        Complaint complaint;
        if (!read_draft(&draft, &file, &made, &complaint) || !case_lay_out(&made, 1u << 20, &complaint)) {
            fail_msg("%s", complaint.text);
        }
        unsigned char *image = *(unsigned char **)(void *)((char *)&made.images + planted[i].image);
        if (made.images.pooled != NULL) {
            memset(made.images.pooled, 0, 32); /* as expected */
        }
        assert_true(case_matches(&made, &complaint));
        image[4 * planted[i].word] ^= 1;
        const bool matches = case_matches(&made, &complaint);
        const bool is_compared = strcmp(planted[i].op, "compress") == 0;
        if (planted[i].sentence == NULL) {
            assert_int_equal(matches, !is_compared);
        } else if (matches || strncmp(complaint.text, planted[i].sentence, strlen(planted[i].sentence)) != 0) {
            fail_msg("'%s' wanted, got '%s'", planted[i].sentence, matches ? "a match" : complaint.text);
        }
        case_free(&made);
        safetensors_free(&file);
    }
}

/* pool_row_offsets of step, where the file has none, are those of the call. */
static void test_reckoned_offsets(void **state)
{
    (void)state;
    static const uint32_t offsets[3] = {0, 0, 5};
    Draft draft = make_draft_of("step");
    find(&draft, "input_row_offsets")->data = (const unsigned char *)offsets;
    Safetensors file;
    Case made;
    Complaint complaint;
    assert_true(read_draft(&draft, &file, &made, &complaint));
    assert_true(case_lay_out(&made, 1u << 20, &complaint));
    assert_memory_equal(made.images.pool_row_offsets, one_pool, sizeof one_pool);
    case_free(&made);
    safetensors_free(&file);
}

/* How far apart keys of fast numerics may be: keys of -3 and 0 in the pool, so 6e-6 beside the rounding. */
static void test_fast_keys(void **state)
{
    (void)state;
    static const uint32_t offsets[3] = {0, 0, 5};
    static const float key = -3.0f;
    static unsigned char k[5 * 8 * 4];
    memcpy(k + (3 * 8 + 2) * 4, &key, sizeof key); /* row 3, channel 2 */
    memcpy(k + (4 * 8 + 3) * 4, &key, sizeof key); /* row 4, which is in no pool, channel 3 */
    const struct {
        const char *dtype;
        size_t channel;
        uint32_t expected, actual;
        bool near;
    } rows[] = {
        {"F32", 2, 0x3f800000, 0x3f800000, true},
        {"F32", 2, 0x3f800000, 0x3f800033, true},  /* 51 units: 6.08e-6, 1 unit of them rounding */
        {"F32", 2, 0x3f800000, 0x3f800034, false},
        {"F32", 3, 0x3f800000, 0x3f800001, true},  /* no key but 0: rounding alone */
        {"F32", 3, 0x3f800000, 0x3f800002, false},
        {"F32", 3, 0x3f800000, 0x3f7fffff, true},  /* below a power of two the unit is half as large */
        {"F32", 3, 0x3f800000, 0x3f7ffffe, false},
        {"F32", 3, 0x00000000, 0x80000000, true},
        {"F32", 3, 0x00000000, 0x00800000, true},  /* 2^-126 */
        {"F32", 3, 0x00000000, 0x00800002, false},
        {"F32", 2, 0x7fc00000, 0x7fc00000, true},
        {"F32", 2, 0x7fc00000, 0x7fc00001, false},
        {"F32", 2, 0x7fc00000, 0x3f800000, false},
        {"F32", 2, 0x7f800000, 0xff800000, false},
        {"F32", 2, 0x7f800000, 0x7f7fffff, false},
        {"F16", 3, 0x3c00, 0x3c01, true},
        {"F16", 3, 0x3c00, 0x3c02, false},
        {"F16", 3, 0x7bff, 0x7c00, true},          /* the largest, and the infinity after it */
        {"F16", 3, 0x7bfe, 0x7c00, false},
        {"F16", 3, 0x0001, 0x0002, true},
        {"F16", 3, 0x0001, 0x0003, false},
        {"BF16", 3, 0x3f80, 0x3f81, true},
        {"BF16", 3, 0x3f80, 0x3f82, false},
        {"BF16", 3, 0x7f80, 0x7f7f, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const SafetensorsType type = strcmp(rows[i].dtype, "F32") == 0   ? SAFETENSORS_F32
                                     : strcmp(rows[i].dtype, "F16") == 0 ? SAFETENSORS_F16
                                                                         : SAFETENSORS_BF16;
        const size_t size = safetensors_type_size(type);
        unsigned char expected[8 * 4] = {0};
        memcpy(expected + rows[i].channel * size, &rows[i].expected, size);
        Draft draft = make_draft_of("compress");
        find(&draft, "input_row_offsets")->data = (const unsigned char *)offsets;
        find(&draft, "pool_row_offsets")->data = (const unsigned char *)one_pool;
        find(&draft, "k")->data = k;
        put_tensor(&draft, &(SafetensorsTensor){.name = "expected.pooled", .type = type, .rank = 2, .shape = {1, 8},
                                                .data = expected});
        put_option(&draft, "pooled_dtype", rows[i].dtype);
        for (uint32_t fast = 0; fast < 2; fast++) {
            put_option(&draft, "numerics", fast ? "fast" : "exact");
            Safetensors file;
            Case made;
            Complaint complaint;
            assert_true(read_draft(&draft, &file, &made, &complaint));
            assert_true(case_lay_out(&made, 1u << 20, &complaint));
            memset(made.images.pooled, 0, 8 * size);
            memcpy((char *)made.images.pooled + rows[i].channel * size, &rows[i].actual, size);
            const bool near = fast ? rows[i].near : rows[i].expected == rows[i].actual;
            if (case_matches(&made, &complaint) != near) {
                fail_msg("row %zu, %s: %s", i, fast ? "fast" : "exact", near ? complaint.text : "a match");
            }
            case_free(&made);
            safetensors_free(&file);
        }
    }
}

/* Of a pool that closes, the keys of the ring count as they were before step seeded it. */
static void test_fast_keys_of_the_ring(void **state)
{
    (void)state;
    static const uint32_t offsets[3] = {0, 0, 5};
    static const uint32_t lengths[2] = {0, 6}; /* positions 4 and 5 are cached, 6 to 10 new, 8 to 10 seeded */
    static const float key = -3.0f;
    static unsigned char tail[3 * 2 * 4 * 8 * 4];
    memcpy(tail + 1 * 8 * 4, &key, sizeof key); /* slot 0, member 1, channel 0 */
    const uint32_t one = 0x3f800000;
    const struct {
        size_t channel;
        uint32_t actual;
        bool near;
    } rows[] = {{0, 0x3f800033, true}, {0, 0x3f800034, false}, {1, 0x3f800001, true}, {1, 0x3f800002, false}};
    const char *const ops[] = {"ring_close", "step"};
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        const char *op = ops[i % 2];
        unsigned char expected[2 * 8 * 4] = {0};
        memcpy(expected + (8 + rows[i / 2].channel) * 4, &one, sizeof one);
        Draft draft = make_draft_of(op);
        find(&draft, "input_row_offsets")->data = (const unsigned char *)offsets;
        find(&draft, "cache_lengths")->data = (const unsigned char *)lengths;
        find(&draft, "tail")->data = tail;
        put_tensor(&draft, &(SafetensorsTensor){.name = "expected.closed_pooled", .type = SAFETENSORS_F32, .rank = 2,
                                                .shape = {2, 8}, .data = expected});
        put_option(&draft, "numerics", "fast");
        Safetensors file;
        Case made;
        Complaint complaint;
        assert_true(read_draft(&draft, &file, &made, &complaint));
        assert_true(case_lay_out(&made, 1u << 20, &complaint));
        unsigned char *row = (unsigned char *)made.images.closed_pooled + 8 * 4;
        memset(row, 0, 8 * 4);
        memcpy(row + rows[i / 2].channel * 4, &rows[i / 2].actual, 4);
        if (strcmp(op, "step") == 0) {
            memset(made.images.tail, 0, sizeof tail); /* as seeded */
        }
        if (case_matches(&made, &complaint) != rows[i / 2].near) {
            fail_msg("row %zu of %s: %s", i / 2, op, rows[i / 2].near ? complaint.text : "a match");
        }
        case_free(&made);
        safetensors_free(&file);
    }
}

/* Rows before the first offset are nobody's. */
static void test_offsets_that_begin_late(void **state)
{
    (void)state;
    static const uint32_t offsets[3] = {0, 5, 5};
    static const uint32_t lengths[2] = {3, 0};
    static const uint32_t late[3] = {1, 2, 2};
    Draft draft = make_draft_of("compress");
    find(&draft, "cache_lengths")->data = (const unsigned char *)lengths;
    find(&draft, "input_row_offsets")->data = (const unsigned char *)offsets;
    find(&draft, "pool_row_offsets")->data = (const unsigned char *)late;
    put_tensor(&draft, &(SafetensorsTensor)PUT("expected.pooled", F32, 2, 2, 8));
    Safetensors file;
    Case made;
    Complaint complaint;
    assert_true(read_draft(&draft, &file, &made, &complaint));
    assert_true(case_lay_out(&made, 1u << 20, &complaint));
    memset((char *)made.images.pooled + 8 * 4, 0, 8 * 4); /* row 1 as expected */
    assert_true(case_matches(&made, &complaint));
    ((uint32_t *)made.images.pooled)[0] ^= 1;
    assert_false(case_matches(&made, &complaint));
    assert_non_null(strstr(complaint.text, "pooled, to be left alone, differs at row 0, no request, channel 0"));
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
        cmocka_unit_test(test_resolution), cmocka_unit_test(test_resolution_of_others),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_two_byte_strides_are_even), cmocka_unit_test(test_missing_op),
        cmocka_unit_test(test_comparison), cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_left_alone), cmocka_unit_test(test_reckoned_offsets),
        cmocka_unit_test(test_fast_keys), cmocka_unit_test(test_fast_keys_of_the_ring),
        cmocka_unit_test(test_offsets_that_begin_late), cmocka_unit_test(test_too_large_for_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
