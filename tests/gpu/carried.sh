# Sourced by run.sh and engine.sh in the root of the repository. Unpacks the files that collect.sh added to the sources,
# and finds the CUDA libraries of the machine. Sets `carry`, and `build` if programs were carried along.
carry=$root/.carry-engine

unpack() {
  [ -d "$carry/$1" ] || [ ! -f "$carry/$1.tar.xz" ] || tar -C "$carry" -xJf "$carry/$1.tar.xz"
}

# Links the data to where programs that were built elsewhere look for it.
place_data() {
  [ -e "$1" ] || { mkdir -p "$(dirname "$1")" && ln -sfn "$root" "$1"; }
  [ -e "$root/../shared" ] || ln -sfn "$carry" "$root/../shared"
  [ -e "$root/build/gpu" ] || [ ! -d "$carry/built" ] || { mkdir -p "$root/build" && ln -sfn "$carry/built" "$root/build/gpu"; }
}

unpack built
if [ -d "$carry/built" ]; then
  build=$carry/built
  place_data "$(cat "$build/root")"
fi

# cuBLASLt may be installed only with PyTorch.
torch_libraries=$(python3 - 2>/dev/null <<'PY'
import glob, os, sysconfig
print(":".join(sorted({os.path.dirname(p) for p in glob.glob(sysconfig.get_paths()["purelib"] + "/nvidia/**/libcublasLt.so*", recursive=True)})))
PY
)
cuda_libraries=$torch_libraries:/usr/local/cuda/lib64
