/* What a compute module needs of a device, read from its SPIR-V. */
#ifndef KPOOL_TESTS_LAYERS_SPIRV_NEEDS_H
#define KPOOL_TESTS_LAYERS_SPIRV_NEEDS_H

#include <stdbool.h>
#include <stddef.h>

#include <vulkan/vulkan_core.h>

typedef struct SpirvNeeds {
    bool beyond_shader;     /* declares a capability beside Shader */
    uint32_t capability;    /* that one */
    uint32_t local_size[3]; /* with the specialization applied */
    uint64_t shared_bytes;
} SpirvNeeds;

/* specialization may be NULL. False where the words are no module that this can read, or memory ran out. */
bool spirv_needs(const uint32_t *words, size_t count, const VkSpecializationInfo *specialization, SpirvNeeds *needs);

#endif
