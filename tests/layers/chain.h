/* What a Vulkan layer needs of the loader: the next link of the chain, at its instance and at its device. */
#ifndef KPOOL_TESTS_LAYERS_CHAIN_H
#define KPOOL_TESTS_LAYERS_CHAIN_H

#include <vulkan/vk_layer.h>

/* The link below this layer, taken off the chain so that the layer below finds its own. */
const VkLayerInstanceLink *chain_instance_link(const VkInstanceCreateInfo *info);
const VkLayerDeviceLink *chain_device_link(const VkDeviceCreateInfo *info);

/* A name and the layer's own function. */
typedef struct ChainFunction {
    const char *name;
    PFN_vkVoidFunction function;
} ChainFunction;

/* The layer's own function of that name, or NULL. */
PFN_vkVoidFunction chain_find(const ChainFunction *functions, size_t count, const char *name);

#endif
