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
_Static_assert((int)KPOOL_RING_CLOSE == (int)KPOOL_OPERATION_RING_CLOSE &&
                   (int)KPOOL_COMPRESS == (int)KPOOL_OPERATION_COMPRESS &&
                   (int)KPOOL_STEP == (int)KPOOL_OPERATION_STEP &&
                   (int)KPOOL_CHECK_SLOTS == (int)KPOOL_OPERATION_CHECK_SLOTS,
               "interface.h has the values of KpoolOperation");

/* Every device has this many invocations a workgroup; no more are asked for. */
#define MOST_INVOCATIONS 128u

static bool is_power_of_two(uint32_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* What an item has for lanes to do: rows, and words in each (of pooled keys: pairs of channels). */
typedef struct ItemWork {
    uint32_t rows;
    uint32_t row_words;
} ItemWork;

static ItemWork measure_item(const KpoolKernelCreateInfo *info)
{
    const KpoolGeometry *g = &info->geometry;
    const uint32_t row_words = g->head_dim * kpoolTypeSize(g->type) / info->alignment;
    switch (info->operation) {
    case KPOOL_OPERATION_SEED_TAIL:
        return (ItemWork){g->kpool - 1 + g->rollback, row_words};
    case KPOOL_OPERATION_COPY_SLOTS:
        return (ItemWork){2 * g->ring, row_words};
    case KPOOL_OPERATION_RING_CLOSE:
    case KPOOL_OPERATION_COMPRESS:
    case KPOOL_OPERATION_STEP:
        return (ItemWork){1, (g->head_dim + 1) / 2};
    default:
        return (ItemWork){1, MOST_INVOCATIONS};
    }
}

/* The power of two in [value, 2 * value), 1 for 0, but at most `most`, a power of two. */
static uint32_t power_of_two_above(uint32_t value, uint32_t most)
{
    uint32_t power = 1;
    while (power < value && power < most) {
        power *= 2;
    }
    return power;
}

/* On a CPU a subgroup is one vector, whose lanes cost the same whether they work or not: there an item takes one, a
 * lane does several words, and a workgroup holds many items; a GPU wants the shortest chain: a lane a word, up to one
 * or two subgroups. Most calls bring far fewer pools than they may, and on a CPU an item without work costs almost what
 * one with work does: there few items make many rows, and in step, whose items are long, a workgroup is small. */
static void choose_shape(KpoolContext context, KpoolKernelCreateInfo *info)
{
    const bool whole = kpoolOperationUsesWholeGroup(info->operation);
    const bool cpu = context->deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU && !whole;
    const uint32_t vector = power_of_two_above(context->subgroupSize, 32);
    if (info->lanesPerItem == 0) {
        const ItemWork work = measure_item(info);
        uint32_t most = cpu ? vector : 64;
        while (most > 1 && info->itemsPerGroup > MOST_INVOCATIONS / most) {
            most /= 2;
        }
        info->lanesPerItem = power_of_two_above(cpu ? work.row_words / 4 : work.rows * work.row_words, most);
    }
    if (info->itemsPerGroup == 0) {
        const uint32_t of_cpu = info->operation == KPOOL_OPERATION_STEP ? 2 * vector : 64;
        const uint32_t wanted = whole ? 1 : cpu ? of_cpu : 32;
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): lanesPerItem is at least 1 by now */
        info->itemsPerGroup = info->lanesPerItem < wanted ? wanted / info->lanesPerItem : 1;
    }
    if (info->rowsPerItem == 0) {
        info->rowsPerItem = cpu && kpoolOperationMakesRows(info->operation) ? 8 : 1;
    }
}

static KpoolResult resolve_info(KpoolContext context, const KpoolKernelCreateInfo *createInfo,
                                KpoolKernelCreateInfo *info, KpoolDiagnostic *diagnostic)
{
    const KpoolResult result = kpoolResolveKernelInfo(createInfo, info, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    choose_shape(context, info);
    if (!is_power_of_two(info->lanesPerItem)) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.lanesPerItem",
                         "createInfo.lanesPerItem is %u, must be a power of two", info->lanesPerItem);
    }
    if (!is_power_of_two(info->itemsPerGroup)) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.itemsPerGroup",
                         "createInfo.itemsPerGroup is %u, must be a power of two", info->itemsPerGroup);
    }
    if (info->rowsPerItem >= KPOOL_MAX_ELEMENTS) {
        return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, "createInfo.rowsPerItem",
                         "createInfo.rowsPerItem is %u, must be below 2^31", info->rowsPerItem);
    }
    if (!kpoolOperationMakesRows(info->operation) && info->rowsPerItem != 1) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.rowsPerItem",
                         "createInfo.rowsPerItem is %u, must be 0 or 1 for %s", info->rowsPerItem,
                         kpoolOperationName(info->operation));
    }
    if (kpoolOperationUsesWholeGroup(info->operation) && info->itemsPerGroup != 1) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.itemsPerGroup",
                         "createInfo.itemsPerGroup is %u, must be 0 or 1 for %s", info->itemsPerGroup,
                         kpoolOperationName(info->operation));
    }
    if (info->lanesPerItem > MOST_INVOCATIONS / info->itemsPerGroup) {
        return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, "createInfo.lanesPerItem",
                         "createInfo.lanesPerItem is %u and itemsPerGroup %u, together at most %u invocations",
                         info->lanesPerItem, info->itemsPerGroup, MOST_INVOCATIONS);
    }
    return KPOOL_SUCCESS;
}

