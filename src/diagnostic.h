/* How a failure is told: one call that fills the caller's diagnostic and returns the result. */
#ifndef KPOOL_DIAGNOSTIC_H
#define KPOOL_DIAGNOSTIC_H

#include "kpool/kpool.h"

#if defined(__GNUC__)
#define KPOOL_PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))
#else
#define KPOOL_PRINTF(format_index, first_index)
#endif

/* diagnostic may be NULL; argument is static. */
void kpoolTell(KpoolDiagnostic *diagnostic, KpoolResult result, const char *argument, const char *format, ...)
    KPOOL_PRINTF(4, 5);

/* The same, and returns result. A macro, so that an analyzer of one file sees that a failure never returns success. */
#define kpoolFail(diagnostic, result, ...) (kpoolTell(diagnostic, result, __VA_ARGS__), (result))

/* The same for a Vulkan call that returned vkResult: OUT_OF_HOST_MEMORY keeps its own result. */
KpoolResult kpoolFailVulkan(KpoolDiagnostic *diagnostic, VkResult vkResult, const char *function);

#endif
