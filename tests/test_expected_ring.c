/* What a replay compares with: rows are as make_row says, places follow the contract's rule, and a single wrong bit
 * anywhere in the ring is found and named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "expected_ring.h"
#include "reference.h"

enum { SLOTS = 3 };

static const KpoolGeometry geometries[] = {
    {.head_dim = 6, .kpool = 4, .type = KPOOL_TYPE_BF16},
    {.head_dim = 18, .kpool = 3, .type = KPOOL_TYPE_F16},
    {.head_dim = 5, .kpool = 1, .type = KPOOL_TYPE_F32},
    {.head_dim = 2, .kpool = 4, .type = KPOOL_TYPE_BF16, .rollback = 3, .ring = 9},
};

static double decode(KpoolType type, const void *row, uint32_t channel)
{
    if (type == KPOOL_TYPE_F32) {
        return (double)((const float *)row)[channel];
    }
    const uint32_t half = ((const uint16_t *)row)[channel];
    const int fraction_bits = type == KPOOL_TYPE_F16 ? 10 : 7;
    const int bias = type == KPOOL_TYPE_F16 ? 15 : 127;
    const int fraction = (int)(half & ((1u << fraction_bits) - 1));
    const int exponent = (int)((half & 0x7fffu) >> fraction_bits);
    const int leading = exponent != 0 ? 1 << fraction_bits : 0;
    const double magnitude = ldexp(fraction + leading, (exponent != 0 ? exponent : 1) - bias - fraction_bits);
    return (half & 0x8000u) != 0 ? -magnitude : magnitude;
}

/* Rounded to nearest from the f32 row, in range, no -0, and never a row twice. */
static void rows_are_sensible_numbers(void **state)
{
    (void)state;
    float exact[64];
    uint16_t f16[64];
    uint16_t bf16[64];
    double sum = 0;
    for (uint32_t position = 0; position < 20000; position++) {
        make_row(KPOOL_TYPE_F32, 64, 7, position, PLANE_GATE, exact);
        make_row(KPOOL_TYPE_F16, 64, 7, position, PLANE_GATE, f16);
        make_row(KPOOL_TYPE_BF16, 64, 7, position, PLANE_GATE, bf16);
        for (uint32_t c = 0; c < 64; c++) {
            const double value = (double)exact[c];
            int exponent;
            frexp(value, &exponent);
            assert_true(value >= -8 && value < 8);
            assert_true(f16[c] != 0x8000u && bf16[c] != 0x8000u && !(value == 0 && signbit(value)));
            assert_true(fabs(decode(KPOOL_TYPE_BF16, bf16, c) - value) <= ldexp(1, exponent - 9));
            assert_true(fabs(decode(KPOOL_TYPE_F16, f16, c) - value) <= ldexp(1, exponent - 12));
            sum += value;
        }
    }
    assert_true(fabs(sum / (20000 * 64)) < 0.02);
}

static void rows_differ_in_every_argument(void **state)
{
    (void)state;
    uint16_t rows[4][32];
    make_row(KPOOL_TYPE_BF16, 32, 1, 2, PLANE_KEY, rows[0]);
    make_row(KPOOL_TYPE_BF16, 32, 1, 2, PLANE_GATE, rows[1]);
    make_row(KPOOL_TYPE_BF16, 32, 1, 3, PLANE_KEY, rows[2]);
    make_row(KPOOL_TYPE_BF16, 32, 2, 2, PLANE_KEY, rows[3]);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t j = 0; j < i; j++) {
            uint32_t equal = 0;
            for (uint32_t c = 0; c < 32; c++) {
                equal += rows[i][c] == rows[j][c] ? 1 : 0;
            }
            assert_true(equal < 4);
        }
    }
}

