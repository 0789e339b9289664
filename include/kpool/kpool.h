/*
 * kpool: the k-pool state of a sparse-attention indexer, as precompiled Vulkan compute shaders.
 *
 * An indexer with k-pooling keeps one pooled key per `kpool` consecutive tokens of a request. The
 * tokens after the last complete pool wait in a persistent ring, `tail`, one slot per running
 * request. The library records the operations that keep that ring into the caller's command buffers.
 *
 * Use, in order:
 *   1. kpoolGetRequirements        what a device must have; asks no device
 *   2. kpoolCreateContext          once per VkDevice
 *   3. kpoolCreateKernel           once per operation and geometry: one pipeline
 *   4. kpoolWriteDescriptorSet     once per set of buffers (or push descriptors: never)
 *   5. kpoolCmd...                 once per recorded operation; the command buffer may be submitted
 *                                  again every step, with only the contents of the buffers changed
 *      or kpoolCreateCommand       once per call, to check it, and kpoolCmdExecute per recording
 *
 * Ownership. The library owns its own small structs and the Vulkan objects behind them, all made
 * through the caller's VkAllocationCallbacks. It allocates no device memory, creates no buffer,
 * submits nothing, waits for nothing and prints nothing. Every pointer that is passed in is read
 * during the call and not kept, except the handles of a KpoolContextCreateInfo and what its
 * pAllocator points to (pfn and pUserData are copied).
 *
 * Threads. An object does not change between its creation and its destruction, so any number of
 * threads may use it at once; what Vulkan asks for the command buffer, the descriptor set and the
 * pipeline cache that are passed in remains the caller's. There is no global state.
 *
 * Zero. Every struct may be zeroed: a zero means the default that its comment names, or none of that
 * thing (a capacity of 0), or is refused by name. pNext is NULL.
 *
 * Units. Sizes and offsets of buffers are bytes. Bases and strides of tensors are elements of that
 * tensor. Positions, lengths and capacities are tokens, requests or rows, as said.
 *
 * Life of a request. A slot needs no clearing: a place of the ring is read only where the request itself wrote it. A
 * request begins at length 0, or at any multiple of kpool (a prefix whose keys are there already); one that begins
 * inside a pool gets its slot by copy_slots. Each call brings its next tokens: cache_lengths says how many came before,
 * and the update is close, compress, seed, or step. To take back up to `rollback` tokens of the latest call, make the
 * next call with a smaller cache_lengths; nothing else is told, and keys of pools that the tokens taken back had
 * completed will be made again. A request that ends simply stops being named: its slot may serve another at once.
 *
 * Unused entries. Request r with input_row_offsets[r + 1] == input_row_offsets[r] is empty: nothing of it is looked at,
 * and nothing is done for it but its -1. So a call with fewer requests than its capacity repeats the last offset.
 *
 * The pooled key. Of one pool of P members, for each channel c by itself, in f32:
 *     logit[m] = f32(gate[m, c]) + ape[m, c]       m: the member's place in its pool, 0 to P - 1
 *     w[m]     = exp(logit[m] - max of logit)
 *     key[c]   = sum of w[m] * f32(k[m, c]) / sum of w[m], rounded once, to nearest even, to pooled_type
 * A magnitude of 2^120 or more, in gate, ape or k, is special. A positive special gate or ape, a NaN anywhere, or all
 * members masked gives NaN; a negative special gate or ape masks its member (weight 0). A special k gives the infinity
 * of its sign, or NaN where its weight is 0 or signs differ. f32 and bf16 keys below 2^-126 are zeros of their sign.
 *
 * Barriers. Every kpoolCmd... says what must come Before and what it leaves After. `status` is only added to, by
 * atomics: between operations of the library it needs no barrier. In the floor layout descriptors span several tensors,
 * so validation layers see accesses that no shader makes: there, put a memory barrier, shader write to shader read and
 * write, compute to compute, between any two operations.
 *
 * Errors. Functions that can fail return a KpoolResult and take a KpoolDiagnostic *, which may be
 * NULL; on failure it receives a sentence that names the argument and the rule. A kpoolCmd... that
 * fails has recorded nothing. A call with nothing to do is checked all the same.
 */
#ifndef KPOOL_KPOOL_H
#define KPOOL_KPOOL_H

#include <stddef.h>
#include <stdint.h>

#include <vulkan/vulkan_core.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KPOOL_VERSION_MAJOR 0
#define KPOOL_VERSION_MINOR 1
#define KPOOL_VERSION_PATCH 0
/* Vulkan's own packing, so that VK_API_VERSION_MAJOR and its kin read it. */
#define KPOOL_VERSION VK_MAKE_API_VERSION(0, KPOOL_VERSION_MAJOR, KPOOL_VERSION_MINOR, KPOOL_VERSION_PATCH)

/* The version of the linked library; compare with KPOOL_VERSION, the version of this header. Within
 * one major version structs only grow at their end through pNext. */
uint32_t kpoolGetVersion(void);

/* ------------------------------------------------------------------------------ results ------- */

