#include "expected_ring.h"

#include <stdlib.h>
#include <string.h>

static void write_place(ExpectedRing *ring, uint32_t slot, uint32_t member, RingPlace place)
{
    const KpoolGeometry *geometry = &ring->geometry;
    const size_t row_size = (size_t)geometry->head_dim * kpoolTypeSize(geometry->type);
    const size_t plane_size = row_size * geometry->ring;
    unsigned char *key = ring->tail + (size_t)slot * 2 * plane_size + member * row_size;
    make_row(geometry->type, geometry->head_dim, place.request, place.position, PLANE_KEY, key);
    make_row(geometry->type, geometry->head_dim, place.request, place.position, PLANE_GATE, key + plane_size);
    ring->places[(size_t)slot * geometry->ring + member] = place;
}

bool expected_ring_create(ExpectedRing *ring, const KpoolGeometry *geometry, uint32_t slots)
{
    *ring = (ExpectedRing){.geometry = *geometry, .slots = slots};
    if (geometry->ring == 0) {
        ring->geometry.ring = geometry->kpool + geometry->rollback;
    }
    const uint64_t places = (uint64_t)slots * ring->geometry.ring;
    const uint64_t place_size = 2u * (uint64_t)geometry->head_dim * kpoolTypeSize(geometry->type);
    if (places > UINT32_MAX || places > SIZE_MAX / sizeof *ring->places || places > SIZE_MAX / place_size) {
        return false;
    }
    ring->size = (size_t)(places * place_size);
    ring->places = calloc((size_t)places, sizeof *ring->places);
    ring->tail = malloc(ring->size);
    if (ring->places == NULL || ring->tail == NULL) {
        expected_ring_destroy(ring);
        return false;
    }
    for (uint32_t place = 0; place < places; place++) {
        write_place(ring, place / ring->geometry.ring, place % ring->geometry.ring, (RingPlace){NO_REQUEST, place});
    }
    return true;
}

void expected_ring_destroy(ExpectedRing *ring)
{
    free(ring->places);
    free(ring->tail);
    *ring = (ExpectedRing){0};
}

void expected_ring_seed(ExpectedRing *ring, Sequence sequence, uint32_t slot, uint32_t cached, uint32_t tokens)
{
    const int64_t P = ring->geometry.kpool;
    const int64_t H = ring->geometry.rollback;
    const int64_t R = ring->geometry.ring;
    const int64_t L = cached;
    const int64_t end = L + tokens;
    const int64_t kept = end - H > 0 ? (end - H) / P * P : 0;
    for (int64_t pos = L > kept ? L : kept; pos < end; pos++) {
        const uint32_t position = (uint32_t)pos;
        write_place(ring, slot, (uint32_t)(pos % R), (RingPlace){sequence_author(sequence, position), position});
        ring->rows_written += 2;
    }
}

void expected_ring_copy(ExpectedRing *ring, uint32_t source, uint32_t destination)
{
    const size_t slot_size = ring->size / ring->slots;
    const size_t R = ring->geometry.ring;
    memcpy(ring->tail + destination * slot_size, ring->tail + source * slot_size, slot_size);
    memcpy(ring->places + destination * R, ring->places + source * R, R * sizeof *ring->places);
}

static RingMismatch locate(const ExpectedRing *ring, size_t index)
{
    const size_t D = ring->geometry.head_dim;
    const size_t R = ring->geometry.ring;
    RingMismatch mismatch = {
        .slot = (uint32_t)(index / D / R / 2),
        .plane = (uint32_t)(index / D / R % 2),
        .member = (uint32_t)(index / D % R),
        .channel = (uint32_t)(index % D),
    };
    mismatch.place = ring->places[mismatch.slot * R + mismatch.member];
    return mismatch;
}

uint64_t expected_ring_compare(const ExpectedRing *ring, const void *tail, RingMismatch *first)
{
    if (memcmp(tail, ring->tail, ring->size) == 0) {
        return 0;
    }
    const size_t size = kpoolTypeSize(ring->geometry.type);
    uint64_t mismatches = 0;
    for (size_t index = 0; index < ring->size / size; index++) {
        const uint32_t expected = element_bits(ring->geometry.type, ring->tail, index);
        const uint32_t actual = element_bits(ring->geometry.type, tail, index);
        if (expected == actual) {
            continue;
        }
        if (mismatches++ == 0) {
            *first = locate(ring, index);
            first->expected = expected;
            first->actual = actual;
        }
    }
    return mismatches;
}
