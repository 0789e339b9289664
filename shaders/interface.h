/* The interface between host and device: bindings, push constants and specialization constants.
 * Included by C and by GLSL, so it holds preprocessor lists and nothing else. */
#ifndef KPOOL_INTERFACE_H
#define KPOOL_INTERFACE_H

/* X(name, group): the tensors. In the wide layout a tensor's binding is its place in this list, in the
 * floor layout its group's place in KPOOL_GROUPS. GLSL cannot count a list, hence the numbers below. */
#define KPOOL_TENSORS(X)        \
    X(tail, tail)               \
    X(k, rows)                  \
    X(gate, rows)               \
    X(input_row_offsets, words) \
    X(cache_lengths, words)     \
    X(slot_idx, words)          \
    X(status, words)            \
    X(ape, words)               \
    X(pool_row_offsets, words)  \
    X(closed_pool, words)       \
    X(closed_pooled, out)       \
    X(pooled, out)              \
    X(pool_ids, words)          \
    X(out, out)                 \
    X(pairs, words)             \
    X(scratch, out)             \
    X(block_table, words)

#define KPOOL_BINDING_tail 0
#define KPOOL_BINDING_k 1
#define KPOOL_BINDING_gate 2
#define KPOOL_BINDING_input_row_offsets 3
#define KPOOL_BINDING_cache_lengths 4
#define KPOOL_BINDING_slot_idx 5
#define KPOOL_BINDING_status 6
#define KPOOL_BINDING_ape 7
#define KPOOL_BINDING_pool_row_offsets 8
#define KPOOL_BINDING_closed_pool 9
#define KPOOL_BINDING_closed_pooled 10
#define KPOOL_BINDING_pooled 11
#define KPOOL_BINDING_pool_ids 12
#define KPOOL_BINDING_out 13
#define KPOOL_BINDING_pairs 14
#define KPOOL_BINDING_scratch 15
#define KPOOL_BINDING_block_table 16
#define KPOOL_TENSOR_COUNT 17

#define KPOOL_GROUPS(X) \
    X(tail)             \
    X(rows)             \
    X(words)            \
    X(out)

#define KPOOL_GROUP_tail 0
#define KPOOL_GROUP_rows 1
#define KPOOL_GROUP_words 2
#define KPOOL_GROUP_out 3
#define KPOOL_GROUP_COUNT 4

/* X(name): what is fixed for one call. Bases and strides count words of 4 bytes, but in seed_tail those that it moves:
 * of 4 or 16 bytes (the kernel's alignment) in tail, k and gate. In the floor layout a base also holds the distance from
 * the start of the group. */
#define KPOOL_PUSH_CONSTANTS(X) \
    X(max_slots)                \
    X(requests)                 \
    X(rows)                     \
    X(tail_slot_stride)         \
    X(tail_plane_stride)        \
    X(tail_row_stride)          \
    X(k_row_stride)             \
    X(gate_row_stride)          \
    X(tail_base)                \
    X(k_base)                   \
    X(gate_base)                \
    X(input_row_offsets_base)   \
    X(cache_lengths_base)       \
    X(slot_idx_base)            \
    X(status_base)              \
    X(pooled_rows)              \
    X(pair_count)               \
    X(closed_pooled_row_stride) \
    X(pooled_row_stride)        \
    X(ape_base)                 \
    X(pool_row_offsets_base)    \
    X(closed_pool_base)         \
    X(closed_pooled_base)       \
    X(pooled_base)              \
    X(pool_ids_base)            \
    X(out_base)                 \
    X(pairs_base)               \
    X(scratch_base)             \
    X(pages)                    \
    X(max_pages)                \
    X(block_table_base)

/* X(id, name): what is fixed for one pipeline. id 0 is the x size of the workgroup; type and pooled_type are
 * KpoolType's values, numerics is 0 for exact and 1 for fast; alignment is the kernel's, 4 or 16. */
#define KPOOL_SPECIALIZATION(X) \
    X(0, local_size)            \
    X(1, head_dim)              \
    X(2, kpool)                 \
    X(3, ring)                  \
    X(4, rollback)              \
    X(5, element_size)          \
    X(6, lanes_per_item)        \
    X(7, items_per_group)       \
    X(8, type)                  \
    X(9, pooled_type)           \
    X(10, numerics)             \
    X(11, topk)                 \
    X(12, topk_layout)          \
    X(13, with_tail)            \
    X(14, scatters)             \
    X(15, operation)            \
    X(16, page_size)            \
    X(17, rows_per_item)        \
    X(18, alignment)

/* Workgroups in a row of the grid, where there are more than one row: a constant costs the shader no load. Every device
 * takes 65,535 of each; fewer, so that the last row has few that find nothing to do. */
#define KPOOL_GROUP_ROW 4096

/* Values of `operation` in the kernels that share a module: those of KpoolOperation. */
#define KPOOL_RING_CLOSE 2
#define KPOOL_COMPRESS 3
#define KPOOL_STEP 7
#define KPOOL_CHECK_SLOTS 8

#endif