typedef enum KpoolResult {
    KPOOL_SUCCESS = 0,
    KPOOL_ERROR_INVALID_ARGUMENT = -1,   /* an argument breaks a rule of this header */
    KPOOL_ERROR_LIMIT = -2,              /* beyond a limit of the device or of the library */
    KPOOL_ERROR_UNSUPPORTED_DEVICE = -3, /* the device cannot be used at all, or not this way */
    KPOOL_ERROR_OUT_OF_HOST_MEMORY = -4, /* an allocation of the library's own failed */
    KPOOL_ERROR_VULKAN = -5,             /* a Vulkan call failed: KpoolDiagnostic::vkResult */
    KPOOL_ERROR_INVALID_DATA = -6        /* kpoolValidate: the index arrays break a rule */
} KpoolResult;

/* A short fixed name, such as "KPOOL_ERROR_LIMIT". Never NULL. */
const char *kpoolResultString(KpoolResult result);

/* Filled when a function fails and left alone when it succeeds. Owned by the caller. */
typedef struct KpoolDiagnostic {
    KpoolResult result;
    VkResult vkResult;    /* what Vulkan returned, or VK_SUCCESS where no Vulkan call failed */
    const char *argument; /* the name of the argument at fault; static, never freed */
    char message[256];    /* one sentence: the argument, what it is, and the rule */
} KpoolDiagnostic;

/* ----------------------------------------------------------------------------- geometry ------- */

typedef enum KpoolType {
    KPOOL_TYPE_NONE = 0,
    KPOOL_TYPE_F32 = 1,
    KPOOL_TYPE_F16 = 2,
    KPOOL_TYPE_BF16 = 3
} KpoolType;

/* Bytes of one element; 0 for anything that is no type. */
uint32_t kpoolTypeSize(KpoolType type);

/* What is fixed for one ring. Everything that works on one ring is made from the same geometry. */
typedef struct KpoolGeometry {
    uint32_t head_dim; /* D: channels per key, 1 to 1024, even for 2-byte types */
    uint32_t kpool;    /* P: tokens per pool, 1 to 128 */
    KpoolType type;    /* element type of tail, k and gate */
    uint32_t ring;     /* R: positions per slot, kpool + rollback to 4096; 0: kpool + rollback */
    uint32_t rollback; /* H: how many of the latest call's tokens may still be taken back */
} KpoolGeometry;

#define KPOOL_MAX_HEAD_DIM 1024u
#define KPOOL_MAX_KPOOL 128u
#define KPOOL_MAX_RING 4096u
/* Every element offset of a tensor stays below this, so that it fits 31 bits on the device. */
#define KPOOL_MAX_ELEMENTS 0x80000000u

/* -------------------------------------------------------------------------- requirements ------ */

/* Descriptor layouts. Both serve every operation; a context uses one. */
typedef enum KpoolBindingLayout {
    KPOOL_BINDING_LAYOUT_DEFAULT = 0, /* wide where the device takes it, else floor */
    KPOOL_BINDING_LAYOUT_WIDE = 1,    /* one storage buffer per tensor; buffers may all differ */
    KPOOL_BINDING_LAYOUT_FLOOR = 2    /* four storage buffers, what every device has: see KpoolBindings */
} KpoolBindingLayout;

#define KPOOL_BINDING_LAYOUT_WIDE_BIT 0x1u
#define KPOOL_BINDING_LAYOUT_FLOOR_BIT 0x2u

typedef struct KpoolRequirements {
    uint32_t apiVersion;          /* the Vulkan version to create instance and device with, or later */
    uint32_t bindingLayouts;      /* KPOOL_BINDING_LAYOUT_..._BIT: the layouts this device takes */
    VkBufferUsageFlags usage;     /* what every buffer must be created with, at least */
    VkDeviceSize offsetAlignment; /* bytes: KpoolRange::offset is a multiple of it */
    VkDeviceSize maxRange;        /* bytes: the largest KpoolRange::size that may be needed */
    uint32_t maxSlots;            /* the most slots whose dense tail fits maxRange */
    uint32_t ring;                /* R, with the default filled in */
    uint32_t alignment;           /* bytes: the largest KpoolKernelCreateInfo::alignment that a dense
                                     layout of this geometry keeps */
} KpoolRequirements;

/*
 * What a device with these limits must be given for rings of this geometry. Pure: needs no instance
 * and no device, and no extension or feature is ever required.
 *   limits    VkPhysicalDeviceProperties::limits
 *   geometry  as for a kernel
 * Errors: INVALID_ARGUMENT, LIMIT (the geometry breaks a rule, or one slot exceeds the range).
 */
KpoolResult kpoolGetRequirements(const VkPhysicalDeviceLimits *limits, const KpoolGeometry *geometry,
                                 KpoolRequirements *requirements, KpoolDiagnostic *diagnostic);

/* ------------------------------------------------------------------------------ context ------- */

typedef struct KpoolContext_T *KpoolContext;

/* The caller enabled VK_KHR_push_descriptor on the device: every kpoolCmd... pushes its bindings and
 * takes VK_NULL_HANDLE for its descriptor set. */
