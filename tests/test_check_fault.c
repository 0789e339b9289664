/* A device that goes wrong must be found out, and what `kpool check` says of it must show it again: check runs with
 * kpoolCmd... functions (wrapped by the linker) that drop slots or write beside a range. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "command.h"
#include "gpu.h"

typedef enum Fault {
    FAULT_NONE,
    FAULT_HALF_THE_SLOTS, /* seed_tail takes the upper half for none */
    FAULT_GUARD,          /* copy_slots zeroes a word after the ring */
    FAULT_CRASH,          /* seed_tail ends the process */
} Fault;

static Fault fault;

#define ARGUMENTS                                                                                               \
    VkCommandBuffer commandBuffer, KpoolKernel kernel, VkDescriptorSet set, const KpoolBindings *bindings,      \
        const KpoolCall *call, KpoolDiagnostic *diagnostic
#define WRAP(command)                                \
    KpoolResult __real_kpoolCmd##command(ARGUMENTS); \
    KpoolResult __wrap_kpoolCmd##command(ARGUMENTS); \
    KpoolResult __wrap_kpoolCmd##command(ARGUMENTS)

WRAP(SeedTail)
{
    KpoolCall wrong = *call;
    if (fault == FAULT_CRASH) {
        abort();
    }
    wrong.max_slots = fault == FAULT_HALF_THE_SLOTS ? (call->max_slots + 1) / 2 : call->max_slots;
    return __real_kpoolCmdSeedTail(commandBuffer, kernel, set, bindings, &wrong, diagnostic);
}

WRAP(CopySlots)
{
    if (fault == FAULT_GUARD) {
        const VkDeviceSize end = bindings->tail.offset + bindings->tail.size;
        vkCmdFillBuffer(commandBuffer, bindings->tail.buffer, (end + 3) / 4 * 4, 4, 0);
    }
    return __real_kpoolCmdCopySlots(commandBuffer, kernel, set, bindings, call, diagnostic);
}

/* What check returns with the fault and the options, and what it writes to stdout. */
static int check(Fault planted, const char *options, char *out, size_t size)
{
    FILE *captured = tmpfile();
    assert_non_null(captured);
    fflush(stdout);
    const int saved = dup(STDOUT_FILENO);
    dup2(fileno(captured), STDOUT_FILENO);

    char name[] = "kpool check";
    char words[128];
    snprintf(words, sizeof words, "%s", options);
    char *arguments[8] = {name};
    int count = 1;
    char *rest = NULL;
    for (char *word = strtok_r(words, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest)) {
        assert_true(count < 7);
        arguments[count++] = word;
    }
    fault = planted;
    const int code = command_check(count, arguments);

    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    rewind(captured);
    out[fread(out, 1, size - 1, captured)] = '\0';
    fclose(captured);
    return code;
}

/* The first call of seed_tail is that of seed 8. */
static void a_crash_says_its_seed(void **state)
{
    (void)state;
    FILE *captured = tmpfile();
    assert_non_null(captured);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char out[2048];
        dup2(fileno(captured), STDERR_FILENO);
        check(FAULT_CRASH, "--broken --seed 6 --calls 7", out, sizeof out);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    rewind(captured);
    char said[2048];
    said[fread(said, 1, sizeof said - 1, captured)] = '\0';
    fclose(captured);
    assert_non_null(strstr(said, "crashed; to see it again: kpool check --broken --seed 8 --calls 1\n"));
}

static void a_right_device_is_right(void **state)
{
    (void)state;
    char out[2048];
    assert_int_equal(check(FAULT_NONE, "--broken --calls 7", out, sizeof out), EXIT_RIGHT);
    assert_non_null(strstr(out, "the reference's bits on "));
}

static void a_wrong_device_is_found(void **state)
{
    (void)state;
    static const struct {
        Fault fault;
        const char *options;
        const char *says;
    } runs[] = {
        {FAULT_HALF_THE_SLOTS, "--broken --calls 21", ": byte "},
        {FAULT_HALF_THE_SLOTS, "--calls 21", ": byte "},
        /* The first call is one that goes wrong, however few a slow device makes in the time. */
        {FAULT_HALF_THE_SLOTS, "--seed 8 --minutes 0.05", ": byte "},
        {FAULT_GUARD, "--broken --calls 7", "a guard word beside tail was changed"},
        {FAULT_GUARD, "--seed 100 --calls 7", "a guard word beside tail was changed"},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        char out[2048];
        char again[2048];
        const int code = check(runs[i].fault, runs[i].options, out, sizeof out);
        const char *wrong = strstr(out, "WRONG on ");
        const char *command = strstr(out, "kpool check ");
        if (code != EXIT_MISMATCH || wrong == NULL || command == NULL || strstr(out, runs[i].says) == NULL) {
            fail_msg("%s: exit %d, '%s'", runs[i].options, code, out);
        }
        assert_int_equal(check(runs[i].fault, command + strlen("kpool check "), again, sizeof again), EXIT_MISMATCH);
        assert_non_null(strstr(again, "WRONG on "));
        assert_string_equal(strstr(again, "WRONG on "), wrong);
        assert_int_equal(check(FAULT_NONE, command + strlen("kpool check "), again, sizeof again), EXIT_RIGHT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_says_its_seed),
        cmocka_unit_test(a_right_device_is_right),
        cmocka_unit_test(a_wrong_device_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
