/* Repeatable random numbers: splitmix64. The whole state is one word, so a failure is repeated from its seed. */
#ifndef KPOOL_TOOL_RANDOM_H
#define KPOOL_TOOL_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Random {
    uint64_t state;
} Random;

uint64_t random_next(Random *random);
/* In [low, high]. */
uint32_t random_between(Random *random, uint32_t low, uint32_t high);
/* True once in n times. */
bool random_one_in(Random *random, uint32_t n);

#endif
