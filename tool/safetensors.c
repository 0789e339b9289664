#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH_SIZE 8u
#define MOST_HEADER 100000000u /* the format's own limit */
#define METADATA "__metadata__"

typedef struct TypeInfo {
    const char *name;
    size_t size;
} TypeInfo;

static const TypeInfo type_infos[] = {
#define TYPE_INFO(name, size) {#name, size},
    SAFETENSORS_TYPES(TYPE_INFO)
#undef TYPE_INFO
};

#define TYPE_COUNT (sizeof type_infos / sizeof type_infos[0])

const char *safetensors_type_name(SafetensorsType type)
{
    return type_infos[type].name;
}

size_t safetensors_type_size(SafetensorsType type)
{
    return type_infos[type].size;
}

/* ------------------------------------------------------------------------------- reading ------- */

static bool read_number(const json_t *json, uint64_t *number)
{
    if (!json_is_integer(json) || json_integer_value(json) < 0) {
        return false;
    }
    *number = (uint64_t)json_integer_value(json);
    return true;
}

static bool read_type(const json_t *entry, SafetensorsTensor *tensor, Complaint *complaint)
{
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    if (name == NULL) {
        return complain(complaint, "%s: dtype must be a string", tensor->name);
    }
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (strcmp(name, type_infos[i].name) == 0) {
            tensor->type = (SafetensorsType)i;
            return true;
        }
    }
    return complain(complaint, "%s: dtype '%s' is unknown", tensor->name, name);
}

/* size receives the bytes that the shape and the type make. */
static bool read_shape(const json_t *entry, SafetensorsTensor *tensor, uint64_t *size, Complaint *complaint)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape)) {
        return complain(complaint, "%s: shape must be an array", tensor->name);
    }
    if (json_array_size(shape) > SAFETENSORS_MAX_RANK) {
        return complain(complaint, "%s: shape has %zu dimensions, must have at most %u", tensor->name,
                        json_array_size(shape), SAFETENSORS_MAX_RANK);
    }
    tensor->rank = (uint32_t)json_array_size(shape);
    *size = safetensors_type_size(tensor->type);
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (!read_number(json_array_get(shape, d), &tensor->shape[d])) {
            return complain(complaint, "%s: shape[%u] must be a non-negative integer", tensor->name, d);
        }
        if (tensor->shape[d] != 0 && *size > UINT64_MAX / tensor->shape[d]) {
            return complain(complaint, "%s: shape times the size of its dtype exceeds 64 bits", tensor->name);
        }
        *size *= tensor->shape[d];
    }
    return true;
}

/* data_size: bytes of all data, which starts at data. */
static bool read_tensor(const char *name, const json_t *entry, const unsigned char *data, size_t data_size,
                        SafetensorsTensor *tensor, Complaint *complaint)
{
    *tensor = (SafetensorsTensor){.name = name};
    if (!json_is_object(entry)) {
        return complain(complaint, "%s: must be an object with dtype, shape and data_offsets", name);
    }
    uint64_t size = 0;
    if (!read_type(entry, tensor, complaint) || !read_shape(entry, tensor, &size, complaint)) {
        return false;
    }
    const json_t *offsets = json_object_get(entry, "data_offsets");
    uint64_t begin = 0;
    uint64_t end = 0;
    if (json_array_size(offsets) != 2 || !read_number(json_array_get(offsets, 0), &begin) ||
        !read_number(json_array_get(offsets, 1), &end)) {
        return complain(complaint, "%s: data_offsets must be two non-negative integers", name);
    }
    if (begin > end || end > data_size) {
        return complain(complaint,
                        "%s: data_offsets are [%" PRIu64 ", %" PRIu64 "], must lie in order within %zu bytes of data",
                        name, begin, end, data_size);
    }
    if (end - begin != size) {
        return complain(complaint, "%s: data_offsets hold %" PRIu64 " bytes, dtype and shape make %" PRIu64, name,
                        end - begin, size);
    }
    tensor->data = data + begin;
    tensor->size = (size_t)size;
    return true;
}

static bool check_metadata(json_t *metadata, Complaint *complaint)
{
    if (!json_is_object(metadata)) {
        return complain(complaint, METADATA ": must be an object");
    }
    const char *key;
    json_t *value;
    json_object_foreach (metadata, key, value) {
        if (!json_is_string(value)) {
            return complain(complaint, METADATA ": '%s' must be a string", key);
        }
    }
    return true;
}