#define KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT 0x1u
/* The caller enabled VK_EXT_debug_utils on the instance: the library's objects are given names. */
#define KPOOL_CONTEXT_DEBUG_NAMES_BIT 0x2u

typedef struct KpoolContextCreateInfo {
    const void *pNext; /* NULL */
    uint32_t flags;    /* KPOOL_CONTEXT_..._BIT */
    /* The version the instance was created for: VkApplicationInfo::apiVersion. The device is used at
     * the lower of this and its own; below 1.1 it is refused. 0 is Vulkan's 1.0, and refused. */
    uint32_t apiVersion;
    VkInstance instance;
    VkPhysicalDevice physicalDevice;
    VkDevice device;
    PFN_vkGetInstanceProcAddr pfnGetInstanceProcAddr;
    const VkAllocationCallbacks *pAllocator; /* NULL: malloc here, the driver's own in Vulkan */
    KpoolBindingLayout bindingLayout;
} KpoolContextCreateInfo;

/*
 * Makes the function table, the descriptor set layouts and the pipeline layouts for one device.
 * The handles must outlive the context. On failure nothing is left behind and *context is NULL.
 * Errors: INVALID_ARGUMENT, UNSUPPORTED_DEVICE (below Vulkan 1.1, a function missing, the wide layout
 * asked for and not taken), OUT_OF_HOST_MEMORY, VULKAN.
 */
KpoolResult kpoolCreateContext(const KpoolContextCreateInfo *createInfo, KpoolContext *context,
                               KpoolDiagnostic *diagnostic);

/* After every kernel of it is destroyed. NULL is ignored. */
void kpoolDestroyContext(KpoolContext context);

/* The layout in use: wide or floor; default for NULL. */
KpoolBindingLayout kpoolGetBindingLayout(KpoolContext context);

/* ------------------------------------------------------------------------------- kernel ------- */

typedef enum KpoolOperation {
    KPOOL_OPERATION_NONE = 0,
    KPOOL_OPERATION_SEED_TAIL = 1,
    KPOOL_OPERATION_RING_CLOSE = 2,
    KPOOL_OPERATION_COMPRESS = 3,
    KPOOL_OPERATION_POOL_ROW_OFFSETS = 4,
    KPOOL_OPERATION_EXPAND_TOPK = 5,
    KPOOL_OPERATION_COPY_SLOTS = 6,
    KPOOL_OPERATION_STEP = 7,
    KPOOL_OPERATION_CHECK_SLOTS = 8
} KpoolOperation;

/* How a pooled key is reckoned, by ring_close, compress and step. */
typedef enum KpoolNumerics {
    KPOOL_NUMERICS_EXACT = 0, /* defined to the bit: the same on every device and however a request was split */
    KPOOL_NUMERICS_FAST = 1   /* the device's own exp and division; within half a unit in the last place of
                                 pooled_type + 2e-6 * max|k| + 2^-126 */
} KpoolNumerics;

/* Where expand_topk puts the positions of a row. */
typedef enum KpoolTopkLayout {
    KPOOL_TOPK_LAYOUT_FIXED = 0,  /* pool j at columns [j * kpool, (j + 1) * kpool), the tail from topk * kpool */
    KPOOL_TOPK_LAYOUT_COMPACT = 1 /* the valid pools first, in order, then the tail */
} KpoolTopkLayout;

typedef struct KpoolKernel_T *KpoolKernel;

typedef struct KpoolKernelCreateInfo {
    const void *pNext; /* NULL */
    KpoolOperation operation;
    KpoolGeometry geometry;
    /* Bytes that every row start of tail, k and gate is a multiple of: 4, or 16, which moves 16 bytes
     * at a time and needs head_dim times the element size to be a multiple of 16. 0: 4. Only seed_tail and step
     * make use of 16; for the others it becomes 4. */
    uint32_t alignment;
    /* The shape of a workgroup: invocations that share one item, and items side by side in one
     * workgroup; both powers of two, at most 128 together. An item is a request (seed_tail, ring_close, step),
     * rowsPerItem rows of pooled, one after the other (compress, step), or a pair (copy_slots); in step, where
     * rowsPerItem exceeds 1, a request and such rows. pool_row_offsets, expand_topk and check_slots have itemsPerGroup
     * 1, and all but compress and step rowsPerItem 1. 0: chosen from the device's type and subgroup size. No shape
     * changes a result. */
    uint32_t lanesPerItem;
    uint32_t itemsPerGroup;
    uint32_t rowsPerItem;
    VkPipelineCache pipelineCache; /* or VK_NULL_HANDLE */
    /* ring_close, compress and step: the element type of closed_pooled and pooled; KPOOL_TYPE_NONE: the ring's.
     * head_dim is even where it has 2 bytes. */
    KpoolType pooled_type;
    KpoolNumerics numerics;
    /* step: rows of a page of the paged cache, a power of two; 0: dense outputs. For the others it becomes 0. */
    uint32_t page_size;
    /* expand_topk. Fields that only other operations have are not looked at, and become 0. */
    uint32_t topk;               /* K: pool ids per row, at least 1 */
    KpoolTopkLayout topk_layout;
    VkBool32 with_tail;          /* rows also hold the tokens after the last complete pool */
} KpoolKernelCreateInfo;

