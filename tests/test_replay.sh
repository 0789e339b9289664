#!/usr/bin/env bash
# `kpool replay` from outside: what it prints and returns when it is right, refuses, or is interrupted.
#   test_replay.sh KPOOL MAKE_TRACE
set -uo pipefail

kpool=$1
make_trace=$2
command=replay
. "$(dirname "$0")/runner_test.sh"

# value NAME: of the JSON object that the last run printed.
value() { sed -nE "s/^ *\"$1\": (.*[^,]),?\$/\1/p" "$scratch/out"; }

expect_value() {
    [[ $(value "$1") == "$2" ]] || fail "$1 is $(value "$1"), not $2"
}

trace=$scratch/trace.csv
"$make_trace" 300 >"$trace"
tokens=$(awk -F, 'NR > 1 { sum += $2 + $3 } END { print sum }' "$trace")

expect 0 '^right on ' "$trace" --slots 64
grep -q '^requests      300 of 300, 0 forks, 0 preemptions$' "$scratch/out" ||
    fail 'the summary does not say 300 of 300'

for type in f32 f16 bf16; do
    expect 0 '"right": true' "$trace" --slots 32 --dtype "$type" --requests 100 --json --seed 7
done
expect 0 '"right": true' "$trace" --json
expect_value requests_finished 300
expect_value tokens "$tokens"
expect_value drops 0
expect_value mismatches 0
expect_value interrupted false
[[ $(value rows_written) -gt 0 ]] || fail 'no row was written'

# Every pool of every request once, counted here from the lengths alone.
pools=$(awk -F, 'NR > 1 { sum += int(($2 + $3) / 4) } END { print sum }' "$trace")
expect_pools_once() {
    local made=$(($(value pools_closed) + $(value pools_compressed) - $(value pools_remade)))
    [[ $made -eq $1 ]] || fail "$made pools, not $1"
    expect_value miscounts 0
}
expect_pools_once "$pools"
expect_value pools_remade 0
[[ $(value pools_closed) -gt 0 && $(value pools_compressed) -gt 0 ]] || fail 'pools are closed and compressed'

# A preempted request makes its pools again; a twin makes those from its fork on.
expect 0 '"right": true' "$trace" --json --slots 16 --preempt 5
expect_value forks 0
expect_pools_once "$pools"
[[ $(value preemptions) -gt 0 && $(value pools_remade) -gt 0 ]] || fail 'nobody was preempted'
[[ $(value tokens) -gt $tokens ]] || fail 'nothing came again'
expect 0 '"right": true' "$trace" --json --slots 32 --fork 2 --dtype f16 --kpool 5 --head-dim 10
[[ $(value forks) -gt 50 && $(value tokens) -gt $tokens ]] || fail 'too few forks'
expect_value preemptions 0
expect 0 '"right": true' "$trace" --json --slots 8 --batch-tokens 50 --fork 1 --preempt 3 --dtype f32 --requests 60
[[ $(value forks) -gt 10 && $(value preemptions) -gt 10 ]] || fail 'too few forks and preemptions'
expect 0 'forks, [1-9][0-9]* preemptions$' "$trace" --fork 3 --preempt 20 --slots 16 --requests 50

# Fewer tokens a step than requests that run, rows that are no multiple of 16 bytes, an odd pool, one slot.
expect 0 '"right": true' "$trace" --json --requests 40 --slots 24 --batch-tokens 7 --head-dim 6 --kpool 3
expect 0 '"right": true' "$trace" --json --requests 5 --slots 1 --batch-tokens 100
# A pool of one token leaves nothing to wait for, and no place to fork.
expect 0 '"right": true' "$trace" --json --requests 20 --kpool 1 --fork 1
expect_value rows_written 0
expect_value pools_closed 0
expect_value forks 0
# Pools longer than what a step brings are never compressed.
expect 0 '"right": true' "$trace" --json --requests 20 --kpool 128 --batch-tokens 100
expect_value pools_compressed 0

printf 'TIMESTAMP,ContextTokens,GeneratedTokens\na,0,0\nb,0,5\nc,5,0\n' >"$scratch/small.csv"
expect 0 '"right": true' "$scratch/small.csv" --json
expect_value tokens 10
expect_value requests_finished 3

printf 'TIMESTAMP,ContextTokens,GeneratedTokens\na,1,2\nb,1,-2\n' >"$scratch/bad.csv"
expect 2 "^kpool replay: $scratch/bad.csv:3: GeneratedTokens is -2, below 0\$" "$scratch/bad.csv"
[[ $(wc -l <"$scratch/out") -eq 1 ]] || fail 'a malformed trace needs more than a line'
expect 2 "^kpool replay: $scratch/none.csv: No such file" "$scratch/none.csv"
expect 2 "^kpool replay: $scratch: Is a directory" "$scratch"
expect 2 'TRACE.csv: is missing'
expect 2 "TRACE.csv: '$trace' is one too many" "$trace" "$trace"
expect 2 "^kpool replay: --slots: is 0, must be from 1 " "$trace" --slots 0
expect 2 "^kpool replay: --slots: is '-1', must be a whole number" "$trace" --slots=-1
expect 2 '^kpool replay: --slots: is 99999999999999999999, must be from' "$trace" --slots 99999999999999999999
expect 2 "^kpool replay: --batch-tokens: is 'x'" "$trace" --batch-tokens x
expect 2 '^kpool replay: --fork: is 0, must be from 1 ' "$trace" --fork 0
expect 2 '^kpool replay: --preempt: is 0, must be from 1 ' "$trace" --preempt 0
expect 2 "^kpool replay: --dtype: is 'f64', must be f32, f16 or bf16" "$trace" --dtype f64
expect 2 '^kpool replay: .*head_dim' "$trace" --dtype bf16 --head-dim 3
expect 2 '^kpool replay: .*tail' "$trace" --slots 1048576 --head-dim 1024 --kpool 128
expect 3 "^kpool replay: no Vulkan device matches 'nobody'" "$trace" --device nobody
expect 0 '130 or 143' --help

# A request that would take hours is ended by a signal after the step that is running.
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\na,1,4000000000\n' >"$scratch/long.csv"
# catches PID NUMBER: whether the process has a handler for the signal. Under a layer it takes a while to get there.
catches() {
    local caught
    caught=$(awk '$1 == "SigCgt:" { print $2 }' "/proc/$1/status") && (((16#$caught >> ($2 - 1) & 1) == 1))
}
for signal in INT TERM; do
    "$kpool" replay "$scratch/long.csv" >"$scratch/out" 2>&1 &
    for ((i = 0; i < 600; i++)); do
        catches $! "$(kill -l "$signal")" && break
        sleep 0.1
    done
    sleep 1
    kill -s "$signal" $!
    wait $!
    code=$?
    [[ $code -eq $([[ $signal == INT ]] && echo 130 || echo 143) ]] || fail "SIG$signal: exit $code"
    grep -q '^right, interrupted on ' "$scratch/out" || { fail "SIG$signal: no summary"; cat "$scratch/out"; }
done

echo "$failures failures"
[[ $failures -eq 0 ]]
