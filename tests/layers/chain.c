#include "chain.h"

#include <string.h>

const VkLayerInstanceLink *chain_instance_link(const VkInstanceCreateInfo *info)
{
    /* The loader's struct is the loader's to change, const only by the way it hangs in the chain. */
    VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)info->pNext;
    while (link->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO) {
        link = (VkLayerInstanceCreateInfo *)link->pNext;
    }
    const VkLayerInstanceLink *next = link->u.pLayerInfo;
    link->u.pLayerInfo = next->pNext;
    return next;
}

const VkLayerDeviceLink *chain_device_link(const VkDeviceCreateInfo *info)
{
    VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)info->pNext;
    while (link->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO) {
        link = (VkLayerDeviceCreateInfo *)link->pNext;
    }
    const VkLayerDeviceLink *next = link->u.pLayerInfo;
    link->u.pLayerInfo = next->pNext;
    return next;
}

PFN_vkVoidFunction chain_find(const ChainFunction *functions, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(functions[i].name, name) == 0) {
            return functions[i].function;
        }
    }
    return NULL;
}