/*
 * Makes one pipeline. On failure nothing is left behind and *kernel is NULL. Slow: the driver
 * compiles; a VkPipelineCache helps.
 * Errors: INVALID_ARGUMENT, LIMIT, OUT_OF_HOST_MEMORY, VULKAN.
 */
KpoolResult kpoolCreateKernel(KpoolContext context, const KpoolKernelCreateInfo *createInfo,
                              KpoolKernel *kernel, KpoolDiagnostic *diagnostic);

/* After every command of it is destroyed, and every command buffer that uses it has completed or been reset. NULL is
 * ignored. */
void kpoolDestroyKernel(KpoolKernel kernel);

/* What the kernel was made from, with every default filled in; pipelineCache is VK_NULL_HANDLE. Zeros for NULL. */
KpoolKernelCreateInfo kpoolGetKernelInfo(KpoolKernel kernel);

/* ----------------------------------------------------------------------------- bindings ------- */

/* A range of a buffer. The buffer is the caller's, made with VK_BUFFER_USAGE_STORAGE_BUFFER_BIT. */
typedef struct KpoolRange {
    VkBuffer buffer;
    VkDeviceSize offset; /* bytes */
    VkDeviceSize size;   /* bytes, at least what the call needs and at least 4; not VK_WHOLE_SIZE */
} KpoolRange;

/*
 * Where the tensors are. An operation looks at the ranges it uses, listed at its kpoolCmd...; the
 * others may stay zero. A range that is written overlaps no other one of the call. That, and that a range lies inside
 * its buffer, cannot be seen and is not checked.
 *
 * Wide layout: every range is a descriptor of its own. Each offset is a multiple of the device's
 * minStorageBufferOffsetAlignment; buffers may be shared or not.
 *
 * Floor layout: the ranges form four groups, and each group is one descriptor that spans from the
 * start of its first range to the end of its last:
 *     tail   tail
 *     rows   k, gate
 *     words  input_row_offsets, cache_lengths, slot_idx, status, ape, pool_row_offsets, closed_pool,
 *            pool_ids, pairs, block_table
 *     out    closed_pooled, pooled, out, scratch
 * All non-zero ranges of a group lie in one buffer, the span is at most the device's
 * maxStorageBufferRange, the smallest offset of a group is a multiple of
 * minStorageBufferOffsetAlignment, and every other offset is a multiple of the kernel's alignment for
 * tail, k, gate and scratch, of 4 elsewhere. The groups are formed over all non-zero ranges, so the same struct
 * is given to kpoolWriteDescriptorSet and to each kpoolCmd... that uses the set.
 */
typedef struct KpoolBindings {
    KpoolRange tail;              /* [max_slots, 2, ring, head_dim] type, read and written in place */
    KpoolRange k;                 /* [rows, head_dim] type */
    KpoolRange gate;              /* [rows, head_dim] type */
    KpoolRange input_row_offsets; /* [requests + 1] u32: rows of request r are [off[r], off[r+1]) */
    KpoolRange cache_lengths;     /* [requests] u32: tokens of the request before this call */
    KpoolRange slot_idx;          /* [requests] u32: ring slot of each request */
    KpoolRange status;            /* [16] u32: counts of what was refused, KPOOL_STATUS_... */
    KpoolRange ape;               /* [kpool, head_dim] f32: added to the gate scores when a pool closes */
    KpoolRange pool_row_offsets;  /* [requests + 1] u32: rows of pooled per request */
    KpoolRange closed_pool;       /* [requests] i32: the pool that ring_close closed, or -1 */
    KpoolRange closed_pooled;     /* [requests, head_dim] pooled_type */
    KpoolRange pooled;            /* [pooled_rows, head_dim] pooled_type; [pages, page_size, head_dim] where paged */
    KpoolRange pool_ids;          /* [rows, topk] i32 */
    KpoolRange out;               /* [rows, topk * kpool, and kpool - 1 more with_tail] i32: token positions */
    KpoolRange pairs;             /* [pair_count, 2] u32: source slot, destination slot */
    KpoolRange scratch;           /* of copy_slots and check_slots: lent for the call, of no meaning after it */
    KpoolRange block_table;       /* [requests, max_pages] u32: the pages of each request, in order */
} KpoolBindings;

/*
 * Capacities, strides and bases of one call: how much the buffers hold. What is really there is read
 * on the device, so one recorded call serves every step. Shared by all operations.
 *
 * Strides and bases are elements; a stride of 0 is dense: a row stride of head_dim, a plane stride of
 * ring rows, a slot stride of two planes. Any nesting is accepted in which no two elements share a
 * place: with the dimensions longer than 1 ordered by stride, each stride exceeds the furthest offset
 * that the smaller ones reach. For 2-byte types bases and strides are even. The furthest element of a
 * tensor stays below KPOOL_MAX_ELEMENTS.
 */
