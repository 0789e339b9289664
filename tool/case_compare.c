/* Compares what came back with what is expected. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case_rules.h"

/* "0x3f80": the bits of a little-endian element. */
static void print_bits(const unsigned char *element, size_t element_size, char text[19])
{
    memcpy(text, "0x", 3);
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

/* Elements [first, first + count) of a tensor. pool: of a row of keys; NULL: nothing is near enough but the same. */
typedef struct Stretch {
    const CaseTensorRule *rule;
    const char *name; /* said where it differs */
    const CasePool *pool;
    size_t element_size;
    uint64_t first, count;
} Stretch;

static uint32_t read_key(const unsigned char *element, size_t element_size)
{
    uint32_t bits = 0;
    memcpy(&bits, element, element_size);
    return bits;
}

static bool compare(const Case *made, const Stretch *stretch, const unsigned char *expected,
                    const unsigned char *actual, Complaint *mismatch)
{
    const size_t size = stretch->element_size;
    const size_t count = (size_t)stretch->count;
    size_t i = first_difference(expected, actual, size, count);
    while (i < count && stretch->pool != NULL && made->kernel.numerics == KPOOL_NUMERICS_FAST &&
           case_keys_are_near(made, stretch->pool, i, read_key(expected + i * size, size),
                              read_key(actual + i * size, size))) {
        i++;
        i += first_difference(expected + i * size, actual + i * size, size, count - i);
    }
    if (i == count) {
        return true;
    }
    char place[160];
    char expected_bits[19];
    char actual_bits[19];
    stretch->rule->name_place(made, stretch->first + i, place, sizeof place);
    print_bits(expected + i * size, size, expected_bits);
    print_bits(actual + i * size, size, actual_bits);
    return complain(mismatch, "%s differs at %s: expected %s, got %s", stretch->name, place, expected_bits,
                    actual_bits);
}

static bool compare_list(const Case *made, const CaseTensorRule *rule, const SafetensorsTensor *expected,
                         const unsigned char *actual, Complaint *mismatch)
{
    const size_t size = safetensors_type_size(expected->type);
    const Stretch stretch = {rule, expected->name, NULL, size, 0, expected->size / size};
    return compare(made, &stretch, expected->data, actual, mismatch);
}

/* Row by row: what a row must be is what is expected where the operation makes it, what it held before elsewhere. */
static bool compare_keys(const Case *made, const CaseTensor *tensor, const unsigned char *held,
                         const unsigned char *actual, Complaint *mismatch)
{
    const CaseTensorRule *rule = tensor->rule;
    const uint64_t head_dim = tensor->shape[1];
    const size_t size = safetensors_type_size(tensor->type);
    char left_alone[64];
    snprintf(left_alone, sizeof left_alone, "%s, to be left alone,", rule->name);
    for (uint64_t row = 0; row < tensor->shape[0]; row++) {
        CasePool pool;
        const bool is_made = rule->find_pool(made, row, &pool);
        const size_t start = (size_t)(row * head_dim) * size;
        Stretch stretch = {rule, left_alone, NULL, size, row * head_dim, head_dim};
        if (!is_made && !compare(made, &stretch, held + start, actual + start, mismatch)) {
            return false;
        }
        /* What the file holds and nothing makes is compared too, but for rows of closed_pooled that nothing closes:
         * where expected.closed_pool is not -1 there, it differs, and was compared before. */
        const bool is_compared = is_made || (tensor->given != NULL && strcmp(rule->name, "closed_pooled") != 0);
        if (tensor->expected == NULL || !is_compared) {
            continue;
        }
        stretch.name = tensor->expected->name;
        stretch.pool = is_made ? &pool : NULL;
        if (!compare(made, &stretch, tensor->expected->data + start, actual + start, mismatch)) {
            return false;
        }
    }
    return true;
}

/* What the operation must leave alone: a tensor it reads, and the padding of one it changes. image: what came back,
 * which of a result becomes padding alone. */
static bool unchanged(const CaseTensor *tensor, const unsigned char *held, unsigned char *image, Complaint *mismatch)
{
    const bool padding = case_is_result(tensor->rule);
    if (padding) {
        strided_scatter(&tensor->places, safetensors_type_size(tensor->type), held, image);
    }
    const size_t i = first_difference(tensor->before, image, 1, tensor->size);
    if (i == tensor->size) {
        return true;
    }
    return complain(mismatch, "%s: byte %zu of its buffer, %s, changed: expected 0x%02x, got 0x%02x",
                    tensor->rule->name, i, padding ? "padding" : "only to be read", tensor->before[i], image[i]);
}

static bool matches(const Case *made, const CaseTensor *tensor, Complaint *mismatch)
{
    unsigned char *held = case_gather(tensor, tensor->before);
    unsigned char *actual = case_gather(tensor, tensor->image);
    unsigned char *image = malloc(tensor->size);
    bool right = held != NULL && actual != NULL && image != NULL;
    if (!right) {
        complain(mismatch, "%s: out of memory", tensor->rule->name);
    }
    if (right && tensor->rule->find_pool != NULL) {
        right = compare_keys(made, tensor, held, actual, mismatch);
    } else if (right && tensor->expected != NULL) {
        right = compare_list(made, tensor->rule, tensor->expected, actual, mismatch);
    }
    if (right) {
        memcpy(image, tensor->image, tensor->size);
        right = unchanged(tensor, held, image, mismatch);
    }
    free(image);
    free(actual);
    free(held);
    return right;
}

bool case_matches(const Case *made, Complaint *mismatch)
{
    for (uint32_t i = 0; i < made->count; i++) {
        const Role role = made->tensors[i].rule->role;
        if (role != ROLE_AGREES && role != ROLE_LENT && !matches(made, &made->tensors[i], mismatch)) {
            return false;
        }
    }
    return made->dropped == NULL || compare_list(made, case_find_tensor(made, "status")->rule, made->dropped,
                                                 made->images.status, mismatch);
}

/* " (2 of 5 rows made)" where the operation makes keys and some rows have none, else "". */
static void describe_rows(const Case *made, const CaseTensor *tensor, char *text, size_t size)
{
    text[0] = '\0';
    if (tensor->rule->find_pool == NULL) {
        return;
    }
    uint64_t count = 0;
    for (uint64_t row = 0; row < tensor->shape[0]; row++) {
        CasePool pool;
        count += tensor->rule->find_pool(made, row, &pool) ? 1 : 0;
    }
    if (count != tensor->shape[0]) {
        snprintf(text, size, " (%llu of %llu rows made)", (unsigned long long)count,
                 (unsigned long long)tensor->shape[0]);
    }
}

void case_describe_expected(const Case *made, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i <= made->count && used < size; i++) {
        const SafetensorsTensor *expected = i < made->count ? made->tensors[i].expected : made->dropped;
        if (expected != NULL) {
            char rows[64] = "";
            if (i < made->count) {
                describe_rows(made, &made->tensors[i], rows, sizeof rows);
            }
            used += (size_t)snprintf(text + used, size - used, "%s%s%s", used != 0 ? ", " : "", expected->name, rows);
        }
    }
}
