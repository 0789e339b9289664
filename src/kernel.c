#include "kernel.h"

#include "diagnostic.h"
#include "shape.h"
#include "spirv.h"

typedef struct Specialization {
#define SPECIALIZATION_FIELD(id, name) uint32_t name;
    KPOOL_SPECIALIZATION(SPECIALIZATION_FIELD)
#undef SPECIALIZATION_FIELD
} Specialization;

#define CHECK_ID(id, name)                                                  \
    _Static_assert(offsetof(Specialization, name) == (id) * sizeof(uint32_t), \
                   "the id of " #name " is its place in the struct");
KPOOL_SPECIALIZATION(CHECK_ID)

/* Every device has this many invocations a workgroup; no more are asked for. */
#define MOST_INVOCATIONS 128u

static bool is_power_of_two(uint32_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

static uint32_t power_of_two_below(uint32_t value)
{
    uint32_t power = 1;
    while (power <= value / 2) {
        power *= 2;
    }
    return power;
}

/* Cost on a CPU follows the lanes launched, so a lane does several words and a workgroup many requests; a GPU
 * wants the shortest chain: a lane for each word that can move, up to one subgroup's worth. */
static void choose_shape(VkPhysicalDeviceType deviceType, KpoolKernelCreateInfo *info)
{
    const KpoolGeometry *g = &info->geometry;
    const uint32_t row_words = g->head_dim * kpoolTypeSize(g->type) / info->alignment;
    const bool cpu = deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    if (info->lanesPerItem == 0) {
        const uint32_t most_moved = (g->kpool - 1 + g->rollback) * row_words;
        const uint32_t lanes = cpu ? power_of_two_below(row_words) : 2 * power_of_two_below(most_moved);
        const uint32_t most = cpu ? 16 : 64;
        info->lanesPerItem = lanes < most ? lanes : most;
    }
    if (info->itemsPerGroup == 0) {
        const uint32_t least = cpu ? 64 : 32;
        info->itemsPerGroup = info->lanesPerItem < least ? least / info->lanesPerItem : 1;
    }
}

static KpoolResult resolve_info(KpoolContext context, const KpoolKernelCreateInfo *createInfo,
                                KpoolKernelCreateInfo *info, KpoolDiagnostic *diagnostic)
{
    *info = *createInfo;
    info->pipelineCache = VK_NULL_HANDLE;
    if (info->pNext != NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.pNext", "createInfo.pNext must be NULL");
    }
    if (kpoolOperationTensors(info->operation) == 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.operation",
                         "createInfo.operation is %d, no KpoolOperation", (int)info->operation);
    }
    const KpoolResult result = kpoolResolveGeometry(&createInfo->geometry, &info->geometry, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    if (info->alignment == 0) {
        info->alignment = 4;
    }
    if (info->alignment != 4 && info->alignment != 16) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.alignment",
                         "createInfo.alignment is %u, must be 0, 4 or 16", info->alignment);
    }
    const uint32_t row_size = info->geometry.head_dim * kpoolTypeSize(info->geometry.type);
    if (row_size % info->alignment != 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.alignment",
                         "createInfo.alignment is 16, a row of %u bytes is no multiple of it", row_size);
    }
    choose_shape(context->deviceType, info);
    if (!is_power_of_two(info->lanesPerItem)) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.lanesPerItem",
                         "createInfo.lanesPerItem is %u, must be a power of two", info->lanesPerItem);
    }
    if (!is_power_of_two(info->itemsPerGroup)) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.itemsPerGroup",
                         "createInfo.itemsPerGroup is %u, must be a power of two", info->itemsPerGroup);
    }
    if (info->lanesPerItem > MOST_INVOCATIONS / info->itemsPerGroup ||
        info->itemsPerGroup > MOST_INVOCATIONS) {
        return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, "createInfo.itemsPerGroup",
                         "createInfo.lanesPerItem is %u and itemsPerGroup %u, together at most %u invocations",
                         info->lanesPerItem, info->itemsPerGroup, MOST_INVOCATIONS);
    }
    return KPOOL_SUCCESS;
}

