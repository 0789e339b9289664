/* Why an input was refused: one line that names what is at fault and the rule it breaks. */
#ifndef KPOOL_TOOL_COMPLAINT_H
#define KPOOL_TOOL_COMPLAINT_H

#include <stdarg.h>
#include <stdbool.h>

typedef struct Complaint {
    char text[512];
} Complaint;

/* Returns false, so that a check can end with it. Control characters, which a hostile name may hold, become '?'. */
bool complain(Complaint *complaint, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool complain_list(Complaint *complaint, const char *format, va_list arguments);

/* Does so to any text. */
void complaint_clean(char *text);

/* The same as a line on stderr. */
void complain_aloud(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
