#include "bench_variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "record_command.h"

const char *const bench_variant_names[BENCH_VARIANT_COUNT] = {"empty", "ours", "plain", "copy", "memcpy", "long",
                                                              "fast",  "three"};

static bool fail(Gpu *gpu, const char *what, VkResult result)
{
    snprintf(gpu->error, sizeof gpu->error, "%s: VkResult %d", what, (int)result);
    return false;
}

/* ------------------------------------------------------------------------------- stages ------- */

static BenchMade create_stage(const BenchVariants *variants, const BenchScene *scene,
                              const KpoolKernelCreateInfo *info, BenchStage *stage, KpoolDiagnostic *reason)
{
    Gpu *gpu = scene->gpu;
    if (kpoolCreateKernel(gpu->context, info, &stage->kernel, reason) != KPOOL_SUCCESS) {
        return BENCH_REFUSED;
    }
    const VkDescriptorSetLayout layout = kpoolGetDescriptorSetLayout(gpu->context, info->operation);
    const VkDescriptorSetAllocateInfo setInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = variants->pool,
        .descriptorSetCount = 1,
        .pSetLayouts = &layout,
    };
    const VkResult result = vkAllocateDescriptorSets(gpu->device, &setInfo, &stage->set);
    if (result != VK_SUCCESS) {
        fail(gpu, "vkAllocateDescriptorSets", result);
        return BENCH_FAILED;
    }
    return kpoolWriteDescriptorSet(gpu->context, info->operation, stage->set, &scene->bindings, reason) ==
                   KPOOL_SUCCESS
               ? BENCH_MADE
               : BENCH_REFUSED;
}

static BenchMade create_stages(BenchVariants *variants, uint32_t lanes, uint32_t items, KpoolDiagnostic *reason)
{
    const KpoolKernelCreateInfo *base = &variants->scene->info;
    KpoolKernelCreateInfo info = *base;
    info.lanesPerItem = lanes;
    info.itemsPerGroup = items;
    BenchMade made = create_stage(variants, variants->scene, &info, &variants->stages[info.operation], reason);
    if (made == BENCH_MADE && variants->present[BENCH_LONG]) {
        made = create_stage(variants, variants->longer, &info, &variants->on_longer, reason);
    }
    if (made == BENCH_MADE && variants->present[BENCH_FAST]) {
        info.numerics = KPOOL_NUMERICS_FAST;
        made = create_stage(variants, variants->scene, &info, &variants->fast, reason);
    }
    static const KpoolOperation three[] = {KPOOL_OPERATION_RING_CLOSE, KPOOL_OPERATION_COMPRESS,
                                           KPOOL_OPERATION_SEED_TAIL};
    for (uint32_t i = 0; i < 3 && made == BENCH_MADE && variants->present[BENCH_THREE]; i++) {
        info = *base;
        info.operation = three[i];
        made = create_stage(variants, variants->scene, &info, &variants->stages[three[i]], reason);
    }
    return made;
}

/* ---------------------------------------------------------------------------- the copy -------- */

/* Where the rows that seed_tail moves go, from the host's index arrays; each region is a run of positions in one plane,
 * of k or gate. Both lie in one buffer, so they share one command. */
static uint32_t find_regions(const BenchScene *scene, VkBufferCopy *regions)
{
    const KpoolGeometry *geometry = &scene->info.geometry;
    const uint32_t *offsets = scene->before.input_row_offsets;
    const uint32_t *lengths = scene->before.cache_lengths;
    const uint32_t *slots = scene->before.slot_idx;
    const VkDeviceSize row_size = (VkDeviceSize)geometry->head_dim * kpoolTypeSize(geometry->type);
    const VkDeviceSize plane_size = geometry->kpool * row_size;
    uint32_t count = 0;
    for (uint32_t r = 0; r < scene->call.requests; r++) {
        const uint32_t end = lengths[r] + (offsets[r + 1] - offsets[r]);
        const uint32_t member = end % geometry->kpool;
        const uint32_t moved = member < end - lengths[r] ? member : end - lengths[r];
        if (moved == 0) {
            continue;
        }
        /* The last rows of the request; the ring is as long as a pool, so they do not wrap. */
        const VkDeviceSize from = (offsets[r + 1] - moved) * row_size;
        const VkDeviceSize slot = scene->bindings.tail.offset + (VkDeviceSize)slots[r] * 2 * plane_size;
        const VkDeviceSize to = slot + (member - moved) * row_size;
        regions[count++] = (VkBufferCopy){scene->bindings.k.offset + from, to, moved * row_size};
        regions[count++] = (VkBufferCopy){scene->bindings.gate.offset + from, to + plane_size, moved * row_size};
    }
    return count;
}

