/* What is wrong must not be timed: bench runs with functions (wrapped by the linker) that ask for something else than
 * they were told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "command.h"
#include "plain_port.h"

typedef enum Fault { FAULT_NONE, FAULT_SEED_TAIL, FAULT_LONG, FAULT_PLAIN, FAULT_FAST, FAULT_STEP } Fault;

static Fault fault;

#define BATCH 16u

/* Whether it strikes here, too. */
static bool strikes(Fault planted, const KpoolKernelCreateInfo *info, const KpoolCall *call)
{
    const bool is_long = info->operation == KPOOL_OPERATION_SEED_TAIL && call->rows == 512 * BATCH;
    return (fault == planted && (fault != FAULT_FAST || info->numerics == KPOOL_NUMERICS_FAST)) ||
           (fault == FAULT_LONG && is_long);
}

/* With `planted` the function reads k one row too far. */
#define DEFINE_WRAP(function, planted)                                                                              \
    KpoolResult __real_##function(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,           \
                                  const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic); \
    KpoolResult __wrap_##function(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,           \
                                  const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic); \
    KpoolResult __wrap_##function(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,           \
                                  const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic) \
    {                                                                                                               \
        const KpoolKernelCreateInfo info = kpoolGetKernelInfo(kernel);                                              \
        KpoolCall wrong = *call;                                                                                    \
        if (strikes(planted, &info, call)) {                                                                        \
            wrong.rows--;                                                                                           \
            wrong.k_base = info.geometry.head_dim;                                                                  \
        }                                                                                                           \
        return __real_##function(commandBuffer, kernel, set, bindings, &wrong, diagnostic);                         \
    }

DEFINE_WRAP(kpoolCmdSeedTail, FAULT_SEED_TAIL)
DEFINE_WRAP(kpoolCmdCompress, FAULT_FAST)
DEFINE_WRAP(kpoolCmdStep, FAULT_STEP)

void __real_plain_port_record(const PlainPort *port, VkCommandBuffer commandBuffer, uint32_t groups);
void __wrap_plain_port_record(const PlainPort *port, VkCommandBuffer commandBuffer, uint32_t groups);

/* The last requests of the plain port are forgotten. */
void __wrap_plain_port_record(const PlainPort *port, VkCommandBuffer commandBuffer, uint32_t groups)
{
    __real_plain_port_record(port, commandBuffer, fault == FAULT_PLAIN && groups > 1 ? groups / 2 : groups);
}

/* What bench returns with the fault, and all that it writes to stderr. */
static int bench(Fault planted, const char *operation, const char *mix, char *text, size_t size)
{
    FILE *captured = tmpfile();
    assert_non_null(captured);
    fflush(stderr);
    const int saved = dup(STDERR_FILENO);
    dup2(fileno(captured), STDERR_FILENO);

    char name[] = "kpool bench";
    char operations[32];
    snprintf(operations, sizeof operations, "--op=%s", operation);
    char batches[] = "--batches=16";
    char samples[] = "--samples=1";
    char mixes[32];
    snprintf(mixes, sizeof mixes, "--mix=%s", mix);
    char kpool[] = "--kpool=2"; /* so that 4 tokens hold a pool */
    char *arguments[] = {name, operations, batches, samples, mixes, kpool, NULL};
    fault = planted;
    const int code = command_bench(6, arguments);

    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(captured);
    text[fread(text, 1, size - 1, captured)] = '\0';
    fclose(captured);
    return code;
}

static void expect_wrong(Fault planted, const char *operation, const char *mix, const char *sentence)
{
    char text[1024];
    const int code = bench(planted, operation, mix, text, sizeof text);
    if (code != EXIT_MISMATCH || strstr(text, sentence) == NULL || strchr(text, '\n') != text + strlen(text) - 1) {
        fail_msg("exit %d, '%s'", code, text);
    }
}

static void what_is_right_is_timed(void **state)
{
    (void)state;
    static const char *const operations[] = {"seed_tail", "compress", "step"};
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        char text[1024];
        assert_int_equal(bench(FAULT_NONE, operations[i], "decode", text, sizeof text), EXIT_RIGHT);
        assert_string_equal(text, "");
    }
}

/* Whether the device takes the plain port at all. */
static bool has_plain_port(void)
{
    const KpoolGeometry geometry = {.head_dim = 128, .kpool = 2, .type = KPOOL_TYPE_F16};
    Gpu gpu;
    assert_true(gpu_open(&gpu, NULL));
    const bool fits = plain_port_fits(&gpu, &geometry);
    gpu_close(&gpu);
    return fits;
}

static void what_is_wrong_is_not_timed(void **state)
{
    (void)state;
    expect_wrong(FAULT_SEED_TAIL, "seed_tail", "decode",
                 "seed_tail, f16, decode, 16 requests: ours is not timed: its tail differs from the reference");
    expect_wrong(FAULT_LONG, "seed_tail", "prefill", "long is not timed: its ");
    if (has_plain_port()) {
        expect_wrong(FAULT_PLAIN, "seed_tail", "decode", "plain is not timed: its tail differs");
    }
    expect_wrong(FAULT_FAST, "compress", "decode", "fast is not timed: its pooled differs");
    expect_wrong(FAULT_STEP, "step", "decode", "ours is not timed: its ");
    expect_wrong(FAULT_SEED_TAIL, "step", "decode", "three is not timed: its tail differs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_right_is_timed),
        cmocka_unit_test(what_is_wrong_is_not_timed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
