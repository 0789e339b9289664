#include "bench_scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "pooled_model.h"
#include "reference.h"

/* What the widest words of a kernel need. */
#define WIDEST_WORD 16u
/* What outputs hold before they are written. */
#define UNWRITTEN 0xa5
/* Tokens that a request may have brought before. */
#define MOST_CACHED 4096u
/* The largest |k| that make_row makes. */
#define LARGEST_KEY 8.0

/* A tensor's place in this file's tables. */
typedef struct Placement {
    const char *name;
    uint32_t group;
    KpoolRange *range;
    void **images[3]; /* before, after, found */
} Placement;

static void list_placements(BenchScene *scene, Placement placements[KPOOL_TENSOR_COUNT])
{
#define PLACE(tensor, its_group)                                               \
    placements[KPOOL_BINDING_##tensor] =                                       \
        (Placement){#tensor,                                                   \
                    KPOOL_GROUP_##its_group,                                   \
                    &scene->bindings.tensor,                                   \
                    {&scene->before.tensor, &scene->after.tensor, &scene->found.tensor}};
    KPOOL_TENSORS(PLACE)
#undef PLACE
}

/* ------------------------------------------------------------------------------- sizes -------- */

static KpoolCall make_call(const KpoolGeometry *geometry, const BenchMix *mix, uint32_t requests)
{
    const uint32_t rows = requests * mix->most;
    return (KpoolCall){
        .max_slots = 2 * requests,
        .requests = requests,
        .rows = rows,
        .pooled_rows = (rows + geometry->kpool - 1) / geometry->kpool,
        .pair_count = requests,
    };
}

/* Turns the sizes in bindings into offsets, one range after the other in each group's buffer. */
static bool place_tensors(BenchScene *scene, VkDeviceSize ends[KPOOL_GROUP_COUNT])
{
    Placement placements[KPOOL_TENSOR_COUNT];
    list_placements(scene, placements);
    const VkDeviceSize needed = scene->gpu->properties.limits.minStorageBufferOffsetAlignment;
    const VkDeviceSize alignment = needed > WIDEST_WORD ? needed : WIDEST_WORD;
    bool fits = true;
    for (uint32_t i = 0; i < KPOOL_TENSOR_COUNT; i++) {
        KpoolRange *range = placements[i].range;
        VkDeviceSize *end = &ends[placements[i].group];
        if (range->size != 0) {
            range->offset = (*end + alignment - 1) / alignment * alignment;
            *end = range->offset + range->size;
            fits = fits && *end <= BENCH_MOST_BYTES;
        }
    }
    return fits;
}

/* ------------------------------------------------------------------------------ buffers ------- */

static void record_copies(BenchScene *scene, VkCommandBuffer commandBuffer, bool up)
{
    const VkMemoryBarrier before = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
    };
    vkCmdPipelineBarrier(commandBuffer, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1,
                         &before, 0, NULL, 0, NULL);
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        const VkBuffer local = scene->buffers[group].buffer;
        const VkBuffer staging = scene->staging[group].buffer;
        const VkBufferCopy all = {.size = scene->buffers[group].size};
        if (local != VK_NULL_HANDLE) {
            vkCmdCopyBuffer(commandBuffer, up ? staging : local, up ? local : staging, 1, &all);
        }
    }
    const VkMemoryBarrier after = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
    };
    vkCmdPipelineBarrier(commandBuffer, VK_PIPELINE_STAGE_TRANSFER_BIT,
                         up ? VK_PIPELINE_STAGE_ALL_COMMANDS_BIT : VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &after, 0, NULL, 0,
                         NULL);
}