static void record_copy(BenchVariants *variants, VkCommandBuffer commandBuffer)
{
    const BenchScene *scene = variants->scene;
    const uint32_t count = find_regions(scene, variants->regions);
    if (count != 0) {
        vkCmdCopyBuffer(commandBuffer, scene->bindings.k.buffer, scene->bindings.tail.buffer, count,
                        variants->regions);
    }
}

/* On the tensors of `after`, which hold these rows already. */
static void move_rows(BenchVariants *variants)
{
    const BenchScene *scene = variants->scene;
    const uint32_t count = find_regions(scene, variants->regions);
    for (uint32_t i = 0; i < count; i++) {
        const VkBufferCopy *region = &variants->regions[i];
        memcpy((char *)scene->memory[1][KPOOL_GROUP_tail] + region->dstOffset,
               (const char *)scene->memory[0][KPOOL_GROUP_rows] + region->srcOffset, (size_t)region->size);
    }
}

/* ---------------------------------------------------------------------------- recording ------- */

static bool record_stage(const BenchScene *scene, VkCommandBuffer commandBuffer, const BenchStage *stage)
{
    KpoolDiagnostic diagnostic;
    RecordCommand *command = record_command(kpoolGetKernelInfo(stage->kernel).operation);
    if (command(commandBuffer, stage->kernel, stage->set, &scene->bindings, &scene->call, &diagnostic) !=
        KPOOL_SUCCESS) {
        snprintf(scene->gpu->error, sizeof scene->gpu->error, "%s", diagnostic.message);
        return false;
    }
    return true;
}

static void barrier(VkCommandBuffer commandBuffer, VkPipelineStageFlags stage, VkAccessFlags from, VkAccessFlags to)
{
    const VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = from, .dstAccessMask = to};
    vkCmdPipelineBarrier(commandBuffer, stage, stage, 0, 1, &memory, 0, NULL, 0, NULL);
}

static bool record(BenchVariants *variants, BenchVariant variant, VkCommandBuffer commandBuffer)
{
    const BenchStage *stages = variants->stages;
    const BenchScene *scene = variants->scene;
    switch (variant) {
    case BENCH_EMPTY:
        plain_port_record(&variants->empty, commandBuffer, 1);
        return true;
    case BENCH_OURS:
        return record_stage(scene, commandBuffer, &stages[scene->info.operation]);
    case BENCH_PLAIN:
        plain_port_record(&variants->plain, commandBuffer, scene->call.requests);
        return true;
    case BENCH_COPY:
        record_copy(variants, commandBuffer);
        return true;
    case BENCH_LONG:
        return record_stage(variants->longer, commandBuffer, &variants->on_longer);
    case BENCH_FAST:
        return record_stage(scene, commandBuffer, &variants->fast);
    case BENCH_THREE:
        if (!record_stage(scene, commandBuffer, &stages[KPOOL_OPERATION_RING_CLOSE])) {
            return false;
        }
        /* The two write nothing in common; in the floor layout the header asks for a barrier all the same. */
        if (kpoolGetBindingLayout(scene->gpu->context) == KPOOL_BINDING_LAYOUT_FLOOR) {
            gpu_barrier(commandBuffer);
        }
        if (!record_stage(scene, commandBuffer, &stages[KPOOL_OPERATION_COMPRESS])) {
            return false;
        }
        /* seed_tail writes what ring_close reads, and in the floor layout reads from where the two count drops. */
        gpu_barrier(commandBuffer);
        return record_stage(scene, commandBuffer, &stages[KPOOL_OPERATION_SEED_TAIL]);
    default:
        return true;
    }
}

static bool record_times(BenchVariants *variants, BenchVariant variant, uint32_t times, VkCommandBuffer commandBuffer)
{
    for (uint32_t i = 0; i < times; i++) {
        if (!record(variants, variant, commandBuffer)) {
            return false;
        }
        if (times > 1 && variant == BENCH_COPY) {
            barrier(commandBuffer, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                    VK_ACCESS_TRANSFER_WRITE_BIT);
        } else if (times > 1) {
            gpu_barrier(commandBuffer);
        }
    }
    return true;
}

static bool end(Gpu *gpu, VkCommandBuffer commandBuffer)
{
    const VkResult result = vkEndCommandBuffer(commandBuffer);
    return result == VK_SUCCESS || fail(gpu, "vkEndCommandBuffer", result);
}

