#include "case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case_rules.h"

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

typedef struct AgreedType {
    SafetensorsType type;
    const char *source; /* NULL: not bound */
} AgreedType;

/* What the symbols stand for: each is bound by the first that names it, and must agree ever after. */
typedef struct Agreement {
    uint64_t values['Z' - 'A' + 1];
    const char *sources['Z' - 'A' + 1]; /* NULL: not bound */
    AgreedType type;
    AgreedType pooled;
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

static bool agree_on_type(const SafetensorsTensor *tensor, AgreedType *agreed, Complaint *complaint)
{
    const char *type = safetensors_type_name(tensor->type);
    if (tensor->type != SAFETENSORS_F32 && tensor->type != SAFETENSORS_F16 && tensor->type != SAFETENSORS_BF16) {
        return complain(complaint, "%s: dtype is %s, must be F32, F16 or BF16", tensor->name, type);
    }
    if (agreed->source == NULL) {
        *agreed = (AgreedType){tensor->type, tensor->name};
    } else if (tensor->type != agreed->type) {
        return complain(complaint, "%s: dtype is %s, must be %s as in %s", tensor->name, type,
                        safetensors_type_name(agreed->type), agreed->source);
    }
    return true;
}

/* type unless said. */
static AgreedType *pooled_of(Agreement *agreement)
{
    if (agreement->pooled.source == NULL) {
        agreement->pooled = agreement->type;
    }
    return &agreement->pooled;
}

static bool agree_on_index(const SafetensorsTensor *tensor, Complaint *complaint)
{
    if (tensor->type != SAFETENSORS_U32 && tensor->type != SAFETENSORS_I32) {
        return complain(complaint, "%s: dtype is %s, must be U32 or I32", tensor->name,
                        safetensors_type_name(tensor->type));
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

static bool agree_on_element(Element element, const SafetensorsTensor *tensor, Agreement *agreement,
                             Complaint *complaint)
{
    switch (element) {
    case ELEMENT_TYPE:
        return agree_on_type(tensor, &agreement->type, complaint);
    case ELEMENT_POOLED:
        return agree_on_type(tensor, pooled_of(agreement), complaint);
    case ELEMENT_INDEX:
        return agree_on_index(tensor, complaint);
    case ELEMENT_F32:
    case ELEMENT_I32:
        break;
    }
    const SafetensorsType wanted = element == ELEMENT_F32 ? SAFETENSORS_F32 : SAFETENSORS_I32;
    if (tensor->type != wanted) {
        return complain(complaint, "%s: dtype is %s, must be %s", tensor->name, safetensors_type_name(tensor->type),
                        safetensors_type_name(wanted));
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
        valid = *c >= '0' && *c <= '9' && digit <= most && value <= (most - digit) / 10;
        value = value * 10 + digit;
    }
    if (!valid) {
        return complain(complaint, "%s: is '%s', must be a number from 0 to %" PRIu64, key, text, most);
    }
    *number = value;
    return true;
}

/* One of two or three words. Leaves *chosen alone where the key is absent. */
static bool read_choice(const Safetensors *file, const char *key, const char *const words[3], uint32_t *chosen,
                        Complaint *complaint)
{
    const char *text = safetensors_metadata(file, key);
    if (text == NULL) {
        return true;
    }
    for (uint32_t i = 0; i < 3 && words[i] != NULL; i++) {
        if (strcmp(text, words[i]) == 0) {
            *chosen = i;
            return true;
        }
    }
    return complain(complaint, "%s: is '%s', must be %s%s%s or %s", key, text, words[0], words[2] != NULL ? ", " : "",
                    words[2] != NULL ? words[1] : "", words[2] != NULL ? words[2] : words[1]);
}

static bool read_choices(const Safetensors *file, KpoolKernelCreateInfo *kernel, Agreement *agreement,
                         Complaint *complaint)
{
    static const char *const layouts[3] = {"fixed", "compact"};
    static const char *const numerics[3] = {"exact", "fast"};
    static const char *const dtypes[3] = {"F32", "F16", "BF16"};
    static const SafetensorsType types[3] = {SAFETENSORS_F32, SAFETENSORS_F16, SAFETENSORS_BF16};
    uint32_t layout = 0;
    uint32_t numeric = 0;
    uint32_t dtype = 0;
    if (!read_choice(file, "layout", layouts, &layout, complaint) ||
        !read_choice(file, "numerics", numerics, &numeric, complaint) ||
        !read_choice(file, "pooled_dtype", dtypes, &dtype, complaint)) {
        return false;
    }
    kernel->topk_layout = layout == 0 ? KPOOL_TOPK_LAYOUT_FIXED : KPOOL_TOPK_LAYOUT_COMPACT;
    kernel->numerics = numeric == 0 ? KPOOL_NUMERICS_EXACT : KPOOL_NUMERICS_FAST;
    if (safetensors_metadata(file, "pooled_dtype") != NULL) {
        agreement->pooled = (AgreedType){types[dtype], "pooled_dtype"};
    }
    return true;
}

static bool read_options(const Safetensors *file, Case *made, Agreement *agreement, Complaint *complaint)
{
    for (size_t i = 0; i < CALL_OPTION_COUNT; i++) {
        if (!read_option(file, call_options[i].key, UINT64_MAX, call_option(&made->call, i), complaint)) {
            return false;
        }
    }
    if (safetensors_metadata(file, "kpool") != NULL) {
        *source_of(agreement, 'P') = "kpool";
    }
    uint64_t rollback = 0;
    if (!read_option(file, "kpool", UINT32_MAX, value_of(agreement, 'P'), complaint) ||
        !read_option(file, "rollback", UINT32_MAX, &rollback, complaint)) {
        return false;
    }
    made->kernel.geometry.rollback = (uint32_t)rollback;
    return read_choices(file, &made->kernel, agreement, complaint);
}

/* ------------------------------------------------------------------------------- reading ------- */

static bool find_rule(const Safetensors *file, Case *made, Complaint *complaint)
{
    const char *op = safetensors_metadata(file, "op");
    if (op == NULL) {
        return complain(complaint, "op: is missing from the metadata");
    }
    made->op = op;
    made->rule = case_find_rule(op);
    return made->rule != NULL ? true : complain(complaint, "op: '%s' is not supported", op);
}

static bool find_tensors(const Safetensors *file, Case *made, Agreement *agreement, Complaint *complaint)
{
    for (uint32_t i = 0; i < made->rule->count; i++) {
        const CaseTensorRule *rule = &made->rule->tensors[i];
        CaseTensor *tensor = &made->tensors[made->count++];
        tensor->rule = rule;
        if (rule->role == ROLE_LENT) {
            continue;
        }
        tensor->given = safetensors_find(file, rule->name);
        if (tensor->given == NULL && (rule->role == ROLE_READ || rule->role == ROLE_CHANGED)) {
            return complain(complaint, "%s: is missing, %s needs it", rule->name, made->op);
        }
        if (tensor->given != NULL && !agree(rule, tensor->given, agreement, complaint)) {
            return false;
        }
    }
    return true;
}

/* made->count where there is none. */
static uint32_t find_index(const Case *made, const char *name)
{
    uint32_t i = 0;
    while (i < made->count && strcmp(made->tensors[i].rule->name, name) != 0) {
        i++;
    }
    return i;
}

const CaseTensor *case_find_tensor(const Case *made, const char *name)
{
    const uint32_t i = find_index(made, name);
    return i < made->count ? &made->tensors[i] : NULL;
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
        const uint32_t index = find_index(made, name);
        const CaseTensorRule *rule = index < made->count ? made->tensors[index].rule : NULL;
        if (strcmp(name, dropped_rule.name) == 0) {
            rule = &dropped_rule;
            made->dropped = expected;
        } else if (rule == NULL || !case_is_result(rule)) {
            return complain(complaint, "%s: is not something that %s makes or changes", expected->name, made->op);
        } else {
            made->tensors[index].expected = expected;
        }
        if (!agree(rule, expected, agreement, complaint)) {
            return false;
        }
    }
    return true;
}

/* The library's own judgement, in the words of the file. */
static bool refuse(const KpoolDiagnostic *diagnostic, Agreement *agreement, Complaint *complaint)
{
    const struct {
        const char *argument;
        const char *source;
    } sources[] = {
        {"geometry.kpool", *source_of(agreement, 'P')},    {"geometry.rollback", "rollback"},
        {"geometry.head_dim", *source_of(agreement, 'D')}, {"geometry.ring", "tail"},
        {"max_slots", "tail"},                             {"createInfo.topk", "pool_ids"},
        {"createInfo.pooled_type", "pooled_dtype"},
    };
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        if (strcmp(diagnostic->argument, sources[i].argument) == 0) {
            const char *message = diagnostic->message;
            const char *dot = strchr(sources[i].argument, '.');
            const size_t prefix = dot != NULL ? (size_t)(dot - sources[i].argument) + 1 : 0;
            message += strncmp(message, sources[i].argument, prefix) == 0 ? prefix : 0;
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

static uint32_t read_index(const SafetensorsTensor *tensor, size_t i)
{
    uint32_t value;
    memcpy(&value, tensor->data + 4 * i, sizeof value);
    return value;
}

/* Binds the capacities that no shape in the file says. */
static bool choose_capacities(const Case *made, Agreement *agreement, Complaint *complaint)
{
    const CaseTensor *offsets = case_find_tensor(made, "input_row_offsets");
    if (*source_of(agreement, 'T') == NULL && offsets != NULL) {
        /* Nothing has rows, so no offset is out of range. */
        for (size_t i = 0; i < offsets->given->size / 4; i++) {
            const uint32_t offset = read_index(offsets->given, i);
            uint64_t *rows = value_of(agreement, 'T');
            *rows = offset > *rows ? offset : *rows;
        }
    }
    const CaseTensor *pool_offsets = case_find_tensor(made, "pool_row_offsets");
    if (*source_of(agreement, 'M') != NULL || case_find_tensor(made, "pooled") == NULL) {
        return true;
    }
    if (pool_offsets->given == NULL) {
        const uint64_t kpool = *value_of(agreement, 'P');
        *value_of(agreement, 'M') = *value_of(agreement, 'T') / (kpool != 0 ? kpool : 1);
    } else {
        const uint64_t requests = *value_of(agreement, 'B');
        const uint64_t claimed = read_index(pool_offsets->given, (size_t)requests);
        /* More than the rows can hold is an error of the offsets, and might be any number. */
        if (claimed * *value_of(agreement, 'P') > *value_of(agreement, 'T')) {
            return complain(complaint, "pool_row_offsets: element %" PRIu64 " is %" PRIu64 ", %" PRIu64
                            " rows hold fewer pools, and no pooled says otherwise", requests, claimed,
                            *value_of(agreement, 'T'));
        }
        *value_of(agreement, 'M') = claimed;
    }
    return true;
}

/* The width of out says with_tail where the metadata does not. */
static bool read_with_tail(const Safetensors *file, KpoolKernelCreateInfo *kernel, Agreement *agreement,
                           Complaint *complaint)
{
    const uint64_t pools = *value_of(agreement, 'K') * *value_of(agreement, 'P');
    uint64_t with_tail = *source_of(agreement, 'W') != NULL && *value_of(agreement, 'W') != pools;
    if (!read_option(file, "with_tail", 1, &with_tail, complaint)) {
        return false;
    }
    kernel->with_tail = with_tail != 0 ? VK_TRUE : VK_FALSE;
    return true;
}

static bool agree_on_width(const Case *made, Agreement *agreement, Complaint *complaint)
{
    const bool with_tail = made->kernel.with_tail != VK_FALSE;
    const uint64_t kpool = made->kernel.geometry.kpool;
    const uint64_t width = made->kernel.topk * kpool + (with_tail ? kpool - 1 : 0);
    if (*source_of(agreement, 'W') != NULL && *value_of(agreement, 'W') != width) {
        return complain(complaint, "%s: shape[1] is %" PRIu64 ", must be topk * kpool%s = %" PRIu64,
                        *source_of(agreement, 'W'), *value_of(agreement, 'W'),
                        with_tail ? " + kpool - 1" : "", width);
    }
    *value_of(agreement, 'W') = width;
    return true;
}

static SafetensorsType image_type(Element element, Agreement *agreement)
{
    switch (element) {
    case ELEMENT_TYPE:
        return agreement->type.type;
    case ELEMENT_POOLED:
        return pooled_of(agreement)->type;
    case ELEMENT_F32:
        return SAFETENSORS_F32;
    case ELEMENT_I32:
        return SAFETENSORS_I32;
    case ELEMENT_INDEX:
        break;
    }
    return SAFETENSORS_U32;
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
        tensor->type = image_type(rule->element, agreement);
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
            tensor->places = (Strided){.rank = 1, .extents = {case_count_elements(tensor)}, .strides = {1}};
        }
        tensor->size = find_size(sizes, rule->name);
    }
}

/* Binds what may be left out. */
static bool resolve(const Safetensors *file, Case *made, Agreement *agreement, Complaint *complaint)
{
    if (*source_of(agreement, 'P') == NULL) {
        if (*source_of(agreement, 'R') == NULL) {
            return complain(complaint, "kpool: is missing from the metadata, and there is no ape and no tail");
        }
        *value_of(agreement, 'P') = *value_of(agreement, 'R');
        *source_of(agreement, 'P') = "tail";
    }
    /* 0 would mean the default ring to the library. */
    if (*source_of(agreement, 'R') != NULL && *value_of(agreement, 'R') == 0) {
        return complain(complaint, "tail: shape[2] is 0, must be at least kpool + rollback");
    }
    if (*source_of(agreement, 'D') == NULL) {
        *value_of(agreement, 'D') = 1; /* nothing has channels */
    }
    if (agreement->type.source == NULL) {
        agreement->type.type = SAFETENSORS_F32; /* nothing has the type */
    }
    return find_expected(file, made, agreement, complaint) && choose_capacities(made, agreement, complaint) &&
           read_with_tail(file, &made->kernel, agreement, complaint);
}

bool case_read(const Safetensors *file, Case *made, Complaint *complaint)
{
    *made = (Case){0};
    Agreement agreement = {0};
    if (!find_rule(file, made, complaint) || !read_options(file, made, &agreement, complaint) ||
        !find_tensors(file, made, &agreement, complaint) || !resolve(file, made, &agreement, complaint)) {
        return false;
    }
    KpoolKernelCreateInfo *kernel = &made->kernel;
    kernel->operation = made->rule->operation;
    kernel->geometry.head_dim = (uint32_t)*value_of(&agreement, 'D');
    kernel->geometry.kpool = (uint32_t)*value_of(&agreement, 'P');
    kernel->geometry.type = kpool_type(agreement.type.type);
    kernel->geometry.ring = (uint32_t)*value_of(&agreement, 'R');
    kernel->pooled_type = kpool_type(pooled_of(&agreement)->type);
    kernel->topk = (uint32_t)*value_of(&agreement, 'K');
    made->call.max_slots = (uint32_t)*value_of(&agreement, 'S');
    made->call.requests = (uint32_t)*value_of(&agreement, 'B');
    made->call.rows = (uint32_t)*value_of(&agreement, 'T');
    made->call.pooled_rows = (uint32_t)*value_of(&agreement, 'M');
    made->call.pair_count = (uint32_t)*value_of(&agreement, 'N');
    KpoolBindings sizes;
    KpoolDiagnostic diagnostic;
    if (kpoolGetSizes(kernel, &made->call, &sizes, &diagnostic) != KPOOL_SUCCESS) {
        return refuse(&diagnostic, &agreement, complaint);
    }
    if (!agree_on_width(made, &agreement, complaint)) {
        return false;
    }
    kernel->alignment = choose_alignment(&kernel->geometry, &made->call);
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
        } else if (rule->role == ROLE_COUNTED) {
            memset(tensor->image, 0, tensor->size);
        } else if (rule->role == ROLE_RECKONED) {
            kpoolPoolRowOffsets(made->kernel.geometry.kpool, &made->call, made->images.input_row_offsets,
                                made->images.cache_lengths, (uint32_t *)(void *)tensor->image, NULL, NULL);
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

/* ---------------------------------------------------------------------------- looking at ------- */

uint64_t case_count_elements(const CaseTensor *tensor)
{
    uint64_t count = 1;
    for (uint32_t d = 0; d < tensor->rule->rank; d++) {
        count *= tensor->shape[d];
    }
    return count;
}

unsigned char *case_gather(const CaseTensor *tensor, const unsigned char *image)
{
    const size_t element_size = safetensors_type_size(tensor->type);
    unsigned char *dense = malloc((size_t)case_count_elements(tensor) * element_size + 1);
    if (dense != NULL) {
        strided_gather(&tensor->places, element_size, image, dense);
    }
    return dense;
}

void case_describe_call(const Case *made, char *text, size_t size)
{
    const struct {
        char symbol;
        uint32_t value;
        const char *unit;
    } capacities[] = {
        {'B', made->call.requests, "requests"},
        {'T', made->call.rows, "rows"},
        {'M', made->call.pooled_rows, "rows of pooled"},
        {'N', made->call.pair_count, "pairs"},
    };
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        bool has = false;
        for (uint32_t t = 0; t < made->count && !has; t++) {
            const CaseTensorRule *rule = made->tensors[t].rule;
            has = rule->role != ROLE_AGREES && rule->shape[0].symbol == capacities[i].symbol;
        }
        if (has && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%u %s", used != 0 ? ", " : "", capacities[i].value,
                                     capacities[i].unit);
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
        if (!case_is_result(tensor->rule)) {
            continue;
        }
        SafetensorsTensor *out = &tensors[count];
        *out = (SafetensorsTensor){.name = tensor->rule->name, .type = tensor->type, .rank = tensor->rule->rank};
        memcpy(out->shape, tensor->shape, sizeof tensor->shape);
        out->size = (size_t)case_count_elements(tensor) * safetensors_type_size(tensor->type);
        dense[count] = case_gather(tensor, tensor->image);
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
