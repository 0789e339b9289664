/* A Vulkan layer, VK_LAYER_KPOOL_noncoherent, that makes the memory of any driver non-coherent: what is mapped is a
 * copy, which only vkFlushMappedMemoryRanges writes back, whole atoms of what the host changed, and only
 * vkInvalidateMappedMemoryRanges reads again. Fresh memory holds garbage. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain.h"

enum { ATOM = 256, MOST_MEMORIES = 256, GARBAGE = 0xa5 };

#define INSTANCE_FUNCTIONS(X)               \
    X(vkGetPhysicalDeviceProperties)        \
    X(vkGetPhysicalDeviceProperties2)       \
    X(vkGetPhysicalDeviceMemoryProperties)  \
    X(vkGetPhysicalDeviceMemoryProperties2) \
    X(vkCreateDevice)

#define DEVICE_FUNCTIONS(X) \
    X(vkAllocateMemory)     \
    X(vkFreeMemory)         \
    X(vkMapMemory)          \
    X(vkUnmapMemory)

/* One allocation of host-visible memory. */
typedef struct Memory {
    VkDeviceMemory handle;
    size_t size;
    char *real;   /* while mapped, all of it */
    char *shadow; /* what the host has */
    char *clean;  /* what it had at the last flush or invalidation */
} Memory;

/* Vulkan asks a layer by handles alone, so what it knows lies here. One instance and one device at a time: what it is
 * for has no more. */
static struct {
    PFN_vkGetInstanceProcAddr getInstanceProcAddr;
    PFN_vkGetDeviceProcAddr getDeviceProcAddr;
    VkPhysicalDeviceMemoryProperties types;
#define POINTER(name) PFN_##name name;
    INSTANCE_FUNCTIONS(POINTER)
    DEVICE_FUNCTIONS(POINTER)
#undef POINTER
    Memory memories[MOST_MEMORIES];
} next;

static VkResult refuse(VkResult result, const char *format, ...) __attribute__((format(printf, 2, 3)));

static VkResult refuse(VkResult result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("non-coherent layer: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return result;
}

/* -------------------------------------------------------------------------- what it reports ---- */

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *properties)
{
    next.vkGetPhysicalDeviceProperties(device, properties);
    properties->limits.nonCoherentAtomSize = ATOM;
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *properties)
{
    next.vkGetPhysicalDeviceProperties2(device, properties);
    properties->properties.limits.nonCoherentAtomSize = ATOM;
}

/* Memory that the driver itself has to flush is kept from the host: this layer would flush to it and no further. */
static void make_noncoherent(VkPhysicalDeviceMemoryProperties *memory)
{
    const VkMemoryPropertyFlags coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    for (uint32_t i = 0; i < memory->memoryTypeCount; i++) {
        VkMemoryPropertyFlags *flags = &memory->memoryTypes[i].propertyFlags;
        *flags &= (*flags & coherent) != 0 ? ~coherent : ~visible;
    }
}

static VKAPI_ATTR void VKAPI_CALL get_memory(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties *memory)
{
    next.vkGetPhysicalDeviceMemoryProperties(device, memory);
    make_noncoherent(memory);
}

static VKAPI_ATTR void VKAPI_CALL get_memory2(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2 *memory)
{
    next.vkGetPhysicalDeviceMemoryProperties2(device, memory);
    make_noncoherent(&memory->memoryProperties);
}

/* ----------------------------------------------------------------------------------- memory ---- */

static Memory *find_memory(VkDeviceMemory handle)
{
    for (uint32_t i = 0; i < MOST_MEMORIES; i++) {
        if (next.memories[i].handle == handle) {
            return &next.memories[i];
        }
    }
    return NULL;
}

