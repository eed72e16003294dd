# Runs the tests of the changed folders, unoptimized, for everyday development.

# Prints the files that differ from the last commit, or those of the last commit if none differ.
changed_files() {
  local files
  files=$(git diff --name-only HEAD; git ls-files --others --exclude-standard)
  [[ $files ]] || files=$(git diff --name-only HEAD~1)
  printf '%s\n' "$files"
}

# tests_below FOLDER...: prints the names of tests with sources in these folders. A test program has the name
# of its test.
tests_below() {
  ctest --test-dir build/debug --show-only=json-v1 | python3 -c '
import json, os, sys
root = os.path.join(os.getcwd(), "build", "debug")
folders = [os.path.join(root, folder) for folder in sys.argv[1:]]
for test in json.load(sys.stdin)["tests"]:
    places = [p["value"] for p in test.get("properties", []) if p["name"] == "WORKING_DIRECTORY"]
    if any((place + "/").startswith(folder + "/") for place in places for folder in folders):
        print(test["name"])
' "$@"
}

# folders_of_tests: reads changed files and prints the folders of their tests; tests mirror the source.
folders_of_tests() {
  sed -nE 's#^(core/[^/]+|capi/src|kernels/(cpu|interface|cuda/plan))/.*#tests/\1#p; t; s#^(tests/.+)/[^/]+$#\1#p' |
    sed -E 's#^tests/capi/src#tests/capi#; s#^tests/(support|golden)(/.*)?$#tests/core#' | sort -u
}

# run_quick [PATTERN]: builds and runs the tests that match; without a pattern, those of the changed folders.
run_quick() {
  local start=$SECONDS names=() folders=()
  configure debug
  if (($# > 0)); then
    mapfile -t names < <(tests_below tests | grep -E "$1" || true)
  else
    mapfile -t folders < <(changed_files | folders_of_tests)
    ((${#folders[@]} == 0)) || mapfile -t names < <(tests_below "${folders[@]}" | grep -v '^guard_' || true)
  fi
  ((${#names[@]} > 0)) || fail "quick: no tests belong to the changed files; name one: ./dev quick PATTERN"
  say "tests: ${names[*]}"
  # Some tests are scripts and have nothing to build.
  local targets
  mapfile -t targets < <(grep -xFf <(printf '%s\n' "${names[@]}") \
    <(ninja -C build/debug -t targets all | sed -n 's/^\([^:/]*\): phony$/\1/p') || true)
  ((${#targets[@]} == 0)) || build debug "${targets[@]}"
  run_tests debug --tests-regex "^($(IFS='|'; printf '%s' "${names[*]}"))\$"
  say "quick took $((SECONDS - start)) s"
  ((${#failed_presets[@]} == 0)) || fail "tests failed"
}
