/* Many threads at once, on the fake device: some record with the kernels of one context, and execute its commands, each
 * into a command buffer of its own; some make and destroy kernels in that context; some make and destroy contexts beside it. What is recorded is
 * what one thread alone records. In the preset tsan ThreadSanitizer watches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include <cmocka.h>

#include "counting_allocator.h"
#include "fake_vulkan.h"
#include "sample_call.h"

enum { OPERATIONS = KPOOL_OPERATION_CHECK_SLOTS, THREADS = 12, ROUNDS = 60 };

#define ALONE_BUFFER ((VkBuffer)(uintptr_t)0x77)

/* A context with a kernel and a command of each operation, and the fake device that knows them. */
typedef struct Shared {
    FakeVulkan fake;
    KpoolContext context;
    KpoolKernel kernels[OPERATIONS];
    KpoolCommand commands[OPERATIONS];
    uint32_t flags;
    KpoolBindingLayout layout;
} Shared;

/* One thread: with a copy of the fake, because its log and its table of objects are one thread's. */
typedef struct Worker {
    pthread_t thread;
    const Shared *shared;
    FakeVulkan fake;
    const char *fault; /* what went wrong, or NULL */
} Worker;

static VkBuffer buffer_of(const Worker *worker)
{
    return (VkBuffer)(uintptr_t)worker;
}

/* What one thread alone records, in the log of a fake. */
static const char *record_all(const Shared *shared, FakeVulkan *fake, VkBuffer buffer)
{
    fake->call_count = 0;
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        if (sample_record(shared->context, shared->kernels[i], buffer, NULL) != KPOOL_SUCCESS) {
            return "recording is refused";
        }
    }
    return fake->misuse;
}

/* Commands of the shared context, whose buffer is that of the one thread. */
static const char *execute_all(const Shared *shared, FakeVulkan *fake)
{
    const bool push = (shared->flags & KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT) != 0;
    const VkDescriptorSet set = push ? VK_NULL_HANDLE : (VkDescriptorSet)(uintptr_t)0x99;
    fake->call_count = 0;
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        if (kpoolCmdExecute(fake_command_buffer(), shared->commands[i], set, NULL) != KPOOL_SUCCESS) {
            return "executing is refused";
        }
    }
    return fake->misuse;
}

static void *record_many(void *argument)
{
    Worker *worker = argument;
    fake_vulkan_use(&worker->fake);
    for (uint32_t round = 0; round < ROUNDS && worker->fault == NULL; round++) {
        worker->fault = record_all(worker->shared, &worker->fake, buffer_of(worker));
        const FakeVulkan *alone = &worker->shared->fake;
        if (worker->fake.call_count != alone->call_count) {
            worker->fault = "another number of commands than one thread alone records";
        }
        for (uint32_t i = 0; i < alone->call_count && worker->fault == NULL; i++) {
            if (!fake_same_call(&alone->calls[i], &worker->fake.calls[i], buffer_of(worker))) {
                worker->fault = "another command than one thread alone records";
            }
        }
        if (worker->fault == NULL) {
            worker->fault = execute_all(worker->shared, &worker->fake);
        }
    }
    return NULL;
}

/* A kernel of each operation in a context, recorded with and destroyed. */
static const char *make_kernels(KpoolContext context, FakeVulkan *fake, VkBuffer buffer)
{
    for (int operation = KPOOL_OPERATION_SEED_TAIL; operation <= OPERATIONS; operation++) {
        const KpoolKernelCreateInfo info = sample_kernel_info((KpoolOperation)operation);
        KpoolKernel kernel;
        fake->call_count = 0;
        if (kpoolCreateKernel(context, &info, &kernel, NULL) != KPOOL_SUCCESS) {
            return "no kernel";
        }
        const KpoolResult result = sample_record(context, kernel, buffer, NULL);
        kpoolDestroyKernel(kernel);
        if (result != KPOOL_SUCCESS) {
            return "recording with a new kernel is refused";
        }
    }
    return fake->misuse;
}

static void *make_many_kernels(void *argument)
{
    Worker *worker = argument;
    fake_vulkan_use(&worker->fake);
    const uint32_t objects = worker->fake.object_count;
    for (uint32_t round = 0; round < ROUNDS / 4 && worker->fault == NULL; round++) {
        worker->fault = make_kernels(worker->shared->context, &worker->fake, buffer_of(worker));
        if (worker->fault == NULL && worker->fake.object_count != objects) {
            worker->fault = "objects of a destroyed kernel are left";
        }
    }
    return NULL;
}

static void *make_many_contexts(void *argument)
{
    Worker *worker = argument;
    fake_vulkan_init(&worker->fake);
    CountingAllocator allocator;
    counting_allocator_init(&allocator);
    for (uint32_t round = 0; round < ROUNDS / 4 && worker->fault == NULL; round++) {
        const KpoolContextCreateInfo info =
            sample_context_info(worker->shared->layout, worker->shared->flags, &allocator.callbacks);
        KpoolContext context;
        worker->fake.call_count = 0;
        if (kpoolCreateContext(&info, &context, NULL) != KPOOL_SUCCESS) {
            worker->fault = "no context";
            break;
        }
        worker->fault = make_kernels(context, &worker->fake, buffer_of(worker));
        kpoolDestroyContext(context);
        if (worker->fake.object_count != 0 || allocator.live != 0) {
            worker->fault = "objects or memory of a destroyed context are left";
        }
    }
    return NULL;
}

static void run_threads(KpoolBindingLayout layout, uint32_t flags)
{
    static void *(*const jobs[])(void *) = {record_many, record_many, make_many_kernels, make_many_contexts};
    Shared *shared = calloc(1, sizeof *shared);
    Worker *workers = calloc(THREADS, sizeof *workers);
    assert_non_null(shared);
    assert_non_null(workers);
    shared->layout = layout;
    shared->flags = flags;
    fake_vulkan_init(&shared->fake);
    const KpoolContextCreateInfo info = sample_context_info(layout, flags, NULL);
    assert_int_equal(kpoolCreateContext(&info, &shared->context, NULL), KPOOL_SUCCESS);
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        const KpoolKernelCreateInfo kernelInfo = sample_kernel_info((KpoolOperation)(i + 1));
        assert_int_equal(kpoolCreateKernel(shared->context, &kernelInfo, &shared->kernels[i], NULL), KPOOL_SUCCESS);
    }
    assert_null(record_all(shared, &shared->fake, ALONE_BUFFER));
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        assert_int_equal(sample_command(shared->kernels[i], ALONE_BUFFER, &shared->commands[i], NULL), KPOOL_SUCCESS);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i].shared = shared;
        workers[i].fake = shared->fake;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, jobs[i % 4], &workers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        if (workers[i].fault != NULL) {
            fail_msg("thread %u: %s", i, workers[i].fault);
        }
    }
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        kpoolDestroyCommand(shared->commands[i]);
        kpoolDestroyKernel(shared->kernels[i]);
    }
    kpoolDestroyContext(shared->context);
    assert_int_equal(shared->fake.object_count, 0);
    assert_null(shared->fake.misuse);
    free(workers);
    free(shared);
}

static void test_threads(void **state)
{
    (void)state;
    run_threads(KPOOL_BINDING_LAYOUT_WIDE, 0);
    run_threads(KPOOL_BINDING_LAYOUT_FLOOR, KPOOL_CONTEXT_DEBUG_NAMES_BIT);
    run_threads(KPOOL_BINDING_LAYOUT_WIDE, KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT);
    run_threads(KPOOL_BINDING_LAYOUT_FLOOR, KPOOL_CONTEXT_PUSH_DESCRIPTORS_BIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
