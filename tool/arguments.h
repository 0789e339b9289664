/* What the commands' argp parsers share: every error is one line on stderr, without argp's "Try" line. */
#ifndef KPOOL_TOOL_ARGUMENTS_H
#define KPOOL_TOOL_ARGUMENTS_H

#include <argp.h>
#include <stdint.h>

/* At ARGP_KEY_INIT: getopt still prints its line, argp adds none and returns EINVAL instead of exiting. */
void arguments_quiet(struct argp_state *state);

/* Prints "<command>: <sentence>" and returns EINVAL, for the parser to return. */
error_t arguments_refuse(const struct argp_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A whole number in [least, most]; otherwise refused by the option's name. */
error_t arguments_number(const struct argp_state *state, const char *name, const char *text, uint64_t least,
                         uint64_t most, uint64_t *number);

/* A whole number in [1, most]. */
error_t arguments_count(const struct argp_state *state, const char *name, const char *text, uint32_t most,
                        uint32_t *count);

#endif
