# Configures, builds and tests one preset of CMakePresets.json.

# Checkouts share the compiler cache: paths below the checkout are hashed relative to it.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros

num_jobs() { nproc; }

# configure PRESET [CMAKE_ARGUMENT...]
configure() { step "configure $1" cmake --preset "$@"; }

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  local targets=()
  (($# == 0)) || targets=(--target "$@")
  step "build $preset" cmake --build "build/$preset" --parallel "$(num_jobs)" "${targets[@]}"
}

# run_tests PRESET [CTEST_ARGUMENT...]: runs every test of that build, and shows the full output of failed tests. Records a
# failure and continues, so that the other builds are tested too.
failed_presets=()
run_tests() {
  local preset=$1 log=build/log/test-$1.log start=$SECONDS
  shift
  mkdir -p build/log "build/results/$preset"
  say "test $preset"
  if ! GTEST_OUTPUT="xml:$PWD/build/results/$preset/" GTEST_COLOR=no ctest --test-dir "build/$preset" \
      --parallel "$(num_jobs)" --output-on-failure --no-tests=error \
      --output-junit "$PWD/build/results/ctest-$preset.xml" "$@" </dev/null >"$log" 2>&1; then
    failed_presets+=("$preset")
    grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed)' "$log" | tail -n 400
  else
    grep -E '^[0-9]+% tests passed' "$log"
  fi
  say "test $preset took $((SECONDS - start)) s"
}

# Prints one screen for all builds: failed cases, reasons of skipped ones, and counts of cases rather than of programs.
# Returns the script's exit status.
summarise_tests() {
  python3 packaging/dev/summary.py build/results
  ((${#failed_presets[@]} == 0)) || fail "tests failed in: ${failed_presets[*]}"
}

# Reports before the tests run what they lack.
note_absent_inputs() {
  [[ -d ../shared/golden ]] || say "../shared does not exist: golden data is tested in selections (docs/testing.md)"
}

has_nvcc() { command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; }

# The CUDA backend can be built with a compiler and no GPU; its tests need both.
build_cuda() {
  local compiler
  if ! has_nvcc; then
    require_packages cuda
    step "install NVIDIA's compiler" packaging/dev/nvcc.sh
  fi
  compiler=$(packaging/dev/nvcc.sh)
  configure cuda-check -DCMAKE_CUDA_COMPILER="$compiler"
  build cuda-check quire_cuda kernels_cuda_test
  step "check the registers of kernels" python3 -B packaging/dev/kernel_budgets.py --changed --nvcc "$compiler"
}

# Uses the flags of a clang build without precompiled headers, because clang-tidy cannot read those of GCC.
run_clang_tidy() {
  printf '%s\0' "$@" | xargs -0 -n 1 -P "$(num_jobs)" clang-tidy-14 --quiet -p build/tidy
}

# Checks the sources that differ from the published branch (or from the previous commit if there is none), at
# most 20; `./dev tidy` checks all.
check_changed_files_with_clang_tidy() {
  local base files
  base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD~1 2>/dev/null || true)
  [[ $base && $base != $(git rev-parse HEAD) ]] || base=$(git rev-parse HEAD~1 2>/dev/null || true)
  [[ $base ]] || return 0
  mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- 'core/*.cpp' 'capi/*.cpp' 'kernels/cpu/*.cpp' \
    'kernels/cuda/plan/*.cpp' | head -n 20)
  ((${#files[@]} > 0)) || return 0
  configure tidy
  step "clang-tidy on ${#files[@]} changed files" run_clang_tidy "${files[@]}"
}

# fuzz_one TARGET SECONDS: starts from the committed corpus and keeps new inputs in the build folder.
fuzz_one() {
  local name=${1#fuzz_}
  mkdir -p "build/fuzz/corpus/$name"
  "build/fuzz/bin/$1" -max_total_time="$2" -rss_limit_mb=2048 -timeout=20 -artifact_prefix=build/fuzz/ \
    "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name"
}
