/* The public header by itself in strict C99, with and without Vulkan's prototypes: it needs nothing before it. */
#include <kpool/kpool.h>

int main(void)
{
    const KpoolGeometry geometry = {128, 4, KPOOL_TYPE_BF16, 0, 0};
    KpoolKernelCreateInfo info = {0};
    KpoolCall call = {0};
    KpoolBindings sizes;
    KpoolDiagnostic diagnostic;
    info.operation = KPOOL_OPERATION_SEED_TAIL;
    info.geometry = geometry;
    call.max_slots = 2;
    call.requests = 1;
    call.rows = 3;
    if (kpoolGetSizes(&info, &call, &sizes, &diagnostic) != KPOOL_SUCCESS || sizes.tail.size != 2 * 2 * 4 * 128 * 2) {
        return 1;
    }
    return kpoolGetVersion() == KPOOL_VERSION ? 0 : 1;
}
