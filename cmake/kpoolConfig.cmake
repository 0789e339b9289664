# kpool's public header includes <vulkan/vulkan_core.h>: the embedder's own Vulkan headers serve.
include(${CMAKE_CURRENT_LIST_DIR}/kpoolTargets.cmake)
