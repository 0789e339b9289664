// The pooled key (contract, section 6) of a pair of channels, exact or fast. A lane works on channels 2p and
// 2p + 1: one word of a 2-byte tensor, two words of f32. Where head_dim is odd, which only f32 may be, the last
// pair is the last channel twice, so that nothing is read or written beyond the row.
//
// The including kernel has a tensor `ape`, defines member_words, and calls set_pair, pooled_key and STORE_PAIR.
//
// Exact results depend on every floating operation being rounded on its own, hence a `precise` statement for
// each, and never on whether a driver keeps denormals: where one can appear a comment says why.

// KpoolType's values, and numerics.
const bool f32_in = type == 1u;
const bool f16_in = type == 2u;
const bool f32_out = pooled_type == 1u;
const bool f16_out = pooled_type == 2u;
const bool fast = numerics == 1u;

// Words of the pair in member m's row of gate (x, y) and of k (z, w), as READ_PAIRS reads them.
uvec4 member_words(uint m);

// Members are read this many at a time, so that their loads are under way together. A pool that fits is read
// once, a larger one twice.
const uint MOST_BLOCK = 8u;
const uint BLOCK = kpool < MOST_BLOCK ? kpool : MOST_BLOCK;
const uint BLOCKS = (kpool + MOST_BLOCK - 1u) / MOST_BLOCK;

const uint MAGNITUDE = 0x7fffffffu;
const uint SIGN = 0x80000000u;
const uint INFINITY = 0x7f800000u;
const uint SPECIAL = 0x7b800000u; // 2^120: from here on a magnitude is special

// The logits of a masked member and of one that makes the key NaN. Every other one lies within 2^121, so a masked
// member's weight is 0, a spoiled one's logit is the largest, and no difference overflows.
#define MASKED uintBitsToFloat(0xfe800000u)  // -2^126
#define SPOILED uintBitsToFloat(0x7e800000u) // 2^126

// Pairs of channels in a row.
const uint row_pairs = (head_dim + 1u) / 2u;

// The lane's pair: its channels, and where it lies in a row of elements in words.
uvec2 pair_channels;
uvec2 pair_words;

void set_pair(uint pair) {
    const uint words = f32_in ? 2u : 1u;
    pair_channels = min(2u * pair + uvec2(0u, 1u), uvec2(head_dim - 1u));
    pair_words = min(words * pair + uvec2(0u, words - 1u), uvec2(head_dim - 1u));
}

// READ_PAIRS reads the pairs of two rows, which start at words first and second, into words.xy and words.zw. A software
// driver reads a word as often as it stands here, so one that is a whole pair is read once. STORE_PAIR writes a pair.
#define READ_PAIRS(words, tensor, first, other, second)            \
    words.xz = uvec2(AT(tensor, (first) + pair_words.x), AT(other, (second) + pair_words.x)); \
    words.yw = words.xz;                                           \
    if (f32_in) {                                                  \
        words.yw = uvec2(AT(tensor, (first) + pair_words.y), AT(other, (second) + pair_words.y)); \
    }
#define STORE_PAIR(tensor, row, key)                                        \
    if (f32_out) {                                                          \
        AT(tensor, (row) + pair_channels.x) = (key).x;                      \
        AT(tensor, (row) + pair_channels.y) = (key).y;                      \
    } else {                                                                \
        AT(tensor, (row) + pair_channels.x / 2u) = (key).x | (key).y << 16; \
    }

// f32 bits of two pairs as member_words gives them; exact.
uvec4 decode(uvec4 words) {
    uvec4 bits = words;
    if (!f32_in) {
        bits = (words >> uvec4(0u, 16u, 0u, 16u)) << 16;
        if (f16_in) {
            const uvec4 sign = bits & SIGN;
            const uvec4 magnitude = (bits & MAGNITUDE) >> 3;
            // m 2^-24 = (2^-14 + m 2^-24) - 2^-14: exact, and no operand and no result is an f32 denormal.
            precise const vec4 denormal = uintBitsToFloat(magnitude + 0x38800000u) - uintBitsToFloat(0x38800000u);
            bits = mix(magnitude + 0x38000000u, floatBitsToUint(denormal), lessThan(magnitude, uvec4(0x00800000u)));
            bits = mix(bits, magnitude + 0x70000000u, greaterThanEqual(magnitude, uvec4(0x0f800000u))) | sign;
        }
    }
    return bits;
}

