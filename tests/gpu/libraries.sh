# Sourced: where the CUDA libraries of a machine lie. cuBLASLt may come with PyTorch alone.
torch_libraries=$(python3 - 2>/dev/null <<'PY'
import glob, os, sysconfig
print(":".join(sorted({os.path.dirname(p) for p in glob.glob(sysconfig.get_paths()["purelib"] + "/nvidia/**/libcublasLt.so*", recursive=True)})))
PY
)
cuda_libraries=$torch_libraries:/usr/local/cuda/lib64
