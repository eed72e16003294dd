#!/bin/bash
# Builds, tests, sanitizes and benchmarks the CUDA backend on a machine with a card. Writes results to $OUT.
#   tests/gpu/run.sh [build|test|older|sanitize|bench|quick ...]      the default is all but older and quick
# Programs that collect.sh added to the sources are not built again. older: runs the tests with the library for compute
# capability 8.0, whose code the driver compiles when it is loaded.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
out=${OUT:-$root/build/gpu-results}
build=${BUILD:-$root/build/gpu}
mkdir -p "$out"
stages=${*:-build test sanitize bench}
source tests/gpu/carried.sh
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:$cuda_libraries"
failed=0

# Tests that fill the card, or that need a known amount of free memory.
fills_card='*OutOfMemory*:*IfMemoryIsShort*:*FailTogether*'

# test_side_by_side: all tests of kernels; processes share the card, and tests that fill it run alone afterwards.
test_side_by_side() {
  local result=0 processes
  processes=$(($(nproc) < 12 ? $(nproc) : 12))
  seq 0 $((processes - 1)) | GTEST_TOTAL_SHARDS=$processes xargs -P "$processes" -I{} bash -c \
    "GTEST_SHARD_INDEX={} '$build/bin/kernels_cuda_test' --gtest_filter='-$fills_card' >'$out/test-{}.log' 2>&1" || result=1
  "$build/bin/kernels_cuda_test" --gtest_filter="$fills_card" >"$out/test-alone.log" 2>&1 || result=1
  cat "$out"/test-*.log >"$out/test.log"
  echo "kernel tests: $(grep -c '^\[       OK' "$out/test.log") passed, $(grep -cE '^\[  FAILED.* ms\)$' "$out/test.log") failed"
  grep -hE '^\[  FAILED.* ms\)$|Failure$' "$out/test.log" | head -n 60
  return $result
}

# sanitize_one TOOL SHARD. The filter excludes tests that run out of memory on purpose and tests with
# thousands of steps.
sanitize_one() {
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$2 timeout "$sanitize_seconds" \
    compute-sanitizer --tool "$1" --error-exitcode 9 "$build/bin/kernels_cuda_test" --gtest_filter="$sanitize_filter" \
    >"$out/$1/$2.log" 2>&1 || echo "shard $2: $?" >>"$out/$1/failed"
}

# sanitize_again TOOL: racecheck may need more memory than the machine has. Tests that were killed or timed
# out run again with fewer in parallel.
sanitize_again() {
  local ended
  ended=$(grep -LE "^\[       OK|^\[  FAILED|^=+ (Invalid|Uninitialized|Warning|Error: (Potential|Race))" "$out/$1"/*.log)
  [ -n "$ended" ] || return 0
  echo "$1: $(wc -w <<<"$ended") tests run again"
  for log in $ended; do sed -i "/^shard $(basename "$log" .log):/d" "$out/$1/failed"; done
  [ -s "$out/$1/failed" ] || rm -f "$out/$1/failed"
  for log in $ended; do echo "$1 $(basename "$log" .log)"; done | xargs -P $((($(nproc) + 3) / 4)) -L 1 bash -c 'sanitize_one $0 $1'
}

# report_one TOOL: prints one line, and the findings.
report_one() {
  local num_passed
  num_passed=$(cat "$out/$1"/*.log | grep -c "^\[       OK")
  cat "$out/$1"/*.log >"$out/$1.log"
  if [ ! -e "$out/$1/failed" ] && [ "$num_passed" = "$shards" ] && [ "$shards" -gt 0 ]; then
    echo "$1: clean, $num_passed tests"
    return 0
  fi
  echo "$1: NOT clean, $num_passed of $shards tests passed"
  cat "$out/$1/failed" 2>/dev/null
  echo "did not end well: $(grep -L '^\[       OK' "$out/$1"/*.log | xargs -r grep -hoP '^\[ RUN      \] \K\S+' | tr '\n' ' ')"
  grep -hE "^=+ (Error|Warning|Invalid|Uninitialized)|^\[  FAILED" "$out/$1.log" | sort | uniq -c | sort -rn | head -n 20
  return 1
}

# sanitize_all TOOL ...: runs each test under each tool in its own process; as many as there are cores share
# the card.
sanitize_all() {
  local tool result=0
  for tool in "$@"; do rm -rf "$out/$tool" && mkdir -p "$out/$tool"; done
  shards=$("$build/bin/kernels_cuda_test" --gtest_list_tests --gtest_filter="$sanitize_filter" | grep -c "^ ")
  for tool in "$@"; do seq -f "$tool %g" 0 $((shards - 1)); done | xargs -P "$(nproc)" -L 1 bash -c 'sanitize_one $0 $1'
  for tool in "$@"; do sanitize_again "$tool"; done
  for tool in "$@"; do report_one "$tool" || result=1; done
  return $result
}
shards=1 sanitize_seconds=${SANITIZE_SECONDS:-100} sanitize_filter=${SANITIZE_FILTER:-'*-*OutOfMemory*:*ManyKinds*'}
export -f sanitize_one
export out build shards sanitize_seconds sanitize_filter

for stage in $stages; do
  started=$SECONDS
  case $stage in
    build)
      [ -d "$carry/built" ] && continue
      cmake -S tests/gpu -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
            "-DQUIRE_CUDA_ARCHITECTURES=${ARCHITECTURES:-90a-real}" >"$out/configure.log" 2>&1 || { tail -n 30 "$out/configure.log"; exit 1; }
      ninja -C "$build" >"$out/build.log" 2>&1 || { grep -E "error|FAILED" "$out/build.log" | head -n 40; exit 1; }
      ;;
    test)
      test_side_by_side || failed=1
      ;;
    older)
      [ -d "$build/lib80" ] || { echo "there is no library for compute capability 8.0"; continue; }
      mv "$build/lib" "$build/lib90" && mv "$build/lib80" "$build/lib"
      "$build/bin/kernels_cuda_test" --gtest_brief=1 >"$out/older.log" 2>&1 || failed=1
      mv "$build/lib" "$build/lib80" && mv "$build/lib90" "$build/lib"
      tail -n 20 "$out/older.log"
      ;;
    sanitize)
      sanitize_all ${TOOLS:-racecheck memcheck initcheck} || failed=1  # the slowest first
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
