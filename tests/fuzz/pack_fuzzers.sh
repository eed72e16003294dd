#!/usr/bin/env bash
# Packs the fuzzers of build/fuzz (with sanitizers) and build/fuzz-plain, their corpora and the shared libraries that they
# need, for fuzz_many.sh on another machine: pack_fuzzers.sh FILE.tar.xz
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
file=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/lib"
# Repeats each line of the plan as often as its share, in a mixed order that is always the same.
awk '!/^#/ && NF { for (i = 0; i < $4; ++i) print $1, $2, $3 }' "$root/tests/fuzz/plan.txt" |
  shuf --random-source=<(yes) >"$work/plan"
for variant in asan plain; do
  build=$root/build/fuzz
  [[ $variant == asan ]] || build=$root/build/fuzz-plain
  mkdir "$work/$variant"
  for target in $(awk -v variant=$variant '$2 == variant { print $1 }' "$work/plan" | sort -u); do
    strip --strip-all -o "$work/$variant/fuzz_$target" "$build/bin/fuzz_$target"
    ldd "$build/bin/fuzz_$target" | awk '$1 ~ /^lib(stdc\+\+|gcc_s)/ { print $3 }' | xargs -r cp -uLt "$work/lib"
    mkdir -p "$work/corpus"
    cp -rT "$root/tests/fuzz/corpus/$target" "$work/corpus/$target"
    # Inputs that earlier runs of ./dev fuzz have found.
    found=$root/build/fuzz/corpus/$target
    [[ ! -d $found ]] || cp -rT "$found" "$work/corpus/$target"
  done
done
cp "$root/tests/fuzz/fuzz_many.sh" "$work"
mkdir -p "$(dirname "$file")"
# Programs of one target lie beside each other, because they are alike.
(cd "$work" && find . -type f | sort -t / -k 3 | XZ_OPT='-9e --lzma2=preset=9e,dict=192MiB' tar -cJf "$file" -T -)
ls -l "$file"
