#!/bin/bash
# Compares several builds of the CUDA backend (collect.sh kernels) on a machine with a card, during work on a kernel. Every
# program has a hard time limit, because a kernel that hangs would use up the whole lease of the machine.
#   tests/gpu/kernels.sh turns "NAMES" TEXT...      cuda_step_bench of each build in turn, twice, 8B; TEXT: its "only="
#                                                   SECONDS_EACH=60: time limit of each run
#   tests/gpu/kernels.sh test NAME FILTER [SECONDS] the kernel tests with that build
#   tests/gpu/kernels.sh sanitize NAME FILTER       the same under compute-sanitizer, each test in its own process (run.sh)
#                                                   TOOLS="racecheck memcheck" selects the tools
#   tests/gpu/kernels.sh sample NAME KERNEL SKIP TEXT...
#                                                   stall samples per instruction of one launch of a kernel whose name
#                                                   contains KERNEL, after SKIP others (needs ncu)
#   tests/gpu/kernels.sh list NAME KERNELS SKIP TEXT...
#                                                   microseconds of kernels whose names match KERNELS, in order, averaged per
#                                                   name and grid: 40 launches after SKIP others (needs ncu)
# Link a library from the objects of one build only, since those of two builds may disagree about a structure. Do not
# benchmark with weights of zeros, which draw less power.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
out=${OUT:-$root/build/gpu-results}
packed=.carry-engine/kernels
limit() { timeout -s KILL "$@"; }

unpack_kernels() {
  mkdir -p "$out"
  source tests/gpu/carried.sh
  [ -d "$packed" ] || unpack kernels
  place_data "$(cat "$packed/root")"
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:$cuda_libraries"
}

only() { for text in "$@"; do printf 'only=%s\n' "$text"; done; }

turns() {
  local names=$1 texts
  shift
  mapfile -t texts < <(only "$@")
  for round in 1 2; do
    for name in $names; do
      echo "== $name, round $round"
      limit "${SECONDS_EACH:-60}" "$packed/$name-bench" "$packed/$name.so" "$out/$name-$round.json" 8b "${texts[@]}" || echo "ended with $?"
    done
  done 2>&1 | tee "$out/turns.txt"
}

# Copies the library to where the tests of its build look for it.
place_library() {
  local build
  build=$(cat "$packed/root")/build/gpu
  mkdir -p "$build/lib" "$build/bin"
  cp "$packed/$1.so" "$build/lib/libquire_cuda.so"
  cp "$packed/kernels_cuda_test" "$build/bin/"
}

test_kernels() {
  place_library "$1"
  limit "${3:-120}" "$packed/kernels_cuda_test" --gtest_filter="$2" >"$out/tests-$1.txt" 2>&1
  echo "tests of $1 ended with $?"
  grep -E "^\[  (PASSED|FAILED)" "$out/tests-$1.txt"
}

sanitize() {
  place_library "$1"
  TOOLS=${TOOLS:-racecheck memcheck} SANITIZE_FILTER=$2 tests/gpu/run.sh sanitize
}

list() {
  local name=$1 kernels=$2 skip=$3 texts
  shift 3
  mapfile -t texts < <(only "$@")
  limit 90 ncu --clock-control none --cache-control none --metrics gpu__time_duration.sum --csv --kernel-name "regex:$kernels" \
    --launch-skip "$skip" --launch-count 40 "$packed/$name-bench" "$packed/$name.so" "$out/$name.json" 8b "${texts[@]}" 2>"$out/list-$name.log" |
    grep '^"' | python3 -c '
import collections, csv, sys
durations = collections.OrderedDict()
for row in csv.DictReader(sys.stdin):
    nanoseconds = float(row["Metric Value"].replace(",", ""))
    durations.setdefault((row["Kernel Name"][:48], row["Grid Size"]), []).append(nanoseconds)
for (name, grid), each in durations.items():
    print(f"{name:48s} {grid:16s} {len(each):3d} {sum(each) / len(each) / 1000:8.1f}")
'
}

sample() {
  local name=$1 kernel=$2 skip=$3 texts
  shift 3
  mapfile -t texts < <(only "$@")
  limit 90 ncu --clock-control none --cache-control none --kernel-name "regex:$kernel" --launch-skip "$skip" --launch-count 1 \
    --set full --import-source yes -f -o "$out/$name" "$packed/$name-bench" "$packed/$name.so" "$out/$name.json" 8b \
    "${texts[@]}" >"$out/sample-$name.log" 2>&1 || { echo "ncu ended with $?"; return 1; }
  limit 30 ncu --import "$out/$name.ncu-rep" --page source --csv >"$out/sample-$name.csv"
  limit 30 ncu --import "$out/$name.ncu-rep" --page details --print-details all | grep -E "^ *(Elapsed Cycles|Duration|Issue Slots Busy)|Tensor Cycles Active" | tr -s " " | sort -u
  python3 - "$out/sample-$name.csv" <<'PY'
import csv, sys
rows = list(csv.reader(open(sys.argv[1], encoding="utf-8")))
column = {name: i for i, name in enumerate(rows[1])}
number = lambda row, name: int(row[column[name]] or 0)
stalls = [name for name in column if name.startswith("stall_") and "Not" not in name and name != "stall_barrier"]
own = [number(row, "# Samples") - number(row, "stall_barrier") for row in rows[2:]]
total, so_far = max(1, sum(own)), 0
print(f"{total} samples; instructions with a half percent and more, without waits at the end of a block")
for place, (row, samples) in enumerate(zip(rows[2:], own)):
    so_far += samples
    if samples < total / 200:
        continue
    why = sorted(((number(row, name), name[6:]) for name in stalls), reverse=True)[:2]
    print(f"{place:6d} {100 * samples / total:5.1f} %  up to here {100 * so_far / total:5.1f} %  {row[column['Source']][:64]:64s} {why}")
PY
}

command=${1:-}
shift || true
case $command in
  turns) unpack_kernels && turns "$@" ;;
  test) unpack_kernels && test_kernels "$@" ;;
  sanitize) unpack_kernels && sanitize "$@" ;;
  sample) unpack_kernels && sample "$@" ;;
  list) unpack_kernels && list "$@" ;;
  *) sed -n '2,16p' "$0" >&2; exit 2 ;;
esac