static bool create_buffers(BenchScene *scene, const VkDeviceSize ends[KPOOL_GROUP_COUNT])
{
    Gpu *gpu = scene->gpu;
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        if (ends[group] == 0) {
            continue;
        }
        if (!gpu_create_local_buffer(gpu, ends[group], &scene->buffers[group]) ||
            !gpu_create_buffer(gpu, ends[group], &scene->staging[group])) {
            return false;
        }
        for (uint32_t i = 0; i < 2; i++) {
            scene->memory[i][group] = malloc((size_t)scene->buffers[group].size);
            if (scene->memory[i][group] == NULL) {
                snprintf(gpu->error, sizeof gpu->error, "out of memory");
                return false;
            }
            memset(scene->memory[i][group], UNWRITTEN, (size_t)scene->buffers[group].size);
        }
    }
    Placement placements[KPOOL_TENSOR_COUNT];
    list_placements(scene, placements);
    for (uint32_t i = 0; i < KPOOL_TENSOR_COUNT; i++) {
        const Placement *placement = &placements[i];
        const uint32_t group = placement->group;
        if (placement->range->size != 0) {
            placement->range->buffer = scene->buffers[group].buffer;
            void *const memories[] = {scene->memory[0][group], scene->memory[1][group], scene->staging[group].mapped};
            for (uint32_t image = 0; image < 3; image++) {
                *placement->images[image] = (char *)memories[image] + placement->range->offset;
            }
        }
    }
    scene->upload = gpu_begin(gpu);
    scene->download = gpu_begin(gpu);
    if (scene->upload == VK_NULL_HANDLE || scene->download == VK_NULL_HANDLE) {
        return false;
    }
    record_copies(scene, scene->upload, true);
    record_copies(scene, scene->download, false);
    return gpu_end(gpu, scene->upload) && gpu_end(gpu, scene->download);
}

bool bench_scene_upload(BenchScene *scene)
{
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        const GpuBuffer *staging = &scene->staging[group];
        if (staging->mapped != NULL) {
            memcpy(staging->mapped, scene->memory[0][group], (size_t)staging->size);
            gpu_flush(scene->gpu, staging);
        }
    }
    return gpu_submit(scene->gpu, scene->upload);
}

bool bench_scene_download(BenchScene *scene)
{
    const bool done = gpu_submit(scene->gpu, scene->download);
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        if (scene->staging[group].mapped != NULL) {
            gpu_invalidate(scene->gpu, &scene->staging[group]);
        }
    }
    return done;
}

/* ----------------------------------------------------------------------------- contents ------- */

/* In [0, most), repeatable. */
static uint32_t random_below(uint32_t most, uint32_t kind, uint32_t index)
{
    return (uint32_t)(hash64(((uint64_t)kind << 32) | index) % most);
}

static void fill_rows(void *image, KpoolType type, uint32_t head_dim, uint32_t rows, uint32_t author)
{
    const size_t size = (size_t)head_dim * kpoolTypeSize(type);
    for (uint32_t row = 0; image != NULL && row < rows; row++) {
        make_row(type, head_dim, author, row, PLANE_KEY, (char *)image + row * size);
    }
}

/* The first `count` of a random order of max_slots. */
static void fill_slots(uint32_t *slots, uint32_t count, uint32_t max_slots)
{
    for (uint32_t i = 0; i < count; i++) {
        slots[i] = i;
    }
    /* A slot's place is taken by one that is not used, or by another's. */
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t j = random_below(max_slots, 1, i);
        if (j < count) {
            const uint32_t swapped = slots[i];
            slots[i] = slots[j];
            slots[j] = swapped;
        }
    }
}

