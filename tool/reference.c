#include "reference.h"

#include <string.h>

#include "pooled_key.h"

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
    if (slot_idx != NULL && slot_idx[r] >= max_slots) {
        return 2;
    }
    if (cache_lengths[r] + n > UINT32_MAX) {
        return 3;
    }
    return -2;
}

static int64_t stride_or_dense(VkDeviceSize stride, int64_t dense)
{
    return stride != 0 ? (int64_t)stride : dense;
}

/* The ring's length and strides in elements, with the defaults of section 2. */
typedef struct Ring {
    int64_t length, slot, plane, row;
} Ring;

static Ring read_ring(const KpoolGeometry *geometry, const KpoolCall *call)
{
    Ring ring;
    ring.length = geometry->ring != 0 ? geometry->ring : (int64_t)geometry->kpool + geometry->rollback;
    ring.row = stride_or_dense(call->tail_row_stride, geometry->head_dim);
    ring.plane = stride_or_dense(call->tail_plane_stride, ring.length * ring.row);
    ring.slot = stride_or_dense(call->tail_slot_stride, 2 * ring.plane);
    return ring;
}

static void count(uint32_t *status, int cause)
{
    if (status != NULL) {
        status[cause]++;
    }
}

void reference_seed_tail(const KpoolGeometry *geometry, const KpoolCall *call, void *tail, const void *k,
                         const void *gate, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                         const uint32_t *slot_idx, uint32_t *status)
{
    const size_t size = kpoolTypeSize(geometry->type);
    const int64_t D = geometry->head_dim;
    const int64_t P = geometry->kpool;
    const int64_t H = geometry->rollback;
    const Ring ring = read_ring(geometry, call);
    const int64_t k_row = stride_or_dense(call->k_row_stride, D);
    const int64_t gate_row = stride_or_dense(call->gate_row_stride, D);

    for (uint32_t r = 0; r < call->requests; r++) {
        const int cause =
            reference_judge(call->rows, call->max_slots, input_row_offsets, cache_lengths, slot_idx, r);
        if (cause >= 0) {
            count(status, cause);
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
            const int64_t to = (int64_t)call->tail_base + slot_idx[r] * ring.slot + pos % ring.length * ring.row;
            const int64_t from_k = (int64_t)call->k_base + row * k_row;
            const int64_t from_gate = (int64_t)call->gate_base + row * gate_row;
            memcpy((char *)tail + (size_t)to * size, (const char *)k + (size_t)from_k * size, (size_t)D * size);
            memcpy((char *)tail + (size_t)(to + ring.plane) * size, (const char *)gate + (size_t)from_gate * size,
                   (size_t)D * size);
        }
    }
}

void reference_copy_slots(const KpoolGeometry *geometry, const KpoolCall *call, const void *before, void *after,
                          const uint32_t *pairs, uint32_t *status)
{
    const size_t size = kpoolTypeSize(geometry->type);
    const Ring ring = read_ring(geometry, call);
    for (uint32_t i = 0; i < call->pair_count; i++) {
        const uint32_t source = pairs[2 * (size_t)i];
        const uint32_t destination = pairs[2 * (size_t)i + 1];
        if (source == destination) {
            continue;
        }
        if (source >= call->max_slots || destination >= call->max_slots) {
            count(status, 7);
            continue;
        }
        for (int64_t row = 0; row < 2 * ring.length; row++) {
            const int64_t within =
                (int64_t)call->tail_base + row / ring.length * ring.plane + row % ring.length * ring.row;
            memcpy((char *)after + (size_t)(destination * ring.slot + within) * size,
                   (const char *)before + (size_t)(source * ring.slot + within) * size, geometry->head_dim * size);
        }
    }
}

/* Pools [first, first + count) of the request are new as a whole. */
typedef struct NewPools {
    int64_t first, count;
} NewPools;

static NewPools find_new_pools(int64_t P, int64_t L, int64_t n)
{
    const int64_t first = (L + P - 1) / P;
    const int64_t complete = (L + n) / P;
    return (NewPools){first, complete > first ? complete - first : 0};
}

static uint32_t read_bits(KpoolType type, const void *image, int64_t index)
{
    return kpoolTypeSize(type) == 4 ? ((const uint32_t *)image)[index] : ((const uint16_t *)image)[index];
}