typedef struct KpoolCall {
    const void *pNext;  /* NULL */
    uint32_t max_slots; /* S: slots of tail, at least 1 */
    uint32_t requests;  /* B: requests the index arrays hold; unused ones are empty */
    uint32_t rows;      /* T: rows of k and gate */
    VkDeviceSize tail_slot_stride;
    VkDeviceSize tail_plane_stride;
    VkDeviceSize tail_row_stride;
    VkDeviceSize k_row_stride;
    VkDeviceSize gate_row_stride;
    VkDeviceSize tail_base;
    VkDeviceSize k_base;
    VkDeviceSize gate_base;
    VkDeviceSize input_row_offsets_base;
    VkDeviceSize cache_lengths_base;
    VkDeviceSize slot_idx_base;
    VkDeviceSize status_base;
    /* M: rows of pooled; where paged, whole pools that one call may bring. floor(rows / kpool) is enough for any sound
     * call. Whole pools beyond it are not made, and, being beyond what the caller asked for, not counted. */
    uint32_t pooled_rows;
    uint32_t pair_count;  /* N: pairs of copy_slots */
    VkDeviceSize closed_pooled_row_stride;
    VkDeviceSize pooled_row_stride;
    VkDeviceSize ape_base;
    VkDeviceSize pool_row_offsets_base;
    VkDeviceSize closed_pool_base;
    VkDeviceSize closed_pooled_base;
    VkDeviceSize pooled_base;
    VkDeviceSize pool_ids_base;
    VkDeviceSize out_base;
    VkDeviceSize pairs_base;
    VkDeviceSize scratch_base;
    uint32_t pages;     /* pages of the paged cache */
    uint32_t max_pages; /* columns of block_table */
    VkDeviceSize block_table_base;
} KpoolCall;

/* Indices of `status`. The library only adds; the caller clears. A request counts once per dispatch,
 * at the first cause of 0 to 3 that applies, in this order, and nothing else of it is written. Empty requests never
 * count. Every operation on requests counts 0, 1 and 3, those that use slots also 2: with one status for all, a request
 * that is dropped by three operations of a step counts three times. */
#define KPOOL_STATUS_OFFSETS_DESCEND 0 /* input_row_offsets[r + 1] < input_row_offsets[r] */
#define KPOOL_STATUS_ROWS_EXCEED 1     /* input_row_offsets[r + 1] > rows */
#define KPOOL_STATUS_SLOT_RANGE 2      /* slot_idx[r] >= max_slots */
#define KPOOL_STATUS_LENGTH_WRAPS 3    /* cache_lengths[r] + tokens of this call > 2^32 - 1 */
#define KPOOL_STATUS_DUPLICATE_SLOT 4  /* check_slots, kpoolValidate: slot_idx[r] is that of another request too */
#define KPOOL_STATUS_POOL_ID 5         /* expand_topk: an id that is no complete pool of the row */
#define KPOOL_STATUS_PAGE_RANGE 6      /* step: a block-table column >= max_pages or a page >= pages, once a key */
#define KPOOL_STATUS_PAIR_RANGE 7      /* copy_slots: an index >= max_slots */
#define KPOOL_STATUS_POOLED_ROW 8      /* compress, step: a row of pooled that disagrees with the offsets */
#define KPOOL_STATUS_COUNT 16          /* length of status; the others are 0 */

/* The set layout for the operation; in the floor layout the same one for all. Owned by the context. A set written for
 * one operation serves others only in the floor layout. VK_NULL_HANDLE for NULL and for what is no operation. */
VkDescriptorSetLayout kpoolGetDescriptorSetLayout(KpoolContext context, KpoolOperation operation);

/* How many descriptors of VK_DESCRIPTOR_TYPE_STORAGE_BUFFER such a set takes from a pool. */
uint32_t kpoolGetDescriptorCount(KpoolContext context, KpoolOperation operation);

/* Bytes of each tensor that a call with a kernel of createInfo needs, bases and strides included and at least 4, 0 for
 * tensors that the operation does not use: in `size` of each range; buffer and offset are set to 0. Pure:
 * workgroup shape and pipelineCache are not looked at.
 * Errors: as kpoolCreateKernel and the kpoolCmd..., as far as they do not depend on device and buffers. */
KpoolResult kpoolGetSizes(const KpoolKernelCreateInfo *createInfo, const KpoolCall *call, KpoolBindings *sizes,
                          KpoolDiagnostic *diagnostic);

/*
 * Writes the bindings into the caller's set, made with kpoolGetDescriptorSetLayout of the operation.
 * Not for a context with push descriptors. The rules of vkUpdateDescriptorSets for a set in use are the
 * caller's. A set of step takes closed_pooled and block_table where they are given, whatever the kernel.
 * Errors: INVALID_ARGUMENT, LIMIT; the set is then unchanged.
 */
KpoolResult kpoolWriteDescriptorSet(KpoolContext context, KpoolOperation operation, VkDescriptorSet set,
                                    const KpoolBindings *bindings, KpoolDiagnostic *diagnostic);

/* ----------------------------------------------------------------------------- recording ------ */

/*
 * Workgroups that the kernel dispatches for the call, x, y, z: all 0 where nothing is recorded. Pure.
 * Errors: INVALID_ARGUMENT, LIMIT.
 */
