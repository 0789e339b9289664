/* libFuzzer's entry to the reader of safetensors files and to that of cases: the tensors of an accepted file tile its
 * data; what is refused is refused with a line, and leaves nothing. */
#include <string.h>

#include "case.h"
#include "fuzz.h"

/* Bytes of one tensor's buffer, at most. */
#define MOST_BUFFER ((VkDeviceSize)1 << 20)

static void must_tile(const Safetensors *file, const uint8_t *bytes, size_t size)
{
    uint64_t header = 0;
    for (uint32_t i = 0; i < 8; i++) {
        header |= (uint64_t)bytes[i] << (8 * i);
    }
    must_hold(header <= size - 8, "the header lies in the file");
    const uint8_t *end = bytes + 8 + header;
    for (size_t i = 0; i < file->count; i++) {
        const SafetensorsTensor *tensor = &file->tensors[i];
        must_hold(tensor->data == end && tensor->size <= size - (size_t)(end - bytes), "tensors tile the data");
        end += tensor->size;
        must_hold(tensor->rank <= SAFETENSORS_MAX_RANK, "a rank is at most the largest");
        unsigned __int128 product = safetensors_type_size(tensor->type);
        for (uint32_t d = 0; d < tensor->rank && product >> 64 == 0; d++) {
            product *= tensor->shape[d];
        }
        must_hold(product == tensor->size, "dtype and shape make the size");
        must_hold(safetensors_find(file, tensor->name) == tensor, "a name names one tensor");
    }
    must_hold(end == bytes + size, "tensors hold all of the data");
}

/* What nobody ran has its inputs unchanged; what is expected of it may be there by chance. */
static void must_look_at(Case *made)
{
    Complaint complaint;
    char text[512];
    memset(text, '\n', sizeof text);
    case_describe_call(made, text, sizeof text);
    must_hold(memchr(text, '\0', sizeof text) != NULL, "what describes a call ends");
    memset(text, '\n', sizeof text);
    case_describe_expected(made, text, sizeof text);
    must_hold(memchr(text, '\0', sizeof text) != NULL, "what describes the expected ends");
    spoil_complaint(&complaint);
    if (!case_matches(made, &complaint)) {
        must_be_a_line(&complaint);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    Safetensors file;
    Complaint complaint;
    spoil_complaint(&complaint);
    if (!safetensors_parse(bytes, size, &file, &complaint)) {
        must_be_a_line(&complaint);
        must_hold(file.tensors == NULL && file.count == 0 && file.header == NULL && file.bytes == NULL,
                  "what is refused leaves nothing");
        return 0;
    }
    must_tile(&file, bytes, size);
    Case made;
    spoil_complaint(&complaint);
    if (case_read(&file, &made, &complaint) && case_lay_out(&made, MOST_BUFFER, &complaint)) {
        must_look_at(&made);
    } else {
        must_be_a_line(&complaint);
    }
    case_free(&made);
    safetensors_free(&file);
    return 0;
}
