/* One call of one operation in host memory: its tensors allocated to the call's sizes, what the reference makes of
 * them, and what a device makes of them, compared. For `kpool check` and for the tests. */
#ifndef KPOOL_TOOL_SCENARIO_H
#define KPOOL_TOOL_SCENARIO_H

#include "complaint.h"
#include "execute.h"
#include "random.h"

typedef struct Scenario {
    KpoolKernelCreateInfo info;
    KpoolCall call;
    KpoolBindings sizes;
    TensorImages images; /* every tensor, also those the operation does not use */
    bool collides;       /* two requests have one slot, two keys one place, or two pairs one destination */
} Scenario;

/* The words of an index array, after its base. */
#define SCENARIO_WORDS(scenario, tensor) ((uint32_t *)(scenario)->images.tensor + (scenario)->call.tensor##_base)

/* Allocates the images for info and call and fills them: index arrays and status with zeros, the others with random
 * bits. False where the library refuses the call, or there is no memory; complaint says which. */
bool scenario_allocate(Scenario *scenario, Random *random, Complaint *complaint);
void scenario_free(Scenario *scenario);

/* Images of the same contents. NULL images where there is no memory. */
bool scenario_copy_images(const Scenario *scenario, TensorImages *copy);
void scenario_free_images(TensorImages *images);

/* Applies the reference to images that are a copy of the scenario's. scratch, which has no meaning afterwards, is freed
 * and NULL; so are, where the scenario collides, the ring and the keys, whose contents the contract leaves open. */
void scenario_apply_reference(const Scenario *scenario, TensorImages *images);

typedef enum ScenarioOutcome {
    SCENARIO_RIGHT,
    SCENARIO_WRONG,  /* a tensor or a guard differs: complaint names it */
    SCENARIO_FAILED, /* Vulkan or the library failed: complaint says how */
} ScenarioOutcome;

/* Runs it on the device and compares every image with expected, bit for bit, but for those that are NULL there, and the
 * guard words beside each. */
ScenarioOutcome scenario_run(Scenario *scenario, Gpu *gpu, const TensorImages *expected, Complaint *complaint);

#endif