KpoolResult kpoolGetGroupCount(KpoolKernel kernel, const KpoolCall *call, uint32_t groups[3],
                               KpoolDiagnostic *diagnostic);

/*
 * seed_tail: stashes the tokens of this call that a later call still needs in each request's slot.
 *
 *     for pos in [w0, end):   row = off[r] + (pos - L)
 *         tail[slot, 0, pos mod R] = k[row]
 *         tail[slot, 1, pos mod R] = gate[row]
 *
 * with L = cache_lengths[r], end = L + off[r+1] - off[r], w0 = max(L, floor(max(end - H, 0) / P) * P).
 * A move of bits; everything else in tail keeps its bits. Cost depends on the rows that move.
 *
 *   commandBuffer  recording, outside a render pass, of a queue family with compute
 *   kernel         of KPOOL_OPERATION_SEED_TAIL
 *   set            written from the same bindings; VK_NULL_HANDLE with push descriptors
 *   bindings       tail, k, gate, input_row_offsets, cache_lengths, slot_idx, status
 *   call           max_slots, requests, rows, their strides and bases. With requests = 0 nothing is
 *                  recorded, and that is a success.
 *
 * Before: what wrote k, gate, the index arrays and status is available and visible to
 *   VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT (status also SHADER_WRITE). What
 *   wrote tail likewise, to SHADER_WRITE. What read tail has finished: a write-after-read needs only an
 *   execution dependency to COMPUTE_SHADER. No barrier is recorded here.
 * After: tail and status are written at COMPUTE_SHADER, SHADER_WRITE.
 * Clobbers: the bound compute pipeline, compute descriptor set 0, push constants of
 *   VK_SHADER_STAGE_COMPUTE_BIT.
 * Two non-empty requests with one slot in one call: that slot's contents are unspecified, all else is
 *   exact; kpoolValidate finds them.
 * Errors: INVALID_ARGUMENT, LIMIT.
 */
KpoolResult kpoolCmdSeedTail(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                             const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic);

/*
 * ring_close: closes each request's pending pool, where this call brings the tokens it lacks.
 *
 *     closes  <=>  ph != 0 and n >= P - ph, with ph = L mod P
 *     members m < ph : tail[slot, {0,1}, (L - ph + m) mod R]
 *     members m >= ph: row off[r] + (m - ph) of k and gate
 *
 * closed_pool[r] = floor(L / P) where it closes, -1 where nothing does; written for every r < requests. Row r of
 * closed_pooled is written where closed_pool[r] is not -1. tail is only read.
 *
 *   kernel    of KPOOL_OPERATION_RING_CLOSE
 *   bindings  tail, k, gate, input_row_offsets, cache_lengths, slot_idx, status, ape, closed_pool, closed_pooled
 *   call      max_slots, requests, rows, their strides and bases, closed_pooled_row_stride. With requests = 0
 *             nothing is recorded.
 *
 * Before: what wrote the inputs is visible to COMPUTE_SHADER, SHADER_READ (status also SHADER_WRITE): so is the
 *   seed_tail of the step before, also across submissions (shader write to shader read). What still reads
 *   closed_pool and closed_pooled has finished.
 * After: closed_pool, closed_pooled and status are written at COMPUTE_SHADER, SHADER_WRITE. Before the
 *   seed_tail of the same call an execution dependency COMPUTE_SHADER to COMPUTE_SHADER (write-after-read).
 * commandBuffer, set, clobbered state and errors: as kpoolCmdSeedTail.
 */
KpoolResult kpoolCmdRingClose(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                              const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic);

/*
 * compress: builds every pool whose members are all rows of this call. Member m of local pool j of request b is
 * row off[b] + (P - L mod P) mod P + j * P + m; its key goes to row pool_row_offsets[b] + j of pooled. A row
 * i < min(pooled_rows, pool_row_offsets[requests]) is written only where it has a valid owner and is one of its
 * pools, and counted at KPOOL_STATUS_POOLED_ROW otherwise.
 *
 *   kernel    of KPOOL_OPERATION_COMPRESS
 *   bindings  k, gate, input_row_offsets, cache_lengths, status, ape, pool_row_offsets, pooled
 *   call      requests, rows, pooled_rows, k_row_stride, gate_row_stride, pooled_row_stride, bases. With
 *             requests = 0 and pooled_rows = 0 nothing is recorded.
 *
 * Before: what wrote the inputs is visible to COMPUTE_SHADER, SHADER_READ (status also SHADER_WRITE), so are the
 *   offsets of kpoolCmdPoolRowOffsets (shader write to shader read). What still reads pooled has finished.
 * After: pooled and status are written at COMPUTE_SHADER, SHADER_WRITE. It shares nothing that is written with
 *   ring_close and seed_tail of the same call but status, whose counts are atomic.
 * commandBuffer, set, clobbered state and errors: as kpoolCmdSeedTail.
 */
KpoolResult kpoolCmdCompress(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                             const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic);

