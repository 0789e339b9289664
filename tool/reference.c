#include "reference.h"

#include <string.h>

int reference_judge(uint32_t rows, uint32_t max_slots, const uint32_t *input_row_offsets,
                    const uint32_t *cache_lengths, const uint32_t *slot_idx, uint32_t r)
{
    const int64_t n = (int64_t)input_row_offsets[r + 1] - input_row_offsets[r];
    if (n == 0) {
        return -1;
    }
    if (n < 0) {
        return 0;
    }
    if (input_row_offsets[r + 1] > rows) {
        return 1;
    }
    if (slot_idx[r] >= max_slots) {
        return 2;
    }
    if (cache_lengths[r] + n > UINT32_MAX) {
        return 3;
    }
    return -2;
}

void reference_seed_tail(const KpoolGeometry *geometry, const KpoolCall *call, void *tail, const void *k,
                         const void *gate, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                         const uint32_t *slot_idx, uint32_t *status)
{
    const size_t size = kpoolTypeSize(geometry->type);
    const int64_t D = geometry->head_dim;
    const int64_t P = geometry->kpool;
    const int64_t H = geometry->rollback;
    const int64_t R = geometry->ring != 0 ? geometry->ring : P + H;
    const int64_t row_stride = call->tail_row_stride != 0 ? (int64_t)call->tail_row_stride : D;
    const int64_t plane_stride = call->tail_plane_stride != 0 ? (int64_t)call->tail_plane_stride : R * row_stride;
    const int64_t slot_stride = call->tail_slot_stride != 0 ? (int64_t)call->tail_slot_stride : 2 * plane_stride;
    const int64_t k_row = call->k_row_stride != 0 ? (int64_t)call->k_row_stride : D;
    const int64_t gate_row = call->gate_row_stride != 0 ? (int64_t)call->gate_row_stride : D;

    for (uint32_t r = 0; r < call->requests; r++) {
        const int cause =
            reference_judge(call->rows, call->max_slots, input_row_offsets, cache_lengths, slot_idx, r);
        if (cause >= 0 && status != NULL) {
            status[cause]++;
        }
        if (cause != -2) {
            continue;
        }
        const int64_t L = cache_lengths[r];
        const int64_t end = L + input_row_offsets[r + 1] - input_row_offsets[r];
        const int64_t kept = end - H > 0 ? (end - H) / P * P : 0;
        const int64_t w0 = L > kept ? L : kept;
        for (int64_t pos = w0; pos < end; pos++) {
            const int64_t row = input_row_offsets[r] + (pos - L);
            const int64_t to = (int64_t)call->tail_base + slot_idx[r] * slot_stride + pos % R * row_stride;
            const int64_t from_k = (int64_t)call->k_base + row * k_row;
            const int64_t from_gate = (int64_t)call->gate_base + row * gate_row;
            memcpy((char *)tail + (size_t)to * size, (const char *)k + (size_t)from_k * size, (size_t)D * size);
            memcpy((char *)tail + (size_t)(to + plane_stride) * size, (const char *)gate + (size_t)from_gate * size,
                   (size_t)D * size);
        }
    }
}
