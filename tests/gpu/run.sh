#!/bin/bash
# Builds, tests, sanitizes and benches the CUDA backend on a machine with a card. Results into $OUT.
#   tests/gpu/run.sh [build|test|sanitize|bench|quick ...]      all but quick by default
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
out=${OUT:-$root/build/gpu-results}
build=${BUILD:-$root/build/gpu}
mkdir -p "$out"
stages=${*:-build test sanitize bench}
source tests/gpu/libraries.sh
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:$cuda_libraries"
failed=0
for stage in $stages; do
  started=$SECONDS
  case $stage in
    build)
      cmake -S tests/gpu -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
            "-DQUIRE_CUDA_ARCHITECTURES=${ARCHITECTURES:-90a-real}" >"$out/configure.log" 2>&1 || { tail -n 30 "$out/configure.log"; exit 1; }
      ninja -C "$build" >"$out/build.log" 2>&1 || { grep -E "error|FAILED" "$out/build.log" | head -n 40; exit 1; }
      ;;
    test)
      "$build/bin/kernels_cuda_test" --gtest_brief=1 >"$out/test.log" 2>&1 || failed=1
      tail -n 60 "$out/test.log"
      ;;
    sanitize)
      for tool in memcheck racecheck initcheck; do
        filter='*'
        [ $tool = racecheck ] && filter=${RACECHECK_FILTER:-'*Products*:*Every*:*Mixes*:BlockTest.Replayed*:SamplingTest.EditsTake*:SamplingTest.FaultsAre*:SamplingTest.GreedyTakes*'}
        timeout 240 compute-sanitizer --tool $tool --error-exitcode 9 "$build/bin/kernels_cuda_test" --gtest_brief=1 \
          --gtest_filter="$filter-*OutOfMemory*" >"$out/$tool.log" 2>&1 || { failed=1; echo "$tool: not clean"; }
        grep -E "ERROR SUMMARY|RACECHECK SUMMARY|FAILED TEST|FAILED  \]" "$out/$tool.log" | head -n 5
      done
      ;;
    bench | quick)
      quick=; [ $stage = quick ] && quick=quick
      "$build/bin/cuda_step_bench" "$build/lib/libquire_cuda.so" "$out/step_bench.json" ${MODELS:-8b 1b} $quick >"$out/bench.log" 2>&1 || failed=1
      cat "$out/bench.log"
      ;;
  esac
  echo "-- $stage took $((SECONDS - started)) s"
done
exit $failed
