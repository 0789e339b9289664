/* The contract in plain C, to be read beside it: what every operation must do, one element at a time. It works on
 * images of the buffers (base and strides included) and shares no code with src/ or shaders/. */
#ifndef KPOOL_TOOL_REFERENCE_H
#define KPOOL_TOOL_REFERENCE_H

#include <stdbool.h>

#include "kpool/kpool.h"

/* geometry.ring may be 0. status may be NULL. Index arrays start at their own first element: the bases of
 * index arrays in call are ignored, those of tail, k and gate are not. */
void reference_seed_tail(const KpoolGeometry *geometry, const KpoolCall *call, void *tail, const void *k,
                         const void *gate, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                         const uint32_t *slot_idx, uint32_t *status);

/* before is the ring's image before the copies, after the same image, changed here. pairs is [pair_count, 2]. */
void reference_copy_slots(const KpoolGeometry *geometry, const KpoolCall *call, const void *before, void *after,
                          const uint32_t *pairs, uint32_t *status);

/* info says geometry, pooled_type and numerics. closed_pooled is an image, base and strides included; closed_pool and
 * ape start at their first element. */
void reference_ring_close(const KpoolKernelCreateInfo *info, const KpoolCall *call, const void *tail, const void *k,
                          const void *gate, const float *ape, const uint32_t *input_row_offsets,
                          const uint32_t *cache_lengths, const uint32_t *slot_idx, int32_t *closed_pool,
                          void *closed_pooled, uint32_t *status);

/* pooled is an image, base and strides included. Rows are counted and left alone as section 5 says. */
void reference_compress(const KpoolKernelCreateInfo *info, const KpoolCall *call, const void *k, const void *gate,
                        const float *ape, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                        const uint32_t *pool_row_offsets, void *pooled, uint32_t *status);

/* The three in their order. With info->page_size, keys go to pooled by block_table, [requests, max_pages], and
 * closed_pooled is not touched. */
void reference_step(const KpoolKernelCreateInfo *info, const KpoolCall *call, void *tail, const void *k,
                    const void *gate, const float *ape, const uint32_t *input_row_offsets,
                    const uint32_t *cache_lengths, const uint32_t *slot_idx, const uint32_t *pool_row_offsets,
                    const uint32_t *block_table, int32_t *closed_pool, void *closed_pooled, void *pooled,
                    uint32_t *status);

/* pool_row_offsets is [requests + 1]. Reads call's requests and rows only. */
void reference_pool_row_offsets(uint32_t kpool, const KpoolCall *call, const uint32_t *input_row_offsets,
                                const uint32_t *cache_lengths, uint32_t *pool_row_offsets, uint32_t *status);

/* pool_ids is [rows, topk], out [rows, topk * kpool + (kpool - 1 with tail)]. */
void reference_expand_topk(uint32_t kpool, uint32_t topk, KpoolTopkLayout layout, bool with_tail,
                           const KpoolCall *call, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                           const int32_t *pool_ids, int32_t *out, uint32_t *status);

/* Reads call's max_slots, requests and rows only; time is quadratic in requests. */
void reference_check_slots(const KpoolCall *call, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                           const uint32_t *slot_idx, uint32_t *status);

/* The index in status of the cause that drops request r, -1 for an empty request, -2 for one to be served. slot_idx
 * is NULL for an operation without slots. */
int reference_judge(uint32_t rows, uint32_t max_slots, const uint32_t *input_row_offsets,
                    const uint32_t *cache_lengths, const uint32_t *slot_idx, uint32_t r);

#endif
