/* Faults that a sanitizer or valgrind must report, so that their silence about everything else says something:
 *   race      two threads record into one command buffer, whose log is not theirs alone
 *   leak      a context that nobody destroys
 *   overflow  a call whose bindings are one range short
 *   shift     a bit beyond the last */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include "fake_vulkan.h"
#include "sample_call.h"

typedef struct Shared {
    FakeVulkan fake;
    KpoolContext context;
    KpoolKernel kernel;
} Shared;

static void open_shared(Shared *shared)
{
    fake_vulkan_init(&shared->fake);
    const KpoolContextCreateInfo info = sample_context_info(KPOOL_BINDING_LAYOUT_DEFAULT, 0, NULL);
    const KpoolKernelCreateInfo kernelInfo = sample_kernel_info(KPOOL_OPERATION_STEP);
    if (kpoolCreateContext(&info, &shared->context, NULL) != KPOOL_SUCCESS ||
        kpoolCreateKernel(shared->context, &kernelInfo, &shared->kernel, NULL) != KPOOL_SUCCESS) {
        abort();
    }
}

static void close_shared(Shared *shared)
{
    kpoolDestroyKernel(shared->kernel);
    kpoolDestroyContext(shared->context);
}

static void *record(void *argument)
{
    Shared *shared = argument;
    fake_vulkan_use(&shared->fake);
    sample_record(shared->context, shared->kernel, (VkBuffer)(uintptr_t)0x77, NULL);
    return NULL;
}

static void race(void)
{
    static Shared shared;
    open_shared(&shared);
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, record, &shared) != 0) {
            abort();
        }
    }
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    close_shared(&shared);
}

static void leak(void)
{
    Shared *shared = malloc(sizeof *shared);
    if (shared == NULL) {
        abort();
    }
    open_shared(shared);
    kpoolDestroyKernel(shared->kernel);
    free(shared);
}

static void overflow(void)
{
    Shared shared;
    open_shared(&shared);
    char *bindings = calloc(1, sizeof(KpoolBindings) - sizeof(KpoolRange));
    if (bindings == NULL) {
        abort();
    }
    kpoolWriteDescriptorSet(shared.context, KPOOL_OPERATION_STEP, (VkDescriptorSet)(uintptr_t)0x99,
                            (const KpoolBindings *)(const void *)bindings, NULL);
    free(bindings);
    close_shared(&shared);
}

static void shift(int bit)
{
    printf("%d\n", 1 << bit);
}

int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "";
    if (strcmp(fault, "race") == 0) {
        race();
    } else if (strcmp(fault, "leak") == 0) {
        leak();
    } else if (strcmp(fault, "overflow") == 0) {
        overflow();
    } else if (strcmp(fault, "shift") == 0) {
        shift(30 + argc);
    } else {
        return 2;
    }
    return 0;
}
