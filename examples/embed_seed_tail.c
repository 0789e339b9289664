/*
 * Records kpool's seed_tail into a command buffer of its own: a program to start from. The first half is what a
 * Vulkan runtime has anyway (a device, memory, a command buffer), the second is everything kpool asks of it.
 *
 * Three requests bring tokens in one call. What is left in the ring is printed and compared with what must be
 * there; the exit status is 0 where it is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vulkan/vulkan.h>

#include "kpool/kpool.h"

enum { HEAD_DIM = 128, KPOOL = 4, SLOTS = 4, REQUESTS = 3, ROWS = 13 };

/* Request 0 brings its tokens 0 to 9 to slot 3, request 1 its token 6 to slot 0, and request 2 two tokens to a
 * slot that does not exist. */
static const uint32_t input_row_offsets[REQUESTS + 1] = {0, 10, 11, 13};
static const uint32_t cache_lengths[REQUESTS] = {0, 6, 0};
static const uint32_t slot_idx[REQUESTS] = {3, 0, 7};

/* The position that each place of the ring must hold in the end; -1 where nothing was written. */
static const float expected[SLOTS][KPOOL] = {{-1, -1, 6, -1}, {-1, -1, -1, -1}, {-1, -1, -1, -1}, {8, 9, -1, -1}};

typedef struct Runtime {
    VkInstance instance;
    VkPhysicalDevice physicalDevice;
    VkPhysicalDeviceProperties properties;
    uint32_t queueFamily;
    VkDevice device;
    VkQueue queue;
    VkCommandPool commandPool;
    VkCommandBuffer commandBuffer;
    VkBuffer buffer;
    VkDeviceMemory memory;
    char *mapped;
} Runtime;

static void vk(VkResult result, const char *what)
{
    if (result != VK_SUCCESS) {
        fprintf(stderr, "%s: VkResult %d\n", what, (int)result);
        exit(3);
    }
}

static void check(KpoolResult result, const KpoolDiagnostic *diagnostic)
{
    if (result != KPOOL_SUCCESS) {
        fprintf(stderr, "%s: %s\n", kpoolResultString(result), diagnostic->message);
        exit(3);
    }
}

/* The first device, and its first queue family with compute. */
static void create_device(Runtime *runtime)
{
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "embed_seed_tail",
        .apiVersion = VK_API_VERSION_1_1,
    };
    const VkInstanceCreateInfo instanceInfo = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &application,
    };
    vk(vkCreateInstance(&instanceInfo, NULL, &runtime->instance), "vkCreateInstance");

    uint32_t count = 1;
    const VkResult result = vkEnumeratePhysicalDevices(runtime->instance, &count, &runtime->physicalDevice);
    vk(result == VK_INCOMPLETE ? VK_SUCCESS : result, "vkEnumeratePhysicalDevices");
    if (count == 0) {
        fprintf(stderr, "no Vulkan device found\n");
        exit(3);
    }
    vkGetPhysicalDeviceProperties(runtime->physicalDevice, &runtime->properties);

    VkQueueFamilyProperties families[16];
    count = 16;
    vkGetPhysicalDeviceQueueFamilyProperties(runtime->physicalDevice, &count, families);
    while (runtime->queueFamily < count && (families[runtime->queueFamily].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) {
        runtime->queueFamily++;
    }
    if (runtime->queueFamily == count) {
        fprintf(stderr, "%s has no compute queue\n", runtime->properties.deviceName);
        exit(3);
    }

    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queueInfo = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = runtime->queueFamily,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo deviceInfo = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queueInfo,
    };
    vk(vkCreateDevice(runtime->physicalDevice, &deviceInfo, NULL, &runtime->device), "vkCreateDevice");
    vkGetDeviceQueue(runtime->device, runtime->queueFamily, 0, &runtime->queue);

    const VkCommandPoolCreateInfo poolInfo = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = runtime->queueFamily,
    };
    vk(vkCreateCommandPool(runtime->device, &poolInfo, NULL, &runtime->commandPool), "vkCreateCommandPool");
    const VkCommandBufferAllocateInfo commandInfo = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = runtime->commandPool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    vk(vkAllocateCommandBuffers(runtime->device, &commandInfo, &runtime->commandBuffer), "vkAllocateCommandBuffers");
}

