#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Seconds between two redrawings, and between two plain lines. */
#define REDRAW_INTERVAL 0.1
#define LINE_INTERVAL 5.0
#define BAR_WIDTH 24

double progress_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_start(Progress *progress, uint64_t total_tokens)
{
    const double now = progress_clock();
    *progress = (Progress){.terminal = isatty(STDERR_FILENO) == 1, .total = total_tokens, .start = now, .last = now};
}

static void print(const Progress *progress, double now, uint64_t steps, uint64_t tokens)
{
    const double share = progress->total != 0 ? (double)tokens / (double)progress->total : 1;
    const double rate = now > progress->start ? (double)tokens / (now - progress->start) : 0;
    const double left = rate > 0 ? (double)(progress->total - tokens) / rate : 0;
    const unsigned long seconds = (unsigned long)left;
    char bar[BAR_WIDTH + 1] = {0};
    for (int i = 0; i < BAR_WIDTH; i++) {
        bar[i] = i < (int)(share * BAR_WIDTH) ? '#' : '-';
    }
    fprintf(stderr, "%s%s%s %5.1f %%  %llu steps  %.0f tokens/s  %lu:%02lu left%s", progress->terminal ? "\r[" : "",
            progress->terminal ? bar : "replay:", progress->terminal ? "]" : "", 100 * share,
            (unsigned long long)steps, rate, seconds / 60, seconds % 60, progress->terminal ? "\x1b[K" : "\n");
    fflush(stderr);
}

void progress_update(Progress *progress, uint64_t steps, uint64_t tokens)
{
    const double now = progress_clock();
    if (now - progress->last < (progress->terminal ? REDRAW_INTERVAL : LINE_INTERVAL)) {
        return;
    }
    print(progress, now, steps, tokens);
    progress->last = now;
    progress->drawn = progress->terminal;
}

void progress_clear(Progress *progress)
{
    if (progress->drawn) {
        fputs("\r\x1b[K", stderr);
        fflush(stderr);
        progress->drawn = false;
    }
}
