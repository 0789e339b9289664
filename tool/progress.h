/* How far a long job is, on stderr: one line that is redrawn on a terminal, a plain line now and then elsewhere. */
#ifndef KPOOL_TOOL_PROGRESS_H
#define KPOOL_TOOL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Progress {
    bool terminal;
    bool drawn;     /* the line of the terminal holds something */
    uint64_t total; /* tokens */
    double start;   /* seconds */
    double last;    /* when it was last drawn or printed */
} Progress;

/* Seconds of a clock that only goes forward. */
double progress_clock(void);

void progress_start(Progress *progress, uint64_t total_tokens);
/* Cheap enough to be called every step. */
void progress_update(Progress *progress, uint64_t steps, uint64_t tokens);
/* Clears the line, so that what is printed next stands alone; a later update draws it again. */
void progress_clear(Progress *progress);

#endif