static KpoolResult create_pipeline(KpoolKernel kernel, VkPipelineCache cache, KpoolDiagnostic *diagnostic)
{
    const KpoolContext context = kernel->context;
    const KpoolFunctions *functions = &context->functions;
    const KpoolKernelCreateInfo *info = &kernel->info;
    const KpoolModule spirv = kpoolFindModule(info->operation, context->bindingLayout, info->alignment);
    const VkShaderModuleCreateInfo moduleInfo = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = spirv.size,
        .pCode = spirv.words,
    };
    VkShaderModule module = VK_NULL_HANDLE;
    VkResult vkResult = functions->vkCreateShaderModule(context->device, &moduleInfo, context->allocator, &module);
    if (vkResult != VK_SUCCESS) {
        return kpoolFailVulkan(diagnostic, vkResult, "vkCreateShaderModule");
    }
    const char *name = kpoolOperationName(info->operation);
    kpoolNameObject(context, VK_OBJECT_TYPE_SHADER_MODULE, (uint64_t)module, name, "module");

    const Specialization values = {
        .local_size = info->lanesPerItem * info->itemsPerGroup,
        .head_dim = info->geometry.head_dim,
        .kpool = info->geometry.kpool,
        .ring = info->geometry.ring,
        .rollback = info->geometry.rollback,
        .element_size = kpoolTypeSize(info->geometry.type),
        .lanes_per_item = info->lanesPerItem,
        .items_per_group = info->itemsPerGroup,
        .type = (uint32_t)info->geometry.type,
        .pooled_type = (uint32_t)info->geometry.type,
        .numerics = 0,
    };
    static const VkSpecializationMapEntry entries[] = {
#define MAP_ENTRY(id, name) {id, offsetof(Specialization, name), sizeof(uint32_t)},
        KPOOL_SPECIALIZATION(MAP_ENTRY)
#undef MAP_ENTRY
    };
    const VkSpecializationInfo specialization = {
        .mapEntryCount = sizeof entries / sizeof entries[0],
        .pMapEntries = entries,
        .dataSize = sizeof values,
        .pData = &values,
    };
    const VkComputePipelineCreateInfo pipelineInfo = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &specialization},
        .layout = context->pipelineLayouts[info->operation],
    };
    vkResult = functions->vkCreateComputePipelines(context->device, cache, 1, &pipelineInfo, context->allocator,
                                                   &kernel->pipeline);
    functions->vkDestroyShaderModule(context->device, module, context->allocator);
    if (vkResult != VK_SUCCESS) {
        return kpoolFailVulkan(diagnostic, vkResult, "vkCreateComputePipelines");
    }
    kpoolNameObject(context, VK_OBJECT_TYPE_PIPELINE, (uint64_t)kernel->pipeline, name, "pipeline");
    return KPOOL_SUCCESS;
}

KpoolResult kpoolCreateKernel(KpoolContext context, const KpoolKernelCreateInfo *createInfo, KpoolKernel *kernel,
                              KpoolDiagnostic *diagnostic)
{
    if (kernel == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "kernel", "kernel is NULL");
    }
    *kernel = NULL;
    if (context == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "context", "context is NULL");
    }
    if (createInfo == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo", "createInfo is NULL");
    }
    KpoolKernelCreateInfo info;
    KpoolResult result = resolve_info(context, createInfo, &info, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    KpoolKernel made = kpoolAllocate(context->allocator, sizeof *made);
    if (made == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_OUT_OF_HOST_MEMORY, "pAllocator",
                         "pAllocator gave no memory for a kernel");
    }
    *made = (struct KpoolKernel_T){.context = context, .info = info};
    result = create_pipeline(made, createInfo->pipelineCache, diagnostic);
    if (result != KPOOL_SUCCESS) {
        kpoolFree(context->allocator, made);
        return result;
    }
    *kernel = made;
    return KPOOL_SUCCESS;
}

void kpoolDestroyKernel(KpoolKernel kernel)
{
    if (kernel == NULL) {
        return;
    }
    const KpoolContext context = kernel->context;
    context->functions.vkDestroyPipeline(context->device, kernel->pipeline, context->allocator);
    kpoolFree(context->allocator, kernel);
}

KpoolKernelCreateInfo kpoolGetKernelInfo(KpoolKernel kernel)
{
    return kernel->info;
}
