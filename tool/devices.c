/* `kpool devices`: which Vulkan devices there are, and what limits them for this library. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "arguments.h"
#include "command.h"
#include "complaint.h"
#include "gpu.h"

/* X(name): the limits that bound what the library can do, all at most 32 bits. */
#define LIMITS(X)                          \
    X(maxPerStageDescriptorStorageBuffers) \
    X(maxStorageBufferRange)               \
    X(minStorageBufferOffsetAlignment)     \
    X(maxComputeWorkGroupInvocations)      \
    X(maxComputeSharedMemorySize)          \
    X(maxComputeWorkGroupCount[0])         \
    X(maxPushConstantsSize)

enum { KEY_JSON = 0x100 };

static error_t parse(int key, char *argument, struct argp_state *state)
{
    switch (key) {
    case ARGP_KEY_INIT:
        arguments_quiet(state);
        return 0;
    case KEY_JSON:
        *(bool *)state->input = true;
        return 0;
    case ARGP_KEY_ARG:
        return arguments_refuse(state, "'%s': takes no such argument", argument);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *type_name(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return "CPU";
    default:
        return "other";
    }
}

typedef struct Described {
    VkPhysicalDeviceProperties properties;
    char driver[600]; /* empty where the device does not say */
    char version[40];
    bool wide;   /* the binding layouts it takes */
    bool floor;
    bool is_default;
} Described;

/* The driver's name comes from an extension here: the instance is made for Vulkan 1.1. */
static bool tells_driver(VkPhysicalDevice device)
{
    VkExtensionProperties extensions[512];
    uint32_t count = 512;
    const VkResult result = vkEnumerateDeviceExtensionProperties(device, NULL, &count, extensions);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(extensions[i].extensionName, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME) == 0) {
            return true;
        }
    }
    return false;
}

static Described describe(const Gpu *gpu, VkPhysicalDevice device)
{
    Described described = {.is_default = device == gpu->physicalDevice};
    vkGetPhysicalDeviceProperties(device, &described.properties);
    const uint32_t version = described.properties.apiVersion;
    snprintf(described.version, sizeof described.version, "%u.%u.%u", VK_API_VERSION_MAJOR(version),
             VK_API_VERSION_MINOR(version), VK_API_VERSION_PATCH(version));
    if (version < VK_API_VERSION_1_1) {
        return described;
    }
    if (tells_driver(device)) {
        VkPhysicalDeviceDriverPropertiesKHR driver = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES_KHR,
        };
        VkPhysicalDeviceProperties2 properties = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
            .pNext = &driver,
        };
        vkGetPhysicalDeviceProperties2(device, &properties);
        snprintf(described.driver, sizeof described.driver, "%s%s%s", driver.driverName,
                 driver.driverInfo[0] != '\0' ? ", " : "", driver.driverInfo);
    }
    /* Layouts do not depend on the geometry: this is the model's that the library is made for. */
    const KpoolGeometry geometry = {.head_dim = 128, .kpool = 4, .type = KPOOL_TYPE_BF16};
    KpoolRequirements requirements;
    if (kpoolGetRequirements(&described.properties.limits, &geometry, &requirements, NULL) == KPOOL_SUCCESS) {
        described.wide = (requirements.bindingLayouts & KPOOL_BINDING_LAYOUT_WIDE_BIT) != 0;
        described.floor = (requirements.bindingLayouts & KPOOL_BINDING_LAYOUT_FLOOR_BIT) != 0;
    }
    return described;
}

static void print_text(uint32_t index, const Described *described)
{
    const VkPhysicalDeviceLimits *limits = &described->properties.limits;
    const char *layouts = described->wide ? "wide, floor" : described->floor ? "floor" : "none: needs Vulkan 1.1";
    printf("%u: %s%s\n", index, described->properties.deviceName, described->is_default ? " (default)" : "");
    printf("    %-36s%s\n", "type", type_name(described->properties.deviceType));
    if (described->driver[0] != '\0') {
        printf("    %-36s%s\n", "driver", described->driver);
    }
    printf("    %-36s%s\n", "Vulkan", described->version);
    printf("    %-36s%s\n", "binding layouts", layouts);
#define PRINT_LIMIT(name) printf("    %-36s%llu\n", #name, (unsigned long long)limits->name);
    LIMITS(PRINT_LIMIT)
#undef PRINT_LIMIT
}

static json_t *make_json(uint32_t index, const Described *described)
{
    const VkPhysicalDeviceLimits *limits = &described->properties.limits;
    json_t *values = json_object();
#define SET_LIMIT(name) json_object_set_new(values, #name, json_integer((json_int_t)limits->name));
    LIMITS(SET_LIMIT)
#undef SET_LIMIT
    json_t *layouts = json_array();
    if (described->wide) {
        json_array_append_new(layouts, json_string("wide"));
    }
    if (described->floor) {
        json_array_append_new(layouts, json_string("floor"));
    }
    return json_pack("{s:i, s:s, s:s, s:b, s:s, s:s, s:o, s:o}", "index", (int)index, "name",
                     described->properties.deviceName, "type", type_name(described->properties.deviceType), "default",
                     (int)described->is_default, "driver", described->driver, "apiVersion", described->version,
                     "bindingLayouts", layouts, "limits", values);
}

static void list(Gpu *gpu, bool json)
{
    VkPhysicalDevice devices[16];
    const uint32_t count = gpu_list(gpu, devices);
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const Described described = describe(gpu, devices[i]);
        if (json) {
            json_array_append_new(array, make_json(i, &described));
        } else {
            print_text(i, &described);
        }
    }
    if (json) {
        json_dumpf(array, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(array);
}

int command_devices(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"json", KEY_JSON, NULL, 0, "Print a JSON array, empty where there is no device", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Lists the Vulkan devices, what limits each for this library, and which is the default.\v"
               "Exit status: 0 listed, 2 an argument breaks a rule, 3 no usable device or Vulkan failed.",
    };
    bool json = false;
    if (argp_parse(&argp, argc, argv, 0, NULL, &json) != 0) {
        return EXIT_BAD_INPUT;
    }
    Gpu gpu;
    const bool found = gpu_open_instance(&gpu) && gpu_select(&gpu, NULL);
    if (found) {
        list(&gpu, json);
    } else {
        complain_aloud("kpool devices: %s", gpu.error);
        fputs(json ? "[]\n" : "", stdout);
    }
    gpu_close(&gpu);
    return found ? EXIT_RIGHT : EXIT_NO_DEVICE;
}
