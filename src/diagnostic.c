#include "diagnostic.h"

#include <stdarg.h>
#include <stdio.h>

void kpoolTell(KpoolDiagnostic *diagnostic, KpoolResult result, const char *argument, const char *format, ...)
{
    if (diagnostic != NULL) {
        diagnostic->result = result;
        diagnostic->vkResult = VK_SUCCESS;
        diagnostic->argument = argument;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(diagnostic->message, sizeof diagnostic->message, format, arguments);
        va_end(arguments);
    }
}

KpoolResult kpoolFailVulkan(KpoolDiagnostic *diagnostic, VkResult vkResult, const char *function)
{
    const KpoolResult result =
        vkResult == VK_ERROR_OUT_OF_HOST_MEMORY ? KPOOL_ERROR_OUT_OF_HOST_MEMORY : KPOOL_ERROR_VULKAN;
    kpoolTell(diagnostic, result, function, "%s returned VkResult %d", function, (int)vkResult);
    if (diagnostic != NULL) {
        diagnostic->vkResult = vkResult;
    }
    return result;
}

const char *kpoolResultString(KpoolResult result)
{
    switch (result) {
    case KPOOL_SUCCESS:
        return "KPOOL_SUCCESS";
    case KPOOL_ERROR_INVALID_ARGUMENT:
        return "KPOOL_ERROR_INVALID_ARGUMENT";
    case KPOOL_ERROR_LIMIT:
        return "KPOOL_ERROR_LIMIT";
    case KPOOL_ERROR_UNSUPPORTED_DEVICE:
        return "KPOOL_ERROR_UNSUPPORTED_DEVICE";
    case KPOOL_ERROR_OUT_OF_HOST_MEMORY:
        return "KPOOL_ERROR_OUT_OF_HOST_MEMORY";
    case KPOOL_ERROR_VULKAN:
        return "KPOOL_ERROR_VULKAN";
    case KPOOL_ERROR_INVALID_DATA:
        return "KPOOL_ERROR_INVALID_DATA";
    }
    return "unknown KpoolResult";
}

uint32_t kpoolGetVersion(void)
{
    return KPOOL_VERSION;
}