static void forget_copies(Memory *memory)
{
    free(memory->shadow);
    free(memory->clean);
    memory->real = NULL;
    memory->shadow = NULL;
    memory->clean = NULL;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                               const VkAllocationCallbacks *allocator, VkDeviceMemory *handle)
{
    const VkMemoryPropertyFlags flags = next.types.memoryTypes[info->memoryTypeIndex].propertyFlags;
    Memory *memory = find_memory(VK_NULL_HANDLE);
    if (memory == NULL) {
        return refuse(VK_ERROR_OUT_OF_HOST_MEMORY, "over %d allocations", MOST_MEMORIES);
    }
    VkResult result = next.vkAllocateMemory(device, info, allocator, handle);
    if (result != VK_SUCCESS || (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) == 0) {
        return result;
    }
    void *bytes = NULL;
    result = next.vkMapMemory(device, *handle, 0, VK_WHOLE_SIZE, 0, &bytes);
    if (result != VK_SUCCESS) {
        next.vkFreeMemory(device, *handle, allocator);
        return result;
    }
    memset(bytes, GARBAGE, (size_t)info->allocationSize);
    next.vkUnmapMemory(device, *handle);
    *memory = (Memory){.handle = *handle, .size = (size_t)info->allocationSize};
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL release(VkDevice device, VkDeviceMemory handle,
                                          const VkAllocationCallbacks *allocator)
{
    Memory *memory = handle != VK_NULL_HANDLE ? find_memory(handle) : NULL;
    if (memory != NULL) {
        forget_copies(memory);
        *memory = (Memory){0};
    }
    next.vkFreeMemory(device, handle, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL map(VkDevice device, VkDeviceMemory handle, VkDeviceSize offset,
                                          VkDeviceSize size, VkMemoryMapFlags flags, void **data)
{
    (void)size;
    Memory *memory = find_memory(handle);
    if (memory == NULL || memory->real != NULL) {
        return refuse(VK_ERROR_MEMORY_MAP_FAILED, "memory that is mapped already, or not for the host");
    }
    void *real = NULL;
    const VkResult result = next.vkMapMemory(device, handle, 0, VK_WHOLE_SIZE, flags, &real);
    if (result != VK_SUCCESS) {
        return result;
    }
    memory->real = real;
    memory->shadow = aligned_alloc(ATOM, (memory->size + ATOM - 1) / ATOM * ATOM);
    memory->clean = malloc(memory->size);
    if (memory->shadow == NULL || memory->clean == NULL) {
        forget_copies(memory);
        next.vkUnmapMemory(device, handle);
        return refuse(VK_ERROR_OUT_OF_HOST_MEMORY, "no copy of %zu bytes", memory->size);
    }
    memcpy(memory->shadow, real, memory->size);
    memcpy(memory->clean, real, memory->size);
    *data = memory->shadow + offset;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL unmap(VkDevice device, VkDeviceMemory handle)
{
    Memory *memory = find_memory(handle);
    if (memory != NULL) {
        forget_copies(memory);
    }
    next.vkUnmapMemory(device, handle);
}

/* A whole atom goes back where one byte of it was changed, as from a cache. */
static void flush_part(Memory *memory, size_t start, size_t end)
{
    for (size_t at = start; at < end; at += ATOM) {
        const size_t size = end - at < ATOM ? end - at : ATOM;
        if (memcmp(memory->shadow + at, memory->clean + at, size) != 0) {
            memcpy(memory->real + at, memory->shadow + at, size);
            memcpy(memory->clean + at, memory->shadow + at, size);
        }
    }
}

static void invalidate_part(Memory *memory, size_t start, size_t end)
{
    memcpy(memory->shadow + start, memory->real + start, end - start);
    memcpy(memory->clean + start, memory->real + start, end - start);
}

static VkResult on_ranges(uint32_t count, const VkMappedMemoryRange *ranges,
                          void (*move)(Memory *memory, size_t start, size_t end))
{
    for (uint32_t i = 0; i < count; i++) {
        const VkMappedMemoryRange *range = &ranges[i];
        Memory *memory = find_memory(range->memory);
        if (memory == NULL || memory->real == NULL) {
            return refuse(VK_ERROR_VALIDATION_FAILED_EXT, "a range of memory that is not mapped");
        }
        const VkDeviceSize end = range->size == VK_WHOLE_SIZE ? memory->size : range->offset + range->size;
        if (range->offset % ATOM != 0 || (end % ATOM != 0 && end != memory->size) || end > memory->size) {
            return refuse(VK_ERROR_VALIDATION_FAILED_EXT, "a range from %llu to %llu of %zu bytes",
                          (unsigned long long)range->offset, (unsigned long long)end, memory->size);
        }
        move(memory, (size_t)range->offset, (size_t)end);
    }
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL flush(VkDevice device, uint32_t count, const VkMappedMemoryRange *ranges)
{
    (void)device;
    return on_ranges(count, ranges, flush_part);
}

static VKAPI_ATTR VkResult VKAPI_CALL invalidate(VkDevice device, uint32_t count, const VkMappedMemoryRange *ranges)
{
    (void)device;
    return on_ranges(count, ranges, invalidate_part);
}

/* ---------------------------------------------------------------------- instance and device ---- */

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *allocator, VkInstance *instance)
{
    next.getInstanceProcAddr = chain_instance_link(info)->pfnNextGetInstanceProcAddr;
    const PFN_vkCreateInstance create =
        (PFN_vkCreateInstance)next.getInstanceProcAddr(VK_NULL_HANDLE, "vkCreateInstance");
    const VkResult result = create(info, allocator, instance);
    if (result == VK_SUCCESS) {
#define LOAD(name) next.name = (PFN_##name)next.getInstanceProcAddr(*instance, #name);
        INSTANCE_FUNCTIONS(LOAD)
#undef LOAD
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physicalDevice, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkDevice *device)
{
    get_memory(physicalDevice, &next.types);
    next.getDeviceProcAddr = chain_device_link(info)->pfnNextGetDeviceProcAddr;
    const VkResult result = next.vkCreateDevice(physicalDevice, info, allocator, device);
    if (result == VK_SUCCESS) {
#define LOAD(name) next.name = (PFN_##name)next.getDeviceProcAddr(*device, #name);
        DEVICE_FUNCTIONS(LOAD)
#undef LOAD
    }
    return result;
}

static PFN_vkVoidFunction VKAPI_CALL get_device_address(VkDevice device, const char *name);
static PFN_vkVoidFunction VKAPI_CALL get_instance_address(VkInstance instance, const char *name);

static PFN_vkVoidFunction find_device_function(const char *name)
{
    const ChainFunction functions[] = {
        {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)get_device_address},
        {"vkAllocateMemory", (PFN_vkVoidFunction)allocate},
        {"vkFreeMemory", (PFN_vkVoidFunction)release},
        {"vkMapMemory", (PFN_vkVoidFunction)map},
        {"vkUnmapMemory", (PFN_vkVoidFunction)unmap},
        {"vkFlushMappedMemoryRanges", (PFN_vkVoidFunction)flush},
        {"vkInvalidateMappedMemoryRanges", (PFN_vkVoidFunction)invalidate},
    };
    return chain_find(functions, sizeof functions / sizeof functions[0], name);
}

static PFN_vkVoidFunction VKAPI_CALL get_device_address(VkDevice device, const char *name)
{
    const PFN_vkVoidFunction own = find_device_function(name);
    return own != NULL ? own : next.getDeviceProcAddr(device, name);
}

static PFN_vkVoidFunction VKAPI_CALL get_instance_address(VkInstance instance, const char *name)
{
    const ChainFunction functions[] = {
        {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)get_instance_address},
        {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
        {"vkCreateDevice", (PFN_vkVoidFunction)create_device},
        {"vkGetPhysicalDeviceProperties", (PFN_vkVoidFunction)get_properties},
        {"vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)get_properties2},
        {"vkGetPhysicalDeviceMemoryProperties", (PFN_vkVoidFunction)get_memory},
        {"vkGetPhysicalDeviceMemoryProperties2", (PFN_vkVoidFunction)get_memory2},
    };
    PFN_vkVoidFunction own = chain_find(functions, sizeof functions / sizeof functions[0], name);
    own = own != NULL ? own : find_device_function(name);
    return own != NULL ? own : next.getInstanceProcAddr(instance, name);
}

VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface)
{
    interface->loaderLayerInterfaceVersion = 2;
    interface->pfnGetInstanceProcAddr = get_instance_address;
    interface->pfnGetDeviceProcAddr = get_device_address;
    interface->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
