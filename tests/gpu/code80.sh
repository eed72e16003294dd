#!/bin/bash
# Builds the CUDA backend as for cards of compute capability 8.0 (RTX 3090 and 4090 run the same kernels), but with
# machine code for the card that is here, and compares it with the library of engine.sh or run.sh. Writes to $OUT.
#   tests/gpu/code80.sh [build|test|products|attention|bench ...]    the default is all
# OTHER=build/gpu-engine: the build to compare with. FILTER: of the kernel tests. Needs .carry (collect.sh).
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
out=${OUT:-$root/build/gpu-results}
build=$root/build/gpu80
other=${OTHER:-$root/build/gpu-engine}
mkdir -p "$out"
source tests/gpu/carried.sh
build=$root/build/gpu80
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:$cuda_libraries"
failed=0

build_80() {
  cmake -S tests/gpu -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DQUIRE_CUDA_ARCHITECTURES=OFF \
        "-DCMAKE_CUDA_FLAGS=-gencode arch=compute_80,code=sm_${CODE:-90}" >"$out/configure80.log" 2>&1 ||
    { tail -n 30 "$out/configure80.log"; return 1; }
  ninja -C "$build" >"$out/build80.log" 2>&1 || { grep -E "error|FAILED" "$out/build80.log" | head -n 40; return 1; }
}

# Runs the tests in several processes, which share the card.
test_80() {
  local processes=10
  seq 0 $((processes - 1)) | GTEST_TOTAL_SHARDS=$processes xargs -P "$processes" -I{} bash -c \
    "GTEST_SHARD_INDEX={} timeout 120 '$build/bin/kernels_cuda_test' --gtest_filter='${FILTER:-*-*OutOfMemory*:*IfMemoryIsShort*:*FailTogether*}' >'$out/test80-{}.log' 2>&1" || failed=1
  cat "$out"/test80-*.log >"$out/test80.log" && rm "$out"/test80-?.log
  echo "kernel tests of 8.0: $(grep -c '^\[       OK' "$out/test80.log") passed, $(grep -cE '^\[  FAILED.* ms\)$' "$out/test80.log") failed"
  grep -hE '^\[  FAILED.* ms\)$|Failure$' "$out/test80.log" | sort | uniq -c | head -n 40
}

# step_bench NAME TEXT...: runs the benchmark of kernels with both libraries.
step_bench() {
  local name=$1 code library texts
  shift
  mapfile -t texts < <(for text in "$@"; do printf 'only=%s\n' "$text"; done)
  for code in 80 90; do
    library=$build/lib/libquire_cuda.so
    [ $code = 80 ] || library=$other/lib/libquire_cuda.so
    [ -f "$library" ] || continue
    echo "== $name, code for $code"
    timeout 100 "$build/bin/cuda_step_bench" "$library" "$out/$name-$code.json" 8b ${FORMAT:-} "${texts[@]}" 2>&1 | tee "$out/$name-$code.txt"
  done
}

bench_80() {
  local model code place
  for model in ${MODELS:-llama-3.1-8b}; do
    for code in 80 90; do
      place=$other/lib
      [ $code = 90 ] || { place=$out/place80 && mkdir -p "$place" && ln -sf "$build/lib/libquire_cuda.so" "$place/"; }
      [ -f "$place/libquire_cuda.so" ] || continue
      echo "== $model, code for $code"
      QUIRE_BACKEND_DIR=$place timeout 150 "$other/bin/quire" bench --device cuda:0 --model "synthetic:$model,format=exl2,bits=4.0,head_bits=6" \
        --batch "${BATCHES:-1,4,8,16,32,64,128}" --new-tokens 64 2>"$out/bench80.log" | tee "$out/bench-$model-$code.txt" || { failed=1; tail -n 3 "$out/bench80.log"; }
    done
  done
  rm -rf "$out/place80"
}

for stage in ${*:-build test products attention bench}; do
  started=$SECONDS
  case $stage in
    build) build_80 || exit 1 ;;
    test) test_80 ;;
    products) step_bench products "det linear" ;;
    attention) step_bench attention "det decode 16 x 16k f16" "det decode 64 x 2k f16" "det prefill 2048" ;;
    bench) bench_80 ;;
    *) sed -n '2,7p' "$0" >&2; exit 2 ;;
  esac
  echo "-- $stage of 8.0 took $((SECONDS - started)) s"
done
exit $failed
