/* The pooled key of section 6 of the contract, exact: the definition that the shaders are compared with, bit for
 * bit. Plain C, one channel at a time. */
#ifndef KPOOL_TOOL_POOLED_KEY_H
#define KPOOL_TOOL_POOLED_KEY_H

#include "kpool/kpool.h"

/* One channel of one pool: [kpool] bits of gate and k in `type` and of ape in f32, members in order. Returns the
 * key's bits in pooled_type. kpool is 1 to KPOOL_MAX_KPOOL. */
uint32_t pooled_key(KpoolType type, KpoolType pooled_type, uint32_t kpool, const uint32_t *gate, const uint32_t *ape,
                    const uint32_t *k);

#endif
