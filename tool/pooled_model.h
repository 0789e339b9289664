/* The pooled key of section 6 of the contract from its formula alone, in double precision: what the exact key's error
 * is measured against and what bounds the fast one. Shares nothing with pooled_key.c, so that a mistake made there
 * is not made here too. */
#ifndef KPOOL_TOOL_POOLED_MODEL_H
#define KPOOL_TOOL_POOLED_MODEL_H

#include "kpool/kpool.h"

typedef struct PooledModel {
    double value;   /* the key, unrounded: NaN and infinities where they are special */
    double largest; /* max |k|; meaningful where value is finite */
} PooledModel;

/* Arguments as of pooled_key. */
PooledModel pooled_model(KpoolType type, uint32_t kpool, const uint32_t *gate, const uint32_t *ape, const uint32_t *k);

/* The value of one number of that type. */
double pooled_model_decode(KpoolType type, uint32_t bits);

/* The distance between the numbers of that type around a finite value: one unit in its last place. */
double pooled_model_ulp(KpoolType type, double value);

#endif
