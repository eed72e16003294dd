#!/usr/bin/env bash
# Prints the path of an nvcc: the installed one, otherwise NVIDIA's compiler from Python packages, which are
# downloaded on the first call to the user's cache. Every checkout then compiles with the same path, so that
# ccache hits.
#   cmake --preset cuda -DCMAKE_CUDA_COMPILER="$(packaging/dev/nvcc.sh)"
set -euo pipefail

version=13.0
packages=(nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cublas)
home=${XDG_CACHE_HOME:-$HOME/.cache}/quire/nvcc-$version

installed_nvcc() {
  command -v nvcc || { [[ -x /usr/local/cuda/bin/nvcc ]] && echo /usr/local/cuda/bin/nvcc; }
}

# Uses Debian's Python, which is the same in every shell of the user, only to unpack the packages.
bring_packages() {
  local root
  rm -rf "$home.new"
  /usr/bin/python3 -m venv "$home.new"
  "$home.new/bin/pip" --disable-pip-version-check install --quiet --no-compile "${packages[@]/%/==$version.*}"
  root=$(echo "$home.new"/lib/python3*/site-packages/nvidia/cu13)
  # CMake expects the folders that NVIDIA's own installer creates.
  ln -s lib "$root/lib64"
  ln -s libcudart.so.13 "$root/lib/libcudart.so"
  # These are only loaded at run time, and are two thirds of the download.
  rm -f "$root"/lib/libcublas*.so* "$root"/lib/libnvblas.so*
  ln -s "${root#"$home.new/"}" "$home.new/cuda"
  rm -rf "$home"
  mv "$home.new" "$home"
}

if installed_nvcc; then
  exit 0
fi
if [[ ! -x $home/cuda/bin/nvcc ]]; then
  mkdir -p "$home"
  (
    flock 9
    [[ -x $home/cuda/bin/nvcc ]] || bring_packages >&2
  ) 9>"$home.lock"
fi
printf '%s\n' "$home/cuda/bin/nvcc"
