/* What the replay puts into k and gate: a pure function of (request, position, plane, channel), so what any place
 * of a ring must hold is known without storing it. Also the one hash that everything pseudo-random here uses. */
#ifndef KPOOL_TOOL_KEYS_H
#define KPOOL_TOOL_KEYS_H

#include "kpool/kpool.h"

/* No request of a trace has this number: rows of it fill the places that no request has written. */
#define NO_REQUEST UINT32_MAX

/* PLANE_APE: row m of ape, in f32, is that of NO_REQUEST at position m. */
enum { PLANE_KEY = 0, PLANE_GATE = 1, PLANE_APE = 2 };

/* Whose rows the positions of a request hold: what a twin has from before the fork are its parent's. */
typedef struct Sequence {
    uint32_t request;
    uint32_t parent;    /* itself, unless it is a twin */
    uint32_t forked_at; /* the first position that is a twin's own */
} Sequence;

/* A bijection that scatters its argument over 64 bits. */
uint64_t hash64(uint64_t value);

/* Writes the head_dim elements of one row: multiples of 2^-21 in [-8, 8), rounded to nearest even to the type. Never
 * NaN, infinity or -0; f16 has a denormal now and then. row is aligned to an element. */
void make_row(KpoolType type, uint32_t head_dim, uint32_t request, uint32_t position, uint32_t plane, void *row);

/* The bits of one element of an aligned array. */
uint32_t element_bits(KpoolType type, const void *elements, size_t index);

/* The request whose row the sequence holds at that position. */
uint32_t sequence_author(Sequence sequence, uint32_t position);

#endif
