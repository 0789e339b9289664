#include "case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

/* ------------------------------------------------------------------------------ the table ------- */

/* A size of a tensor: a symbol of the contract, 'D' and the like, plus a constant; symbol 0: the constant alone. */
typedef struct Extent {
    char symbol;
    uint32_t plus;
} Extent;

typedef enum Element {
    ELEMENT_TYPE,  /* F32, F16 or BF16, the same for all such tensors of a case */
    ELEMENT_F32,
    ELEMENT_INDEX, /* U32 or non-negative I32 */
} Element;

typedef enum Role {
    ROLE_AGREES,  /* not used, but its shape must agree where it is present */
    ROLE_READ,    /* must come back unchanged, padding included */
    ROLE_CHANGED, /* may have expected.<name>; its padding must come back unchanged */
} Role;

struct CaseTensorRule {
    const char *name;
    Role role;
    bool optional; /* zeros where the file lacks it */
    Element element;
    uint32_t rank;
    Extent shape[4];
    /* Names the place of an element of the dense tensor. */
    void (*name_place)(const Case *made, uint64_t element, char *text, size_t size);
};

struct CaseRule {
    const char *op;
    KpoolOperation operation;
    uint32_t count;
    CaseTensorRule tensors[CASE_MOST_TENSORS];
};

static void name_place_in_tail(const Case *made, uint64_t element, char *text, size_t size);
static void name_place_in_list(const Case *made, uint64_t element, char *text, size_t size);

#define TENSOR_TAIL(role) \
    {"tail", role, false, ELEMENT_TYPE, 4, {{'S', 0}, {0, 2}, {'R', 0}, {'D', 0}}, name_place_in_tail}
#define TENSOR_K {"k", ROLE_READ, false, ELEMENT_TYPE, 2, {{'T', 0}, {'D', 0}}, NULL}
#define TENSOR_GATE {"gate", ROLE_READ, false, ELEMENT_TYPE, 2, {{'T', 0}, {'D', 0}}, NULL}
#define TENSOR_APE(role, optional) {"ape", role, optional, ELEMENT_F32, 2, {{'P', 0}, {'D', 0}}, NULL}
#define TENSOR_INPUT_ROW_OFFSETS {"input_row_offsets", ROLE_READ, false, ELEMENT_INDEX, 1, {{'B', 1}}, NULL}
#define TENSOR_CACHE_LENGTHS {"cache_lengths", ROLE_READ, false, ELEMENT_INDEX, 1, {{'B', 0}}, NULL}
#define TENSOR_SLOT_IDX {"slot_idx", ROLE_READ, false, ELEMENT_INDEX, 1, {{'B', 0}}, NULL}
#define TENSOR_STATUS \
    {"status", ROLE_CHANGED, true, ELEMENT_INDEX, 1, {{0, KPOOL_STATUS_COUNT}}, name_place_in_list}

static const CaseRule rules[] = {
    {"seed_tail", KPOOL_OPERATION_SEED_TAIL, 8,
     {TENSOR_TAIL(ROLE_CHANGED), TENSOR_K, TENSOR_GATE, TENSOR_INPUT_ROW_OFFSETS, TENSOR_CACHE_LENGTHS,
      TENSOR_SLOT_IDX, TENSOR_STATUS, TENSOR_APE(ROLE_AGREES, true)}},
};

/* The metadata that KpoolCall takes as they are: elements. */
typedef struct CallOption {
    const char *key;
    size_t offset;
} CallOption;

static const CallOption call_options[] = {
#define CALL_OPTION(name) {#name, offsetof(KpoolCall, name)}
    CALL_OPTION(tail_slot_stride), CALL_OPTION(tail_plane_stride), CALL_OPTION(tail_row_stride),
    CALL_OPTION(k_row_stride),     CALL_OPTION(gate_row_stride),   CALL_OPTION(tail_base),
    CALL_OPTION(k_base),           CALL_OPTION(gate_base),
#undef CALL_OPTION
};

