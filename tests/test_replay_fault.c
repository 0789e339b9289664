/* A device that goes wrong must be found out: replay runs with kpoolCmd... functions (wrapped by the linker) that ask
 * for something else than they were told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "command.h"
#include "gpu.h"

typedef enum Fault {
    FAULT_NONE,
    FAULT_NEXT_ROW,       /* seed_tail takes the gate scores of the token after */
    FAULT_PLANES,         /* seed_tail writes to other places of the slot */
    FAULT_FEWER_SLOTS,    /* seed_tail drops a request */
    FAULT_SEED_FIRST,     /* ring_close comes after seed_tail */
    FAULT_CLOSE_NEXT_ROW, /* ring_close takes a key of the token after */
    FAULT_POOLED_ROW,     /* compress writes every key a row too far */
    FAULT_MISSING_POOL,   /* compress makes one key only */
    FAULT_OFFSETS,        /* pool_row_offsets leaves out its last entry */
    FAULT_NO_COPY,        /* copy_slots does nothing */
} Fault;

static Fault fault;

/* X(command): declares its real function and begins the definition of the one that replay calls. */
#define ARGUMENTS                                                                                               \
    VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set, const KpoolBindings *bindings,      \
        const KpoolCall *call, KpoolDiagnostic *diagnostic
#define WRAP(command)                              \
    KpoolResult __real_kpoolCmd##command(ARGUMENTS); \
    KpoolResult __wrap_kpoolCmd##command(ARGUMENTS); \
    KpoolResult __wrap_kpoolCmd##command(ARGUMENTS)

WRAP(CopySlots)
{
    return fault == FAULT_NO_COPY ? KPOOL_SUCCESS
                                  : __real_kpoolCmdCopySlots(commandBuffer, kernel, set, bindings, call, diagnostic);
}

WRAP(PoolRowOffsets)
{
    KpoolCall wrong = *call;
    wrong.requests -= fault == FAULT_OFFSETS ? 1 : 0;
    return __real_kpoolCmdPoolRowOffsets(commandBuffer, kernel, set, bindings, &wrong, diagnostic);
}

/* What FAULT_SEED_FIRST puts off. */
static struct {
    KpoolKernel kernel;
    VkDescriptorSet set;
} close_later;

WRAP(RingClose)
{
    KpoolCall wrong = *call;
    if (fault == FAULT_SEED_FIRST) {
        close_later.kernel = kernel;
        close_later.set = set;
        return KPOOL_SUCCESS;
    }
    if (fault == FAULT_CLOSE_NEXT_ROW) {
        wrong.rows--;
        wrong.k_base = kpoolGetKernelInfo(kernel).geometry.head_dim;
    }
    return __real_kpoolCmdRingClose(commandBuffer, kernel, set, bindings, &wrong, diagnostic);
}

WRAP(Compress)
{
    KpoolCall wrong = *call;
    if (fault == FAULT_POOLED_ROW) {
        wrong.pooled_rows--;
        wrong.pooled_base = kpoolGetKernelInfo(kernel).geometry.head_dim;
    } else if (fault == FAULT_MISSING_POOL) {
        wrong.pooled_rows = 1;
    }
    return __real_kpoolCmdCompress(commandBuffer, kernel, set, bindings, &wrong, diagnostic);
}

WRAP(SeedTail)
{
    const KpoolGeometry geometry = kpoolGetKernelInfo(kernel).geometry;
    KpoolCall wrong = *call;
    if (fault == FAULT_NEXT_ROW) {
        wrong.rows--;
        wrong.gate_base = geometry.head_dim;
    } else if (fault == FAULT_PLANES) {
        /* Members of the two planes take turns, in the same bytes. */
        wrong.tail_plane_stride = geometry.head_dim;
        wrong.tail_row_stride = 2 * wrong.tail_plane_stride;
        wrong.tail_slot_stride = geometry.ring * wrong.tail_row_stride;
    } else if (fault == FAULT_FEWER_SLOTS) {
        wrong.max_slots--;
    }
    const KpoolResult result =
        __real_kpoolCmdSeedTail(commandBuffer, kernel, set, bindings, &wrong, diagnostic);
    if (fault != FAULT_SEED_FIRST || result != KPOOL_SUCCESS) {
        return result;
    }
    gpu_barrier(commandBuffer);
    return __real_kpoolCmdRingClose(commandBuffer, close_later.kernel, close_later.set, bindings, call, diagnostic);
}

/* What replay returns with the fault, and the first line it writes to stderr, but for progress on a slow device. */
static int replay(Fault planted, char *line, int size)
{
    char path[] = P_tmpdir "/kpool_trace_XXXXXX";
    const int trace = mkstemp(path);
    assert_true(trace >= 0);
    static const char text[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                               "a,10,9\nb,7,30\nc,0,5\nd,50,1\ne,61,1\nf,45,3\n";
    assert_int_equal(write(trace, text, sizeof text - 1), sizeof text - 1);
    close(trace);
    FILE *captured = tmpfile();
    assert_non_null(captured);
    fflush(stderr);
    const int saved = dup(STDERR_FILENO);
    dup2(fileno(captured), STDERR_FILENO);

    char name[] = "kpool replay";
    char slots[] = "--slots=3";
    char batch_tokens[] = "--batch-tokens=19"; /* long prompts come in chunks that begin and end inside pools */
    char fork[] = "--fork=1";
    char *arguments[] = {name, path, slots, batch_tokens, fork, NULL};
    fault = planted;
    const int code = command_replay(5, arguments);

    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    unlink(path);
    rewind(captured);
    do {
        line[0] = '\0';
    } while (fgets(line, size, captured) != NULL && strncmp(line, "replay:", strlen("replay:")) == 0);
    fclose(captured);
    return code;
}

static void a_right_device_is_right(void **state)
{
    (void)state;
    char line[256];
    assert_int_equal(replay(FAULT_NONE, line, sizeof line), EXIT_RIGHT);
    assert_string_equal(line, "");
}

static void a_wrong_device_is_found(void **state)
{
    (void)state;
    static const struct {
        Fault fault;
        const char *words[2]; /* of the first line */
    } faults[] = {
        {FAULT_NEXT_ROW, {"mismatch in step 0: request ", "plane 1 (gate)"}},
        {FAULT_PLANES, {"mismatch in step 0: ", ", slot "}},
        {FAULT_FEWER_SLOTS, {" in step ", ""}},
        {FAULT_SEED_FIRST, {"mismatch in step ", ", made by ring_close, channel "}},
        {FAULT_CLOSE_NEXT_ROW, {"mismatch in step ", ", made by ring_close, channel "}},
        {FAULT_POOLED_ROW, {"mismatch in step 0: request ", ": compress has not made its key"}},
        {FAULT_MISSING_POOL, {"mismatch in step 0: request ", ": compress has not made its key"}},
        {FAULT_OFFSETS, {"mismatch in step 0: pool_row_offsets[", ""}},
        {FAULT_NO_COPY, {"mismatch in step ", ""}},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        char line[256];
        const int code = replay(faults[i].fault, line, sizeof line);
        if (code != EXIT_MISMATCH || strstr(line, faults[i].words[0]) == NULL ||
            strstr(line, faults[i].words[1]) == NULL) {
            fail_msg("fault %d: exit %d, '%s'", (int)faults[i].fault, code, line);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_device_is_right),
        cmocka_unit_test(a_wrong_device_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