static void write_bits(KpoolType type, void *image, int64_t index, uint32_t bits)
{
    if (kpoolTypeSize(type) == 4) {
        ((uint32_t *)image)[index] = bits;
    } else {
        ((uint16_t *)image)[index] = (uint16_t)bits;
    }
}

/* Where a member's rows begin: elements of the image that holds its key, and of the one that holds its gate. */
typedef struct Member {
    const void *k, *gate;
    int64_t k_at, gate_at;
} Member;

static void write_key(const KpoolKernelCreateInfo *info, const Member *members, const float *ape, void *row_image,
                      int64_t row_at)
{
    const KpoolGeometry *geometry = &info->geometry;
    const KpoolType pooled_type = info->pooled_type != KPOOL_TYPE_NONE ? info->pooled_type : geometry->type;
    for (int64_t c = 0; c < geometry->head_dim; c++) {
        uint32_t gate[KPOOL_MAX_KPOOL];
        uint32_t added[KPOOL_MAX_KPOOL];
        uint32_t k[KPOOL_MAX_KPOOL];
        for (uint32_t m = 0; m < geometry->kpool; m++) {
            gate[m] = read_bits(geometry->type, members[m].gate, members[m].gate_at + c);
            k[m] = read_bits(geometry->type, members[m].k, members[m].k_at + c);
            memcpy(&added[m], &ape[(int64_t)m * geometry->head_dim + c], sizeof added[m]);
        }
        write_bits(pooled_type, row_image, row_at + c,
                   pooled_key(geometry->type, pooled_type, geometry->kpool, gate, added, k));
    }
}

static Member new_member(const KpoolKernelCreateInfo *info, const KpoolCall *call, const void *k, const void *gate,
                         int64_t row)
{
    const int64_t D = info->geometry.head_dim;
    return (Member){
        .k = k,
        .gate = gate,
        .k_at = (int64_t)call->k_base + row * stride_or_dense(call->k_row_stride, D),
        .gate_at = (int64_t)call->gate_base + row * stride_or_dense(call->gate_row_stride, D),
    };
}

/* Where keys go. block_table is NULL where they go to rows of their own. */
typedef struct Outputs {
    void *closed_pooled, *pooled;
    const uint32_t *block_table;
} Outputs;

/* Makes the key of pool p of request r; dense_row is its row where there is no cache. */
static void put_key(const KpoolKernelCreateInfo *info, const KpoolCall *call, const Member *members, const float *ape,
                    const Outputs *outputs, uint32_t r, int64_t p, bool closed, int64_t dense_row, uint32_t *status)
{
    const int64_t D = info->geometry.head_dim;
    const int64_t pooled_row = stride_or_dense(call->pooled_row_stride, D);
    if (outputs->block_table != NULL) {
        const int64_t column = p / info->page_size;
        if (column >= call->max_pages || outputs->block_table[r * (int64_t)call->max_pages + column] >= call->pages) {
            count(status, 6);
            return;
        }
        const int64_t page = outputs->block_table[r * (int64_t)call->max_pages + column];
        const int64_t row = page * info->page_size + p % info->page_size;
        write_key(info, members, ape, outputs->pooled, (int64_t)call->pooled_base + row * pooled_row);
    } else if (closed) {
        write_key(info, members, ape, outputs->closed_pooled,
                  (int64_t)call->closed_pooled_base + dense_row * stride_or_dense(call->closed_pooled_row_stride, D));
    } else {
        write_key(info, members, ape, outputs->pooled, (int64_t)call->pooled_base + dense_row * pooled_row);
    }
}

static void close_requests(const KpoolKernelCreateInfo *info, const KpoolCall *call, const void *tail, const void *k,
                           const void *gate, const float *ape, const uint32_t *input_row_offsets,
                           const uint32_t *cache_lengths, const uint32_t *slot_idx, int32_t *closed_pool,
                           const Outputs *outputs, uint32_t *status)
{
    const KpoolGeometry *geometry = &info->geometry;
    const int64_t P = geometry->kpool;
    const Ring ring = read_ring(geometry, call);
    for (uint32_t r = 0; r < call->requests; r++) {
        closed_pool[r] = -1;
        const int cause =
            reference_judge(call->rows, call->max_slots, input_row_offsets, cache_lengths, slot_idx, r);
        if (cause >= 0) {
            count(status, cause);
        }
        const int64_t n = (int64_t)input_row_offsets[r + 1] - input_row_offsets[r];
        const int64_t L = cache_lengths[r];
        const int64_t ph = L % P;
        if (cause != -2 || ph == 0 || n < P - ph) {
            continue;
        }
        closed_pool[r] = (int32_t)(L / P);
        Member members[KPOOL_MAX_KPOOL];
        for (int64_t m = 0; m < P; m++) {
            members[m] = new_member(info, call, k, gate, input_row_offsets[r] + (m - ph));
            if (m < ph) {
                const int64_t at =
                    (int64_t)call->tail_base + slot_idx[r] * ring.slot + (L - ph + m) % ring.length * ring.row;
                members[m] = (Member){tail, tail, at, at + ring.plane};
            }
        }
        put_key(info, call, members, ape, outputs, r, L / P, true, r, status);
    }
}

