/* What the driver's compiler says of each of our shaders and of the plain port of seed_tail: CSV, a line a pipeline. On
 * the device that `kpool` would take; bench/isa runs it once for each of five families of AMD GPUs. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "generated/plain_seed_tail.h"
#include "gpu.h"
#include "kernel.h"

/* X(column, name): RADV's statistics that are kept. Latency and inverse throughput are its compiler's own estimates,
 * in cycles. */
#define STATISTICS(X)                           \
    X(instructions, "Instructions")             \
    X(latency, "Latency")                       \
    X(inverse_throughput, "Inverse Throughput") \
    X(sgprs, "SGPRs")                           \
    X(vgprs, "VGPRs")                           \
    X(spilled_sgprs, "Spilled SGPRs")           \
    X(spilled_vgprs, "Spilled VGPRs")           \
    X(code_size, "Code size")

#define MOST_STATISTICS 64u

static const KpoolGeometry geometry = {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_F16};

typedef struct Shader {
    const char *name;
    KpoolBindingLayout layout;
    KpoolKernelCreateInfo info; /* without the geometry */
} Shader;

#define WIDE KPOOL_BINDING_LAYOUT_WIDE
#define FLOOR KPOOL_BINDING_LAYOUT_FLOOR
#define FAST .numerics = KPOOL_NUMERICS_FAST
#define TOPK .operation = KPOOL_OPERATION_EXPAND_TOPK, .topk = 512, .with_tail = VK_TRUE

static const Shader shaders[] = {
    {"seed_tail 4", WIDE, {.operation = KPOOL_OPERATION_SEED_TAIL, .alignment = 4}},
    {"seed_tail 16", WIDE, {.operation = KPOOL_OPERATION_SEED_TAIL, .alignment = 16}},
    {"seed_tail 16 floor", FLOOR, {.operation = KPOOL_OPERATION_SEED_TAIL, .alignment = 16}},
    {"ring_close exact", WIDE, {.operation = KPOOL_OPERATION_RING_CLOSE}},
    {"ring_close fast", WIDE, {.operation = KPOOL_OPERATION_RING_CLOSE, FAST}},
    {"compress exact", WIDE, {.operation = KPOOL_OPERATION_COMPRESS}},
    {"compress fast", WIDE, {.operation = KPOOL_OPERATION_COMPRESS, FAST}},
    {"step exact", WIDE, {.operation = KPOOL_OPERATION_STEP}},
    {"step fast", WIDE, {.operation = KPOOL_OPERATION_STEP, FAST}},
    {"step exact paged", WIDE, {.operation = KPOOL_OPERATION_STEP, .page_size = 64}},
    {"step exact floor", FLOOR, {.operation = KPOOL_OPERATION_STEP}},
    {"pool_row_offsets", WIDE, {.operation = KPOOL_OPERATION_POOL_ROW_OFFSETS}},
    {"expand_topk fixed", WIDE, {TOPK}},
    {"expand_topk compact", WIDE, {TOPK, .topk_layout = KPOOL_TOPK_LAYOUT_COMPACT}},
    {"copy_slots", WIDE, {.operation = KPOOL_OPERATION_COPY_SLOTS}},
};

static bool succeeded(VkResult result, const char *function)
{
    if (result != VK_SUCCESS) {
        fprintf(stderr, "kpool-isa: %s returned VkResult %d\n", function, (int)result);
    }
    return result == VK_SUCCESS;
}

static bool accepted(KpoolResult result, const KpoolDiagnostic *diagnostic)
{
    if (result != KPOOL_SUCCESS) {
        fprintf(stderr, "kpool-isa: %s\n", diagnostic->message);
    }
    return result == KPOOL_SUCCESS;
}

/* ----------------------------------------------------------- pipelines that keep statistics --- */

