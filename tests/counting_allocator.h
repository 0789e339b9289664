/* Counts allocations and makes the Nth fail: those made through VkAllocationCallbacks, and those of malloc, calloc and
 * realloc in everything linked statically (the library and the test), by the linker's --wrap. */
#ifndef KPOOL_TESTS_COUNTING_ALLOCATOR_H
#define KPOOL_TESTS_COUNTING_ALLOCATOR_H

#include <stdint.h>

#include <vulkan/vulkan_core.h>

typedef struct CountingAllocator {
    VkAllocationCallbacks callbacks; /* pUserData is the allocator, so it must stay where it is */
    uint32_t allocations;            /* asked for so far, the failed one included */
    uint32_t live;
    uint32_t fail_at; /* 1: the first allocation fails; 0: none */
} CountingAllocator;

void counting_allocator_init(CountingAllocator *allocator);

typedef struct HeapCounts {
    uint32_t allocations; /* asked for since heap_watch, the failed one included */
    uint32_t live;        /* made since heap_watch and not freed */
} HeapCounts;

/* Starts counting from zero; the fail_at-th allocation fails, 0: none. */
void heap_watch(uint32_t fail_at);
/* Stops counting and failing. */
HeapCounts heap_unwatch(void);

#endif