static int compare_places(const void *left, const void *right)
{
    const SafetensorsTensor *a = left;
    const SafetensorsTensor *b = right;
    if (a->data != b->data) {
        return a->data < b->data ? -1 : 1;
    }
    /* An empty tensor goes before the one that starts at its place. */
    return (a->size > b->size) - (a->size < b->size);
}

/* The format allows neither overlaps nor holes. */
static bool check_places(const Safetensors *file, const unsigned char *data, size_t data_size, Complaint *complaint)
{
    const unsigned char *end = data;
    for (size_t i = 0; i < file->count; i++) {
        const SafetensorsTensor *tensor = &file->tensors[i];
        if (tensor->data != end) {
            return complain(complaint, "%s: data_offsets start at %zu, must start at %zu, where the data before ends",
                            tensor->name, (size_t)(tensor->data - data), (size_t)(end - data));
        }
        end = tensor->data + tensor->size;
    }
    if ((size_t)(end - data) != data_size) {
        return complain(complaint, "the data is %zu bytes, the tensors hold %zu", data_size, (size_t)(end - data));
    }
    return true;
}

static bool read_header(Safetensors *file, const unsigned char *data, size_t data_size, Complaint *complaint)
{
    const size_t entries = json_object_size(file->header);
    file->tensors = calloc(entries + 1, sizeof *file->tensors);
    if (file->tensors == NULL) {
        return complain(complaint, "out of memory");
    }
    const char *name;
    json_t *entry;
    json_object_foreach (file->header, name, entry) {
        if (strcmp(name, METADATA) == 0) {
            if (!check_metadata(entry, complaint)) {
                return false;
            }
        } else if (read_tensor(name, entry, data, data_size, &file->tensors[file->count], complaint)) {
            file->count++;
        } else {
            return false;
        }
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_places);
    return check_places(file, data, data_size, complaint);
}

bool safetensors_parse(const void *bytes, size_t size, Safetensors *file, Complaint *complaint)
{
    const unsigned char *start = bytes;
    *file = (Safetensors){0};
    if (size < LENGTH_SIZE) {
        return complain(complaint, "the file is %zu bytes, must begin with 8 bytes of header length", size);
    }
    uint64_t length = 0;
    for (uint32_t i = 0; i < LENGTH_SIZE; i++) {
        length |= (uint64_t)start[i] << (8 * i);
    }
    if (length > size - LENGTH_SIZE || length > MOST_HEADER) {
        return complain(complaint, "the header length is %" PRIu64 ", must be at most %u and the %zu bytes that follow",
                        length, MOST_HEADER, size - LENGTH_SIZE);
    }
    const char *text = (const char *)start + LENGTH_SIZE;
    if (length == 0 || text[0] != '{') {
        return complain(complaint, "the header must begin with '{'");
    }
    json_error_t error;
    file->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (file->header == NULL) {
        return complain(complaint, "the header is not JSON: %s, at byte %d", error.text, error.position);
    }
    const size_t data_size = size - LENGTH_SIZE - (size_t)length;
    if (!read_header(file, start + LENGTH_SIZE + length, data_size, complaint)) {
        safetensors_free(file);
        return false;
    }
    return true;
}

static unsigned char *read_bytes(int descriptor, const char *path, size_t *size, Complaint *complaint)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
        complain(complaint, "%s: is not a regular file", path);
        return NULL;
    }
    *size = (size_t)status.st_size;
    unsigned char *bytes = malloc(*size + 1);
    if (bytes == NULL) {
        complain(complaint, "%s: %zu bytes do not fit in memory", path, *size);
        return NULL;
    }
    size_t done = 0;
    while (done < *size) {
        const ssize_t got = read(descriptor, bytes + done, *size - done);
        if (got <= 0) {
            complain(complaint, "%s: cannot be read: %s", path, got < 0 ? strerror(errno) : "it became shorter");
            free(bytes);
            return NULL;
        }
        done += (size_t)got;
    }
    return bytes;
}