/* One mapped buffer for everything. Every device has memory that is host-visible and coherent. */
static void create_buffer(Runtime *runtime, VkDeviceSize size, VkBufferUsageFlags usage)
{
    const VkBufferCreateInfo bufferInfo = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = size,
        .usage = usage,
    };
    vk(vkCreateBuffer(runtime->device, &bufferInfo, NULL, &runtime->buffer), "vkCreateBuffer");
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(runtime->device, runtime->buffer, &needs);
    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceMemoryProperties(runtime->physicalDevice, &memory);
    const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint32_t type = 0;
    while ((needs.memoryTypeBits & (1u << type)) == 0 || (memory.memoryTypes[type].propertyFlags & wanted) != wanted) {
        type++;
    }
    const VkMemoryAllocateInfo allocation = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = needs.size,
        .memoryTypeIndex = type,
    };
    vk(vkAllocateMemory(runtime->device, &allocation, NULL, &runtime->memory), "vkAllocateMemory");
    vk(vkBindBufferMemory(runtime->device, runtime->buffer, runtime->memory, 0), "vkBindBufferMemory");
    void *mapped = NULL;
    vk(vkMapMemory(runtime->device, runtime->memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
    runtime->mapped = mapped;
}

static void begin(Runtime *runtime)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    vk(vkBeginCommandBuffer(runtime->commandBuffer, &info), "vkBeginCommandBuffer");
}

static void submit(Runtime *runtime)
{
    vk(vkEndCommandBuffer(runtime->commandBuffer), "vkEndCommandBuffer");
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &runtime->commandBuffer,
    };
    vk(vkQueueSubmit(runtime->queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
    vk(vkQueueWaitIdle(runtime->queue), "vkQueueWaitIdle");
}

static void barrier(Runtime *runtime, VkPipelineStageFlags from, VkAccessFlags written, VkPipelineStageFlags to,
                    VkAccessFlags used)
{
    const VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = written,
        .dstAccessMask = used,
    };
    vkCmdPipelineBarrier(runtime->commandBuffer, from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

static VkDescriptorSet create_set(Runtime *runtime, VkDescriptorSetLayout layout, uint32_t descriptors,
                                  VkDescriptorPool *pool)
{
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptors};
    const VkDescriptorPoolCreateInfo poolInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    vk(vkCreateDescriptorPool(runtime->device, &poolInfo, NULL, pool), "vkCreateDescriptorPool");
    const VkDescriptorSetAllocateInfo setInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = *pool,
        .descriptorSetCount = 1,
        .pSetLayouts = &layout,
    };
    VkDescriptorSet set = VK_NULL_HANDLE;
    vk(vkAllocateDescriptorSets(runtime->device, &setInfo, &set), "vkAllocateDescriptorSets");
    return set;
}

/* Keys that say their position, gates that say it plus one half, and a ring that says "nothing". */
static void fill(const Runtime *runtime, const KpoolBindings *bindings)
{
    float *tail = (float *)(runtime->mapped + bindings->tail.offset);
    float *k = (float *)(runtime->mapped + bindings->k.offset);
    float *gate = (float *)(runtime->mapped + bindings->gate.offset);
    for (size_t i = 0; i < (size_t)SLOTS * 2 * KPOOL * HEAD_DIM; i++) {
        tail[i] = -1.0f;
    }
    for (uint32_t r = 0; r < REQUESTS; r++) {
        for (uint32_t row = input_row_offsets[r]; row < input_row_offsets[r + 1]; row++) {
            for (uint32_t channel = 0; channel < HEAD_DIM; channel++) {
                k[row * HEAD_DIM + channel] = (float)(cache_lengths[r] + row - input_row_offsets[r]);
                gate[row * HEAD_DIM + channel] = k[row * HEAD_DIM + channel] + 0.5f;
            }
        }
    }
    memcpy(runtime->mapped + bindings->input_row_offsets.offset, input_row_offsets, sizeof input_row_offsets);
    memcpy(runtime->mapped + bindings->cache_lengths.offset, cache_lengths, sizeof cache_lengths);
    memcpy(runtime->mapped + bindings->slot_idx.offset, slot_idx, sizeof slot_idx);
}

/* Prints what the ring and status hold; whether it is what must be there. */
static int report(const Runtime *runtime, const KpoolBindings *bindings)
{
    const float *tail = (const float *)(runtime->mapped + bindings->tail.offset);
    const uint32_t *status = (const uint32_t *)(runtime->mapped + bindings->status.offset);
    int right = 1;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        printf("slot %u:", slot);
        for (uint32_t member = 0; member < KPOOL; member++) {
            const float *key = tail + ((size_t)slot * 2 * KPOOL + member) * HEAD_DIM;
            const float *gate = key + (size_t)KPOOL * HEAD_DIM;
            const float position = expected[slot][member];
            for (uint32_t channel = 0; channel < HEAD_DIM; channel++) {
                right &= key[channel] == position && gate[channel] == (position < 0 ? -1.0f : position + 0.5f);
            }
            if (key[0] < 0) {
                printf("  -");
            } else {
                printf("  %g", (double)key[0]);
            }
        }
        printf("\n");
    }
    printf("requests refused for their slot: %u\n", status[KPOOL_STATUS_SLOT_RANGE]);
    for (uint32_t i = 0; i < KPOOL_STATUS_COUNT; i++) {
        right &= status[i] == (i == KPOOL_STATUS_SLOT_RANGE ? 1u : 0u);
    }
    printf("%s\n", right ? "as it must be" : "WRONG");
    return right;
}

