/* Every floating operation is rounded on its own: this file is compiled with -ffp-contract=off, and float
 * expressions are evaluated as float. No library function is called on a float. */
#include "pooled_key.h"

#include <float.h>
#include <stdbool.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "float arithmetic must round to float");

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ------------------------------------------------------------------------------- 1: decode ----- */

static uint32_t decode_f16(uint32_t half)
{
    const uint32_t sign = (half & 0x8000u) << 16;
    uint32_t exponent = half >> 10 & 31u;
    uint32_t mantissa = half & 0x3ffu;
    if (exponent == 31) {
        return sign | 0x7f800000u | mantissa << 13;
    }
    if (exponent == 0) {
        if (mantissa == 0) {
            return sign;
        }
        /* mantissa * 2^-24, as 1.x * 2^(exponent - 15) with an exponent of 0 or less: 112 keeps it positive. */
        exponent = 113;
        while ((mantissa & 0x400u) == 0) {
            mantissa <<= 1;
            exponent--;
        }
        return sign | exponent << 23 | (mantissa & 0x3ffu) << 13;
    }
    return sign | (exponent + 112) << 23 | mantissa << 13;
}

static uint32_t decode(KpoolType type, uint32_t bits)
{
    switch (type) {
    case KPOOL_TYPE_F16:
        return decode_f16(bits);
    case KPOOL_TYPE_BF16:
        return bits << 16;
    default:
        return bits;
    }
}

/* ------------------------------------------------------------------------------- 2: specials --- */

