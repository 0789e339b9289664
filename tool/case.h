/* A case: one operation, its tensors and what must come out, from a safetensors file. Reads the file against a
 * table of the operations, lays the tensors out as the buffers are to hold them, and compares what came back. */
#ifndef KPOOL_TOOL_CASE_H
#define KPOOL_TOOL_CASE_H

#include "execute.h"
#include "safetensors.h"
#include "strided.h"

#define CASE_MOST_TENSORS 16u

typedef struct CaseRule CaseRule; /* a row of the table: an operation */
typedef struct CaseTensorRule CaseTensorRule;

typedef struct CaseTensor {
    const CaseTensorRule *rule;
    const SafetensorsTensor *given;    /* NULL where the file lacks an optional one */
    const SafetensorsTensor *expected; /* NULL where the file says nothing */
    SafetensorsType type;              /* of the image */
    uint64_t shape[4];
    Strided places;       /* of its elements in the image */
    size_t size;          /* bytes of the image */
    unsigned char *image; /* NULL before case_lay_out, and where no buffer is made of it */
    unsigned char *before;
} CaseTensor;

typedef struct Case {
    const CaseRule *rule;
    const char *op;
    KpoolKernelCreateInfo kernel;
    KpoolCall call;
    uint32_t count;
    CaseTensor tensors[CASE_MOST_TENSORS];
    const SafetensorsTensor *dropped; /* expected.dropped, or NULL */
    TensorImages images;              /* those of the tensors; what execute takes */
} Case;

/* Needs no device. The file must outlive the case. A failure names the tensor or the metadata key and the rule. */
bool case_read(const Safetensors *file, Case *made, Complaint *complaint);
/* Makes the images; most: bytes that one may have. */
bool case_lay_out(Case *made, VkDeviceSize most, Complaint *complaint);
/* Takes a zeroed case too. */
void case_free(Case *made);

/* NULL where the operation has none of that name. */
const CaseTensor *case_find_tensor(const Case *made, const char *name);
uint64_t case_count_elements(const CaseTensor *tensor);
/* The elements of an image of it, dense; the caller frees. NULL: out of memory. */
unsigned char *case_gather(const CaseTensor *tensor, const unsigned char *image);
/* "3 requests, 9 rows": what the call holds, by the tensors of the operation. */
void case_describe_call(const Case *made, char *text, size_t size);

/* After execute: whether everything is as expected, and what only was to be read, padding, and rows of keys that
 * nothing makes are unchanged. Where not, mismatch names the first place that differs. */
bool case_matches(const Case *made, Complaint *mismatch);
/* What was compared: writes "expected.tail, expected.pooled (2 of 5 rows made)" and the like, or "" where nothing was
 * expected. Rows that are not made are not compared. */
void case_describe_expected(const Case *made, char *text, size_t size);
/* What the device counted. */
const uint32_t *case_status(const Case *made);

/* Writes what the operation makes and changes, dense. */
bool case_write(const Case *made, const char *path, Complaint *complaint);

#endif
