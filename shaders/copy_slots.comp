#version 450
#extension GL_GOOGLE_include_directive : require

// copy_slots: whole slots of the ring, in two dispatches of the same shader. The first gathers every source into
// scratch, the second scatters scratch to the destinations, so it is as if all sources were read first.

#include "common.glsl"

OUTPUT(uint, tail)
INPUT(uint, pairs)
OUTPUT(uint, scratch)
OUTPUT(uint, status)

const uint slot_words = 2u * ring * row_words;

void main() {
    const uint lane = item_lane();
    const uint pair = item_index();
    if (pair >= pc.pair_count) {
        return;
    }
    const uint source = AT(pairs, 2u * pair);
    const uint destination = AT(pairs, 2u * pair + 1u);
    if (source == destination) {
        return;
    }
    if (source >= pc.max_slots || destination >= pc.max_slots) {
        if (lane == 0u && scatters == 0u) {
            atomicAdd(AT(status, 7u), 1u);
        }
        return;
    }
    for (uint i = lane; i < slot_words; i += lanes_per_item) {
        const uint row = i / row_words;
        const uint within = (row / ring) * pc.tail_plane_stride + (row % ring) * pc.tail_row_stride + i % row_words;
        if (scatters == 0u) {
            AT(scratch, pair * slot_words + i) = AT(tail, source * pc.tail_slot_stride + within);
        } else {
            AT(tail, destination * pc.tail_slot_stride + within) = AT(scratch, pair * slot_words + i);
        }
    }
}
