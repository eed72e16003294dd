#!/usr/bin/env python3
"""Tests the check of registers and spills that ./dev cuda ends with. usage: dev_kernel_budgets_test.py ROOT"""
import contextlib
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
SCRIPT = ROOT / "packaging/dev/kernel_budgets.py"
sys.path.insert(0, str(SCRIPT.parent))
import kernel_budgets  # noqa: E402

PRODUCT = "_ZN5quire7kernels16gemm_wide_kernelILNS0_8TileKindE0ELi8EEEvNS0_13GemmArgumentsE"
SCAN = "_ZN5quire7kernels41_GLOBAL__N__ab5b123b_9_sample_cu_b9244db111scan_kernelENS0_15SampleArgumentsE"


def report(stores=0, loads=0, called=0):
    """Returns the compiler's report about two kernels. The first spills, and calls a function that spills."""
    return f"""ptxas info    : 0 bytes gmem, 1248 bytes cmem[3]
ptxas info    : Compiling entry function '{PRODUCT}' for 'sm_80'
ptxas info    : Function properties for {PRODUCT}
    {stores} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads
ptxas info    : Used 128 registers, used 16 barriers, 384 bytes smem, 1688 bytes cmem[0], 72 bytes cmem[2]
ptxas info    : Compile time = 1851.915 ms
ptxas info    : Function properties for _ZN5quire7kernels13activate_rareEif
    {called} bytes stack frame, {called} bytes spill stores, {called} bytes spill loads
ptxas info    : Compiling entry function '{SCAN}' for 'sm_80'
ptxas info    : Function properties for {SCAN}
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers
ptxas info    : Compile time = 20.880 ms
"""


def object_file(threads):
    """Returns an object file of the host around one of the device, whose kernels have these launch bounds."""
    names, contents, table = b"\0", b"", b"\0" * 64
    for kernel, bound in threads.items():
        # An attribute with a value of two bytes, and MAX_THREADS.
        content = struct.pack("<BBH", 3, 0x1b, 128) + struct.pack("<BBHIII", 4, 5, 12, bound, 1, 1)
        table += struct.pack("<IIQQQQIIQQ", len(names), 1, 0, 0, 64 + len(contents), len(content), 0, 0, 0, 0)
        names += b".nv.info." + kernel.encode() + b"\0"
        contents += content
    table += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64 + len(contents), len(names), 0, 0, 0, 0)
    count = len(threads) + 2
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 190, 1, 0, 0, 64 + len(contents) + len(names),
                         0, 64, 0, 0, 64, count, count - 1)
    return b"\x7fELF of the host" + header + contents + names + table


def check(text, arguments=()):
    """Runs the check with a compiler that prints this report. Returns the exit status, the output and the messages."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "report").write_text(text)
        (folder / "object").write_bytes(object_file({PRODUCT: 512, SCAN: 256}))
        nvcc = folder / "nvcc"
        nvcc.write_text(f"""#!/bin/sh
