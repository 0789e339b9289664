#version 450
#extension GL_GOOGLE_include_directive : require

// seed_tail: moves the rows that a later call still needs into each request's slot of the ring.
// lanes_per_item invocations share a request; items_per_group requests share a workgroup.

#include "common.glsl"

OUTPUT(ROW_WORD, tail)
INPUT(ROW_WORD, k)
INPUT(ROW_WORD, gate)
INPUT(uint, input_row_offsets)
INPUT(uint, cache_lengths)
INPUT(uint, slot_idx)
OUTPUT(uint, status)

#include "request.glsl"

const uint most_words = (kpool - 1u + rollback) * row_words;

void main() {
    const uint lane = item_lane();
    const uint r = item_index();
    if (r >= pc.requests) {
        return;
    }
    // Asked before the rest is read, this spares a GPU a fourth of its work; in one condition with the other it spares
    // it nothing.
    const uint first = AT(input_row_offsets, r);
    const uint last = AT(input_row_offsets, r + 1u);
    if (first == last) {
        return;
    }
    const uint slot = AT(slot_idx, r);
    Request request;
    const uint verdict = judge(first, last, AT(cache_lengths, r), slot, pc.max_slots, request);
    if (verdict != ACCEPTED) {
        if (lane == 0u) {
            atomicAdd(AT(status, verdict), 1u);
        }
        return;
    }

    const Seed seed = find_seed(request);
    const uint slot_word = slot * pc.tail_slot_stride;
    const uint words = seed.count * row_words;
    uint i = lane;
    if (i >= words) {
        return;
    }
    // Asked at the end, the condition costs a software driver no round without work. Where there is a lane for every
    // word that can move there is no loop.
    do {
        const uint member = i / row_words;
        const uint word = i % row_words;
        const uint row = seed.row + member;
        const uint to = slot_word + ((seed.begin + member) % ring) * pc.tail_row_stride + word;
        AT(tail, to) = AT(k, row * pc.k_row_stride + word);
        AT(tail, to + pc.tail_plane_stride) = AT(gate, row * pc.gate_row_stride + word);
        i += lanes_per_item;
    } while (lanes_per_item < most_words && i < words);
}
