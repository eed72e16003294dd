#!/bin/bash
# Builds the whole project with the CUDA backend on a machine with a card, and runs the engine there: tests of the models,
# of sampling and of a card that fails; the same text on the CPU and on the card; a model on several devices; loading
# from files; and the speed of models of real shapes. Writes results to $OUT.
#   tests/gpu/engine.sh [build|test|states|generate|split|shards|load|bench|blocks|trellis|compare|company|share|wake|server|launches|host-experts|drafts ...]
# The default is build, test, states, generate, split, load and bench.
# TARGETS: what to build instead of all that the stages need.
# With SECOND_DEVICE=cuda:1 a model is also split over two cards, and `shards` tests and measures tensor parallelism there.
# Takes files that the machine lacks from .carry-engine (tests/gpu/collect.sh engine, or built).
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
out=${OUT:-$root/build/gpu-results}
build=${BUILD:-$root/build/gpu-engine}
device=${DEVICE:-cuda:0}
mkdir -p "$out"
source tests/gpu/carried.sh
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:$build/lib:$cuda_libraries"
export QUIRE_BACKEND_DIR=$build/lib
export QUIRE_MODEL=$root/packaging/model/story-15m-exl2-4.0bpw
failed=0
# The last program breaks the card for its own process.
programs=(core_models_test model_families_test gguf_models_test device_draws_test device_jobs_test model_jobs_test perplexity_test standby_test filled_card_test host_experts_test device_loss_test)

build_all() {
  { unpack prefix && unpack models && unpack families && unpack words && unpack older; } || return 1
  [ -d "$carry/built" ] && return
  # Tools that only other tests need are replaced by a program that does nothing.
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DQUIRE_CUDA=ON -DQUIRE_BUILD_BENCH=ON \
        "-DQUIRE_CUDA_ARCHITECTURES=${ARCHITECTURES:-90a-real}" -DCMAKE_CUDA_COMPILER="${CUDACXX:-/usr/local/cuda/bin/nvcc}" \
        -DCMAKE_PREFIX_PATH="$carry" -DQUIRE_SHARED_DIR="$carry" -DQUIRE_CLANG=/bin/true -DPKG_CONFIG_EXECUTABLE=/bin/true \
        >"$out/configure.log" 2>&1 || { tail -n 30 "$out/configure.log"; return 1; }
  # shellcheck disable=SC2086  # names of targets without blanks
  ninja -C "$build" ${TARGETS:-quire_cuda quire_cli kernels_cuda_test cuda_state_bench cuda_step_bench drafting_bench model_drafting_test
      model_shards_test model_spread_shards_test "${programs[@]}"} >"$out/build.log" 2>&1 ||
    { grep -E "error|FAILED|undefined" "$out/build.log" | head -n 40; return 1; }
}

