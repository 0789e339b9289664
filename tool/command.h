/* The commands of the runner, each in a file of its own, and the exit codes they share. */
#ifndef KPOOL_TOOL_COMMAND_H
#define KPOOL_TOOL_COMMAND_H

enum {
    EXIT_RIGHT = 0,    /* done, and nothing differs */
    EXIT_MISMATCH = 1, /* what came out is not what had to */
    EXIT_BAD_INPUT = 2,/* a file or an argument breaks a rule: one line on stderr */
    EXIT_NO_DEVICE = 3 /* no usable device, or Vulkan failed: one line on stderr */
};

/* argv[0] is the command's name. Each returns an exit code. */
int command_devices(int argc, char **argv);
int command_run(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_check(int argc, char **argv);
int command_bench(int argc, char **argv);

#endif