#define CALL_OPTION_COUNT (sizeof call_options / sizeof call_options[0])

static VkDeviceSize *call_option(KpoolCall *call, size_t option)
{
    return (VkDeviceSize *)(void *)((char *)call + call_options[option].offset);
}

/* The image of a tensor that a buffer is made of. */
static void **find_image(TensorImages *images, const char *name)
{
#define FIND_IMAGE(tensor, group)     \
    if (strcmp(name, #tensor) == 0) { \
        return &images->tensor;       \
    }
    KPOOL_TENSORS(FIND_IMAGE)
#undef FIND_IMAGE
    abort();
}

/* Bytes of that image, as execute wants it. */
static size_t find_size(const KpoolBindings *sizes, const char *name)
{
#define FIND_SIZE(tensor, group)                                        \
    if (strcmp(name, #tensor) == 0) {                                   \
        return sizes->tensor.size > 4 ? (size_t)sizes->tensor.size : 4; \
    }
    KPOOL_TENSORS(FIND_SIZE)
#undef FIND_SIZE
    abort();
}

/* ---------------------------------------------------------------------------- agreement -------- */

/* What the symbols stand for: each is bound by the first that names it, and must agree ever after. */
typedef struct Agreement {
    uint64_t values['Z' - 'A' + 1];
    const char *sources['Z' - 'A' + 1]; /* NULL: not bound */
    SafetensorsType type;
    const char *type_source;
} Agreement;

static uint64_t *value_of(Agreement *agreement, char symbol)
{
    return &agreement->values[symbol - 'A'];
}

static const char **source_of(Agreement *agreement, char symbol)
{
    return &agreement->sources[symbol - 'A'];
}

/* "[S, 2, R, D]" or "[4, 2]". */
static void print_shape(const CaseTensorRule *rule, char *text, size_t size)
{
    size_t used = 0;
    for (uint32_t d = 0; d < rule->rank && used < size; d++) {
        const Extent extent = rule->shape[d];
        const char *separator = d == 0 ? "[" : ", ";
        int printed;
        if (extent.symbol == 0) {
            printed = snprintf(text + used, size - used, "%s%u", separator, extent.plus);
        } else if (extent.plus != 0) {
            printed = snprintf(text + used, size - used, "%s%c + %u", separator, extent.symbol, extent.plus);
        } else {
            printed = snprintf(text + used, size - used, "%s%c", separator, extent.symbol);
        }
        used += (size_t)printed;
    }
    if (used < size) {
        snprintf(text + used, size - used, "]");
    }
}

static bool agree_on_shape(const CaseTensorRule *rule, const SafetensorsTensor *tensor, Agreement *agreement,
                           Complaint *complaint)
{
    char wanted[48];
    print_shape(rule, wanted, sizeof wanted);
    if (tensor->rank != rule->rank) {
        return complain(complaint, "%s: shape has %u dimensions, must be %s", tensor->name, tensor->rank, wanted);
    }
    for (uint32_t d = 0; d < rule->rank; d++) {
        const Extent extent = rule->shape[d];
        const uint64_t value = tensor->shape[d];
        if (value > UINT32_MAX) {
            return complain(complaint, "%s: shape[%u] is %" PRIu64 ", must be at most 2^32 - 1", tensor->name, d,
                            value);
        }
        if (value < extent.plus || (extent.symbol == 0 && value != extent.plus)) {
            return complain(complaint, "%s: shape[%u] is %" PRIu64 ", must be %s", tensor->name, d, value, wanted);
        }
        if (extent.symbol == 0) {
            continue;
        }
        uint64_t *bound = value_of(agreement, extent.symbol);
        const char **source = source_of(agreement, extent.symbol);
        if (*source == NULL) {
            *bound = value - extent.plus;
            *source = tensor->name;
        } else if (value != *bound + extent.plus) {
            return complain(complaint, "%s: shape[%u] is %" PRIu64 ", must be %s with %c = %" PRIu64 " as in %s",
                            tensor->name, d, value, wanted, extent.symbol, *bound, *source);
        }
    }
    return true;
}

static bool agree_on_element(Element element, const SafetensorsTensor *tensor, Agreement *agreement,
                             Complaint *complaint)
{
    const char *type = safetensors_type_name(tensor->type);
    switch (element) {
    case ELEMENT_TYPE:
        if (tensor->type != SAFETENSORS_F32 && tensor->type != SAFETENSORS_F16 && tensor->type != SAFETENSORS_BF16) {
            return complain(complaint, "%s: dtype is %s, must be F32, F16 or BF16", tensor->name, type);
        }
        if (agreement->type_source == NULL) {
            agreement->type = tensor->type;
            agreement->type_source = tensor->name;
        } else if (tensor->type != agreement->type) {
            return complain(complaint, "%s: dtype is %s, must be %s as in %s", tensor->name, type,
                            safetensors_type_name(agreement->type), agreement->type_source);
        }
        return true;
    case ELEMENT_F32:
        return tensor->type == SAFETENSORS_F32
                   ? true
                   : complain(complaint, "%s: dtype is %s, must be F32", tensor->name, type);
    case ELEMENT_INDEX:
        break;
    }
    if (tensor->type != SAFETENSORS_U32 && tensor->type != SAFETENSORS_I32) {
        return complain(complaint, "%s: dtype is %s, must be U32 or I32", tensor->name, type);
    }
    for (size_t i = 0; i < tensor->size / 4 && tensor->type == SAFETENSORS_I32; i++) {
        int32_t value;
        memcpy(&value, tensor->data + 4 * i, sizeof value);
        if (value < 0) {
            return complain(complaint, "%s: element %zu is %d, must not be negative", tensor->name, i, value);
        }
    }
    return true;
}

static bool agree(const CaseTensorRule *rule, const SafetensorsTensor *tensor, Agreement *agreement,
                  Complaint *complaint)
{
    return agree_on_element(rule->element, tensor, agreement, complaint) &&
           agree_on_shape(rule, tensor, agreement, complaint);
}

/* ------------------------------------------------------------------------------ metadata ------- */

/* A decimal number. Leaves *number alone where the key is absent. */
static bool read_option(const Safetensors *file, const char *key, uint64_t most, uint64_t *number,
                        Complaint *complaint)
{
    const char *text = safetensors_metadata(file, key);
    if (text == NULL) {
        return true;
    }
    uint64_t value = 0;
    bool valid = text[0] != '\0';
    for (const char *c = text; *c != '\0' && valid; c++) {
        const uint64_t digit = (uint64_t)(*c - '0');
        valid = *c >= '0' && *c <= '9' && value <= (most - digit) / 10;
        value = value * 10 + digit;
    }
    if (!valid) {
        return complain(complaint, "%s: is '%s', must be a number from 0 to %" PRIu64, key, text, most);
    }
    *number = value;
    return true;
}

static bool read_options(const Safetensors *file, KpoolCall *call, uint64_t *rollback, Agreement *agreement,
                         Complaint *complaint)
{
    for (size_t i = 0; i < CALL_OPTION_COUNT; i++) {
        if (!read_option(file, call_options[i].key, UINT64_MAX, call_option(call, i), complaint)) {
            return false;
        }
    }
    if (safetensors_metadata(file, "kpool") != NULL) {
        *source_of(agreement, 'P') = "kpool";
    }
    return read_option(file, "kpool", UINT32_MAX, value_of(agreement, 'P'), complaint) &&
           read_option(file, "rollback", UINT32_MAX, rollback, complaint);
}

/* ------------------------------------------------------------------------------- reading ------- */

static bool find_rule(const Safetensors *file, Case *made, Complaint *complaint)
{
    const char *op = safetensors_metadata(file, "op");
    if (op == NULL) {
        return complain(complaint, "op: is missing from the metadata");
    }
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].op, op) == 0) {
            made->rule = &rules[i];
            made->op = op;
            return true;
        }
    }
    return complain(complaint, "op: '%s' is not supported", op);
}