test_models() {
  local program
  for program in "${programs[@]}"; do
    QUIRE_TEST_DEVICE=$device QUIRE_TEST_SECOND_DEVICE=${SECOND_DEVICE:-$device} timeout 120 "$build/bin/$program" \
        --gtest_output="xml:$out/$program.xml" >"$out/$program.log" 2>&1 ||
      { echo "$program failed with $?"; failed=1; }
    grep -vE "^\[( RUN|       OK|---|===)|^$" "$out/$program.log" | tail -n 40
  done
  grep -ohE 'name="(relative_rms|perplexity|microseconds)[^"]*" value="[^"]*"' "$out"/*_test.xml
}

# Tests the kernels of recurrent states, and measures them.
states() {
  timeout 120 "$build/bin/kernels_cuda_test" --gtest_filter='StateTest.*' >"$out/state_test.log" 2>&1 ||
    { echo "kernels of states failed with $?"; failed=1; }
  grep -E '^\[  (PASSED|FAILED)|Failure$' "$out/state_test.log" | head -n 40
  timeout 100 "$build/bin/cuda_state_bench" "$build/lib/libquire_cuda.so" 2>&1 | tee "$out/state_bench.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || failed=1
}

generate() {
  local prompt name
  for prompt in "Once upon a time" "The number of the day is" "In the middle of the forest there was"; do
    for name in cpu "$device"; do
      "$build/bin/quire" generate --device "$name" -p "$prompt" -n 64 -t 0 --quiet >"$out/text-${name%:*}.txt" 2>"$out/generate-${name%:*}.log" ||
        { echo "generate on $name failed with $?"; failed=1; tail -n 3 "$out/generate-${name%:*}.log"; }
    done
    if cmp "$out/text-cpu.txt" "$out/text-${device%:*}.txt"; then echo "same text: $prompt"; else tail -n 5 "$out"/text-*.txt; fi
  done
}

# Tests the gathers and the shards of models on two cards, compares the text, and measures 70B and 8B shapes on one card
# and in two shards. Without a second card, tests of two shards on one card alone.
shards() {
  local prompt="Once upon a time" both=$device,${SECOND_DEVICE:-} program shape count devices
  timeout 200 "$build/bin/kernels_cuda_test" --gtest_filter='*Gather*' >"$out/gather_test.log" 2>&1 ||
    { echo "gathers failed with $?"; failed=1; }
  grep -E '^\[  (PASSED|FAILED|SKIPPED)|Failure$' "$out/gather_test.log" | head -n 20
  for program in "model_spread_shards_test *" "model_shards_test Shards.*" "core_models_test *OfShards*"; do
    QUIRE_TEST_DEVICE=$device timeout 300 "$build/bin/${program% *}" --gtest_filter="${program#* }" >"$out/shards-${program% *}.log" 2>&1 ||
      { echo "${program% *} failed with $?"; failed=1; }
    grep -E '^\[  (PASSED|FAILED)|Failure$' "$out/shards-${program% *}.log" | head -n 20
  done
  [ -n "${SECOND_DEVICE:-}" ] || return
  "$build/bin/quire" generate --device "$device" -p "$prompt" -n 64 -t 0 --quiet >"$out/text-one.txt" || failed=1
  "$build/bin/quire" generate --device "$both" --shards 2 -p "$prompt" -n 64 -t 0 --quiet >"$out/text-shards.txt" || failed=1
  if cmp "$out/text-one.txt" "$out/text-shards.txt"; then echo "same text: 2 shards"; else failed=1; fi
  for shape in llama-3.1-70b,bits=4.0 llama-3.1-8b,bits=4.0; do
    for count in 1 2; do
      devices=$device
      [ "$count" = 1 ] || devices=$both
      "$build/bin/quire" bench --model "synthetic:$shape" --device "$devices" --shards "$count" --batch 1,32 \
          --new-tokens 64 --json >"$out/shards-${shape%%,*}-$count.json" 2>"$out/shards-bench.log" ||
        { echo "bench of $shape in $count shards failed"; tail -n 3 "$out/shards-bench.log"; failed=1; }
    done
  done
}

# Compares the text from one device with that from several, and measures the cost of the transfer between
# them.
split() {
  local prompt="Once upon a time" choice devices
  local both=$device,${SECOND_DEVICE:-$device}
  "$build/bin/quire" generate --device "$device" -p "$prompt" -n 64 -t 0 --quiet >"$out/text-one.txt" || failed=1
  for choice in "$both 3,5" "cpu,$device 2,6" "$both,cpu 3,3,2"; do
    devices=${choice% *}
    "$build/bin/quire" generate --device "$devices" --split "${choice#* }" -p "$prompt" -n 64 -t 0 --quiet >"$out/text-split.txt" ||
      { failed=1; echo "generate on $choice failed"; continue; }
    if cmp "$out/text-one.txt" "$out/text-split.txt"; then echo "same text: $choice"; else echo "other text: $choice"; fi
  done
  for choice in "$device 16" "$both 8,8"; do
    "$build/bin/quire" bench --device "${choice% *}" --split "${choice#* }" --batch 1 --new-tokens 128 \
      --model synthetic:llama-3.2-1b,format=exl2,bits=4.0,head_bits=6 2>"$out/bench-split.log" | tee "$out/bench-split-${choice#* }.txt" ||
      { failed=1; tail -n 3 "$out/bench-split.log"; }
  done
}

# Loads from files in the page cache.
load() {
  local model=/dev/shm/quire-llama-3.1-8b
  [ -f "$model/output.safetensors" ] || python3 tests/gpu/make_exl2.py "$model" llama-3.1-8b
  python3 tests/gpu/load_speed.py "$build/lib/libquire.so" "$model" "$device" || failed=1
  [ -z "${SECOND_DEVICE:-}" ] || python3 tests/gpu/load_speed.py "$build/lib/libquire.so" "$model" "$device,$SECOND_DEVICE" 20,12 || failed=1
  rm -r "$model"
}

# MODELS are shapes, in EXL2 of 4 bits or with settings: "llama-3.1-8b llama-3.1-8b,format=gguf".
bench() {
  local model settings name
  "$build/bin/quire" diagnose
  for model in ${MODELS:-llama-3.2-1b llama-3.1-8b}; do
    settings=,format=exl2,bits=4.0,head_bits=6
    [[ $model != *,* ]] || settings=
    name=${model//[^a-z0-9.-]/_}
    timeout 150 "$build/bin/quire" bench --device "$device" --model "synthetic:$model$settings" \
      --batch "${BATCHES:-1,8,32}" ${BENCH_ARGUMENTS:-} 2>"$out/bench-$name.log" | tee "$out/bench-$name.txt" ||
      { failed=1; echo "bench of $model failed"; tail -n 3 "$out/bench-$name.log"; }
  done
}

# Tests blocks of GGUF files alone, and compares their products with those of EXL2 of the same shapes.
blocks() {
  local plugin=$build/lib/libquire_cuda.so format
  timeout 100 "$build/bin/kernels_cuda_test" --gtest_filter='BlockWeightsTest.*:ExpertsTest.*Blocks*' >"$out/blocks.log" 2>&1 ||
    { failed=1; grep -E "^\[  FAILED|Failure$" "$out/blocks.log" | head -n 40; }
  tail -n 3 "$out/blocks.log"
  for format in ${BLOCK_FORMATS:-exl2 q4_k q6_k}; do
    echo "== $format"
    timeout 60 "$build/bin/cuda_step_bench" "$plugin" "$out/blocks-$format.json" 8b "$format" "only=det linear" "only=det prefill 2048" \
      >"$out/blocks-$format.txt" 2>&1 || { failed=1; tail -n 3 "$out/blocks-$format.txt"; }
    grep -E "linear|prefill|root mean|loaded" "$out/blocks-$format.txt"
  done
}

# Tests EXL3 alone, compares its products with those of EXL2 of the same shapes, and runs a model.
trellis() {
  local plugin=$build/lib/libquire_cuda.so format
  timeout 100 "$build/bin/kernels_cuda_test" --gtest_filter='TrellisWeightsTest.*:ExpertsTest.*Trellis*' >"$out/trellis.log" 2>&1 ||
    { failed=1; grep -E "^\[  FAILED|Failure$" "$out/trellis.log" | head -n 40; }
  tail -n 3 "$out/trellis.log"
  for format in ${TRELLIS_FORMATS:-exl2 mul1 mcg}; do
    echo "== $format"
    timeout 60 "$build/bin/cuda_step_bench" "$plugin" "$out/trellis-$format.json" 8b "$format" "only=det linear" \
      "only=det decode 1 x 256" "only=det prefill 2048" >"$out/trellis-$format.txt" 2>&1 || { failed=1; tail -n 3 "$out/trellis-$format.txt"; }
    grep -E "linear|decode|prefill|root mean|loaded" "$out/trellis-$format.txt"
  done
  timeout 150 "$build/bin/quire" bench --device "$device" --model "synthetic:llama-3.1-8b,format=exl3,bits=4,head_bits=6" \
    --batch "${BATCHES:-1,8,32}" 2>"$out/trellis-bench.log" | tee "$out/trellis-bench.txt" || { failed=1; tail -n 3 "$out/trellis-bench.log"; }
}

# Compares with the other build that was carried along: no result may be worse by more than 2 %.
compare() {
  local exl2=format=exl2,bits=4.0,head_bits=6
  # shellcheck disable=SC2086  # models without blanks
  python3 tests/bench/compare_builds.py "$carry/older" "$build" --device "$device" --rounds "${ROUNDS:-3}" ${COMPARED:-\
    synthetic:llama-3.2-1b,$exl2:1,8,32 synthetic:llama-3.2-1b,format=f16:1,8,64 synthetic:llama-3.1-8b,$exl2:1,8,32,64,128,256 \
    synthetic:llama-3.1-8b,format=gptq:1,32,256 synthetic:llama-3.1-8b,format=fp8:1,32,128,256 synthetic:qwen3-30b-a3b,$exl2:1,32} |
    tee "$out/compare.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || failed=1
}

# Makes a model of a real shape, once. Its tokenizer has a vocabulary of a real size if one was carried along;
# otherwise it has none.
words_model=/dev/shm/quire-words
trap 'rm -rf "$words_model"' EXIT
make_words_model() {
  [ -f "$words_model/output.safetensors" ] || python3 tests/gpu/make_exl2.py "$words_model" llama-3.1-8b
  [ ! -d "$carry/words" ] || cp "$carry/words/tokenizer.model" "$words_model/"
}

# Compares the server with the command; needs a vocabulary.
server() {
  make_words_model
  python3 tests/gpu/server_speed.py "$build/bin" "$words_model" "$device" "${ROUNDS:-3}" | tee "$out/server.txt" || failed=1
}

# Measures different jobs, and jobs with schemas, in one batch with equal ones; with a vocabulary of a real
# size if one was carried along.
company() {
  local model=$words_model schemas=
  make_words_model
  [ ! -d "$carry/words" ] || schemas=$(echo "$carry"/words/*.json)
  # shellcheck disable=SC2086  # names of files without blanks
  "$build/bin/company_bench" "$model" "$device" "${JOBS:-32}" "${SECONDS_EACH:-4}" $schemas | tee "$out/company.txt" || failed=1
}

# Measures two models on one card: their shares of the device, and streams during a long prompt.
share() {
  local small=synthetic:llama-3.2-1b,format=exl2,bits=4.0,head_bits=6 large=synthetic:llama-3.1-8b,format=exl2,bits=4.0,head_bits=6
  "$build/bin/share_bench" shares "$small" "$large" "${SECONDS_EACH:-1}" "$device" | tee "$out/share-1b-8b.txt" || failed=1
  "$build/bin/share_bench" shares "$large" "$large" "${SECONDS_EACH:-1}" "$device" | tee "$out/share-8b-8b.txt" || failed=1
  "$build/bin/share_bench" rhythm "$small" "$large" "${SECONDS_EACH:-1}" "$device" | tee "$out/rhythm.txt" || failed=1
}

# Measures a model that is offloaded to pinned memory and comes back: against the rate of the link, and its
# first token. WAKE_FORMATS="exl2,bits=4.0,head_bits=6 f16" also runs the 16 GB of 16-bit weights.
wake() {
  local format
  for format in ${WAKE_FORMATS:-exl2,bits=4.0,head_bits=6}; do
    timeout 60 "$build/bin/wake_bench" "synthetic:llama-3.1-8b,format=$format" "$device" "${ROUNDS:-5}" 2>"$out/wake.log" |
      tee "$out/wake-${format%%,*}.txt" || { failed=1; tail -n 3 "$out/wake.log"; }
  done
}

# Measures a mixture with experts in host memory: bench_host_experts NAME MODEL ARGUMENT...
bench_host_experts() {
  local name=$1 model=$2
  shift 2
  echo "== $name"
  timeout 150 "$build/bin/quire" bench --device "$device" --batch "${BATCHES:-1,8}" --new-tokens "${NEW_TOKENS:-64}" --model "$model" "$@" --json \
    ${BENCH_ARGUMENTS:-} 2>"$out/bench-host-experts.log" >"$out/bench-host-experts-$name.json" ||
    { failed=1; tail -n 3 "$out/bench-host-experts.log"; return; }
  python3 - "$out/bench-host-experts-$name.json" <<'PY'
import json, sys
for r in json.load(open(sys.argv[1]))["results"]:
    hits, misses = r["card_expert_hits"], r["card_expert_misses"]
    share = f", {100 * hits / (hits + misses):.1f}% of choices on the card" if hits + misses else ""
    print(f"{r['batch']} jobs: prefill {r['prefill_tokens_per_second']:.0f}, decode {r['decode_tokens_per_second']:.1f} tok/s{share}")
PY
}

# Tests experts in host memory, and measures a mixture with its experts on the card, half and all of them in host
# memory; then with all there and slots for a quarter and a half of them, chosen equally often and not.
host_experts() {
  local choice bytes model=${MODELS:-synthetic:qwen3-30b-a3b,format=exl2,bits=4.0,head_bits=6}
  QUIRE_TEST_DEVICE=$device timeout 200 "$build/bin/host_experts_test" >"$out/host_experts_test.log" 2>&1 || failed=1
  tail -n 4 "$out/host_experts_test.log"
  for choice in ${CHOICES-none 24 all}; do bench_host_experts "$choice" "$model" --host-experts "$choice"; done
  for bytes in ${SLOT_BYTES-3480M 6950M}; do
    bench_host_experts "slots-$bytes" "$model" --host-experts all --card-experts "$bytes"
    bench_host_experts "slots-$bytes-skewed" "$model,skew=2" --host-experts all --card-experts "$bytes"
  done
}

# Measures drafts that are right with a known probability, and the drafter that is used by default.
drafts() {
  local model=${MODELS:-synthetic:llama-3.1-8b,format=exl2,bits=4.0,head_bits=6}
  timeout 120 "$build/bin/drafting_bench" "$model" "$device" 16 240 4 1,32,64,256 0.3,0.8,auto 0 2 2>&1 | tee "$out/drafts.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || failed=1
  timeout 60 "$build/bin/drafting_bench" "$model" "$device" 16 240 4 1,32 0.8 0.8 2 2>&1 | tee "$out/drafts-sampled.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || failed=1
}

# Lists the kernels of a decoding step of the embedded model (8 layers), replayed as a graph, by name.
launches() {
  timeout 100 ncu --graph-profiling node --metrics launch__grid_size --csv "$build/bin/quire" generate --device "$device" \
    -p "Once upon a time" -n 6 -t 0 --quiet >"$out/launches.csv" 2>"$out/launches.log" || tail -n 3 "$out/launches.log"
  python3 - "$out/launches.csv" <<'PY'
import collections, csv, sys
lines = [line for line in open(sys.argv[1]) if line.startswith('"')]
names = [row["Kernel Name"].split("(")[0] for row in csv.DictReader(lines)]
draws = [i for i, name in enumerate(names) if "scan_kernel" in name]
if len(draws) > 2:
    step = names[draws[-2] + 1 : draws[-1] + 1]
    print(f"{len(step)} kernels in the last step:", dict(collections.Counter(step)))
PY
}

for stage in ${*:-build test states generate split load bench}; do
  started=$SECONDS
  case $stage in
    build) build_all || exit 1 ;;
    test) test_models ;;
    states) states ;;
    generate) generate ;;
    split) split ;;
    shards) shards ;;
    load) load ;;
    bench) bench ;;
    blocks) blocks ;;
    trellis) trellis ;;
    compare) compare ;;
    company) company ;;
    share) share ;;
    wake) wake ;;
    server) server ;;
    launches) launches ;;
    host-experts) host_experts ;;
    drafts) drafts ;;
    *) echo "engine.sh [build|test|states|generate|split|shards|load|bench|blocks|trellis|compare|company|share|wake|server|launches|host-experts|drafts ...]" >&2; exit 2 ;;
  esac
  echo "-- $stage took $((SECONDS - started)) s"
done
exit $failed
