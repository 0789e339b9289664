/* A trace of requests, read from CSV: how many tokens each brings and gets. */
#ifndef KPOOL_TOOL_TRACE_H
#define KPOOL_TOOL_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "complaint.h"

typedef struct TraceRequest {
    uint32_t context_tokens;   /* of the prompt */
    uint32_t generated_tokens; /* of the answer; the sum of both is at most 2^32 - 1 */
} TraceRequest;

typedef struct Trace {
    TraceRequest *requests;
    uint32_t count;
} Trace;

typedef struct TraceError {
    size_t line; /* counted from 1; 0: the file as a whole */
    Complaint complaint;
} TraceError;

/* Reads columns ContextTokens and GeneratedTokens, found by the names in the header; TIMESTAMP must be there, and the
 * order of the lines is taken as the order of arrival. Other columns are ignored. LF or CRLF, with or without a BOM.
 * false: error says where and why, and the trace is empty. */
bool trace_read(FILE *file, Trace *trace, TraceError *error);

/* Keeps the first `count` requests. */
void trace_truncate(Trace *trace, uint32_t count);

/* Positions that all requests occupy together. */
uint64_t trace_tokens(const Trace *trace);

void trace_destroy(Trace *trace);

#endif