static bool find_tensors(const Safetensors *file, Case *made, Agreement *agreement, Complaint *complaint)
{
    for (uint32_t i = 0; i < made->rule->count; i++) {
        const CaseTensorRule *rule = &made->rule->tensors[i];
        CaseTensor *tensor = &made->tensors[made->count++];
        tensor->rule = rule;
        tensor->given = safetensors_find(file, rule->name);
        if (tensor->given == NULL && !rule->optional) {
            return complain(complaint, "%s: is missing, %s needs it", rule->name, made->op);
        }
        if (tensor->given != NULL && !agree(rule, tensor->given, agreement, complaint)) {
            return false;
        }
    }
    return true;
}

static CaseTensor *find_tensor(Case *made, const char *name)
{
    for (uint32_t i = 0; i < made->count; i++) {
        if (strcmp(made->tensors[i].rule->name, name) == 0) {
            return &made->tensors[i];
        }
    }
    return NULL;
}

#define EXPECTED "expected."
#define EXPECTED_LENGTH (sizeof EXPECTED - 1)

/* Every expected.<name> is one that can be compared: what is not looked at must not pass for right. */
static bool find_expected(const Safetensors *file, Case *made, Agreement *agreement, Complaint *complaint)
{
    static const CaseTensorRule dropped_rule = {.name = "dropped", .element = ELEMENT_INDEX, .rank = 1,
                                                .shape = {{0, 4}}};
    for (size_t i = 0; i < file->count; i++) {
        const SafetensorsTensor *expected = &file->tensors[i];
        if (strncmp(expected->name, EXPECTED, EXPECTED_LENGTH) != 0) {
            continue;
        }
        const char *name = expected->name + EXPECTED_LENGTH;
        CaseTensor *tensor = find_tensor(made, name);
        const CaseTensorRule *rule = tensor != NULL ? tensor->rule : NULL;
        if (strcmp(name, dropped_rule.name) == 0) {
            rule = &dropped_rule;
            made->dropped = expected;
        } else if (rule == NULL || rule->role != ROLE_CHANGED) {
            return complain(complaint, "%s: is not something that %s makes or changes", expected->name, made->op);
        } else {
            tensor->expected = expected;
        }
        if (!agree(rule, expected, agreement, complaint)) {
            return false;
        }
    }
    return true;
}

