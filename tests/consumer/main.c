/* Includes the one public header, and links the library and nothing else. */
#include <kpool/kpool.h>

#include <stdio.h>

int main(void)
{
    const KpoolGeometry geometry = {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_BF16};
    const VkPhysicalDeviceLimits limits = {.maxStorageBufferRange = 1u << 27, .minStorageBufferOffsetAlignment = 256};
    KpoolRequirements requirements;
    KpoolDiagnostic diagnostic;
    if (kpoolGetRequirements(&limits, &geometry, &requirements, &diagnostic) != KPOOL_SUCCESS) {
        fprintf(stderr, "%s\n", diagnostic.message);
        return 1;
    }
    KpoolContext context;
    const KpoolContextCreateInfo nothing = {0};
    if (kpoolCreateContext(&nothing, &context, &diagnostic) != KPOOL_ERROR_INVALID_ARGUMENT) {
        return 1;
    }
    printf("%u slots\n", requirements.maxSlots);
    return kpoolGetVersion() == KPOOL_VERSION ? 0 : 1;
}