/*
 * pool_row_offsets: the exclusive prefix sum of max(0, floor(end / P) - ceil(L / P)) over the requests, a dropped
 * request owning none. All requests + 1 entries are written, also where requests = 0. One workgroup; a sum beyond
 * 2^32 - 1, which only overlapping offsets reach, stays there. On the host: kpoolPoolRowOffsets.
 *
 *   kernel    of KPOOL_OPERATION_POOL_ROW_OFFSETS
 *   bindings  input_row_offsets, cache_lengths, status, pool_row_offsets
 *   call      requests, rows, bases
 *
 * Before: what wrote the inputs is visible to COMPUTE_SHADER, SHADER_READ (status also SHADER_WRITE). What still
 *   reads pool_row_offsets has finished.
 * After: pool_row_offsets and status are written at COMPUTE_SHADER, SHADER_WRITE.
 * commandBuffer, set, clobbered state and errors: as kpoolCmdSeedTail.
 */
KpoolResult kpoolCmdPoolRowOffsets(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                                   const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic);

/*
 * expand_topk: pool ids into token positions. Row t of request b sees visible = L + (t - off[b]) + 1 tokens. An id
 * below 0 is unused; one >= floor(visible / P) is treated as unused and counted at KPOOL_STATUS_POOL_ID. Unused
 * places are -1. All rows are written; rows of no request or of a dropped one are all -1. Positions are i32: a
 * request with L + n > 2^31 - 1 is dropped here, and counted at KPOOL_STATUS_LENGTH_WRAPS.
 *
 *   kernel    of KPOOL_OPERATION_EXPAND_TOPK
 *   bindings  input_row_offsets, cache_lengths, status, pool_ids, out
 *   call      requests, rows, bases. With requests = 0 and rows = 0 nothing is recorded.
 *
 * Before: what wrote the inputs is visible to COMPUTE_SHADER, SHADER_READ (status also SHADER_WRITE). What still
 *   reads out has finished.
 * After: out and status are written at COMPUTE_SHADER, SHADER_WRITE.
 * commandBuffer, set, clobbered state and errors: as kpoolCmdSeedTail.
 */
KpoolResult kpoolCmdExpandTopk(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                               const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic);

/*
 * copy_slots: copies whole slots as if all sources were read first, whatever the chain. A pair whose source is its
 * destination does nothing, whatever the index: padding. Otherwise an index >= max_slots drops the pair, counted
 * at KPOOL_STATUS_PAIR_RANGE. Padding between strides is not copied. Two pairs with one destination are the
 * caller's error: that slot's contents are unspecified; kpoolValidatePairs finds them.
 *
 *   kernel    of KPOOL_OPERATION_COPY_SLOTS
 *   bindings  tail, status, pairs, scratch (kpoolGetSizes says how much: pair_count slots, dense)
 *   call      max_slots, pair_count, strides of tail, bases. With pair_count = 0 nothing is recorded.
 *
 * Records two dispatches and the barrier between them.
 * Before: what wrote tail and pairs is visible to COMPUTE_SHADER, SHADER_READ (tail and status also SHADER_WRITE);
 *   what read tail and what used scratch has finished.
 * After: tail, scratch and status are written at COMPUTE_SHADER, SHADER_WRITE.
 * commandBuffer, set, clobbered state and errors: as kpoolCmdSeedTail.
 */
KpoolResult kpoolCmdCopySlots(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                              const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic);

/*
 * step: close, compress and seed of one call as one dispatch; closed_pool, closed_pooled, pooled and the ring come out
 * bit for bit as from the three. A slot out of range drops only what uses the slot: the request's whole pools are still
 * made. Each dropped request counts once. Of two non-empty requests with one slot the keys that they close are
 * unspecified too: one may be seeded before the other's members are read.
 *
 * Paged (page_size of the kernel is not 0): every key, of closed and of whole pools, goes straight to the cache: pool p
 * of request b to page block_table[b, p / page_size], row p mod page_size. A column >= max_pages or a page >= pages
 * refuses the key, counted at KPOOL_STATUS_PAGE_RANGE. Two keys in one place are the caller's error.
 *
 *   kernel    of KPOOL_OPERATION_STEP
 *   bindings  tail, k, gate, input_row_offsets, cache_lengths, slot_idx, status, ape, pool_row_offsets, closed_pool,
 *             pooled; dense also closed_pooled, paged also block_table
 *   call      max_slots, requests, rows, pooled_rows (requests + pooled_rows below 2^31), strides, bases; paged also
 *             pages and max_pages. With requests = 0 and pooled_rows = 0 nothing is recorded.
 *
 * Before: as the three: what wrote the inputs and tail is visible to COMPUTE_SHADER, SHADER_READ (tail and status also
 *   SHADER_WRITE), so are the offsets of kpoolCmdPoolRowOffsets and the step before; what read tail and the outputs has
 *   finished.
 * After: tail, closed_pool, closed_pooled, pooled and status are written at COMPUTE_SHADER, SHADER_WRITE.
 * commandBuffer, set, clobbered state and errors: as kpoolCmdSeedTail.
 */
KpoolResult kpoolCmdStep(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                         const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic);