/* The library's own judgement, in the words of the file. */
static bool refuse(const KpoolDiagnostic *diagnostic, const char *kpool_source, Complaint *complaint)
{
    const struct {
        const char *argument;
        const char *source;
    } sources[] = {
        {"geometry.kpool", kpool_source}, {"geometry.rollback", "rollback"}, {"geometry.head_dim", "tail"},
        {"geometry.ring", "tail"},        {"max_slots", "tail"},
    };
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        if (strcmp(diagnostic->argument, sources[i].argument) == 0) {
            const char *message = diagnostic->message;
            message += strncmp(message, "geometry.", 9) == 0 ? 9 : 0;
            return complain(complaint, "%s: %s", sources[i].source, message);
        }
    }
    return complain(complaint, "%s", diagnostic->message);
}

static KpoolType kpool_type(SafetensorsType type)
{
    return type == SAFETENSORS_F32 ? KPOOL_TYPE_F32 : type == SAFETENSORS_F16 ? KPOOL_TYPE_F16 : KPOOL_TYPE_BF16;
}

/* 16 where every row starts at a multiple of 16 bytes, else 4. */
static uint32_t choose_alignment(const KpoolGeometry *geometry, KpoolCall *call)
{
    const uint32_t elements = 16 / kpoolTypeSize(geometry->type);
    bool aligned = geometry->head_dim % elements == 0;
    for (size_t i = 0; i < CALL_OPTION_COUNT; i++) {
        aligned = aligned && *call_option(call, i) % elements == 0;
    }
    return aligned ? 16 : 4;
}

