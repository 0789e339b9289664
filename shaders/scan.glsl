// A prefix sum over the workgroup, of one value a lane. The sums stop at 2^32 - 1 instead of wrapping: overlapping
// ranges in broken offsets can add up to more.

shared uint scan_sums[128];

uint add_saturating(uint a, uint b) { return a > 0xffffffffu - b ? 0xffffffffu : a + b; }

// The sum of the values of the lanes before this one; total is the sum of all. Called by every invocation.
uint scan_exclusive(uint value, out uint total) {
    const uint lane = gl_LocalInvocationID.x;
    barrier(); // the sums of a previous call have been read
    scan_sums[lane] = value;
    barrier();
    for (uint reach = 1u; reach < local_size; reach *= 2u) {
        const uint before = lane >= reach ? scan_sums[lane - reach] : 0u;
        barrier();
        scan_sums[lane] = add_saturating(scan_sums[lane], before);
        barrier();
    }
    total = scan_sums[local_size - 1u];
    return lane > 0u ? scan_sums[lane - 1u] : 0u;
}