/*
 * check_slots: counts at KPOOL_STATUS_DUPLICATE_SLOT the non-empty requests that share their slot with another one, all
 * but one of each slot. Two requests with one slot are the caller's error, which no other operation looks for: that
 * slot's contents are then unspecified. Opt-in: one workgroup, for tests and debugging, or each step where it can be
 * afforded. Only requests that are not dropped share a slot; dropped ones are counted as ever. On the host, with the
 * requests named: kpoolValidate, which adds to the same counts.
 *
 *   kernel    of KPOOL_OPERATION_CHECK_SLOTS
 *   bindings  input_row_offsets, cache_lengths, slot_idx, status, scratch (kpoolGetSizes says how much: a bit a slot;
 *             its elements are u32)
 *   call      max_slots, requests, rows, bases
 *
 * Before: what wrote the inputs is visible to COMPUTE_SHADER, SHADER_READ (status also SHADER_WRITE). What used scratch
 *   has finished, and its writes are available to COMPUTE_SHADER, SHADER_WRITE.
 * After: status and scratch are written at COMPUTE_SHADER, SHADER_WRITE.
 * commandBuffer, set, clobbered state and errors: as kpoolCmdSeedTail.
 */
KpoolResult kpoolCmdCheckSlots(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                               const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic);

/* ----------------------------------------------------------------- checked beforehand -------- */

/* One call of one kernel, checked and kept: a runtime that records the same call again and again pays for the check
 * once. Every kpoolCmd... above checks each time, which takes as long as what it records. */
typedef struct KpoolCommand_T *KpoolCommand;

/*
 * Checks what the kpoolCmd... of the kernel's operation checks, but for the command buffer and the set. kernel, and the
 * buffers that bindings names, must outlive the command; the structs need not. On failure nothing is left behind and
 * *command is NULL.
 * Errors: as the kpoolCmd...; also OUT_OF_HOST_MEMORY.
 */
KpoolResult kpoolCreateCommand(KpoolKernel kernel, const KpoolBindings *bindings, const KpoolCall *call,
                               KpoolCommand *command, KpoolDiagnostic *diagnostic);

/* Before its kernel is destroyed; command buffers that it was recorded into do not refer to it. NULL is ignored. */
void kpoolDestroyCommand(KpoolCommand command);

/*
 * Records what the kpoolCmd... of the kernel's operation records, with its Before and After.
 *   set  written from the same bindings for that operation, which cannot be seen; VK_NULL_HANDLE with push descriptors
 * Errors: INVALID_ARGUMENT (a NULL, or a set where none or one is due); nothing is recorded then.
 */
KpoolResult kpoolCmdExecute(VkCommandBuffer commandBuffer, KpoolCommand command, VkDescriptorSet set,
                            KpoolDiagnostic *diagnostic);

/* ----------------------------------------------------------------------------- host side ------ */

/*
 * Judges one call's index arrays on the host by the rules the device applies, and for two non-empty
 * requests with one slot. Reads call->max_slots, requests and rows only; the pointers are the first
 * elements. Time is quadratic in requests with distinct valid slots; meant for tests and debugging.
 *   input_row_offsets  [requests + 1]
 *   cache_lengths      [requests]
 *   slot_idx           [requests]
 *   status             NULL, or [16]: added to as the device would, and duplicates at index 4
 * Returns KPOOL_ERROR_INVALID_DATA with the first fault named by request (a duplicate by both) where
 * there is any. Errors: also INVALID_ARGUMENT.
 */
KpoolResult kpoolValidate(const KpoolCall *call, const uint32_t *input_row_offsets,
                          const uint32_t *cache_lengths, const uint32_t *slot_idx,
                          uint32_t status[KPOOL_STATUS_COUNT], KpoolDiagnostic *diagnostic);

/*
 * Judges the pairs of copy_slots: indices out of range, and two pairs with one destination. Reads call->max_slots and
 * pair_count only. Time is quadratic in pair_count.
 *   pairs   [pair_count, 2] source, destination
 *   status  NULL, or [16]: added to as the device would
 * Returns KPOOL_ERROR_INVALID_DATA with the first fault named by pair (two with one destination: by both).
 * Errors: also INVALID_ARGUMENT.
 */
KpoolResult kpoolValidatePairs(const KpoolCall *call, const uint32_t *pairs, uint32_t status[KPOOL_STATUS_COUNT],
                               KpoolDiagnostic *diagnostic);

/*
 * pool_row_offsets on the host, entry for entry what kpoolCmdPoolRowOffsets writes. Reads call->requests and rows
 * only; bases are not looked at.
 *   kpool              P, 1 to KPOOL_MAX_KPOOL
 *   input_row_offsets  [requests + 1]
 *   cache_lengths      [requests]
 *   pool_row_offsets   [requests + 1], written
 *   status             NULL, or [16]: added to as the device would
 * Errors: INVALID_ARGUMENT.
 */
KpoolResult kpoolPoolRowOffsets(uint32_t kpool, const KpoolCall *call, const uint32_t *input_row_offsets,
                                const uint32_t *cache_lengths, uint32_t *pool_row_offsets,
                                uint32_t status[KPOOL_STATUS_COUNT], KpoolDiagnostic *diagnostic);

#ifdef __cplusplus
}
#endif

#endif