/* Where each tensor's elements are in its image, and how large that is. */
static void place(Case *made, Agreement *agreement, const KpoolBindings *sizes)
{
    const KpoolCall *call = &made->call;
    for (uint32_t i = 0; i < made->count; i++) {
        CaseTensor *tensor = &made->tensors[i];
        const CaseTensorRule *rule = tensor->rule;
        for (uint32_t d = 0; d < rule->rank; d++) {
            const Extent extent = rule->shape[d];
            tensor->shape[d] = extent.plus + (extent.symbol != 0 ? *value_of(agreement, extent.symbol) : 0);
        }
        tensor->type = rule->element == ELEMENT_TYPE  ? agreement->type
                       : rule->element == ELEMENT_F32 ? SAFETENSORS_F32
                                                      : SAFETENSORS_U32;
        if (rule->role == ROLE_AGREES) {
            continue;
        }
        if (strcmp(rule->name, "tail") == 0) {
            tensor->places = strided_tail(call->tail_base, tensor->shape[0], tensor->shape[2], tensor->shape[3],
                                          call->tail_slot_stride, call->tail_plane_stride, call->tail_row_stride);
        } else if (strcmp(rule->name, "k") == 0) {
            tensor->places = strided_rows(call->k_base, tensor->shape[0], tensor->shape[1], call->k_row_stride);
        } else if (strcmp(rule->name, "gate") == 0) {
            tensor->places = strided_rows(call->gate_base, tensor->shape[0], tensor->shape[1], call->gate_row_stride);
        } else {
            tensor->places = (Strided){.rank = 1, .extents = {tensor->shape[0]}, .strides = {1}};
        }
        tensor->size = find_size(sizes, rule->name);
    }
}

bool case_read(const Safetensors *file, Case *made, Complaint *complaint)
{
    *made = (Case){0};
    Agreement agreement = {0};
    uint64_t rollback = 0;
    if (!find_rule(file, made, complaint) ||
        !read_options(file, &made->call, &rollback, &agreement, complaint) ||
        !find_tensors(file, made, &agreement, complaint)) {
        return false;
    }
    if (*source_of(&agreement, 'P') == NULL) {
        *value_of(&agreement, 'P') = *value_of(&agreement, 'R');
        *source_of(&agreement, 'P') = "tail";
    }
    if (!find_expected(file, made, &agreement, complaint)) {
        return false;
    }
    /* 0 would mean the default ring to the library. */
    if (*source_of(&agreement, 'R') != NULL && *value_of(&agreement, 'R') == 0) {
        return complain(complaint, "tail: shape[2] is 0, must be at least kpool + rollback");
    }
    made->kernel = (KpoolKernelCreateInfo){
        .operation = made->rule->operation,
        .geometry = {(uint32_t)*value_of(&agreement, 'D'), (uint32_t)*value_of(&agreement, 'P'),
                     kpool_type(agreement.type), (uint32_t)*value_of(&agreement, 'R'), (uint32_t)rollback},
    };
    made->call.max_slots = (uint32_t)*value_of(&agreement, 'S');
    made->call.requests = (uint32_t)*value_of(&agreement, 'B');
    made->call.rows = (uint32_t)*value_of(&agreement, 'T');
    KpoolBindings sizes;
    KpoolDiagnostic diagnostic;
    if (kpoolGetSizes(&made->kernel, &made->call, &sizes, &diagnostic) != KPOOL_SUCCESS) {
        return refuse(&diagnostic, *source_of(&agreement, 'P'), complaint);
    }
    made->kernel.alignment = choose_alignment(&made->kernel.geometry, &made->call);
    place(made, &agreement, &sizes);
    return true;
}

/* ------------------------------------------------------------------------------- images -------- */

