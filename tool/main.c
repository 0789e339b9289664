/* `kpool`, the runner: finds the command and hands over to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "complaint.h"
#include "kpool/kpool.h"

typedef struct Command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} Command;

static const Command commands[] = {
    {"devices", command_devices, "list the Vulkan devices and their limits"},
    {"run", command_run, "run the operation that a safetensors file holds, and compare"},
    {"check", command_check, "compare random calls of every operation with the reference"},
    {"replay", command_replay, "replay a trace of requests, the ring compared after every step"},
    {"bench", command_bench, "measure each operation beside an empty dispatch and other ways of doing it"},
};

#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static void print_usage(FILE *out)
{
    fputs("Usage: kpool COMMAND [ARGUMENT...]\n"
          "       kpool COMMAND --help\n"
          "       kpool --help | --version\n"
          "\n"
          "Runs the operations of kpool on a Vulkan device.\n"
          "\n"
          "Commands:\n",
          out);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-10s%s\n", commands[i].name, commands[i].summary);
    }
    fputs("\n"
          "Exit status: 0 right, 1 something differs, 2 a file or an argument breaks a rule,\n"
          "3 no usable device or Vulkan failed.\n",
          out);
}

/* The names of options as they may be shown: an unknown one is shown by getopt, which shows what it holds. */
static void clean_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *value = argv[i][0] == '-' ? strchr(argv[i], '=') : NULL;
        if (argv[i][0] == '-') {
            if (value != NULL) {
                *value = '\0';
            }
            complaint_clean(argv[i]);
            if (value != NULL) {
                *value = '=';
            }
        }
    }
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_BAD_INPUT;
    }
    if (strcmp(argv[1], "--help") == 0) {
        print_usage(stdout);
        return EXIT_RIGHT;
    }
    if (strcmp(argv[1], "--version") == 0) {
        const uint32_t version = kpoolGetVersion();
        printf("kpool %u.%u.%u\n", VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version),
               VK_API_VERSION_PATCH(version));
        return EXIT_RIGHT;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            /* What the command's own usage and errors call it. */
            char title[32];
            snprintf(title, sizeof title, "kpool %s", commands[i].name);
            argv[1] = title;
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    complain_aloud("kpool: '%.400s' is no command; `kpool --help` lists them", argv[1]);
    return EXIT_BAD_INPUT;
}

/* At exit, wherever from: argp leaves after --help by itself. */
static void check_output(int code, void *unused)
{
    (void)unused;
    /* A flush in between may have failed, and the last one not. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("kpool: standard output cannot be written\n", stderr);
        _exit(code == EXIT_RIGHT ? EXIT_BAD_INPUT : code);
    }
}

int main(int argc, char **argv)
{
    on_exit(check_output, NULL);
    clean_options(argc, argv);
    return dispatch(argc, argv);
}