static void every_wrong_bit_is_found_and_named(void **state)
{
    (void)state;
    for (size_t g = 0; g < sizeof geometries / sizeof geometries[0]; g++) {
        ExpectedRing ring;
        assert_true(expected_ring_create(&ring, &geometries[g], SLOTS));
        /* The second token of request 11 is in slot 1, at its position mod ring. */
        const uint32_t R = ring.geometry.ring;
        const uint32_t cached = 2 * ring.geometry.kpool;
        expected_ring_seed(&ring, (Sequence){.request = 11, .parent = 11}, 1, cached, ring.geometry.kpool > 1 ? 1 : 0);
        const size_t size = kpoolTypeSize(ring.geometry.type);
        unsigned char *tail = malloc(ring.size);
        assert_non_null(tail);
        memcpy(tail, ring.tail, ring.size);
        RingMismatch found;
        assert_int_equal(expected_ring_compare(&ring, tail, &found), 0);
        for (size_t bit = 0; bit < ring.size * 8; bit++) {
            tail[bit / 8] ^= (unsigned char)(1u << bit % 8);
            assert_int_equal(expected_ring_compare(&ring, tail, &found), 1);
            tail[bit / 8] ^= (unsigned char)(1u << bit % 8);
            const size_t element =
                ((found.slot * 2 + found.plane) * (size_t)R + found.member) * ring.geometry.head_dim + found.channel;
            assert_int_equal(element, bit / 8 / size);
            assert_int_equal(found.expected ^ found.actual, 1u << bit % (8 * size));
            const bool written = ring.geometry.kpool > 1 && found.slot == 1 && found.member == cached % R;
            assert_int_equal(found.place.request, written ? 11 : NO_REQUEST);
            assert_int_equal(found.place.position, written ? cached : found.slot * R + found.member);
        }
        free(tail);
        expected_ring_destroy(&ring);
    }
}

/* The same steps through the plain-C reference of the operations, from k and gate; every other request is a twin. */
static void seeds_and_copies_as_the_reference_does(void **state)
{
    (void)state;
    enum { ROWS = 40 };
    for (size_t g = 0; g < sizeof geometries / sizeof geometries[0]; g++) {
        ExpectedRing ring;
        assert_true(expected_ring_create(&ring, &geometries[g], SLOTS));
        const KpoolGeometry *geometry = &ring.geometry;
        const size_t row_size = geometry->head_dim * (size_t)kpoolTypeSize(geometry->type);
        const KpoolCall call = {.max_slots = SLOTS, .requests = 1, .rows = ROWS, .pair_count = 1};
        unsigned char *tail = malloc(ring.size);
        unsigned char *before = malloc(ring.size);
        unsigned char *k = malloc(ROWS * row_size);
        unsigned char *gate = malloc(ROWS * row_size);
        assert_true(tail != NULL && before != NULL && k != NULL && gate != NULL);
        memcpy(tail, ring.tail, ring.size);
        for (uint32_t step = 0; step < 500; step++) {
            const uint32_t hash = (uint32_t)hash64(step);
            const uint32_t cached = hash % 50;
            const uint32_t offsets[2] = {0, (hash >> 8) % ROWS};
            const uint32_t slot = (hash >> 16) % SLOTS;
            const Sequence sequence = {1000 + step, 1000 + step / 2, step % 2 == 0 ? 0 : (hash >> 24) % 60};
            const uint32_t pair[2] = {(slot + 1 + (hash >> 20) % (SLOTS - 1)) % SLOTS, slot};
            for (uint32_t row = 0; row < offsets[1]; row++) {
                const uint32_t position = cached + row;
                const uint32_t author = position < sequence.forked_at ? sequence.parent : sequence.request;
                make_row(geometry->type, geometry->head_dim, author, position, PLANE_KEY, k + row * row_size);
                make_row(geometry->type, geometry->head_dim, author, position, PLANE_GATE, gate + row * row_size);
            }
            memcpy(before, tail, ring.size);
            reference_copy_slots(geometry, &call, before, tail, pair, NULL);
            expected_ring_copy(&ring, pair[0], pair[1]);
            const size_t R = geometry->ring;
            assert_memory_equal(ring.places + pair[1] * R, ring.places + pair[0] * R, R * sizeof *ring.places);
            reference_seed_tail(geometry, &call, tail, k, gate, offsets, &cached, &slot, NULL);
            expected_ring_seed(&ring, sequence, slot, cached, offsets[1]);
            RingMismatch found;
            assert_int_equal(expected_ring_compare(&ring, tail, &found), 0);
        }
        assert_true(geometry->kpool == 1 || ring.rows_written > 0);
        free(tail);
        free(before);
        free(k);
        free(gate);
        expected_ring_destroy(&ring);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sensible_numbers),
        cmocka_unit_test(rows_differ_in_every_argument),
        cmocka_unit_test(every_wrong_bit_is_found_and_named),
        cmocka_unit_test(seeds_and_copies_as_the_reference_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
