/* The pipelines that `kpool bench` measures the library against: the plain port of seed_tail, and an empty dispatch. */
#ifndef KPOOL_TOOL_PLAIN_PORT_H
#define KPOOL_TOOL_PLAIN_PORT_H

#include "gpu.h"

typedef struct PlainPort {
    Gpu *gpu;
    VkDescriptorSetLayout setLayout; /* VK_NULL_HANDLE for an empty dispatch */
    VkPipelineLayout layout;
    VkPipeline pipeline;
    VkDescriptorPool pool;
    VkDescriptorSet set;
    uint32_t element_bits; /* of a word that an invocation moves; 16 needs gpu->storage16 */
} PlainPort;

/* false: gpu->error says why. Nothing is left behind then; destroying a zeroed one does nothing. */

/* A shader that does nothing, in a pipeline layout that takes as many bytes of push constants and a set of setLayout,
 * which remains the caller's; 0 and VK_NULL_HANDLE: none. */
bool plain_port_create_empty(PlainPort *port, Gpu *gpu, VkDescriptorSetLayout setLayout, uint32_t push_bytes);
/* The ring is kpool long and dense; of bindings the six tensors that are moved or say where. */
bool plain_port_create_seed_tail(PlainPort *port, Gpu *gpu, const KpoolGeometry *geometry,
                                 const KpoolBindings *bindings);
void plain_port_destroy(PlainPort *port);

/* Whether the device can run it: an invocation a word of a row, six storage buffers. */
bool plain_port_fits(const Gpu *gpu, const KpoolGeometry *geometry);

/* Records one dispatch, of as many workgroups. */
void plain_port_record(const PlainPort *port, VkCommandBuffer commandBuffer, uint32_t groups);

#endif