static KpoolResult create_pipeline(KpoolKernel kernel, uint32_t pass, VkShaderModule module, VkPipelineCache cache,
                                   KpoolDiagnostic *diagnostic)
{
    const KpoolContext context = kernel->context;
    const KpoolKernelCreateInfo *info = &kernel->info;
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
        .pooled_type = (uint32_t)info->pooled_type,
        .numerics = (uint32_t)info->numerics,
        .topk = info->topk,
        .topk_layout = (uint32_t)info->topk_layout,
        .with_tail = info->with_tail != VK_FALSE,
        .scatters = pass,
        .operation = (uint32_t)info->operation,
        .page_size = info->page_size,
        .rows_per_item = info->rowsPerItem,
        .alignment = info->alignment,
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
    const VkResult vkResult = context->functions.vkCreateComputePipelines(
        context->device, cache, 1, &pipelineInfo, context->allocator, &kernel->pipelines[pass]);
    if (vkResult != VK_SUCCESS) {
        kernel->pipelines[pass] = VK_NULL_HANDLE;
        return kpoolFailVulkan(diagnostic, vkResult, "vkCreateComputePipelines");
    }
    kpoolNameObject(context, VK_OBJECT_TYPE_PIPELINE, (uint64_t)kernel->pipelines[pass],
                    kpoolOperationName(info->operation), pass == 0 ? "pipeline" : "second pipeline");
    return KPOOL_SUCCESS;
}

static KpoolResult create_pipelines(KpoolKernel kernel, VkPipelineCache cache, KpoolDiagnostic *diagnostic)
{
    const KpoolContext context = kernel->context;
    const KpoolKernelCreateInfo *info = &kernel->info;
    const KpoolModule spirv = kpoolFindModule(info->operation, context->bindingLayout, kpoolWordSize(info));
    const VkShaderModuleCreateInfo moduleInfo = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = spirv.size,
        .pCode = spirv.words,
    };
    VkShaderModule module = VK_NULL_HANDLE;
    const VkResult vkResult =
        context->functions.vkCreateShaderModule(context->device, &moduleInfo, context->allocator, &module);
    if (vkResult != VK_SUCCESS) {
        return kpoolFailVulkan(diagnostic, vkResult, "vkCreateShaderModule");
    }
    kpoolNameObject(context, VK_OBJECT_TYPE_SHADER_MODULE, (uint64_t)module, kpoolOperationName(info->operation),
                    "module");
    kernel->passes = info->operation == KPOOL_OPERATION_COPY_SLOTS ? 2 : 1;
    KpoolResult result = KPOOL_SUCCESS;
    for (uint32_t pass = 0; pass < kernel->passes && result == KPOOL_SUCCESS; pass++) {
        result = create_pipeline(kernel, pass, module, cache, diagnostic);
    }
    context->functions.vkDestroyShaderModule(context->device, module, context->allocator);
    return result;
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
    *made = (struct KpoolKernel_T){
        .context = context, .info = info, .tensors = kpoolListTensors(kpoolKernelTensors(&info))};
    result = create_pipelines(made, createInfo->pipelineCache, diagnostic);
    if (result != KPOOL_SUCCESS) {
        kpoolDestroyKernel(made);
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
    for (uint32_t pass = kernel->passes; pass-- > 0;) {
        if (kernel->pipelines[pass] != VK_NULL_HANDLE) {
            context->functions.vkDestroyPipeline(context->device, kernel->pipelines[pass], context->allocator);
        }
    }
    kpoolFree(context->allocator, kernel);
}

KpoolKernelCreateInfo kpoolGetKernelInfo(KpoolKernel kernel)
{
    return kernel != NULL ? kernel->info : (KpoolKernelCreateInfo){0};
}
