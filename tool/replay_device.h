/* The device's side of a replay: the tensors in mapped buffers, and one command buffer, copies and the full update,
 * that is recorded once and submitted every step. */
#ifndef KPOOL_TOOL_REPLAY_DEVICE_H
#define KPOOL_TOOL_REPLAY_DEVICE_H

#include "../shaders/interface.h"
#include "gpu.h"

/* The tensors as the host sees them, mapped; dense and without bases. */
typedef struct ReplayTensors {
#define REPLAY_TENSOR(name, group) void *name;
    KPOOL_TENSORS(REPLAY_TENSOR)
#undef REPLAY_TENSOR
} ReplayTensors;

/* copy_slots, pool_row_offsets, ring_close, compress, seed_tail */
#define REPLAY_STAGES 5u

/* One operation of the step; zero where the call has none of it. */
typedef struct ReplayStage {
    KpoolKernel kernel;
    VkDescriptorSet set;
} ReplayStage;

typedef struct ReplayDevice {
    Gpu *gpu;
    ReplayTensors tensors;
    GpuBuffer buffers[KPOOL_GROUP_COUNT]; /* one a group, which serves both binding layouts */
    KpoolBindings bindings;
    ReplayStage stages[REPLAY_STAGES];
    VkDescriptorPool pool;
    VkCommandBuffer commandBuffer;
} ReplayDevice;

/* Makes everything and records the step: the copies, where pair_count is not 0, then close, compress and seed. call is
 * dense: strides and bases 0. The tensors' contents are undefined, but status is 0. gpu outlives it. On failure
 * nothing is left behind, and diagnostic says why. */
KpoolResult replay_device_create(ReplayDevice *device, Gpu *gpu, const KpoolGeometry *geometry, const KpoolCall *call,
                                 KpoolDiagnostic *diagnostic);
void replay_device_destroy(ReplayDevice *device);

/* Submits the step, which sees what the host wrote; the host leaves the tensors alone until it has waited, and then
 * sees what the device wrote. false: gpu->error says why. */
bool replay_device_start(ReplayDevice *device);
bool replay_device_wait(ReplayDevice *device);

#endif