bool case_lay_out(Case *made, VkDeviceSize most, Complaint *complaint)
{
    for (uint32_t i = 0; i < made->count; i++) {
        CaseTensor *tensor = &made->tensors[i];
        const CaseTensorRule *rule = tensor->rule;
        if (rule->role == ROLE_AGREES) {
            continue;
        }
        if (tensor->size > most) {
            return complain(complaint, "%s: needs a buffer of %zu bytes, the device takes at most %llu", rule->name,
                            tensor->size, (unsigned long long)most);
        }
        tensor->image = malloc(tensor->size);
        tensor->before = malloc(tensor->size);
        if (tensor->image == NULL || tensor->before == NULL) {
            return complain(complaint, "%s: %zu bytes do not fit in memory", rule->name, tensor->size);
        }
        strided_fill_padding(tensor->image, tensor->size);
        if (tensor->given != NULL) {
            strided_scatter(&tensor->places, safetensors_type_size(tensor->type), tensor->given->data, tensor->image);
        } else {
            memset(tensor->image, 0, tensor->size);
        }
        memcpy(tensor->before, tensor->image, tensor->size);
        *find_image(&made->images, rule->name) = tensor->image;
    }
    return true;
}

void case_free(Case *made)
{
    for (uint32_t i = 0; i < made->count; i++) {
        free(made->tensors[i].image);
        free(made->tensors[i].before);
    }
    *made = (Case){0};
}

/* The elements of an image, dense; the caller frees. NULL: out of memory. */
static unsigned char *gather(const CaseTensor *tensor, size_t *size)
{
    *size = safetensors_type_size(tensor->type);
    for (uint32_t d = 0; d < tensor->rule->rank; d++) {
        *size *= (size_t)tensor->shape[d];
    }
    unsigned char *dense = malloc(*size + 1);
    if (dense != NULL) {
        strided_gather(&tensor->places, safetensors_type_size(tensor->type), tensor->image, dense);
    }
    return dense;
}

/* ---------------------------------------------------------------------------- comparison ------- */

/* The request that may write the slot: the first that is neither empty nor dropped and has it. */
static bool find_owner(const Case *made, uint64_t slot, uint32_t *owner)
{
    const uint32_t *offsets = made->images.input_row_offsets;
    const uint32_t *lengths = made->images.cache_lengths;
    const uint32_t *slots = made->images.slot_idx;
    for (uint32_t r = 0; r < made->call.requests; r++) {
        if (slots[r] == slot &&
            reference_judge(made->call.rows, made->call.max_slots, offsets, lengths, slots, r) == -2) {
            *owner = r;
            return true;
        }
    }
    return false;
}

static void name_place_in_tail(const Case *made, uint64_t element, char *text, size_t size)
{
    const KpoolGeometry *geometry = &made->kernel.geometry;
    const uint64_t row = element / geometry->head_dim;
    const uint64_t plane = row / geometry->ring;
    char request[32] = "no request";
    uint32_t owner;
    if (find_owner(made, plane / 2, &owner)) {
        snprintf(request, sizeof request, "request %u", owner);
    }
    snprintf(text, size, "%s, slot %" PRIu64 ", plane %s, member %" PRIu64 ", channel %" PRIu64, request, plane / 2,
             plane % 2 == 0 ? "k" : "gate", row % geometry->ring, element % geometry->head_dim);
}

static void name_place_in_list(const Case *made, uint64_t element, char *text, size_t size)
{
    (void)made;
    snprintf(text, size, "element %" PRIu64, element);
}

/* "0x3f80": the bits of a little-endian element. */
static void print_bits(const unsigned char *element, size_t element_size, char text[19])
{
    strcpy(text, "0x");
    for (size_t i = 0; i < element_size; i++) {
        snprintf(text + 2 + 2 * i, 3, "%02x", element[element_size - 1 - i]);
    }
}

/* The first element that differs; count where none does. */
static size_t first_difference(const unsigned char *expected, const unsigned char *actual, size_t element_size,
                               size_t count)
{
    size_t i = memcmp(expected, actual, count * element_size) == 0 ? count : 0;
    while (i < count && memcmp(expected + i * element_size, actual + i * element_size, element_size) == 0) {
        i++;
    }
    return i;
}

