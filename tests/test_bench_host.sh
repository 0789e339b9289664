#!/usr/bin/env bash
# `kpool bench --host` from outside: what it prints in each form.
#   test_bench_host.sh KPOOL
set -uo pipefail

kpool=$1
command=bench
. "$(dirname "$0")/runner_test.sh"

expect 0 '^  ours/raw +[0-9.]+$' --host
grep -Eq '^  execute/raw +[0-9.]+$' "$scratch/out" || fail 'no ratio of kpoolCmdExecute'
grep -Eq '^  allocations +0$' "$scratch/out" || fail 'allocations'
expect 0 '"allocations": 0' --host --json
expect 0 '^records,ours_ns,execute_ns,raw_ns,ours/raw,execute/raw,allocations$' --host --csv
grep -Eq '^100000,([0-9.]+,){5}0$' "$scratch/out" || fail 'the line of CSV'

echo "$failures failures"
[[ $failures -eq 0 ]]
