#!/usr/bin/env bash
# `kpool bench` from outside: what it prints in each form, and what it refuses.
#   test_bench.sh KPOOL
set -uo pipefail

kpool=$1
command=bench
. "$(dirname "$0")/runner_test.sh"

# has PATTERN COUNT: that many lines of what the last run printed.
has() {
    local count
    count=$(grep -Ec -- "$1" "$scratch/out")
    [[ $count -eq $2 ]] || { fail "'$1' is on $count lines, not $2"; cat "$scratch/out"; }
}

# The plain port wants a storage buffer a tensor, like the wide layout.
plain=0
"$kpool" devices | grep -q 'binding layouts .*wide' && plain=1

# Every operation runs, is compared, and is timed in both ways; the table fits a terminal.
expect 0 '^seed_tail, f16, decode: ' --batches 1,9 --samples 2 --mix decode
has '^[a-z_]+, f16, decode: head_dim 128, kpool 4' 8
has '^  requests +1 +9$' 8
has '^  ours/empty +[0-9.]+ +[0-9.]+$' 16
has '^  ours, us +' 16
for ratio in copy/ours memcpy/ours three/ours ours/fast; do
    has "^  $ratio +[0-9.]+ +[0-9.]+\$" 2
done
has '^  plain/ours +[0-9.]+ +[0-9.]+$' $((2 * plain))
[[ $(wc -L <"$scratch/out") -le 100 ]] || fail 'a line of the table is longer than 100 columns'

# CSV: a line a median, all with as many fields.
expect 0 '^seed_tail,bf16,prefill-512,' --op seed_tail,ring_close --batches 3 --samples 1 --dtype bf16,f32 --csv
has '^op,dtype,mix,' 1
has '^seed_tail,(bf16|f32),(decode|prefill-8|prefill-512),128,4,3,[0-9]+,[0-9]+,1,(once|marginal),' \
    $((2 * (4 + 5 + 4 + 3 * plain) * 2))
has '^seed_tail,(bf16|f32),prefill-8,128,4,3,[0-9]+,[0-9]+,1,(once|marginal),long,[0-9.]+,long/ours,[0-9.]+$' 4
has '^ring_close,(bf16|f32),(decode|prefill-8|prefill-512),128,4,3,[0-9]+,[0-9]+,1,(once|marginal),' $((2 * 3 * 2 * 2))
[[ $(awk -F, '{ print NF }' "$scratch/out" | sort -u) == 14 ]] || fail 'lines of CSV differ in their fields'

# JSON.
expect 0 '"op": "compress"' --op compress,copy_slots --batches 2,5 --samples 1 --mix decode --json
has '"requests": (2|5)' 4
has '"ours_us": [0-9.e+-]+, "ours/empty": [0-9.e+-]+' 4

# A shape and an alignment that are asked for are those that are measured.
expect 0 '^seed_tail,f16,decode,128,4,5,8,2,' --op seed_tail --mix decode --batches 5 --samples 1 --csv \
    --lanes 8 --items 2
expect 0 'alignment 4' --op seed_tail --mix decode --batches 5 --samples 1 --alignment 4
expect 0 'floor layout' --op seed_tail,step --mix decode --batches 5 --samples 1 --layout floor
# Rows that are no multiple of 16 bytes, a pool of an odd length, and a pool that a call cannot fill.
expect 0 'head_dim 6, kpool 3' --mix decode --batches 1,7 --samples 1 --head-dim 6 --kpool 3
expect 0 'head_dim 2, kpool 128' --mix decode --batches 7 --samples 1 --head-dim 2 --kpool 128 --dtype f32
# What is too large is left out, by name.
expect 0 '^ 65536 requests: left out' --op expand_topk --batches 65536,1 --samples 1 --mix decode

expect 0 '^  all SPIR-V, both layouts: [0-9]+ bytes$' --pipelines --samples 1
has '^  (seed_tail|ring_close|compress|pool_row_offsets|expand_topk|copy_slots|step|check_slots) +([0-9.]+ +){4}[1-9][0-9]+$' 8

expect 2 "^kpool bench: --op: 'nothing' is none of its names" --op seed_tail,nothing
expect 2 "^kpool bench: --dtype: '' is none of its names" --dtype f16,
expect 2 "^kpool bench: --mix: 'prefill-8' is none" --mix prefill-8
expect 2 '^kpool bench: --batches: is 0, must be from 1 to' --batches 1,0
expect 2 "^kpool bench: --batches: is '', must be a whole number" --batches 1,
expect 2 '^kpool bench: --batches: has more than 8 numbers' --batches 1,2,3,4,5,6,7,8,9
expect 2 "^kpool bench: --samples: is '-1', must be a whole number" --samples=-1
expect 2 "^kpool bench: --layout: is 'narrow', must be wide or floor" --layout narrow
expect 2 '^kpool bench: --json: excludes --csv' --json --csv
expect 2 '^kpool bench: --host: excludes --pipelines' --host --pipelines
expect 2 "^kpool bench: 'x': takes no such argument" x
expect 2 '^kpool bench: createInfo.alignment is 8' --alignment 8
expect 2 '^kpool bench: .*lanesPerItem is 3, must be a power of two' --lanes 3
expect 2 '^kpool bench: .*head_dim is 3, must be even' --head-dim 3
expect 3 "^kpool bench: no Vulkan device matches 'nobody'" --device nobody
expect 3 "^kpool bench: no Vulkan device matches ''" --device=
if "$kpool" bench --help >/dev/full 2>"$scratch/out" ||
    ! grep -q '^kpool: standard output cannot be written$' "$scratch/out"; then
    fail "bench --help does not say that it could not write"
fi
expect 0 'Exit status' --help

echo "$failures failures"
[[ $failures -eq 0 ]]
