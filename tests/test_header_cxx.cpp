// The public header by itself in C++, with and without Vulkan's prototypes: it compiles without a cast that C alone
// allows, and its functions have C linkage.
#include <kpool/kpool.h>

int main()
{
    const KpoolGeometry geometry = {128, 4, KPOOL_TYPE_BF16, 0, 0};
    KpoolKernelCreateInfo info = {};
    info.operation = KPOOL_OPERATION_SEED_TAIL;
    info.geometry = geometry;
    KpoolCall call = {};
    call.max_slots = 2;
    call.requests = 1;
    call.rows = 3;
    KpoolBindings sizes = {};
    KpoolDiagnostic diagnostic = {};
    if (kpoolGetSizes(&info, &call, &sizes, &diagnostic) != KPOOL_SUCCESS || sizes.tail.size != 2 * 2 * 4 * 128 * 2) {
        return 1;
    }
    KpoolContext context = nullptr;
    if (kpoolCreateContext(nullptr, &context, &diagnostic) != KPOOL_ERROR_INVALID_ARGUMENT || context != nullptr) {
        return 1;
    }
    return kpoolGetVersion() == KPOOL_VERSION ? 0 : 1;
}