// exp(x), x <= 0; 0 where that is below 2^-126.
vec2 exp_weight(vec2 x) {
    vec2 w;
    if (fast) {
        w = exp(x);
    } else {
        const vec2 xc = max(x, -88.0);
        // x = nf ln 2 + r. s rounds to an integer and holds it in its low bits.
        precise const vec2 t = xc * uintBitsToFloat(0x3fb8aa3bu);
        precise const vec2 s = t + uintBitsToFloat(0x4b400000u);
        precise const vec2 nf = s - uintBitsToFloat(0x4b400000u);
        precise const vec2 high = nf * uintBitsToFloat(0x3f318000u);
        precise const vec2 low = nf * uintBitsToFloat(0xb95e8083u);
        precise const vec2 r_high = xc - high;
        precise const vec2 r = r_high - low;
        // A denormal r or r*r vanishes in the additions that follow.
        precise vec2 p = vec2(uintBitsToFloat(0x3ab511e6u));
        p = p * r;
        p = p + uintBitsToFloat(0x3c091d10u);
        p = p * r;
        p = p + uintBitsToFloat(0x3d2aac7au);
        p = p * r;
        p = p + uintBitsToFloat(0x3e2aaa48u);
        p = p * r;
        p = p + uintBitsToFloat(0x3efffffeu);
        precise const vec2 square = r * r;
        precise const vec2 curve = p * square;
        precise const vec2 slope = curve + r;
        precise const vec2 y = slope + 1.0;
        w = uintBitsToFloat(floatBitsToUint(y) + (floatBitsToUint(s) << 23));
    }
    return mix(w, vec2(0.0), lessThan(x, vec2(uintBitsToFloat(0xc2aeac4fu))));
}

// num / den as significand * 2^(exponent - 127 - 25), 2^25 <= significand < 2^26, its last bit sticky.
// |num| is normal and den in [1, 128]. A num of +0 is taken for 2^-127, which encode makes +0 in every type.
void divide(vec2 num, vec2 den, out uvec2 significand, out ivec2 exponent) {
    const uvec2 num_bits = floatBitsToUint(num) & MAGNITUDE;
    const uvec2 den_bits = floatBitsToUint(den);
    uvec2 n = (num_bits & 0x007fffffu) | 0x00800000u;
    const uvec2 d = (den_bits & 0x007fffffu) | 0x00800000u;
    const uvec2 doubled = uvec2(lessThan(n, d));
    n <<= doubled;
    exponent = ivec2((num_bits >> 23) - (den_bits >> 23) - doubled + 127u);

    // Now d <= n < 2d < 2^25, and floor(n 2^24 / d) is wanted. First the reciprocal of d 2^-23 in [1, 2): the guess
    // is 5.1% off at most, and each step squares that, down to rounding: less than 3 * 2^-24.
    const vec2 divisor = uintBitsToFloat(d + 0x3f000000u);
    vec2 reciprocal = uintBitsToFloat(0x7ef311c7u - floatBitsToUint(divisor));
    for (uint i = 0u; i < 3u; i++) {
        precise const vec2 product = divisor * reciprocal;
        precise const vec2 correction = 2.0 - product;
        precise const vec2 next = reciprocal * correction;
        reciprocal = next;
    }
    // The quotient to 22 binary places: within 2 of them and another 8 of 24 for all the rounding so far.
    // n, below 2^24 or doubled, is a float.
    precise const vec2 dividend = vec2(n) * uintBitsToFloat(0x34000000u);
    precise const vec2 estimate = dividend * reciprocal;
    precise const vec2 placed = estimate + 1.5;
    uvec2 quotient = (floatBitsToUint(placed) - 0x3fe00000u) << 2;
    // Both products wrap; their difference does not: it is below 10 d < 2^28.
    ivec2 rest = ivec2((n << 24) - quotient * d);
    // rest / d to the nearest integer, give or take 2^-19.
    precise const vec2 scaled = vec2(rest) * uintBitsToFloat(0x34000000u);
    precise const vec2 digit = scaled * reciprocal;
    precise const vec2 rounded = digit + uintBitsToFloat(0x4b400000u);
    const ivec2 step = ivec2(floatBitsToUint(rounded) - 0x4b400000u);
    quotient += uvec2(step);
    rest -= step * ivec2(d);
    // Here |rest| < d: a negative one means a quotient one too high and a sticky bit of 1, and 2 (q - 1) + 1 = 2 q - 1.
    significand = (quotient << 1) + uvec2(sign(rest));
}

const uint PRECISION = f32_out ? 23u : f16_out ? 10u : 7u;
const uint SIGN_SHIFT = f32_out ? 0u : 16u;
const uint POOLED_INFINITY = f32_out ? 0x7f800000u : f16_out ? 0x7c00u : 0x7f80u;

