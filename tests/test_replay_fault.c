/* A device that goes wrong must be found out: replay runs with a kpoolCmdSeedTail (wrapped by the linker) that asks for
 * something else than it was told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "command.h"
#include "kpool/kpool.h"

typedef enum Fault { FAULT_NONE, FAULT_NEXT_ROW, FAULT_PLANES, FAULT_FEWER_SLOTS } Fault;

static Fault fault;

KpoolResult __real_kpoolCmdSeedTail(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                                    const KpoolBindings *bindings, const KpoolCall *call,
                                    KpoolDiagnostic *diagnostic);
KpoolResult __wrap_kpoolCmdSeedTail(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                                    const KpoolBindings *bindings, const KpoolCall *call,
                                    KpoolDiagnostic *diagnostic);

KpoolResult __wrap_kpoolCmdSeedTail(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                                    const KpoolBindings *bindings, const KpoolCall *call,
                                    KpoolDiagnostic *diagnostic)
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
    return __real_kpoolCmdSeedTail(commandBuffer, kernel, set, bindings, &wrong, diagnostic);
}

/* What replay returns with the fault, and the first line it writes to stderr. */
static int replay(Fault planted, char *line, int size)
{
    char path[] = P_tmpdir "/kpool_trace_XXXXXX";
    const int trace = mkstemp(path);
    assert_true(trace >= 0);
    static const char text[] = "TIMESTAMP,ContextTokens,GeneratedTokens\na,10,9\nb,7,30\nc,0,5\nd,50,1\n";
    assert_int_equal(write(trace, text, sizeof text - 1), sizeof text - 1);
    close(trace);
    FILE *captured = tmpfile();
    assert_non_null(captured);
    fflush(stderr);
    const int saved = dup(STDERR_FILENO);
    dup2(fileno(captured), STDERR_FILENO);

    char name[] = "kpool replay";
    char slots[] = "--slots=3";
    char *arguments[] = {name, path, slots, NULL};
    fault = planted;
    const int code = command_replay(3, arguments);

    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    unlink(path);
    rewind(captured);
    line[0] = '\0';
    (void)(fgets(line, size, captured) != NULL);
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

static void a_wrong_row_is_found(void **state)
{
    (void)state;
    char line[256];
    assert_int_equal(replay(FAULT_NEXT_ROW, line, sizeof line), EXIT_MISMATCH);
    assert_non_null(strstr(line, "mismatch in step 0: request "));
    assert_non_null(strstr(line, "plane 1 (gate)"));
}

static void a_wrong_place_is_found(void **state)
{
    (void)state;
    char line[256];
    assert_int_equal(replay(FAULT_PLANES, line, sizeof line), EXIT_MISMATCH);
    assert_non_null(strstr(line, "mismatch in step 0: "));
}

static void a_dropped_request_is_found(void **state)
{
    (void)state;
    char line[256];
    assert_int_equal(replay(FAULT_FEWER_SLOTS, line, sizeof line), EXIT_MISMATCH);
    assert_non_null(strstr(line, " in step "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_device_is_right),
        cmocka_unit_test(a_wrong_row_is_found),
        cmocka_unit_test(a_wrong_place_is_found),
        cmocka_unit_test(a_dropped_request_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