int main(void)
{
    Runtime runtime = {0};
    create_device(&runtime);
    printf("device: %s\n", runtime.properties.deviceName);

    /* Once per device and geometry. */
    KpoolDiagnostic diagnostic;
    const KpoolGeometry geometry = {.head_dim = HEAD_DIM, .kpool = KPOOL, .type = KPOOL_TYPE_F32};
    KpoolRequirements needs;
    check(kpoolGetRequirements(&runtime.properties.limits, &geometry, &needs, &diagnostic), &diagnostic);
    const KpoolContextCreateInfo contextInfo = {
        .apiVersion = VK_API_VERSION_1_1,
        .instance = runtime.instance,
        .physicalDevice = runtime.physicalDevice,
        .device = runtime.device,
        .pfnGetInstanceProcAddr = vkGetInstanceProcAddr,
    };
    KpoolContext context;
    check(kpoolCreateContext(&contextInfo, &context, &diagnostic), &diagnostic);
    const KpoolKernelCreateInfo kernelInfo = {.operation = KPOOL_OPERATION_SEED_TAIL, .geometry = geometry};
    KpoolKernel kernel;
    check(kpoolCreateKernel(context, &kernelInfo, &kernel, &diagnostic), &diagnostic);

    /* Once per set of buffers: where the tensors are (here one after the other in one buffer), and a set for them. */
    const KpoolCall call = {.max_slots = SLOTS, .requests = REQUESTS, .rows = ROWS};
    KpoolBindings bindings;
    check(kpoolGetSizes(&kernelInfo, &call, &bindings, &diagnostic), &diagnostic);
    KpoolRange *const ranges[] = {&bindings.tail, &bindings.k, &bindings.gate, &bindings.input_row_offsets,
                                  &bindings.cache_lengths, &bindings.slot_idx, &bindings.status};
    const size_t range_count = sizeof ranges / sizeof ranges[0];
    VkDeviceSize end = 0;
    for (size_t i = 0; i < range_count; i++) {
        ranges[i]->offset = (end + needs.offsetAlignment - 1) / needs.offsetAlignment * needs.offsetAlignment;
        end = ranges[i]->offset + ranges[i]->size;
    }
    create_buffer(&runtime, end, needs.usage | VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    for (size_t i = 0; i < range_count; i++) {
        ranges[i]->buffer = runtime.buffer;
    }
    const VkDescriptorSetLayout layout = kpoolGetDescriptorSetLayout(context, kernelInfo.operation);
    const uint32_t descriptors = kpoolGetDescriptorCount(context, kernelInfo.operation);
    VkDescriptorPool pool;
    const VkDescriptorSet set = create_set(&runtime, layout, descriptors, &pool);
    check(kpoolWriteDescriptorSet(context, kernelInfo.operation, set, &bindings, &diagnostic), &diagnostic);

    /* Once per command buffer, which may then be submitted every step with new contents in the buffers. */
    begin(&runtime);
    vkCmdFillBuffer(runtime.commandBuffer, bindings.status.buffer, bindings.status.offset, bindings.status.size, 0);
    barrier(&runtime, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
            VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    check(kpoolCmdSeedTail(runtime.commandBuffer, kernel, set, &bindings, &call, &diagnostic), &diagnostic);
    barrier(&runtime, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
            VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);

    /* Every step. */
    fill(&runtime, &bindings);
    submit(&runtime);
    const int right = report(&runtime, &bindings);

    kpoolDestroyKernel(kernel);
    kpoolDestroyContext(context);
    vkDestroyDescriptorPool(runtime.device, pool, NULL);
    vkDestroyBuffer(runtime.device, runtime.buffer, NULL);
    vkFreeMemory(runtime.device, runtime.memory, NULL);
    vkDestroyCommandPool(runtime.device, runtime.commandPool, NULL);
    vkDestroyDevice(runtime.device, NULL);
    vkDestroyInstance(runtime.instance, NULL);
    return right ? 0 : 1;
}
