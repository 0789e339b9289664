/* What a ring and a kernel are made from: defaults filled in, rules checked. Pure; no call and no buffer. */
#include "diagnostic.h"
#include "shape.h"

uint32_t kpoolTypeSize(KpoolType type)
{
    switch (type) {
    case KPOOL_TYPE_F32:
        return 4;
    case KPOOL_TYPE_F16:
    case KPOOL_TYPE_BF16:
        return 2;
    case KPOOL_TYPE_NONE:
        break;
    }
    return 0;
}

KpoolResult kpoolResolveGeometry(const KpoolGeometry *geometry, KpoolGeometry *resolved, KpoolDiagnostic *diagnostic)
{
    if (geometry == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry", "geometry is NULL");
    }
    KpoolGeometry g = *geometry;
    const uint32_t element_size = kpoolTypeSize(g.type);
    if (element_size == 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry.type",
                         "geometry.type is %d, not one of KPOOL_TYPE_F32, F16, BF16", (int)g.type);
    }
    if (g.head_dim == 0 || g.head_dim > KPOOL_MAX_HEAD_DIM) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry.head_dim",
                         "geometry.head_dim is %u, must be 1 to %u", g.head_dim, KPOOL_MAX_HEAD_DIM);
    }
    if (element_size == 2 && g.head_dim % 2 != 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry.head_dim",
                         "geometry.head_dim is %u, must be even for 2-byte types", g.head_dim);
    }
    if (g.kpool == 0 || g.kpool > KPOOL_MAX_KPOOL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry.kpool",
                         "geometry.kpool is %u, must be 1 to %u", g.kpool, KPOOL_MAX_KPOOL);
    }
    if (g.rollback > KPOOL_MAX_RING - g.kpool) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry.rollback",
                         "geometry.rollback is %u, kpool + rollback must be at most %u", g.rollback, KPOOL_MAX_RING);
    }
    if (g.ring == 0) {
        g.ring = g.kpool + g.rollback;
    }
    if (g.ring < g.kpool + g.rollback || g.ring > KPOOL_MAX_RING) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "geometry.ring",
                         "geometry.ring is %u, must be kpool + rollback = %u to %u", g.ring, g.kpool + g.rollback,
                         KPOOL_MAX_RING);
    }
    *resolved = g;
    return KPOOL_SUCCESS;
}

static KpoolResult resolve_pooled(KpoolKernelCreateInfo *info, KpoolDiagnostic *diagnostic)
{
    if (info->pooled_type == KPOOL_TYPE_NONE) {
        info->pooled_type = info->geometry.type;
    }
    const uint32_t size = kpoolTypeSize(info->pooled_type);
    if (size == 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.pooled_type",
                         "createInfo.pooled_type is %d, not one of KPOOL_TYPE_NONE, F32, F16, BF16",
                         (int)info->pooled_type);
    }
    if (size == 2 && info->geometry.head_dim % 2 != 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.pooled_type",
                         "createInfo.pooled_type has 2 bytes, head_dim is %u, must be even", info->geometry.head_dim);
    }
    if (info->numerics != KPOOL_NUMERICS_EXACT && info->numerics != KPOOL_NUMERICS_FAST) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.numerics",
                         "createInfo.numerics is %d, no KpoolNumerics", (int)info->numerics);
    }
    if ((info->page_size & (info->page_size - 1)) != 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.page_size",
                         "createInfo.page_size is %u, must be 0 or a power of two", info->page_size);
    }
    return KPOOL_SUCCESS;
}

static KpoolResult resolve_topk(KpoolKernelCreateInfo *info, KpoolDiagnostic *diagnostic)
{
    if (info->topk == 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.topk",
                         "createInfo.topk is 0, must be at least 1");
    }
    if (info->topk_layout != KPOOL_TOPK_LAYOUT_FIXED && info->topk_layout != KPOOL_TOPK_LAYOUT_COMPACT) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.topk_layout",
                         "createInfo.topk_layout is %d, no KpoolTopkLayout", (int)info->topk_layout);
    }
    /* One row within the limit keeps the width of a row within 32 bits on the device. */
    if (info->topk >= KPOOL_MAX_ELEMENTS / info->geometry.kpool) {
        return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, "createInfo.topk",
                         "createInfo.topk is %u, topk * kpool must stay below 2^31", info->topk);
    }
    return KPOOL_SUCCESS;
}

