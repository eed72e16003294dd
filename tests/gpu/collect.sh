#!/bin/sh
# Puts what a bare GPU machine lacks beside the sources.
#   tests/gpu/collect.sh          .carry: GoogleTest, for run.sh
#   tests/gpu/collect.sh engine   .carry-engine: every library of the build and the models of the tests, for engine.sh
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

# A prefix like /usr, with what CMake looks for in it.
collect_engine() {
  carry=$root/.carry-engine
  rm -rf "$carry"
  mkdir -p "$carry"
  dpkg -L libgtest-dev libgmock-dev libmsgsl-dev nlohmann-json3-dev libfmt-dev libfmt9 libcli11-dev libpcre2-dev \
      libutf8proc-dev |
    grep -E '^/usr/(include|lib|share/cmake)/' |
    grep -vE 'libpcre2-(16|32|posix)|libpcre2-8\.so|libutf8proc\.so|/(bin|pkgconfig)/' |
    while read -r path; do
      if [ -d "$path" ]; then continue; fi
      mkdir -p "$carry$(dirname "${path#/usr}")"
      cp "$path" "$carry${path#/usr}"
    done
  tar -C "$root/../shared" -cJf "$carry/models.tar.xz" models/eval_ids.json models/story-15m \
    models/story-3m-exl2-5.0bpw models/story-3m-gptq-g64-act
  du -sh "$carry"
}

case ${1:-run} in
  run) collect_googletest ;;
  engine) collect_engine ;;
  *) echo "collect.sh [engine]" >&2; exit 2 ;;
esac
