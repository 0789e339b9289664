#include "complaint.h"

#include <stdio.h>

bool complain_list(Complaint *complaint, const char *format, va_list arguments)
{
    vsnprintf(complaint->text, sizeof complaint->text, format, arguments);
    for (char *c = complaint->text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = '?';
        }
    }
    return false;
}

bool complain(Complaint *complaint, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain_list(complaint, format, arguments);
    va_end(arguments);
    return false;
}
