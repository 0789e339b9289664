/* The safetensors file format: read from memory or a file, and written. A header that breaks a rule of the format
 * is refused with a sentence, whatever its bytes. Data is little-endian, as this program's hosts are. */
#ifndef KPOOL_TOOL_SAFETENSORS_H
#define KPOOL_TOOL_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "complaint.h"

/* X(name, bytes of an element). */
#define SAFETENSORS_TYPES(X) \
    X(BOOL, 1)               \
    X(U8, 1)                 \
    X(I8, 1)                 \
    X(F8_E5M2, 1)            \
    X(F8_E4M3, 1)            \
    X(I16, 2)                \
    X(U16, 2)                \
    X(F16, 2)                \
    X(BF16, 2)               \
    X(I32, 4)                \
    X(U32, 4)                \
    X(F32, 4)                \
    X(F64, 8)                \
    X(I64, 8)                \
    X(U64, 8)

typedef enum SafetensorsType {
#define SAFETENSORS_ENUM(name, size) SAFETENSORS_##name,
    SAFETENSORS_TYPES(SAFETENSORS_ENUM)
#undef SAFETENSORS_ENUM
} SafetensorsType;

const char *safetensors_type_name(SafetensorsType type);
size_t safetensors_type_size(SafetensorsType type);

#define SAFETENSORS_MAX_RANK 8u

typedef struct SafetensorsTensor {
    const char *name;
    SafetensorsType type;
    uint32_t rank; /* 0 to SAFETENSORS_MAX_RANK */
    uint64_t shape[SAFETENSORS_MAX_RANK];
    const unsigned char *data; /* at any alignment */
    size_t size;               /* bytes */
} SafetensorsTensor;

typedef struct Safetensors {
    SafetensorsTensor *tensors; /* in the order of their data */
    size_t count;
    json_t *header;       /* owns the names */
    unsigned char *bytes; /* the file's, where it was read from one */
} Safetensors;

/* The tensors point into bytes, which must outlive the file. On failure nothing is left to free. */
bool safetensors_parse(const void *bytes, size_t size, Safetensors *file, Complaint *complaint);
/* The same of a regular file, whose bytes the result owns. */
bool safetensors_read(const char *path, Safetensors *file, Complaint *complaint);
/* Takes a zeroed file too. */
void safetensors_free(Safetensors *file);

/* NULL where there is none. */
const SafetensorsTensor *safetensors_find(const Safetensors *file, const char *name);
const char *safetensors_metadata(const Safetensors *file, const char *key);

typedef struct SafetensorsOption {
    const char *key;
    const char *value;
} SafetensorsOption;

/* Beside path first, then renamed over it: path is either whole or untouched. */
bool safetensors_write(const char *path, const SafetensorsTensor *tensors, size_t count,
                       const SafetensorsOption *metadata, size_t metadata_count, Complaint *complaint);

#endif
