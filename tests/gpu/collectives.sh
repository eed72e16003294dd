#!/bin/bash
# Builds collectives_bench.cu in a temporary folder and runs it on the cards of this machine. Needs nvcc and two cards with
# peer access. Arguments go to the program: tests/gpu/collectives.sh [--cards N] [--same-card]
#   NVCC=/usr/local/cuda/bin/nvcc   the compiler; otherwise the one that packaging/dev/nvcc.sh finds
#   OUT=FOLDER                      also writes collectives.txt there
set -euo pipefail
cd "$(dirname "$0")"
nvcc=${NVCC:-$(../../packaging/dev/nvcc.sh)}
folder=$(mktemp -d)
out=${OUT:-$folder}
mkdir -p "$out"
trap 'rm -rf "$folder"' EXIT
"$nvcc" -O3 -arch=sm_90 -std=c++17 -o "$folder/collectives_bench" collectives_bench.cu
timeout -s KILL 120 "$folder/collectives_bench" "$@" 2>&1 | tee "$out/collectives.txt"
