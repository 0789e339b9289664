/* Readers that are wrong, in place of the real ones (the linker wraps them): the fuzzers must notice. A tensor reaches
 * one byte too far, and a request gets a token too many. */
#include "safetensors.h"
#include "trace.h"

bool __real_safetensors_parse(const void *bytes, size_t size, Safetensors *file, Complaint *complaint);
bool __wrap_safetensors_parse(const void *bytes, size_t size, Safetensors *file, Complaint *complaint);
bool __real_trace_read(FILE *file, Trace *trace, TraceError *error);
bool __wrap_trace_read(FILE *file, Trace *trace, TraceError *error);

bool __wrap_safetensors_parse(const void *bytes, size_t size, Safetensors *file, Complaint *complaint)
{
    const bool read = __real_safetensors_parse(bytes, size, file, complaint);
    if (read && file->count != 0) {
        file->tensors[0].size++;
    }
    return read;
}

bool __wrap_trace_read(FILE *file, Trace *trace, TraceError *error)
{
    const bool read = __real_trace_read(file, trace, error);
    if (read) {
        trace->requests[0].generated_tokens++;
    }
    return read;
}
