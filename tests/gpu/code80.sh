#!/bin/bash
# Builds the CUDA backend as for cards of an earlier compute capability, but with machine code for the card that is here,
# and compares it with the library of engine.sh or run.sh: 8.0 (RTX 3090 and 4090 run the same kernels), or with ARCH=75
# that of a T4, with 64 KiB of shared memory, or with ARCH=89 that of an L40S, which has FP8 products. Writes to $OUT.
#   tests/gpu/code80.sh [build|test|products|attention|bench ...]    the default is all
# OTHER=build/gpu-engine: the build to compare with. FILTER: of the kernel tests. TARGETS: what to build. FORMAT: of the
# models to measure. Needs .carry (collect.sh).
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
out=${OUT:-$root/build/gpu-results}
arch=${ARCH:-80}
other=${OTHER:-$root/build/gpu-engine}
mkdir -p "$out"
source tests/gpu/carried.sh
build=$root/build/gpu$arch
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:$cuda_libraries"
failed=0

build_older() {
  local limit=
  [ "$arch" != 75 ] || limit=-DQUIRE_MOST_SHARED_KIB=64
  # shellcheck disable=SC2086  # names of targets without blanks
  cmake -S tests/gpu -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DQUIRE_CUDA_ARCHITECTURES=OFF "-DCMAKE_CXX_FLAGS=$limit" \
        "-DCMAKE_CUDA_FLAGS=-gencode arch=compute_$arch,code=sm_${CODE:-90}" >"$out/configure$arch.log" 2>&1 ||
    { tail -n 30 "$out/configure$arch.log"; return 1; }
  ninja -C "$build" ${TARGETS:-} >"$out/build$arch.log" 2>&1 ||
    { grep -E "error|FAILED" "$out/build$arch.log" | head -n 40; return 1; }
}

# Runs the tests in several processes, which share the card.
test_older() {
  local processes=10
  seq 0 $((processes - 1)) | GTEST_TOTAL_SHARDS=$processes xargs -P "$processes" -I{} bash -c \
    "GTEST_SHARD_INDEX={} timeout 120 '$build/bin/kernels_cuda_test' --gtest_filter='${FILTER:-*-*OutOfMemory*:*IfMemoryIsShort*:*FailTogether*}' >'$out/test$arch-{}.log' 2>&1" || failed=1
  cat "$out"/test$arch-*.log >"$out/test$arch.log" && rm "$out"/test$arch-?.log
  echo "kernel tests of code for $arch: $(grep -c '^\[       OK' "$out/test$arch.log") passed, $(grep -cE '^\[  FAILED.* ms\)$' "$out/test$arch.log") failed"
  grep -hE '^\[  FAILED.* ms\)$|Failure$' "$out/test$arch.log" | sort | uniq -c | head -n 40
}

# step_bench NAME TEXT...: runs the benchmark of kernels with both libraries.
step_bench() {
  local name=$1 code library texts
  shift
  mapfile -t texts < <(for text in "$@"; do printf 'only=%s\n' "$text"; done)
  for code in "$arch" 90; do
    library=$build/lib/libquire_cuda.so
    [ "$code" = "$arch" ] || library=$other/lib/libquire_cuda.so
    [ -f "$library" ] || continue
    echo "== $name, code for $code"
    timeout 100 "$build/bin/cuda_step_bench" "$library" "$out/$name-$code.json" 8b ${FORMAT:-} "${texts[@]}" 2>&1 | tee "$out/$name-$code.txt"
  done
}

bench_older() {
  local model code place
  for model in ${MODELS:-llama-3.1-8b}; do
    for code in "$arch" 90; do
      place=$other/lib
      [ "$code" = 90 ] || { place=$out/place$arch && mkdir -p "$place" && ln -sf "$build/lib/libquire_cuda.so" "$place/"; }
      [ -f "$place/libquire_cuda.so" ] || continue
      echo "== $model, code for $code"
      QUIRE_BACKEND_DIR=$place timeout 150 "$other/bin/quire" bench --device cuda:0 --model "synthetic:$model,format=${FORMAT:-exl2,bits=4.0,head_bits=6}" \
        --batch "${BATCHES:-1,4,8,16,32,64,128}" --new-tokens 64 ${BENCH_ARGUMENTS:-} 2>"$out/bench$arch.log" | tee "$out/bench-$model-$code.txt" || { failed=1; tail -n 3 "$out/bench$arch.log"; }
    done
  done
  rm -rf "$out/place$arch"
}

for stage in ${*:-build test products attention bench}; do
  started=$SECONDS
  case $stage in
    build) build_older || exit 1 ;;
    test) test_older ;;
    products) step_bench products "det linear" ;;
    attention) step_bench attention "det decode 16 x 16k f16" "det decode 64 x 2k f16" "det prefill 2048" ;;
    bench) bench_older ;;
    *) sed -n '2,8p' "$0" >&2; exit 2 ;;
  esac
  echo "-- $stage of code for $arch took $((SECONDS - started)) s"
done
exit $failed