void reference_ring_close(const KpoolKernelCreateInfo *info, const KpoolCall *call, const void *tail, const void *k,
                          const void *gate, const float *ape, const uint32_t *input_row_offsets,
                          const uint32_t *cache_lengths, const uint32_t *slot_idx, int32_t *closed_pool,
                          void *closed_pooled, uint32_t *status)
{
    const Outputs outputs = {.closed_pooled = closed_pooled};
    close_requests(info, call, tail, k, gate, ape, input_row_offsets, cache_lengths, slot_idx, closed_pool, &outputs,
                   status);
}

void reference_pool_row_offsets(uint32_t kpool, const KpoolCall *call, const uint32_t *input_row_offsets,
                                const uint32_t *cache_lengths, uint32_t *pool_row_offsets, uint32_t *status)
{
    int64_t sum = 0;
    for (uint32_t r = 0; r < call->requests; r++) {
        pool_row_offsets[r] = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
        const int cause = reference_judge(call->rows, 0, input_row_offsets, cache_lengths, NULL, r);
        if (cause >= 0) {
            count(status, cause);
        } else if (cause == -2) {
            sum += find_new_pools(kpool, cache_lengths[r], input_row_offsets[r + 1] - input_row_offsets[r]).count;
        }
    }
    pool_row_offsets[call->requests] = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

/* The last request whose entry of the table is at most row, where the table never descends. Where it does, the contract
 * leaves the owner open, and this is the search of the shaders, so that a comparison with them stays exact. */
static uint32_t find_owner(const uint32_t *table, uint32_t requests, int64_t row)
{
    uint32_t low = 0;
    for (uint32_t high = requests; high - low > 1;) {
        const uint32_t middle = low + (high - low) / 2;
        if (table[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static void compress_rows(const KpoolKernelCreateInfo *info, const KpoolCall *call, const void *k, const void *gate,
                          const float *ape, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                          const uint32_t *pool_row_offsets, const Outputs *outputs, uint32_t *status)
{
    const KpoolGeometry *geometry = &info->geometry;
    const int64_t P = geometry->kpool;
    const uint32_t claimed = pool_row_offsets[call->requests];
    const uint32_t rows = claimed < call->pooled_rows ? claimed : call->pooled_rows;
    uint32_t made = 0;
    for (uint32_t b = 0; b < call->requests; b++) {
        if (reference_judge(call->rows, 0, input_row_offsets, cache_lengths, NULL, b) != -2) {
            continue;
        }
        const int64_t L = cache_lengths[b];
        const NewPools pools = find_new_pools(P, L, input_row_offsets[b + 1] - input_row_offsets[b]);
        for (int64_t j = 0; j < pools.count; j++) {
            const int64_t row = (int64_t)pool_row_offsets[b] + j;
            if (row >= rows) {
                break;
            }
            if (find_owner(pool_row_offsets, call->requests, row) != b) {
                continue;
            }
            Member members[KPOOL_MAX_KPOOL];
            for (int64_t m = 0; m < P; m++) {
                members[m] = new_member(info, call, k, gate, input_row_offsets[b] + (pools.first + j) * P + m - L);
            }
            put_key(info, call, members, ape, outputs, b, pools.first + j, false, row, status);
            made++;
        }
    }
    if (call->requests != 0 && status != NULL) {
        status[8] += rows - made;
    }
}

static void count_dropped(const KpoolCall *call, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                          uint32_t *status)
{
    for (uint32_t b = 0; b < call->requests; b++) {
        const int cause = reference_judge(call->rows, 0, input_row_offsets, cache_lengths, NULL, b);
        if (cause >= 0) {
            count(status, cause);
        }
    }
}

void reference_compress(const KpoolKernelCreateInfo *info, const KpoolCall *call, const void *k, const void *gate,
                        const float *ape, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                        const uint32_t *pool_row_offsets, void *pooled, uint32_t *status)
{
    const Outputs outputs = {.pooled = pooled};
    compress_rows(info, call, k, gate, ape, input_row_offsets, cache_lengths, pool_row_offsets, &outputs, status);
    count_dropped(call, input_row_offsets, cache_lengths, status);
}

void reference_step(const KpoolKernelCreateInfo *info, const KpoolCall *call, void *tail, const void *k,
                    const void *gate, const float *ape, const uint32_t *input_row_offsets,
                    const uint32_t *cache_lengths, const uint32_t *slot_idx, const uint32_t *pool_row_offsets,
                    const uint32_t *block_table, int32_t *closed_pool, void *closed_pooled, void *pooled,
                    uint32_t *status)
{
    const Outputs outputs = {closed_pooled, pooled, info->page_size != 0 ? block_table : NULL};
    close_requests(info, call, tail, k, gate, ape, input_row_offsets, cache_lengths, slot_idx, closed_pool, &outputs,
                   status);
    compress_rows(info, call, k, gate, ape, input_row_offsets, cache_lengths, pool_row_offsets, &outputs, status);
    reference_seed_tail(&info->geometry, call, tail, k, gate, input_row_offsets, cache_lengths, slot_idx, NULL);
}

void reference_expand_topk(uint32_t kpool, uint32_t topk, KpoolTopkLayout layout, bool with_tail,
                           const KpoolCall *call, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                           const int32_t *pool_ids, int32_t *out, uint32_t *status)
{
    const int64_t P = kpool;
    const int64_t width = topk * P + (with_tail ? P - 1 : 0);
    for (int64_t i = 0; i < call->rows * width; i++) {
        out[i] = -1;
    }
    for (uint32_t b = 0; b < call->requests; b++) {
        const int64_t n = (int64_t)input_row_offsets[b + 1] - input_row_offsets[b];
        const int64_t L = cache_lengths[b];
        int cause = reference_judge(call->rows, 0, input_row_offsets, cache_lengths, NULL, b);
        if (cause == -2 && L + n > INT32_MAX) {
            cause = 3;
        }
        if (cause >= 0) {
            count(status, cause);
        }
        for (int64_t i = 0; cause == -2 && i < n; i++) {
            const int64_t t = input_row_offsets[b] + i;
            if (find_owner(input_row_offsets, call->requests, t) != b) {
                continue;
            }
            const int64_t visible = L + i + 1;
            int32_t *row = &out[t * width];
            int64_t used = 0;
            for (int64_t j = 0; j < topk; j++) {
                const int32_t id = pool_ids[t * topk + j];
                const bool valid = id >= 0 && id < visible / P;
                if (id >= 0 && !valid) {
                    count(status, 5);
                }
                for (int64_t m = 0; valid && m < P; m++) {
                    row[(layout == KPOOL_TOPK_LAYOUT_FIXED ? j * P : used) + m] = (int32_t)(id * P + m);
                }
                used += valid ? P : 0;
            }
            if (layout == KPOOL_TOPK_LAYOUT_FIXED) {
                used = topk * P;
            }
            for (int64_t m = 0; with_tail && m < visible % P; m++) {
                row[used + m] = (int32_t)(visible - visible % P + m);
            }
        }
    }
}

void reference_check_slots(const KpoolCall *call, const uint32_t *input_row_offsets, const uint32_t *cache_lengths,
                           const uint32_t *slot_idx, uint32_t *status)
{
    for (uint32_t r = 0; r < call->requests; r++) {
        const int cause = reference_judge(call->rows, call->max_slots, input_row_offsets, cache_lengths, slot_idx, r);
        if (cause >= 0) {
            count(status, cause);
        }
        bool taken = false;
        for (uint32_t earlier = 0; cause == -2 && !taken && earlier < r; earlier++) {
            taken = slot_idx[earlier] == slot_idx[r] &&
                    reference_judge(call->rows, call->max_slots, input_row_offsets, cache_lengths, slot_idx,
                                    earlier) == -2;
        }
        if (taken) {
            count(status, 4);
        }
    }
}