static bool is_nan(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

static bool is_special(uint32_t bits)
{
    return (bits & 0x7fffffffu) >= 0x7b800000u;
}

static bool is_negative(uint32_t bits)
{
    return bits >> 31 != 0;
}

static uint32_t infinity(KpoolType pooled_type, bool negative)
{
    const uint32_t sign = negative;
    switch (pooled_type) {
    case KPOOL_TYPE_F16:
        return sign << 15 | 0x7c00u;
    case KPOOL_TYPE_BF16:
        return sign << 15 | 0x7f80u;
    default:
        return sign << 31 | 0x7f800000u;
    }
}

static uint32_t not_a_number(KpoolType pooled_type)
{
    switch (pooled_type) {
    case KPOOL_TYPE_F16:
        return 0x7e00u;
    case KPOOL_TYPE_BF16:
        return 0x7fc0u;
    default:
        return 0x7fc00000u;
    }
}

/* -------------------------------------------------------------------------------- 4: exp ------- */

/* x <= 0 */
static float weight(float x)
{
    if (x < from_bits(0xc2aeac4fu)) {
        return 0.0f;
    }
    const float xc = x < -88.0f ? -88.0f : x;
    const float t = xc * from_bits(0x3fb8aa3bu);
    const float s = t + from_bits(0x4b400000u);
    const float nf = s - from_bits(0x4b400000u);
    const float high = nf * from_bits(0x3f318000u);
    const float low = nf * from_bits(0xb95e8083u);
    const float without_high = xc - high;
    const float r = without_high - low;
    static const uint32_t coefficients[] = {0x3c091d10u, 0x3d2aac7au, 0x3e2aaa48u, 0x3efffffeu};
    float p = from_bits(0x3ab511e6u);
    for (size_t i = 0; i < sizeof coefficients / sizeof coefficients[0]; i++) {
        const float product = p * r;
        p = product + from_bits(coefficients[i]);
    }
    const float square = r * r;
    const float curve = p * square;
    const float slope = curve + r;
    const float y = slope + 1.0f;
    return from_bits(to_bits(y) + (to_bits(s) << 23));
}

/* -------------------------------------------------------------------------------- 6: divide ---- */

/* num / den rounded once to pooled_type. den is in [1, 128]. */
static uint32_t divide(KpoolType pooled_type, float num, float den)
{
    const uint32_t num_bits = to_bits(num);
    const uint32_t den_bits = to_bits(den);
    const int num_exponent = (int)(num_bits >> 23 & 255u);
    if (num_exponent == 0) {
        return 0;
    }
    const int precision = pooled_type == KPOOL_TYPE_F32 ? 23 : pooled_type == KPOOL_TYPE_F16 ? 10 : 7;
    const int bias = pooled_type == KPOOL_TYPE_F16 ? 15 : 127;
    const uint32_t sign = num_bits >> 31 << (pooled_type == KPOOL_TYPE_F32 ? 31 : 15);

    /* The quotient of the mantissas as quotient * 2^-32, sticky bit included; its leading bit is 31 or 32. */
    const uint64_t n = (num_bits & 0x7fffffu) | 0x800000u;
    const uint64_t d = (den_bits & 0x7fffffu) | 0x800000u;
    const uint64_t quotient = (n << 32) / d | ((n << 32) % d != 0);
    const int leading = quotient >> 32 != 0 ? 32 : 31;
    int exponent = num_exponent - (int)(den_bits >> 23) + leading - 32 + bias;

    /* Below the smallest normal number bits are lost at the front too; 40 more leave nothing. */
    int lost = leading - precision;
    if (exponent < 1) {
        lost += 1 - exponent < 40 - lost ? 1 - exponent : 40 - lost;
        exponent = 1;
    }
    const uint64_t half = (uint64_t)1 << (lost - 1);
    const uint64_t rest = quotient & ((half << 1) - 1);
    uint64_t rounded = quotient >> lost;
    if (rest > half || (rest == half && (rounded & 1) != 0)) {
        rounded++;
    }
    /* The leading 1, where there is one, counts as 1 in the exponent, and so does a carry into it. */
    const uint64_t magnitude = ((uint64_t)(exponent - 1) << precision) + rounded;
    if (magnitude >= infinity(pooled_type, false)) {
        return sign | infinity(pooled_type, false);
    }
    if (pooled_type != KPOOL_TYPE_F16 && magnitude < (uint64_t)1 << precision) {
        return sign;
    }
    return sign | (uint32_t)magnitude;
}

/* ------------------------------------------------------------------------------ the key -------- */

uint32_t pooled_key(KpoolType type, KpoolType pooled_type, uint32_t kpool, const uint32_t *gate, const uint32_t *ape,
                    const uint32_t *k)
{
    float logits[KPOOL_MAX_KPOOL];
    bool masked[KPOOL_MAX_KPOOL];
    float largest = 0.0f;
    bool all_masked = true;
    for (uint32_t m = 0; m < kpool; m++) {
        const uint32_t gate_bits = decode(type, gate[m]);
        const bool gate_special = is_special(gate_bits);
        const bool ape_special = is_special(ape[m]);
        if (is_nan(gate_bits) || is_nan(ape[m]) || is_nan(decode(type, k[m])) ||
            (gate_special && !is_negative(gate_bits)) || (ape_special && !is_negative(ape[m]))) {
            return not_a_number(pooled_type);
        }
        masked[m] = gate_special || ape_special;
        logits[m] = 0.0f;
        if (!masked[m]) {
            logits[m] = from_bits(gate_bits) + from_bits(ape[m]);
            if (all_masked || logits[m] > largest) {
                largest = logits[m];
            }
            all_masked = false;
        }
    }
    if (all_masked) {
        return not_a_number(pooled_type);
    }

    bool positive = false;
    bool negative = false;
    float num = 0.0f;
    float den = 0.0f;
    for (uint32_t m = 0; m < kpool; m++) {
        const uint32_t bits = decode(type, k[m]);
        const float x = logits[m] - largest;
        const float w = masked[m] ? 0.0f : weight(x);
        if (is_special(bits)) {
            if (w == 0.0f) {
                return not_a_number(pooled_type);
            }
            positive = positive || !is_negative(bits);
            negative = negative || is_negative(bits);
            continue;
        }
        float t = w * from_bits(bits);
        if ((to_bits(t) & 0x7fffffffu) < 0x0c800000u) {
            t = 0.0f;
        }
        num = num + t;
        den = den + w;
    }
    if (positive || negative) {
        return positive && negative ? not_a_number(pooled_type) : infinity(pooled_type, negative);
    }
    return divide(pooled_type, num, den);
}
