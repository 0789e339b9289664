/* What the commands' argp parsers share: every error is one line on stderr, without argp's "Try" line. */
#ifndef KPOOL_TOOL_ARGUMENTS_H
#define KPOOL_TOOL_ARGUMENTS_H

#include <argp.h>

/* At ARGP_KEY_INIT: getopt still prints its line, argp adds none and returns EINVAL instead of exiting. */
void arguments_quiet(struct argp_state *state);

/* Prints "<command>: <sentence>" and returns EINVAL, for the parser to return. */
error_t arguments_refuse(const struct argp_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