static VKAPI_ATTR VkResult VKAPI_CALL create_compute_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                               const VkComputePipelineCreateInfo *infos,
                                                               const VkAllocationCallbacks *allocator,
                                                               VkPipeline *pipelines)
{
    VkResult result = VK_SUCCESS;
    for (uint32_t i = 0; i < count && result == VK_SUCCESS; i++) {
        VkComputePipelineCreateInfo info = infos[i];
        info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
        result = vkCreateComputePipelines(device, cache, 1, &info, allocator, &pipelines[i]);
    }
    return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc_addr(VkDevice device, const char *name)
{
    return strcmp(name, "vkCreateComputePipelines") == 0 ? (PFN_vkVoidFunction)create_compute_pipelines
                                                         : vkGetDeviceProcAddr(device, name);
}

/* What the library is given. */
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc_addr(VkInstance instance, const char *name)
{
    return strcmp(name, "vkGetDeviceProcAddr") == 0 ? (PFN_vkVoidFunction)get_device_proc_addr
                                                    : vkGetInstanceProcAddr(instance, name);
}

/* ---------------------------------------------------------------------------- statistics ------ */

static bool print_statistic(const VkPipelineExecutableStatisticKHR *statistics, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(statistics[i].name, name) == 0) {
            printf(",%llu", (unsigned long long)statistics[i].value.u64);
            return true;
        }
    }
    fprintf(stderr, "kpool-isa: the driver gives no statistic '%s': only RADV is known here\n", name);
    return false;
}

static bool print_pipeline(VkDevice device, VkPipeline pipeline, const char *name, const char *pass)
{
    VkPipelineExecutableStatisticKHR statistics[MOST_STATISTICS];
    for (uint32_t i = 0; i < MOST_STATISTICS; i++) {
        statistics[i] = (VkPipelineExecutableStatisticKHR){
            .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR,
        };
    }
    const VkPipelineExecutableInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
        .pipeline = pipeline,
    };
    uint32_t count = MOST_STATISTICS;
    if (!succeeded(vkGetPipelineExecutableStatisticsKHR(device, &info, &count, statistics),
                   "vkGetPipelineExecutableStatisticsKHR")) {
        return false;
    }
    printf("%s%s", name, pass);
    bool complete = true;
#define PRINT_STATISTIC(column, name) complete = complete && print_statistic(statistics, count, name);
    STATISTICS(PRINT_STATISTIC)
#undef PRINT_STATISTIC
    printf("\n");
    return complete;
}

static bool print_shader(const Gpu *gpu, const Shader *shader)
{
    const KpoolContextCreateInfo contextInfo = {
        .apiVersion = VK_API_VERSION_1_1,
        .instance = gpu->instance,
        .physicalDevice = gpu->physicalDevice,
        .device = gpu->device,
        .pfnGetInstanceProcAddr = get_instance_proc_addr,
        .bindingLayout = shader->layout,
    };
    KpoolKernelCreateInfo kernelInfo = shader->info;
    kernelInfo.geometry = geometry;
    KpoolDiagnostic diagnostic;
    KpoolContext context = NULL;
    KpoolKernel kernel = NULL;
    bool printed = accepted(kpoolCreateContext(&contextInfo, &context, &diagnostic), &diagnostic) &&
                   accepted(kpoolCreateKernel(context, &kernelInfo, &kernel, &diagnostic), &diagnostic);
    for (uint32_t pass = 0; printed && pass < kernel->passes; pass++) {
        printed = print_pipeline(gpu->device, kernel->pipelines[pass], shader->name,
                                 kernel->passes == 1 ? "" : pass == 0 ? " gather" : " scatter");
    }
    kpoolDestroyKernel(kernel);
    kpoolDestroyContext(context);
    return printed;
}

/* ------------------------------------------------------------------------ the plain port ------ */

/* Any layout serves that has the bindings: nothing is dispatched. */
static bool create_plain_layout(VkDevice device, VkDescriptorSetLayout *setLayout, VkPipelineLayout *layout)
{
    VkDescriptorSetLayoutBinding bindings[KPOOL_TENSOR_COUNT];
    for (uint32_t i = 0; i < KPOOL_TENSOR_COUNT; i++) {
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    }
    const VkDescriptorSetLayoutCreateInfo setInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = KPOOL_TENSOR_COUNT,
        .pBindings = bindings,
    };
    if (!succeeded(vkCreateDescriptorSetLayout(device, &setInfo, NULL, setLayout), "vkCreateDescriptorSetLayout")) {
        return false;
    }
    const VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = setLayout,
    };
    return succeeded(vkCreatePipelineLayout(device, &info, NULL, layout), "vkCreatePipelineLayout");
}

