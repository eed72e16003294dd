#!/bin/bash
# All that is to be seen on a card before a change of the backend counts as done, in one go: tests of the kernels and
# of the engine, both benches, the three tools of compute-sanitizer. Here: tests/gpu/collect.sh built; on the machine
# with the card, with .carry-engine beside the sources: tests/gpu/verify.sh. Details lie in $OUT/results.tar.gz.
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