static void fill(BenchScene *scene, const BenchMix *mix)
{
    const KpoolGeometry *geometry = &scene->info.geometry;
    const KpoolCall *call = &scene->call;
    TensorImages *images = &scene->before;
    uint32_t *offsets = images->input_row_offsets;
    uint32_t *lengths = images->cache_lengths;
    uint32_t *pairs = images->pairs;
    for (uint32_t r = 0; offsets != NULL && r <= call->requests; r++) {
        const uint32_t tokens = r == 0 ? 0 : mix->least + random_below(mix->most - mix->least + 1, 2, r);
        offsets[r] = r == 0 ? 0 : offsets[r - 1] + tokens;
    }
    for (uint32_t r = 0; lengths != NULL && r < call->requests; r++) {
        lengths[r] = random_below(MOST_CACHED, 3, r);
    }
    if (images->slot_idx != NULL) {
        fill_slots(images->slot_idx, call->requests, call->max_slots);
    }
    for (uint32_t i = 0; pairs != NULL && i < call->pair_count; i++) {
        pairs[2 * (size_t)i] = i;
        pairs[2 * (size_t)i + 1] = call->pair_count + i;
    }
    fill_rows(images->k, geometry->type, geometry->head_dim, call->rows, 1);
    fill_rows(images->gate, geometry->type, geometry->head_dim, call->rows, 2);
    fill_rows(images->ape, KPOOL_TYPE_F32, geometry->head_dim, geometry->kpool, 3);
    fill_rows(images->tail, geometry->type, geometry->head_dim, call->max_slots * 2 * geometry->kpool, 4);
    memset(images->status, 0, (size_t)scene->bindings.status.size);
    if (images->pool_row_offsets != NULL && scene->info.operation != KPOOL_OPERATION_POOL_ROW_OFFSETS) {
        kpoolPoolRowOffsets(geometry->kpool, call, offsets, lengths, images->pool_row_offsets, NULL, NULL);
    }
    int32_t *ids = images->pool_ids;
    for (uint32_t r = 0; ids != NULL && offsets != NULL && lengths != NULL && r < call->requests; r++) {
        for (uint32_t row = offsets[r]; row < offsets[r + 1]; row++) {
            const uint32_t pools = (lengths[r] + (row - offsets[r]) + 1) / geometry->kpool;
            for (uint32_t i = row * scene->info.topk; i < (row + 1) * scene->info.topk; i++) {
                ids[i] = pools != 0 ? (int32_t)random_below(pools, 4, i) : -1;
            }
        }
    }
}

/* What the reference makes of a copy. */
static void expect(BenchScene *scene)
{
    for (uint32_t group = 0; group < KPOOL_GROUP_COUNT; group++) {
        if (scene->memory[0][group] != NULL) {
            memcpy(scene->memory[1][group], scene->memory[0][group], (size_t)scene->buffers[group].size);
        }
    }
    const KpoolKernelCreateInfo *info = &scene->info;
    const KpoolCall *call = &scene->call;
    const TensorImages *before = &scene->before;
    const TensorImages *after = &scene->after;
    const uint32_t *offsets = before->input_row_offsets;
    const uint32_t *lengths = before->cache_lengths;
    switch (info->operation) {
    case KPOOL_OPERATION_SEED_TAIL:
        reference_seed_tail(&info->geometry, call, after->tail, before->k, before->gate, offsets, lengths,
                            before->slot_idx, after->status);
        break;
    case KPOOL_OPERATION_RING_CLOSE:
        reference_ring_close(info, call, before->tail, before->k, before->gate, before->ape, offsets, lengths,
                             before->slot_idx, after->closed_pool, after->closed_pooled, after->status);
        break;
    case KPOOL_OPERATION_COMPRESS:
        reference_compress(info, call, before->k, before->gate, before->ape, offsets, lengths,
                           before->pool_row_offsets, after->pooled, after->status);
        break;
    case KPOOL_OPERATION_POOL_ROW_OFFSETS:
        reference_pool_row_offsets(info->geometry.kpool, call, offsets, lengths, after->pool_row_offsets,
                                   after->status);
        break;
    case KPOOL_OPERATION_EXPAND_TOPK:
        reference_expand_topk(info->geometry.kpool, info->topk, info->topk_layout, info->with_tail != VK_FALSE, call,
                              offsets, lengths, before->pool_ids, after->out, after->status);
        break;
    case KPOOL_OPERATION_COPY_SLOTS:
        reference_copy_slots(&info->geometry, call, before->tail, after->tail, before->pairs, after->status);
        break;
    case KPOOL_OPERATION_STEP:
        reference_step(info, call, after->tail, before->k, before->gate, before->ape, offsets, lengths,
                       before->slot_idx, before->pool_row_offsets, NULL, after->closed_pool, after->closed_pooled,
                       after->pooled, after->status);
        break;
    case KPOOL_OPERATION_CHECK_SLOTS:
        reference_check_slots(call, offsets, lengths, before->slot_idx, after->status);
        break;
    case KPOOL_OPERATION_NONE:
        break;
    }
}

