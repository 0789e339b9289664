#include "pooled_model.h"

#include <math.h>
#include <stdbool.h>

typedef struct Format {
    int width;
    int fraction; /* bits */
    int smallest; /* exponent of the smallest normal number */
} Format;

static Format format_of(KpoolType type)
{
    switch (type) {
    case KPOOL_TYPE_F16:
        return (Format){.width = 16, .fraction = 10, .smallest = -14};
    case KPOOL_TYPE_BF16:
        return (Format){.width = 16, .fraction = 7, .smallest = -126};
    default:
        return (Format){.width = 32, .fraction = 23, .smallest = -126};
    }
}

double pooled_model_decode(KpoolType type, uint32_t bits)
{
    const Format format = format_of(type);
    const int exponent_bits = format.width - 1 - format.fraction;
    const long top = (1L << exponent_bits) - 1;
    const long exponent = (long)(bits >> format.fraction) & top;
    const double fraction = ldexp((double)(bits & ((1u << format.fraction) - 1)), -format.fraction);
    const double sign = (bits >> (format.width - 1) & 1u) != 0 ? -1.0 : 1.0;
    if (exponent == top) {
        return fraction != 0.0 ? (double)NAN : sign * HUGE_VAL;
    }
    if (exponent == 0) {
        return sign * ldexp(fraction, format.smallest);
    }
    return sign * ldexp(1.0 + fraction, (int)exponent - 1 + format.smallest);
}

double pooled_model_ulp(KpoolType type, double value)
{
    const Format format = format_of(type);
    int exponent = format.smallest;
    if (value != 0.0) {
        (void)frexp(value, &exponent);
        exponent--; /* frexp's fraction is below 1, ours at least 1 */
    }
    return ldexp(1.0, (exponent > format.smallest ? exponent : format.smallest) - format.fraction);
}

PooledModel pooled_model(KpoolType type, uint32_t kpool, const uint32_t *gate, const uint32_t *ape, const uint32_t *k)
{
    const double special = ldexp(1.0, 120);
    double logits[KPOOL_MAX_KPOOL]; /* -infinity where masked */
    double most = -HUGE_VAL;
    bool spoiled = false;
    for (uint32_t m = 0; m < kpool; m++) {
        const double g = pooled_model_decode(type, gate[m]);
        const double a = pooled_model_decode(KPOOL_TYPE_F32, ape[m]);
        spoiled = spoiled || isnan(g) || isnan(a) || g >= special || a >= special;
        logits[m] = g <= -special || a <= -special ? -HUGE_VAL : (double)(float)(g + a);
        most = fmax(most, logits[m]);
    }
    if (spoiled || most == -HUGE_VAL) {
        return (PooledModel){.value = (double)NAN};
    }

    double num = 0.0;
    double den = 0.0;
    double largest = 0.0;
    for (uint32_t m = 0; m < kpool; m++) {
        double key = pooled_model_decode(type, k[m]);
        const double w = exp(logits[m] - most);
        if (fabs(key) >= special) {
            /* A weight below f32's normal numbers is zero, and zero times infinity is NaN; so is the sum of two
             * infinities of different sign. The difference is f32's, as everything before the weight is. */
            const bool weightless = exp((double)(float)(logits[m] - most)) < ldexp(1.0, -126);
            key = weightless ? (double)NAN : copysign(HUGE_VAL, key);
        }
        largest = fmax(largest, fabs(key));
        num += isfinite(key) ? w * key : key;
        den += w;
    }
    return (PooledModel){.value = num / den, .largest = largest};
}