// Rounds what divide gives to nearest even in pooled_type, without the sign.
uvec2 encode(uvec2 significand, ivec2 exponent) {
    exponent -= f16_out ? 113 : 1;
    // Denormals lose more bits; from a shift of 27 on the result is 0.
    const int normal = 25 - int(PRECISION);
    const uvec2 shift = uvec2(clamp(normal - exponent, ivec2(normal), ivec2(31)));
    const uvec2 odd = (significand >> shift) & 1u;
    const uvec2 kept = (significand + (uvec2(1u) << (shift - 1u)) - 1u + odd) >> shift;
    // kept has the leading 1, which counts in the exponent, and may have been carried into it.
    uvec2 bits = kept + (uvec2(max(exponent, 0)) << PRECISION);
    bits = min(bits, uvec2(POOLED_INFINITY));
    if (!f16_out) {
        bits = mix(bits, uvec2(0u), lessThan(bits, uvec2(1u << PRECISION)));
    }
    return bits;
}

// Bits of the pair's pooled keys in pooled_type.
uvec2 pooled_key() {
    uvec4 members[MOST_BLOCK]; // logits (x, y) and keys (z, w) of a block
    vec2 largest = vec2(MASKED);
    uvec2 special = uvec2(0u); // bit 0: the key is +infinity, bit 1: -infinity, both: NaN
    precise vec2 num = vec2(0.0);
    precise vec2 den = vec2(0.0);

    // Every block once for the largest logit, and once more for the sums; a single one serves both, without a loop.
    uint turn = 0u;
    do {
        const uint first = turn % BLOCKS * BLOCK;
        [[unroll]] for (uint i = 0u; i < BLOCK; i++) {
            if (first + i < kpool) {
                const uvec4 bits = decode(member_words(first + i));
                const uvec2 at = (first + i) * head_dim + pair_channels;
                const uvec2 added = uvec2(AT(ape, at.x), AT(ape, at.y));
                // Of the bits of floats the largest signed one is the most positive, the largest unsigned one
                // the most negative, NaNs beyond the infinities.
                const ivec2 most = max(ivec2(bits.xy), ivec2(added));
                const uvec2 least = max(bits.xy, added);
                // Two denormals may lose their sum, below 2^-125, and no weight notices: |x| < 2^-25 gives
                // exactly 1, and half a unit in the last place of a larger x is at least 2^-50.
                precise const vec2 sum = uintBitsToFloat(bits.xy) + uintBitsToFloat(added);
                vec2 logit = mix(sum, vec2(MASKED), greaterThanEqual(least, uvec2(SIGN | SPECIAL)));
                logit = mix(logit, vec2(SPOILED), greaterThan(least, uvec2(SIGN | INFINITY)));
                logit = mix(logit, vec2(SPOILED), greaterThanEqual(most, ivec2(SPECIAL)));
                members[i] = uvec4(floatBitsToUint(logit), bits.zw);
                largest = max(largest, logit);
            }
        }
        if (BLOCKS == 1u || turn >= BLOCKS) {
            [[unroll]] for (uint i = 0u; i < BLOCK; i++) {
                if (first + i < kpool) {
                    const uvec4 member = members[i];
                    precise const vec2 x = uintBitsToFloat(member.xy) - largest;
                    const vec2 w = exp_weight(x);
                    const uvec2 magnitude = member.zw & MAGNITUDE;
                    const bvec2 is_special = greaterThanEqual(magnitude, uvec2(SPECIAL));
                    uvec2 kind = mix(uvec2(1u) << (member.zw >> 31), uvec2(3u), equal(w, vec2(0.0)));
                    kind = mix(kind, uvec2(3u), greaterThan(magnitude, uvec2(INFINITY)));
                    special |= mix(uvec2(0u), kind, is_special);
                    precise vec2 t = w * uintBitsToFloat(mix(member.zw, uvec2(0u), is_special));
                    if (!fast) {
                        // Denormals, flushed or not, are among those replaced. Sums of the others are multiples of
                        // 2^-125, so no denormal, and at most 128 * 2^120.
                        t = mix(t, vec2(0.0), lessThan(floatBitsToUint(t) & MAGNITUDE, uvec2(0x0c800000u)));
                    }
                    num = num + t;
                    den = den + w;
                }
            }
        }
        turn++;
    } while (BLOCKS > 1u && turn < 2u * BLOCKS);
    // The largest is MASKED or SPOILED.
    special = mix(special, uvec2(3u), equal(floatBitsToUint(largest) & MAGNITUDE, uvec2(0x7e800000u)));

    uvec2 significand;
    ivec2 exponent;
    if (fast) {
        const uvec2 quotient = floatBitsToUint(num / den) & MAGNITUDE;
        exponent = ivec2(quotient >> 23);
        significand = ((quotient & 0x007fffffu) | 0x00800000u) << 2;
    } else {
        divide(num, den, significand, exponent);
    }
    uvec2 key = encode(significand, exponent) | (floatBitsToUint(num) & SIGN) >> SIGN_SHIFT;
    key = mix(key, POOLED_INFINITY | (special << 30 & SIGN) >> SIGN_SHIFT, notEqual(special, uvec2(0u)));
    return mix(key, uvec2(POOLED_INFINITY | 1u << (PRECISION - 1u)), equal(special, uvec2(3u)));
}
