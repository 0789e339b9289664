# What the tests of a command from outside share; sourced with `command` set to the command and `kpool` to the binary.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() { failures=$((failures + 1)); echo "FAILED: $1"; }

# expect CODE PATTERN ARGUMENT...: runs the command; stdout and stderr together must match the pattern.
expect() {
    local code=$1 pattern=$2
    shift 2
    "$kpool" "$command" "$@" >"$scratch/out" 2>&1
    local got=$?
    if [[ $got -ne $code ]] || ! grep -Eq -- "$pattern" "$scratch/out"; then
        fail "$command $*: exit $got, not $code, or not '$pattern':"
        cat "$scratch/out"
    fi
    if grep -q '^validation:' "$scratch/out"; then
        fail "$command $*: validation messages"
        cat "$scratch/out"
    fi
}
