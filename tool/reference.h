/* The contract in plain C, to be read beside it: what every operation must do, one element at a time. It works on
 * images of the buffers (base and strides included) and shares no code with src/ or shaders/. */
#ifndef KPOOL_TOOL_REFERENCE_H
#define KPOOL_TOOL_REFERENCE_H

#include "kpool/kpool.h"

/* geometry.ring may be 0. status may be NULL. Index arrays start at their own first element: the bases of
 * index arrays in call are ignored, those of tail, k and gate are not. */
void reference_seed_tail(const KpoolGeometry *geometry, const KpoolCall *call, void *tail, const void *k,
                         const void *gate, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                         const uint32_t *slot_idx, uint32_t *status);

/* The index in status of the cause that drops request r, -1 for an empty request, -2 for one to be served. */
int reference_judge(uint32_t rows, uint32_t max_slots, const uint32_t *input_row_offsets,
                    const uint32_t *cache_lengths, const uint32_t *slot_idx, uint32_t r);

#endif