bool safetensors_read(const char *path, Safetensors *file, Complaint *complaint)
{
    *file = (Safetensors){0};
    /* Without O_NONBLOCK a FIFO would wait for a writer before it can be refused. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        return complain(complaint, "%s: cannot be opened: %s", path, strerror(errno));
    }
    size_t size = 0;
    unsigned char *bytes = read_bytes(descriptor, path, &size, complaint);
    close(descriptor);
    if (bytes == NULL) {
        return false;
    }
    Complaint inner;
    if (!safetensors_parse(bytes, size, file, &inner)) {
        free(bytes);
        return complain(complaint, "%.128s: %.370s", path, inner.text);
    }
    file->bytes = bytes;
    return true;
}

void safetensors_free(Safetensors *file)
{
    json_decref(file->header);
    free(file->tensors);
    free(file->bytes);
    *file = (Safetensors){0};
}

const SafetensorsTensor *safetensors_find(const Safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->tensors[i].name, name) == 0) {
            return &file->tensors[i];
        }
    }
    return NULL;
}

const char *safetensors_metadata(const Safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, METADATA), key));
}

/* ------------------------------------------------------------------------------- writing ------- */

static json_t *describe_tensor(const SafetensorsTensor *tensor, uint64_t begin)
{
    json_t *shape = json_array();
    for (uint32_t d = 0; d < tensor->rank; d++) {
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape[d]));
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", safetensors_type_name(tensor->type), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)(begin + tensor->size));
}

/* The JSON text, padded with spaces so that the data starts at a multiple of 8. NULL: out of memory. */
static char *make_header(const SafetensorsTensor *tensors, size_t count, const SafetensorsOption *metadata,
                         size_t metadata_count, size_t *size)
{
    json_t *header = json_object();
    if (metadata_count != 0) {
        json_t *options = json_object();
        for (size_t i = 0; i < metadata_count; i++) {
            json_object_set_new(options, metadata[i].key, json_string(metadata[i].value));
        }
        json_object_set_new(header, METADATA, options);
    }
    uint64_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        json_object_set_new(header, tensors[i].name, describe_tensor(&tensors[i], begin));
        begin += tensors[i].size;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (text == NULL) {
        return NULL;
    }
    const size_t length = strlen(text);
    *size = (length + 7) / 8 * 8;
    char *padded = malloc(*size + 1);
    if (padded != NULL) {
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): no string, *size says where it ends */
        memcpy(padded, text, length);
        memset(padded + length, ' ', *size - length);
    }
    free(text);
    return padded;
}

static bool write_all(FILE *out, const char *header, size_t header_size, const SafetensorsTensor *tensors, size_t count)
{
    unsigned char length[LENGTH_SIZE];
    for (uint32_t i = 0; i < LENGTH_SIZE; i++) {
        length[i] = (unsigned char)((uint64_t)header_size >> (8 * i));
    }
    bool written = fwrite(length, 1, sizeof length, out) == sizeof length &&
                   fwrite(header, 1, header_size, out) == header_size;
    for (size_t i = 0; i < count && written; i++) {
        written = tensors[i].size == 0 || fwrite(tensors[i].data, 1, tensors[i].size, out) == tensors[i].size;
    }
    return written;
}

bool safetensors_write(const char *path, const SafetensorsTensor *tensors, size_t count,
                       const SafetensorsOption *metadata, size_t metadata_count, Complaint *complaint)
{
    /* A rename would replace a device or a directory by a file. */
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        return complain(complaint, "%s: is not a regular file", path);
    }
    size_t header_size = 0;
    char *header = make_header(tensors, count, metadata, metadata_count, &header_size);
    char *beside = NULL;
    if (header == NULL || asprintf(&beside, "%s.%ld.part", path, (long)getpid()) < 0) {
        free(header);
        return complain(complaint, "out of memory");
    }
    bool written = false;
    FILE *out = fopen(beside, "wbx");
    if (out != NULL) {
        written = write_all(out, header, header_size, tensors, count);
        written = fclose(out) == 0 && written;
        written = written && rename(beside, path) == 0;
    }
    if (!written) {
        complain(complaint, "%s: cannot be written: %s", path, strerror(errno));
    }
    if (out != NULL && !written) {
        unlink(beside);
    }
    free(beside);
    free(header);
    return written;
}