/* VK_NULL_HANDLE on failure. */
static VkCommandBuffer record_ahead(BenchVariants *variants, BenchVariant variant, uint32_t times)
{
    Gpu *gpu = variants->scene->gpu;
    const VkCommandBuffer commandBuffer = gpu_begin(gpu);
    if (commandBuffer != VK_NULL_HANDLE &&
        (!record_times(variants, variant, times, commandBuffer) || !end(gpu, commandBuffer))) {
        gpu_free_command_buffer(gpu, commandBuffer);
        return VK_NULL_HANDLE;
    }
    return commandBuffer;
}

static bool recorded_ahead(BenchVariant variant)
{
    return variant != BENCH_COPY && variant != BENCH_MEMCPY;
}

static bool record_all(BenchVariants *variants)
{
    for (BenchVariant variant = 0; variant < BENCH_VARIANT_COUNT; variant++) {
        if (variants->present[variant] && recorded_ahead(variant)) {
            variants->once[variant] = record_ahead(variants, variant, 1);
            variants->many[variant] = record_ahead(variants, variant, BENCH_REPETITIONS);
            if (variants->once[variant] == VK_NULL_HANDLE || variants->many[variant] == VK_NULL_HANDLE) {
                return false;
            }
        }
    }
    variants->nothing = record_ahead(variants, BENCH_EMPTY, 0);
    return variants->nothing != VK_NULL_HANDLE;
}

/* ------------------------------------------------------------------------------- timing ------- */

static bool submit_copy(BenchVariants *variants, uint32_t times)
{
    Gpu *gpu = variants->scene->gpu;
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    /* Begins anew: what was recorded before is reset. */
    const VkResult result = vkBeginCommandBuffer(variants->copy, &begin);
    if (result != VK_SUCCESS) {
        return fail(gpu, "vkBeginCommandBuffer", result);
    }
    return record_times(variants, BENCH_COPY, times, variants->copy) && end(gpu, variants->copy) &&
           gpu_submit(gpu, variants->copy);
}

bool bench_variant_time(BenchVariants *variants, BenchVariant variant, uint32_t times, double *seconds)
{
    Gpu *gpu = variants->scene->gpu;
    bool done = true;
    const double start = progress_clock();
    if (variant == BENCH_COPY) {
        done = submit_copy(variants, times);
    } else if (variant == BENCH_MEMCPY) {
        for (uint32_t i = 0; i < times; i++) {
            move_rows(variants);
        }
    } else {
        done = gpu_submit(gpu, times == 1 ? variants->once[variant] : variants->many[variant]);
    }
    *seconds = progress_clock() - start;
    return done;
}

bool bench_submission_time(BenchVariants *variants, double *seconds)
{
    const double start = progress_clock();
    const bool done = gpu_submit(variants->scene->gpu, variants->nothing);
    *seconds = progress_clock() - start;
    return done;
}

/* ------------------------------------------------------------------------------- verify ------- */

/* memcpy works on the host: on the ring as it was before, which must become the one that is expected. */
static const char *verify_memcpy(BenchVariants *variants)
{
    BenchScene *scene = variants->scene;
    const size_t size = (size_t)scene->bindings.tail.size;
    memcpy(scene->found.tail, scene->after.tail, size);
    memcpy(scene->after.tail, scene->before.tail, size);
    move_rows(variants);
    const bool right = memcmp(scene->found.tail, scene->after.tail, size) == 0;
    memcpy(scene->after.tail, scene->found.tail, size);
    return right ? NULL : "tail";
}

BenchVerdict bench_variants_verify(BenchVariants *variants, Complaint *complaint)
{
    for (BenchVariant variant = 0; variant < BENCH_VARIANT_COUNT; variant++) {
        BenchScene *scene = variant == BENCH_LONG ? variants->longer : variants->scene;
        const char *wrong = NULL;
        double seconds;
        if (!variants->present[variant]) {
            continue;
        }
        if (variant == BENCH_MEMCPY) {
            wrong = verify_memcpy(variants);
        } else if (!bench_scene_upload(scene) || !bench_variant_time(variants, variant, 1, &seconds) ||
                   !bench_scene_download(scene)) {
            return BENCH_NOT_RUN;
        } else {
            wrong = bench_scene_compare(scene, variant == BENCH_EMPTY ? &scene->before : &scene->after,
                                        variant == BENCH_FAST ? KPOOL_NUMERICS_FAST : KPOOL_NUMERICS_EXACT);
        }
        if (wrong != NULL) {
            complain(complaint, "%s is not timed: its %s differs from the reference", bench_variant_names[variant],
                     wrong);
            return BENCH_WRONG;
        }
    }
    return BENCH_RIGHT;
}

/* ------------------------------------------------------------------------------- create ------- */

