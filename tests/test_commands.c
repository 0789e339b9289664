/* Calls that were checked beforehand, on a device: random calls of every operation, recorded by kpoolCmdExecute alone and
 * their command destroyed before they are submitted, are as the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "device_tests.h"
#include "record_command.h"

enum { CALLS = 6 };

static KpoolResult record_by_command(VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set,
                                     const KpoolBindings *bindings, const KpoolCall *call, KpoolDiagnostic *diagnostic)
{
    KpoolCommand command;
    KpoolResult result = kpoolCreateCommand(kernel, bindings, call, &command, diagnostic);
    if (result == KPOOL_SUCCESS) {
        result = kpoolCmdExecute(commandBuffer, command, set, diagnostic);
        kpoolDestroyCommand(command);
    }
    return result;
}

RecordCommand *__wrap_record_command(KpoolOperation operation);

RecordCommand *__wrap_record_command(KpoolOperation operation)
{
    (void)operation;
    return record_by_command;
}

static void check_commands(Gpu *gpu)
{
    for (KpoolOperation operation = KPOOL_OPERATION_SEED_TAIL; operation <= KPOOL_OPERATION_CHECK_SLOTS; operation++) {
        must_match_random(gpu, operation, 7000, CALLS);
    }
}

ON_EACH_CONTEXT(check_commands)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_check_commands)};
    return cmocka_run_group_tests_name("commands", tests, NULL, NULL);
}