while [ "$1" != -o ]; do shift; done
cp {folder}/object "$2"
cat {folder}/report >&2
""")
        nvcc.chmod(0o755)
        done = subprocess.run([sys.executable, "-B", SCRIPT, "--nvcc", nvcc, "--source", "sample", "--arch", "80", *arguments],
                              capture_output=True, text=True, env={**os.environ, "CCACHE_DISABLE": "1"})
        messages = [line for line in done.stderr.splitlines() if line.startswith("kernel_budgets: ")]
        return done.returncode, done.stdout, messages


def expect(value, expected):
    if value != expected:
        sys.exit(f"got {value}\nexpected {expected}")


# A planted spill fails the check, and the message names kernel, architecture, found and allowed bytes.
expect(check(report(stores=4, loads=8))[::2], (0, []))
expect(check(report(stores=5000, loads=8))[::2],
       (1, ["kernel_budgets: gemm_wide_kernel<(TileKind)0, 8> (sample/sample.cu) for 80: spills 5000 bytes, allowed are 256"]))
expect(check(report(called=5000))[0], 1)  # also in a function that a kernel calls
expect(check("nvcc warning : no kernel")[::2][0], 1)

# So does a kernel with too many registers.
status, _, messages = check(report().replace("Used 32 registers", "Used 64 registers"))
expect((status, messages), (1, ["kernel_budgets: scan_kernel (sample/sample.cu) for 80: 4 blocks fit by registers "
                                "(64 a thread, 256 threads a block), at least 6 must"]))

# Every number is printed.
lines = check(report(stores=4, loads=8))[1].splitlines()
expect(lines[1].split(), "gemm_wide_kernel<(TileKind)0, 8> 80 128 4 8 256 384 512 1 1".split())
expect(len({line.rindex(line.split()[-1]) + len(line.split()[-1]) for line in lines}), 1)
kernels = [json.loads(line) for line in check(report(stores=4, loads=8), ["--json"])[1].splitlines()]
expect(kernels[0], {"source": "sample/sample.cu", "name": "gemm_wide_kernel<(TileKind)0, 8>", "architecture": "80",
                    "registers": 128, "stack_bytes": 4, "spill_store_bytes": 4, "spill_load_bytes": 8, "shared_bytes": 384,
                    "max_threads": 512, "blocks": 1, "spill_bytes": 8})

# The last budget that covers a kernel counts; a kernel without one and a budget without a kernel are breaches.
kernels = kernel_budgets.parse_report(report(stores=16), "a.cu", "80").values()
table = kernel_budgets.read_budgets("*wide*  *  0  0  # general\n*wide*  8?  16  0\n*scan*  9*  0  0\n")
expect([line.split(": ")[1] for line in kernel_budgets.breaches(kernels, table)], ["has no budget"])
expect(kernel_budgets.unused(kernels, table), ["the budget `*scan*` for 9* covers no kernel"])

# Registers are allocated in eights for a thread and in fours for warps (NVIDIA's occupancy calculator).
expect([kernel_budgets.blocks_by_registers(*pair) for pair in [(128, 512), (129, 512), (96, 640), (80, 128), (65, 256), (64, 1024)]],
       [1, 0, 1, 6, 3, 1])

# The preset of the package is read.
expect({"80", "90a"} <= set(kernel_budgets.shipped_architectures()), True)

# A change of any file that a source includes, directly or not, of the budgets or of the compiler changes the digest.
with tempfile.TemporaryDirectory() as name:
    root = pathlib.Path(name)
    files = {"kernels/cuda/a/a.cu": '#include <cuda.h>\n#include "kernels/cuda/a/a.cuh"\n', "kernels/cuda/a/a.cuh":
             '#pragma once\n # include "kernels/interface/b.h"\n', "kernels/interface/b.h": "", "kernels/cuda/other.cuh": "",
             "budgets.txt": "", "budgets.py": "", "nvcc": "#!/bin/sh\necho release 13.0\n"}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "nvcc").chmod(0o755)
    kernel_budgets.ROOT, kernel_budgets.KERNELS = root, root / "kernels/cuda"
    kernel_budgets.BUDGETS, kernel_budgets.__file__ = root / "budgets.txt", str(root / "budgets.py")
    kernel_budgets.PASSED = root / "passed"
    expect(kernel_budgets.included_files(["a/a.cu"]), sorted(files)[2:4] + sorted(files)[5:6])

    def key():
        return kernel_budgets.digest(root / "nvcc", ["a/a.cu"], ["80"])

    before = key()
    for path, text in files.items():
        (root / path).write_text(text + "# 1\n" if path != "nvcc" else text + "echo V13.0.1\n")
        expect((path, key() != before), (path, path != "kernels/cuda/other.cuh"))
        (root / path).write_text(text)
    expect(key(), before)
    expect(kernel_budgets.digest(root / "nvcc", ["a/a.cu"], ["80", "90a"]) != before, True)

    # Nothing is compiled if the digest is that of the last whole check. Only a check without a breach is recorded.
    compilations = []
    kernel_budgets.SOURCES, kernel_budgets.shipped_architectures = ("a/a.cu",), lambda: ["80"]

    def compile_all(*_):
        compilations.append(1)
        return list(kernel_budgets.parse_report(report(stores=16), "a.cu", "80").values())

    def run(*arguments):
        sys.argv = ["kernel_budgets.py", "--nvcc", str(root / "nvcc"), "--json", *arguments]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return kernel_budgets.main(), len(compilations)

    kernel_budgets.compile_all = compile_all
    expect(run("--changed"), (1, 1))  # no kernel has a budget
    expect(run("--changed"), (1, 2))
    (root / "budgets.txt").write_text("*  *  16  0\n")
    expect([run("--changed"), run("--changed"), run()], [(0, 3), (0, 3), (0, 4)])
    (root / "kernels/interface/b.h").write_text("// changed\n")
    expect(run("--changed"), (0, 5))