static void choose(BenchVariants *variants)
{
    const BenchScene *scene = variants->scene;
    const KpoolOperation operation = scene->info.operation;
    variants->present[BENCH_EMPTY] = true;
    variants->present[BENCH_OURS] = true;
    const bool seeds = operation == KPOOL_OPERATION_SEED_TAIL;
    variants->present[BENCH_PLAIN] = seeds && plain_port_fits(scene->gpu, &scene->info.geometry);
    variants->present[BENCH_COPY] = seeds;
    variants->present[BENCH_MEMCPY] = seeds;
    variants->present[BENCH_LONG] = variants->longer != NULL;
    variants->present[BENCH_FAST] = operation == KPOOL_OPERATION_COMPRESS;
    variants->present[BENCH_THREE] = operation == KPOOL_OPERATION_STEP;
}

static bool create_pool(BenchVariants *variants)
{
    Gpu *gpu = variants->scene->gpu;
    /* At most four calls of the library, each of at most every tensor. */
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 4 * KPOOL_TENSOR_COUNT};
    const VkDescriptorPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 4,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    const VkResult result = vkCreateDescriptorPool(gpu->device, &info, NULL, &variants->pool);
    return result == VK_SUCCESS || fail(gpu, "vkCreateDescriptorPool", result);
}

static bool create_copy(BenchVariants *variants)
{
    Gpu *gpu = variants->scene->gpu;
    variants->regions = calloc((size_t)variants->scene->call.requests * 2, sizeof *variants->regions);
    if (variants->regions == NULL) {
        snprintf(gpu->error, sizeof gpu->error, "out of memory");
        return false;
    }
    const VkCommandPoolCreateInfo poolInfo = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = gpu->queueFamily,
    };
    VkResult result = vkCreateCommandPool(gpu->device, &poolInfo, NULL, &variants->copyPool);
    if (result != VK_SUCCESS) {
        return fail(gpu, "vkCreateCommandPool", result);
    }
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = variants->copyPool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    result = vkAllocateCommandBuffers(gpu->device, &info, &variants->copy);
    return result == VK_SUCCESS || fail(gpu, "vkAllocateCommandBuffers", result);
}

static BenchMade create(BenchVariants *variants, uint32_t lanes, uint32_t items, KpoolDiagnostic *reason)
{
    BenchScene *scene = variants->scene;
    if (!create_pool(variants) || !plain_port_create_empty(&variants->empty, scene->gpu, VK_NULL_HANDLE, 0)) {
        return BENCH_FAILED;
    }
    const BenchMade made = create_stages(variants, lanes, items, reason);
    if (made != BENCH_MADE) {
        return made;
    }
    if (variants->present[BENCH_PLAIN] &&
        !plain_port_create_seed_tail(&variants->plain, scene->gpu, &scene->info.geometry, &scene->bindings)) {
        return BENCH_FAILED;
    }
    if (variants->present[BENCH_COPY] && !create_copy(variants)) {
        return BENCH_FAILED;
    }
    return record_all(variants) ? BENCH_MADE : BENCH_FAILED;
}

BenchMade bench_variants_create(BenchVariants *variants, BenchScene *scene, BenchScene *longer, uint32_t lanes,
                                uint32_t items, KpoolDiagnostic *reason)
{
    *variants = (BenchVariants){.scene = scene, .longer = longer};
    choose(variants);
    const BenchMade made = create(variants, lanes, items, reason);
    if (made != BENCH_MADE) {
        bench_variants_destroy(variants);
    }
    return made;
}

void bench_variants_destroy(BenchVariants *variants)
{
    if (variants->scene == NULL) {
        return;
    }
    Gpu *gpu = variants->scene->gpu;
    for (uint32_t i = 0; i < BENCH_VARIANT_COUNT; i++) {
        gpu_free_command_buffer(gpu, variants->once[i]);
        gpu_free_command_buffer(gpu, variants->many[i]);
    }
    gpu_free_command_buffer(gpu, variants->nothing);
    vkDestroyCommandPool(gpu->device, variants->copyPool, NULL);
    free(variants->regions);
    plain_port_destroy(&variants->plain);
    plain_port_destroy(&variants->empty);
    vkDestroyDescriptorPool(gpu->device, variants->pool, NULL);
    kpoolDestroyKernel(variants->fast.kernel);
    kpoolDestroyKernel(variants->on_longer.kernel);
    for (uint32_t i = 0; i < sizeof variants->stages / sizeof variants->stages[0]; i++) {
        kpoolDestroyKernel(variants->stages[i].kernel);
    }
    *variants = (BenchVariants){0};
}
