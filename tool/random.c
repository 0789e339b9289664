#include "random.h"

uint64_t random_next(Random *random)
{
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t random_between(Random *random, uint32_t low, uint32_t high)
{
    return low + (uint32_t)(random_next(random) % ((uint64_t)high - low + 1));
}

bool random_one_in(Random *random, uint32_t n)
{
    return random_between(random, 1, n) == 1;
}
