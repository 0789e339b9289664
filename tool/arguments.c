#include "arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "complaint.h"

void arguments_quiet(struct argp_state *state)
{
    state->err_stream = NULL;
}

error_t arguments_refuse(const struct argp_state *state, const char *format, ...)
{
    Complaint complaint;
    va_list arguments;
    va_start(arguments, format);
    complain_list(&complaint, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s: %s\n", state->name, complaint.text);
    return EINVAL;
}

error_t arguments_number(const struct argp_state *state, const char *name, const char *text, uint64_t least,
                         uint64_t most, uint64_t *number)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0') {
        return arguments_refuse(state, "%s: is '%s', must be a whole number", name, text);
    }
    if (errno != 0 || value < least || value > most) {
        return arguments_refuse(state, "%s: is %s, must be from %llu to %llu", name, text, (unsigned long long)least,
                                (unsigned long long)most);
    }
    *number = value;
    return 0;
}

error_t arguments_count(const struct argp_state *state, const char *name, const char *text, uint32_t most,
                        uint32_t *count)
{
    uint64_t number = *count;
    const error_t error = arguments_number(state, name, text, 1, most, &number);
    *count = (uint32_t)number;
    return error;
}
