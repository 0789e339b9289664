#include "arguments.h"

#include <errno.h>
#include <stdio.h>

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
