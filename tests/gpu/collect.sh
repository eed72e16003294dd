#!/bin/sh
# Collects files that a bare GPU machine lacks, next to the sources.
#   tests/gpu/collect.sh          .carry: GoogleTest, for run.sh
#   tests/gpu/collect.sh engine   .carry-engine: every library of the build and the models of the tests, for engine.sh
#   tests/gpu/collect.sh prefix   .carry-engine: those libraries alone
#   tests/gpu/collect.sh built    .carry-engine: the programs of build/release and build/gpu instead of the libraries,
#                                 packed, so that no card time is spent on building; if build/gpu80 exists, also
#                                 its library for compute capability 8.0.
#                                 WORDS=…/tekken_240911.json (from mistral-common) adds a vocabulary and schemas.
#                                 OLDER=DIR adds another build's bin/quire and lib (libquire.so*, libquire_cuda.so),
#                                 for engine.sh compare
#   tests/gpu/collect.sh families like built, with the stored weights of tiny models instead of the trained models
#   tests/gpu/collect.sh kernels NAME=BUILD...  .carry-engine: the CUDA backend of several builds of tests/gpu, each with its
#                                 own benchmark, and the tests of build/gpu, for kernels.sh
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)

collect_googletest() {
  rm -rf "$root/.carry"
  mkdir -p "$root/.carry/include" "$root/.carry/lib"
  cp -r /usr/include/gtest "$root/.carry/include/"
  for name in libgtest.a libgtest_main.a; do
    cp "$(find /usr/lib -name "$name" | head -n 1)" "$root/.carry/lib/"
  done
}

# Copies a prefix like /usr with the files that CMake needs.
collect_engine() {
  carry=$root/.carry-engine
  rm -rf "$carry"
  mkdir -p "$carry"
  dpkg -L libbenchmark-dev libbenchmark1debian libgtest-dev libgmock-dev libmsgsl-dev nlohmann-json3-dev libfmt-dev libfmt9 libcli11-dev libpcre2-dev \
      libutf8proc-dev |
    grep -E '^/usr/(include|lib|share/cmake)/' |
    grep -vE 'libpcre2-(16|32|posix)|libpcre2-8\.so|libutf8proc\.so|/(bin|pkgconfig)/' |
    while read -r path; do
      if [ -d "$path" ]; then continue; fi
      mkdir -p "$carry$(dirname "${path#/usr}")"
      cp "$path" "$carry${path#/usr}"
    done
  # Packed, because files carried with the sources may have at most 64 MiB in total.
  tar -C "$carry" -cJf "$carry/prefix.tar.xz" include lib share
  rm -r "$carry/include" "$carry/lib" "$carry/share"
}

collect_built() {
  carry=$root/.carry-engine
  rm -rf "$carry"
  mkdir -p "$carry/built/bin" "$carry/built/lib"
  if [ -f "$root/build/gpu80/lib/libquire_cuda.so" ]; then
    mkdir "$carry/built/lib80"
    cp "$root/build/gpu80/lib/libquire_cuda.so" "$carry/built/lib80/"
  fi
  for name in quire core_models_test model_families_test gguf_models_test device_draws_test device_jobs_test device_loss_test model_jobs_test perplexity_test standby_test filled_card_test \
      company_bench share_bench wake_bench; do
    strip -o "$carry/built/bin/$name" "$root/build/release/bin/$name"
  done
  collect_server
  for name in kernels_cuda_test cuda_step_bench cuda_state_bench; do
    strip -o "$carry/built/bin/$name" "$root/build/gpu/bin/$name"
  done
  cp -P "$root"/build/release/lib/libquire.so* "$root/build/gpu/lib/libquire_cuda.so" "$carry/built/lib/"
  echo "$root" >"$carry/built/root"  # the programs look for their data here
  tar -C "$carry" -cJf "$carry/built.tar.xz" built
  rm -r "$carry/built"
}

# Skipped if Go is not installed.
collect_server() {
  [ -x "$root/build/release/bin/quire-server" ] || return 0
  cp "$root/build/release/bin/quire-server" "$carry/built/bin/"
  (cd "$root/tests/bindings/go" && CGO_ENABLED=0 GOFLAGS=-mod=mod GOPROXY=off go build -trimpath -ldflags "-s -w" \
    -o "$carry/built/bin/load" ./server/cmd/load)
}

collect_families() {
  tar -C "$root/../shared" -cJf "$carry/families.tar.xz" golden/architectures
  du -sh "$carry"
}

# Adds another build to compare the speed with.
collect_older() {
  [ -n "${OLDER:-}" ] || return 0
  mkdir -p "$carry/older/bin" "$carry/older/lib"
  strip -o "$carry/older/bin/quire" "$OLDER/bin/quire"
  cp -P "$OLDER"/lib/libquire.so* "$OLDER/lib/libquire_cuda.so" "$carry/older/lib/"
  tar -C "$carry" -cJf "$carry/older.tar.xz" older
  rm -r "$carry/older"
}

# Adds schemas and a vocabulary of a real size from mistral-common (WORDS), so that masks take as long as in practice.
collect_words() {
  [ -n "${WORDS:-}" ] || return 0
  mkdir -p "$carry/words"
  python3 - "$WORDS" "$root/../shared/golden/json_schema/real" "$carry/words" <<'PY'
import json, pathlib, sys
words, schemas, out = map(pathlib.Path, sys.argv[1:])
with open(out / "tokenizer.model", "w", encoding="ascii") as file:
    for rank, entry in enumerate(json.loads(words.read_text())["vocab"][:128000]):
        file.write(f"{entry['token_bytes']} {rank}\n")
for path in sorted(schemas.glob("*.json")):
    schema = json.dumps(json.loads(path.read_text()).get("schema"))
    if 300 < len(schema) < 6000 and "$ref" not in schema:
        (out / path.name).write_text(schema)
PY
  tar -C "$carry" -cJf "$carry/words.tar.xz" words
  rm -r "$carry/words"
}

collect_kernels() {
  carry=$root/.carry-engine
  rm -rf "$carry"
  mkdir -p "$carry/kernels"
  for pair in "$@"; do
    strip -o "$carry/kernels/${pair%%=*}.so" "${pair#*=}/lib/libquire_cuda.so"
    strip -o "$carry/kernels/${pair%%=*}-bench" "${pair#*=}/bin/cuda_step_bench"
  done
  strip -o "$carry/kernels/kernels_cuda_test" "$root/build/gpu/bin/kernels_cuda_test"
  echo "$root" >"$carry/kernels/root"
  tar -C "$carry" -cJf "$carry/kernels.tar.xz" kernels
  rm -r "$carry/kernels"
  du -sh "$carry"
}

collect_models() {
  tar -C "$root/../shared" -cJf "$carry/models.tar.xz" --exclude=more.tar.xz models/story-15m \
    models/story-3m-exl2-5.0bpw models/story-3m-gptq-g64-act golden/gguf
  du -sh "$carry"
}

case ${1:-run} in
  run) collect_googletest ;;
  engine) collect_engine && collect_models ;;
  prefix) collect_engine ;;
  built) collect_built && collect_words && collect_older && collect_models ;;
  kernels) shift && collect_kernels "$@" ;;
  families) collect_built && collect_words && collect_families ;;
  *) echo "collect.sh [engine|prefix|built|kernels NAME=BUILD...|families]" >&2; exit 2 ;;
esac
