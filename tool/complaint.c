#include "complaint.h"

#include <stdio.h>

/* Terminals obey U+0080 to U+009F too, as UTF-8 (0xc2 before) or as a byte that continues no character. */
void complaint_clean(char *text)
{
    unsigned char before = 0;
    for (char *c = text; *c != '\0'; c++) {
        const unsigned char byte = (unsigned char)*c;
        if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && byte < 0xa0 && (before < 0x80 || before == 0xc2))) {
            *c = '?';
            c[-(before == 0xc2)] = '?';
        }
        before = (unsigned char)*c;
    }
}

bool complain_list(Complaint *complaint, const char *format, va_list arguments)
{
    vsnprintf(complaint->text, sizeof complaint->text, format, arguments);
    complaint_clean(complaint->text);
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

void complain_aloud(const char *format, ...)
{
    Complaint complaint;
    va_list arguments;
    va_start(arguments, format);
    complain_list(&complaint, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s\n", complaint.text);
}
