#include "counting_allocator.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);

static struct {
    bool watching;
    uint32_t fail_at;
    HeapCounts counts;
} heap;

/* Whether the allocation that is being asked for is to fail. */
static bool heap_allocation_fails(void)
{
    if (!heap.watching) {
        return false;
    }
    heap.counts.allocations++;
    if (heap.counts.allocations == heap.fail_at) {
        return true;
    }
    heap.counts.live++;
    return false;
}

void *__wrap_malloc(size_t size)
{
    return heap_allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return heap_allocation_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    if (heap_allocation_fails()) {
        return NULL;
    }
    if (heap.watching && memory != NULL) {
        heap.counts.live--;
    }
    return __real_realloc(memory, size);
}

void __wrap_free(void *memory)
{
    if (heap.watching && memory != NULL) {
        heap.counts.live--;
    }
    __real_free(memory);
}

void heap_watch(uint32_t fail_at)
{
    heap.counts = (HeapCounts){0};
    heap.fail_at = fail_at;
    heap.watching = true;
}

HeapCounts heap_unwatch(void)
{
    heap.watching = false;
    return heap.counts;
}

static VKAPI_ATTR void *VKAPI_CALL counted_allocation(void *user, size_t size, size_t alignment,
                                                      VkSystemAllocationScope scope)
{
    (void)scope;
    CountingAllocator *allocator = user;
    allocator->allocations++;
    if (allocator->allocations == allocator->fail_at || alignment > _Alignof(max_align_t)) {
        return NULL;
    }
    void *memory = __real_malloc(size);
    if (memory != NULL) {
        /* Whoever relies on zeroed memory shall be found. */
        memset(memory, 0xa5, size);
        allocator->live++;
    }
    return memory;
}

static VKAPI_ATTR void *VKAPI_CALL counted_reallocation(void *user, void *original, size_t size, size_t alignment,
                                                        VkSystemAllocationScope scope)
{
    (void)user, (void)original, (void)size, (void)alignment, (void)scope;
    return NULL; /* nothing here grows what it has */
}

static VKAPI_ATTR void VKAPI_CALL counted_free(void *user, void *memory)
{
    CountingAllocator *allocator = user;
    if (memory != NULL) {
        allocator->live--;
        __real_free(memory);
    }
}

void counting_allocator_init(CountingAllocator *allocator)
{
    *allocator = (CountingAllocator){
        .callbacks = {.pUserData = allocator,
                      .pfnAllocation = counted_allocation,
                      .pfnReallocation = counted_reallocation,
                      .pfnFree = counted_free},
    };
}
