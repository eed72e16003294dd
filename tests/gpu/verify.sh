#!/bin/bash
# Runs all checks that a change of the backend must pass on a card: tests of the kernels and of the engine, both
# benchmarks, and the three tools of compute-sanitizer. First run tests/gpu/collect.sh built on the build machine; then,
# on the machine with the card and with .carry-engine next to the sources, tests/gpu/verify.sh. Details go to
# $OUT/results.tar.gz.
set -uo pipefail
cd "$(dirname "$0")/../.."
target=${OUT:-$PWD/build/gpu-results}
OUT=$(mktemp -d)
export OUT
failed=0
started=$SECONDS
tests/gpu/run.sh build test || failed=1
tests/gpu/engine.sh build test generate split bench || failed=1
tests/gpu/run.sh bench || failed=1
tests/gpu/run.sh older sanitize || failed=1
mkdir -p "$target"
tar -C "$OUT" -czf "$target/results.tar.gz" . && rm -r "$OUT"
echo "-- all took $((SECONDS - started)) s, $([ $failed = 0 ] && echo "nothing failed" || echo "SOMETHING FAILED")"
exit $failed
