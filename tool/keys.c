#include "keys.h"

#include <string.h>

/* Channels made together: a fixed count lets the compiler use vectors. */
#define BLOCK 16u

uint64_t hash64(uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93u;
    value = (value ^ (value >> 29)) * 0xa0761d6478bd642fu;
    return value ^ (value >> 32);
}

/* The values of BLOCK channels in units of 2^-21: 25 bits with the sign, so they are exact in f32. */
static void make_units(uint64_t row_hash, uint32_t first_channel, int32_t units[BLOCK])
{
    const uint32_t low = (uint32_t)row_hash;
    const uint32_t high = (uint32_t)(row_hash >> 32);
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint32_t x = low + (first_channel + i) * 0x9e3779b9u;
        x = (x ^ (x >> 16)) * 0x2c1b3c6du + high;
        x = (x ^ (x >> 15)) * 0x297a2d39u;
        x ^= x >> 16;
        units[i] = (int32_t)(x >> 7) - (1 << 24);
    }
}

static void make_f32(const int32_t units[BLOCK], uint32_t bits[BLOCK])
{
    float values[BLOCK];
    for (uint32_t i = 0; i < BLOCK; i++) {
        values[i] = (float)units[i] * 0x1p-21f;
    }
    memcpy(bits, values, sizeof values);
}

static void make_bf16(const int32_t units[BLOCK], uint16_t halves[BLOCK])
{
    uint32_t bits[BLOCK];
    make_f32(units, bits);
    for (uint32_t i = 0; i < BLOCK; i++) {
        halves[i] = (uint16_t)((bits[i] + 0x7fffu + ((bits[i] >> 16) & 1u)) >> 16);
    }
}

static void make_f16(const int32_t units[BLOCK], uint16_t halves[BLOCK])
{
    uint32_t bits[BLOCK];
    make_f32(units, bits);
    for (uint32_t i = 0; i < BLOCK; i++) {
        const uint32_t sign = (bits[i] >> 16) & 0x8000u;
        const uint32_t magnitude = bits[i] & 0x7fffffffu;
        const uint32_t normal = ((magnitude + 0xfffu + ((magnitude >> 13) & 1u)) >> 13) - (112u << 10);
        /* Below 2^-14, 128 units, f16 is denormal and counts in 2^-24: an eighth of a unit. */
        const uint32_t count = (uint32_t)(units[i] < 0 ? -units[i] : units[i]);
        halves[i] = (uint16_t)(sign | (count < 128u ? count * 8u : normal));
    }
}

void make_row(KpoolType type, uint32_t head_dim, uint32_t request, uint32_t position, uint32_t plane, void *row)
{
    const uint64_t row_hash = hash64(hash64(((uint64_t)request << 32) | position) + plane);
    char *to = row;
    for (uint32_t channel = 0; channel < head_dim; channel += BLOCK) {
        int32_t units[BLOCK];
        uint32_t words[BLOCK];
        uint16_t halves[BLOCK];
        const void *elements = halves;
        make_units(row_hash, channel, units);
        if (type == KPOOL_TYPE_F32) {
            make_f32(units, words);
            elements = words;
        } else if (type == KPOOL_TYPE_BF16) {
            make_bf16(units, halves);
        } else {
            make_f16(units, halves);
        }
        const uint32_t count = head_dim - channel < BLOCK ? head_dim - channel : BLOCK;
        const size_t size = (size_t)count * kpoolTypeSize(type);
        memcpy(to, elements, size);
        to += size;
    }
}

uint32_t element_bits(KpoolType type, const void *elements, size_t index)
{
    return type == KPOOL_TYPE_F32 ? ((const uint32_t *)elements)[index] : ((const uint16_t *)elements)[index];
}

uint32_t sequence_author(Sequence sequence, uint32_t position)
{
    return position < sequence.forked_at ? sequence.parent : sequence.request;
}
