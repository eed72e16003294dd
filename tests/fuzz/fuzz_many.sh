#!/usr/bin/env bash
# Runs many fuzzers on many cores for a given time, on any machine:
#   OUT=RESULTS fuzz_many.sh FOLDER CORES SECONDS
# FOLDER is what pack_fuzzers.sh has packed: plan, VARIANT/fuzz_TARGET, corpus/TARGET and lib. Each core takes the lines
# of the plan (TARGET VARIANT MAX_BYTES) in turn, with another seed each time. The processes of a target share the inputs
# that they find. Writes the executions to $OUT/fuzz.txt, and the failing inputs with the ends of their logs to
# $OUT/crashes.tar.gz. Exits with 1 if there is a failing input.
set -euo pipefail

folder=$(realpath "$1") cores=$2 deadline=$((SECONDS + $3 - 14))
out=$(realpath "${OUT:-.}")
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work"/{log,failed}
export LD_LIBRARY_PATH=$folder/lib
mapfile -t plan <"$folder/plan"
slice=$((($3 - 14) / ((${#plan[@]} + cores - 1) / cores)))
((slice >= 4)) || slice=4
options=(-rss_limit_mb=2048 -timeout=20 -reload=10 -entropic=0 -print_final_stats=1)

# Memory that is freed stays with the process, because system calls can be slow. The search for leaks needs ptrace,
# which a container may forbid.
export MALLOC_TRIM_THRESHOLD_=268435456 MALLOC_MMAP_THRESHOLD_=33554432
export ASAN_OPTIONS=malloc_context_size=5:quarantine_size_mb=16:detect_leaks=1
can_run_sanitized() { timeout 20 "$folder/asan/fuzz_config" -runs=1 >"$work/probe" 2>&1 </dev/null; }
can_run_sanitized || ASAN_OPTIONS=${ASAN_OPTIONS/leaks=1/leaks=0}
can_run_sanitized || { tail -n 20 "$work/probe"; plan=("${plan[@]/ asan / plain }"); }

# run_slice TARGET VARIANT MAX_BYTES SEED SECONDS
run_slice() {
  local left=$((deadline + 4 - SECONDS))
  mkdir -p "$work/corpus/$1"
  [[ -x $folder/$2/fuzz_$1 ]] || return 0
  timeout --signal=KILL $(($5 + 24 < left ? $5 + 24 : left)) "$folder/$2/fuzz_$1" "${options[@]}" \
    -seed="$4" -max_total_time="$5" -max_len="$3" -artifact_prefix="$work/failed/$1.$2-" \
    "$work/corpus/$1" "$folder/corpus/$1" >"$work/log/$1.$2.$4" 2>&1 </dev/null || true
}

# run_core CORE: runs one slice after another until the deadline.
run_core() {
  local turn left place line
  for ((turn = 0; (left = deadline - SECONDS) >= 2; ++turn)); do
    place=$((turn * cores + $1))
    read -r -a line <<<"${plan[place % ${#plan[@]}]}"
    run_slice "${line[@]}" $((place + 1)) $((left < slice + 4 ? left : slice))
  done
}

# Prints a line for each target and variant, and the total. A log has the executions in its final statistics; that of a
# killed process, in its last line of progress.
report() {
  (cd "$work" && find failed -type f ! -name '*-slow-unit-*') >"$work/failures"
  awk 'function close_log() { if (name != "") sum[name] += total == "" ? last : total; last = 0; total = "" }
    FILENAME == failures { sub(/^failed\//, ""); sub(/-.*/, ""); crashes[$0]++; next }
    FNR == 1 { close_log(); name = FILENAME; sub(/.*\//, "", name); sub(/\.[0-9]+$/, "", name); runs[name]++ }
    /^stat::number_of_executed_units:/ { total = $2 }
    /^#[0-9]+\t/ { last = substr($1, 2) }
    END { close_log(); for (name in runs) print name, runs[name], sprintf("%.0f", sum[name]), crashes[name] + 0 }' \
    failures="$work/failures" "$work/failures" "$work"/log/* | sort | tr . ' ' |
    awk 'BEGIN { printf "%-16s %-7s %9s %13s %8s\n", "target", "variant", "processes", "executions", "crashes" }
      { printf "%-16s %-7s %9d %13.0f %8d\n", $1, $2, $3, $4, $5; runs += $3; sum += $4; crashes += $5 }
      END { printf "%-16s %-7s %9d %13.0f %8d\n", "total", "", runs, sum, crashes }'
}

for ((core = 0; core < cores; ++core)); do run_core "$core" 2>/dev/null & done
wait
report | tee "$out/fuzz.txt"
for log in $(grep -lE '^SUMMARY: |^==[0-9]+== ?ERROR' "$work"/log/* || true); do
  tail -n 80 "$log" >"$work/failed/${log##*/}.log"
done
tar -C "$work/failed" -czf "$out/crashes.tar.gz" .
[[ -z $(find "$work/failed" -type f ! -name '*-slow-unit-*' -print -quit) ]]
