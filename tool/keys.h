/* What the replay puts into k and gate: a pure function of (request, position, plane, channel), so what any place
 * of a ring must hold is known without storing it. Also the one hash that everything pseudo-random here uses. */
#ifndef KPOOL_TOOL_KEYS_H
#define KPOOL_TOOL_KEYS_H

#include "kpool/kpool.h"

/* No request of a trace has this number: rows of it fill the places that no request has written. */
#define NO_REQUEST UINT32_MAX

enum { PLANE_KEY = 0, PLANE_GATE = 1 };

/* A bijection that scatters its argument over 64 bits. */
uint64_t hash64(uint64_t value);

/* Writes the head_dim elements of one row: multiples of 2^-21 in [-8, 8), rounded to nearest even to the type. Never
 * NaN, infinity or -0; f16 has a denormal now and then. row is aligned to an element. */
void make_row(KpoolType type, uint32_t head_dim, uint32_t request, uint32_t position, uint32_t plane, void *row);

#endif