/* ------------------------------------------------------------------------------ compare ------- */

/* Both are within half a unit and 2e-6 * max|k| of the model, or nearer. */
static bool is_near(const BenchScene *scene, const void *found, const void *expected)
{
    const KpoolType type = scene->info.pooled_type;
    const size_t count = (size_t)(scene->bindings.pooled.size / kpoolTypeSize(type));
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = element_bits(type, found, i);
        const uint32_t wanted = element_bits(type, expected, i);
        const double value = pooled_model_decode(type, wanted);
        if (bits != wanted && !(fabs(pooled_model_decode(type, bits) - value) <=
                                pooled_model_ulp(type, value) + 4e-6 * LARGEST_KEY)) {
            return false;
        }
    }
    return true;
}

const char *bench_scene_compare(const BenchScene *scene, const TensorImages *expected, KpoolNumerics numerics)
{
#define COMPARE(tensor, group)                                                                            \
    if (expected->tensor != NULL && KPOOL_BINDING_##tensor != KPOOL_BINDING_scratch &&                    \
        memcmp(scene->found.tensor, expected->tensor, (size_t)scene->bindings.tensor.size) != 0 &&        \
        !(numerics == KPOOL_NUMERICS_FAST && KPOOL_BINDING_##tensor == KPOOL_BINDING_pooled &&            \
          is_near(scene, scene->found.tensor, expected->tensor))) {                                       \
        return #tensor;                                                                                   \
    }
    KPOOL_TENSORS(COMPARE)
#undef COMPARE
    return NULL;
}

/* ------------------------------------------------------------------------------- create ------- */

static BenchMade create(BenchScene *scene, const BenchMix *mix, KpoolDiagnostic *reason)
{
    if (kpoolGetSizes(&scene->info, &scene->call, &scene->bindings, reason) != KPOOL_SUCCESS) {
        return BENCH_REFUSED;
    }
    VkDeviceSize ends[KPOOL_GROUP_COUNT] = {0};
    if (!place_tensors(scene, ends)) {
        return BENCH_TOO_LARGE;
    }
    if (!create_buffers(scene, ends)) {
        return BENCH_FAILED;
    }
    fill(scene, mix);
    expect(scene);
    return BENCH_MADE;
}

BenchMade bench_scene_create(BenchScene *scene, Gpu *gpu, const KpoolKernelCreateInfo *info, const BenchMix *mix,
                             uint32_t requests, KpoolDiagnostic *reason)
{
    *scene = (BenchScene){.gpu = gpu, .info = *info};
    scene->call = make_call(&info->geometry, mix, requests);
    const BenchMade made = create(scene, mix, reason);
    if (made != BENCH_MADE) {
        bench_scene_destroy(scene);
    }
    return made;
}

void bench_scene_destroy(BenchScene *scene)
{
    Gpu *gpu = scene->gpu;
    gpu_free_command_buffer(gpu, scene->upload);
    gpu_free_command_buffer(gpu, scene->download);
    for (uint32_t group = KPOOL_GROUP_COUNT; group-- > 0;) {
        gpu_destroy_buffer(gpu, &scene->buffers[group]);
        gpu_destroy_buffer(gpu, &scene->staging[group]);
        free(scene->memory[0][group]);
        free(scene->memory[1][group]);
    }
    *scene = (BenchScene){.gpu = gpu};
}
