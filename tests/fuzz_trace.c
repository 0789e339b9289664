/* libFuzzer's entry to the reader of traces: what it accepts is within the rules and reads the same when written anew;
 * what it refuses is refused with a line, and leaves nothing. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "trace.h"

static bool read_text(const void *text, size_t size, Trace *trace, TraceError *error)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, size, "rb");
    must_hold(file != NULL, "fmemopen takes the bytes");
    spoil_complaint(&error->complaint);
    const bool read = trace_read(file, trace, error);
    fclose(file);
    return read;
}

static void must_read_again(const Trace *trace)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    must_hold(out != NULL, "open_memstream");
    fputs("GeneratedTokens,TIMESTAMP,ContextTokens\r\n", out);
    for (uint32_t i = 0; i < trace->count; i++) {
        fprintf(out, "%u,\"a, \"\"quoted\"\" time\",%u\r\n", trace->requests[i].generated_tokens,
                trace->requests[i].context_tokens);
    }
    fclose(out);
    Trace again;
    TraceError error;
    must_hold(read_text(text, size, &again, &error), "a trace that was written is read");
    must_hold(again.count == trace->count &&
                  memcmp(again.requests, trace->requests, trace->count * sizeof *trace->requests) == 0,
              "a trace that was written reads the same");
    trace_destroy(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    size_t lines = 1;
    for (size_t i = 0; i < size; i++) {
        lines += bytes[i] == '\n' || bytes[i] == '\r';
    }
    Trace trace;
    TraceError error;
    if (!read_text(bytes, size, &trace, &error)) {
        must_be_a_line(&error.complaint);
        must_hold(error.line >= 1 && error.line <= lines, "an error names a line of the file");
        must_hold(trace.requests == NULL && trace.count == 0, "what is refused leaves nothing");
        return 0;
    }
    must_hold(trace.count >= 1 && trace.count < lines, "a request has a line of its own");
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < trace.count; i++) {
        const uint64_t sum = (uint64_t)trace.requests[i].context_tokens + trace.requests[i].generated_tokens;
        must_hold(sum <= UINT32_MAX, "a request ends at 2^32 - 1 at most");
        tokens += sum;
    }
    must_hold(trace_tokens(&trace) == tokens, "trace_tokens is the sum");
    must_read_again(&trace);
    trace_destroy(&trace);
    return 0;
}