static void clear_fields_of_others(KpoolKernelCreateInfo *info)
{
    if (!kpoolOperationMakesKeys(info->operation)) {
        info->pooled_type = KPOOL_TYPE_NONE;
        info->numerics = KPOOL_NUMERICS_EXACT;
    }
    if (info->operation != KPOOL_OPERATION_STEP) {
        info->page_size = 0;
    }
    if (info->operation != KPOOL_OPERATION_EXPAND_TOPK) {
        info->topk = 0;
        info->topk_layout = KPOOL_TOPK_LAYOUT_FIXED;
        info->with_tail = VK_FALSE;
    }
    info->with_tail = info->with_tail != VK_FALSE;
}

KpoolResult kpoolResolveKernelInfo(const KpoolKernelCreateInfo *createInfo, KpoolKernelCreateInfo *info,
                                   KpoolDiagnostic *diagnostic)
{
    if (createInfo == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo", "createInfo is NULL");
    }
    if (createInfo->pNext != NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.pNext", "createInfo.pNext must be NULL");
    }
    *info = *createInfo;
    info->pipelineCache = VK_NULL_HANDLE;
    if (kpoolOperationTensors(info->operation) == 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.operation",
                         "createInfo.operation is %d, no KpoolOperation", (int)info->operation);
    }
    const KpoolResult result = kpoolResolveGeometry(&createInfo->geometry, &info->geometry, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    if (info->alignment != 0 && info->alignment != 4 && info->alignment != 16) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.alignment",
                         "createInfo.alignment is %u, must be 0, 4 or 16", info->alignment);
    }
    const uint32_t row_size = info->geometry.head_dim * kpoolTypeSize(info->geometry.type);
    if (info->alignment == 0 || !kpoolOperationMovesRows(info->operation)) {
        info->alignment = 4;
    }
    if (info->alignment == 16 && row_size % 16 != 0) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "createInfo.alignment",
                         "createInfo.alignment is 16, a row of %u bytes is no multiple of it", row_size);
    }
    clear_fields_of_others(info);
    if (kpoolOperationMakesKeys(info->operation)) {
        return resolve_pooled(info, diagnostic);
    }
    if (info->operation == KPOOL_OPERATION_EXPAND_TOPK) {
        return resolve_topk(info, diagnostic);
    }
    return KPOOL_SUCCESS;
}

KpoolResult kpoolGetRequirements(const VkPhysicalDeviceLimits *limits, const KpoolGeometry *geometry,
                                 KpoolRequirements *requirements, KpoolDiagnostic *diagnostic)
{
    if (limits == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "limits", "limits is NULL");
    }
    if (requirements == NULL) {
        return kpoolFail(diagnostic, KPOOL_ERROR_INVALID_ARGUMENT, "requirements", "requirements is NULL");
    }
    KpoolGeometry g;
    const KpoolResult result = kpoolResolveGeometry(geometry, &g, diagnostic);
    if (result != KPOOL_SUCCESS) {
        return result;
    }
    /* At most 2 * 4096 * 1024 elements of 4 bytes: 32 MiB, a quarter of the range that every device has. */
    const VkDeviceSize element_size = kpoolTypeSize(g.type);
    const VkDeviceSize slot_size = 2 * (VkDeviceSize)g.ring * g.head_dim * element_size;
    const VkDeviceSize addressed = KPOOL_MAX_ELEMENTS * element_size;
    const VkDeviceSize range = limits->maxStorageBufferRange < addressed ? limits->maxStorageBufferRange : addressed;
    if (range < slot_size) {
        return kpoolFail(diagnostic, KPOOL_ERROR_LIMIT, "geometry",
                         "geometry needs %llu bytes a slot, over maxStorageBufferRange, %u",
                         (unsigned long long)slot_size, limits->maxStorageBufferRange);
    }
    *requirements = (KpoolRequirements){
        .apiVersion = VK_API_VERSION_1_1,
        .bindingLayouts = kpoolBindingLayouts(limits),
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
        .offsetAlignment = limits->minStorageBufferOffsetAlignment,
        .maxRange = range,
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): g has been checked, so no factor of slot_size is 0 */
        .maxSlots = (uint32_t)(range / slot_size),
        .ring = g.ring,
        .alignment = g.head_dim * element_size % 16 == 0 ? 16 : 4,
    };
    return KPOOL_SUCCESS;
}