static bool compare(const Case *made, const CaseTensorRule *rule, const SafetensorsTensor *expected,
                    const unsigned char *actual, Complaint *mismatch)
{
    const size_t element_size = safetensors_type_size(expected->type);
    const size_t count = expected->size / element_size;
    const size_t i = first_difference(expected->data, actual, element_size, count);
    if (i == count) {
        return true;
    }
    char place[160];
    char expected_bits[19];
    char actual_bits[19];
    rule->name_place(made, i, place, sizeof place);
    print_bits(expected->data + i * element_size, element_size, expected_bits);
    print_bits(actual + i * element_size, element_size, actual_bits);
    return complain(mismatch, "%s differs at %s: expected %s, got %s", expected->name, place, expected_bits,
                    actual_bits);
}

/* What the operation must leave alone: a tensor it reads, and the padding of one it changes. */
static bool unchanged(const CaseTensor *tensor, const unsigned char *dense, Complaint *mismatch)
{
    if (tensor->rule->role == ROLE_CHANGED) {
        strided_scatter(&tensor->places, safetensors_type_size(tensor->type), dense, tensor->before);
    }
    const size_t i = first_difference(tensor->before, tensor->image, 1, tensor->size);
    if (i == tensor->size) {
        return true;
    }
    return complain(mismatch, "%s: byte %zu of its buffer, %s, changed: expected 0x%02x, got 0x%02x",
                    tensor->rule->name, i, tensor->rule->role == ROLE_CHANGED ? "padding" : "only to be read",
                    tensor->before[i], tensor->image[i]);
}

bool case_matches(const Case *made, Complaint *mismatch)
{
    const CaseTensor *status = NULL;
    for (uint32_t i = 0; i < made->count; i++) {
        const CaseTensor *tensor = &made->tensors[i];
        if (tensor->rule->role == ROLE_AGREES) {
            continue;
        }
        size_t size;
        unsigned char *dense = gather(tensor, &size);
        if (dense == NULL) {
            return complain(mismatch, "%s: out of memory", tensor->rule->name);
        }
        const bool right = (tensor->expected == NULL ||
                            compare(made, tensor->rule, tensor->expected, dense, mismatch)) &&
                           unchanged(tensor, dense, mismatch);
        free(dense);
        if (!right) {
            return false;
        }
        status = strcmp(tensor->rule->name, "status") == 0 ? tensor : status;
    }
    return made->dropped == NULL || compare(made, status->rule, made->dropped, status->image, mismatch);
}

void case_describe_expected(const Case *made, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i <= made->count && used < size; i++) {
        const SafetensorsTensor *expected = i < made->count ? made->tensors[i].expected : made->dropped;
        if (expected != NULL) {
            used += (size_t)snprintf(text + used, size - used, "%s%s", used != 0 ? ", " : "", expected->name);
        }
    }
}

const uint32_t *case_status(const Case *made)
{
    return made->images.status;
}

bool case_write(const Case *made, const char *path, Complaint *complaint)
{
    SafetensorsTensor tensors[CASE_MOST_TENSORS];
    unsigned char *dense[CASE_MOST_TENSORS];
    uint32_t count = 0;
    bool written = true;
    for (uint32_t i = 0; i < made->count && written; i++) {
        const CaseTensor *tensor = &made->tensors[i];
        if (tensor->rule->role != ROLE_CHANGED) {
            continue;
        }
        SafetensorsTensor *out = &tensors[count];
        *out = (SafetensorsTensor){.name = tensor->rule->name, .type = tensor->type, .rank = tensor->rule->rank};
        memcpy(out->shape, tensor->shape, sizeof tensor->shape);
        dense[count] = gather(tensor, &out->size);
        out->data = dense[count];
        written = dense[count++] != NULL ? true : complain(complaint, "%s: out of memory", tensor->rule->name);
    }
    const SafetensorsOption op = {"op", made->op};
    written = written && safetensors_write(path, tensors, count, &op, 1, complaint);
    while (count > 0) {
        free(dense[--count]);
    }
    return written;
}