static bool create_plain_pipeline(VkDevice device, VkShaderModule module, VkPipelineLayout layout,
                                  VkPipeline *pipeline)
{
    const uint32_t values[] = {geometry.head_dim, geometry.kpool};
    static const VkSpecializationMapEntry entries[] = {{0, 0, 4}, {1, 4, 4}};
    const VkSpecializationInfo specialization = {
        .mapEntryCount = 2,
        .pMapEntries = entries,
        .dataSize = sizeof values,
        .pData = values,
    };
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &specialization},
        .layout = layout,
    };
    return succeeded(create_compute_pipelines(device, VK_NULL_HANDLE, 1, &info, NULL, pipeline),
                     "vkCreateComputePipelines");
}

static bool print_plain_port(VkDevice device)
{
    VkDescriptorSetLayout setLayout = VK_NULL_HANDLE;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    VkShaderModule module = VK_NULL_HANDLE;
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkShaderModuleCreateInfo moduleInfo = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = sizeof kpool_plain_seed_tail_wide_2,
        .pCode = kpool_plain_seed_tail_wide_2,
    };
    const bool printed =
        create_plain_layout(device, &setLayout, &layout) &&
        succeeded(vkCreateShaderModule(device, &moduleInfo, NULL, &module), "vkCreateShaderModule") &&
        create_plain_pipeline(device, module, layout, &pipeline) &&
        print_pipeline(device, pipeline, "plain seed_tail", "");
    vkDestroyPipeline(device, pipeline, NULL);
    vkDestroyShaderModule(device, module, NULL);
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroyDescriptorSetLayout(device, setLayout, NULL);
    return printed;
}

/* -------------------------------------------------------------------------------- device ------ */

/* gpu_open's device lacks the extension. Queue family 0: nothing is submitted. */
static bool create_device(Gpu *gpu)
{
    static const char *const extensions[] = {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME};
    VkPhysicalDevice16BitStorageFeatures halves = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
        .storageBuffer16BitAccess = VK_TRUE,
    };
    const VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pNext = &halves,
        .pipelineExecutableInfo = VK_TRUE,
    };
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queueInfo = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &statistics,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queueInfo,
        .enabledExtensionCount = 1,
        .ppEnabledExtensionNames = extensions,
    };
    if (!succeeded(vkCreateDevice(gpu->physicalDevice, &info, NULL, &gpu->device), "vkCreateDevice")) {
        gpu->device = VK_NULL_HANDLE;
        return false;
    }
    volkLoadDevice(gpu->device);
    return true;
}

/* The first line is a comment that names the driver. */
static bool print_table(const Gpu *gpu)
{
    VkPhysicalDeviceDriverPropertiesKHR driver = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES_KHR,
    };
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
        .pNext = &driver,
    };
    vkGetPhysicalDeviceProperties2(gpu->physicalDevice, &properties);
    printf("# %s, %s\nshader", driver.driverName, driver.driverInfo);
#define PRINT_COLUMN(column, name) printf("," #column);
    STATISTICS(PRINT_COLUMN)
#undef PRINT_COLUMN
    printf("\n");
    bool printed = print_plain_port(gpu->device);
    for (size_t i = 0; i < sizeof shaders / sizeof shaders[0]; i++) {
        printed = printed && print_shader(gpu, &shaders[i]);
    }
    return printed;
}

int main(void)
{
    Gpu gpu;
    const bool found = gpu_open_instance(&gpu) && gpu_select(&gpu, NULL);
    if (!found) {
        fprintf(stderr, "kpool-isa: %s\n", gpu.error);
    }
    const bool printed = found && create_device(&gpu) && print_table(&gpu);
    gpu_close(&gpu);
    return printed ? EXIT_RIGHT : EXIT_NO_DEVICE;
}
