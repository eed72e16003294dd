#!/usr/bin/env python3
"""Checks registers that the compiler spills, and how many blocks of a kernel fit on a multiprocessor by its registers.

usage: kernel_budgets.py [--nvcc PATH] [--arch ARCH]... [--source NAME]... [--json] [--changed]

Compiles the central kernels for every architecture of the preset package-cuda, as CMake does and through ccache if it is
installed. Compares the compiler's report with packaging/dev/kernel_budgets.txt. Prints a table, or with --json a JSON
object per kernel, and then a line for each breach. The exit status is 1 if there is a breach. It needs no card.
--arch and --source limit the check, for example `--arch 80 --source gemm_exl2`.

A whole check without a breach writes packaging/dev/kernel_budgets.passed: a digest of all that the report follows from. With
--changed nothing is compiled if the digest is still the same."""
import argparse
import concurrent.futures
import dataclasses
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUDGETS = ROOT / "packaging/dev/kernel_budgets.txt"
PASSED = ROOT / "packaging/dev/kernel_budgets.passed"
KERNELS = ROOT / "kernels/cuda"
# The slowest come first, so that the last compilations are short.
SOURCES = ("gemm/gemm_exl2.cu", "attention/attention_single.cu",
           "attention/attention_decode.cu", "gemm/gemm_float8_strips.cu", "sample/sample.cu")
FLAGS = ("-std=c++20", "-O3", "-DNDEBUG", "-I.", "-Xptxas", "-v", "--no-compress")

# The compiler's reports for these two are the same, so that only these sources are compiled for both: one as a sample, and
# the one whose kernels are empty for 8.6.
TWINS = {"89": "86"}
SOURCES_FOR_TWINS = ("gemm/gemm_exl2.cu", "gemm/gemm_float8_strips.cu")

WARP = 32
REGISTERS = 65536    # of a multiprocessor, on every architecture since 5.0
REGISTER_UNIT = 8    # registers of a thread are allocated in multiples of this
SCHEDULERS = 4       # each has a quarter of the registers
MAX_BLOCKS = 32      # on a multiprocessor, on any architecture


@dataclasses.dataclass
class Kernel:
    source: str
    name: str
    architecture: str
    registers: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    shared_bytes: int = 0  # static ones
    max_threads: int = 0   # launch bound
    blocks: int = 0        # that fit on a multiprocessor by registers

    @property
    def spill_bytes(self):
        return max(self.spill_store_bytes, self.spill_load_bytes)


@dataclasses.dataclass
class Budget:
    kernel: str  # pattern
    architecture: str  # pattern
    max_spill_bytes: int
    min_blocks: int

    def covers(self, kernel):
        return fnmatch.fnmatchcase(kernel.name, self.kernel) and fnmatch.fnmatchcase(kernel.architecture, self.architecture)


def parse_report(text, source, architecture):
    """Returns a kernel for each entry function in the output of `ptxas -v`, by its mangled name. The compiler reports
    functions that a kernel calls after the kernel; their stack and spills are added to those of the kernel."""
    kernels, current = {}, None
    for line in text.splitlines():
        if entry := re.search(r"Compiling entry function '(\S+)' for", line):
            current = kernels[entry.group(1)] = Kernel(source, entry.group(1), architecture)
        elif current is None:
            continue
        elif stack := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            current.stack_bytes += int(stack.group(1))
            current.spill_store_bytes += int(stack.group(2))
            current.spill_load_bytes += int(stack.group(3))
        elif used := re.search(r"Used (\d+) registers", line):
            current.registers = int(used.group(1))
            shared = re.search(r"(\d+) bytes smem", line)
            current.shared_bytes = int(shared.group(1)) if shared else 0
    return kernels


def sections(image):
    """Yields the name and content of each section of a 64-bit ELF file that starts the image."""
    header = struct.unpack_from("<16sHHIQQQIHHHHHH", image)
    start, size, count, names = header[6], header[11], header[12], header[13]
    table = [struct.unpack_from("<IIQQQQ", image, start + i * size) for i in range(count)]
    for name, kind, _, _, offset, length in table:
        at = table[names][4] + name
        yield image[at:image.index(b"\0", at)].decode(), b"" if kind == 8 else image[offset:offset + length]


def launch_bounds(object_file):
    """Returns the largest number of threads of a block for each kernel in an object file of nvcc, by its mangled name. The
    device code is an ELF file inside it; the attribute MAX_THREADS (5) in the section .nv.info.KERNEL has three sizes."""
    bounds, at = {}, object_file.find(b"\x7fELF", 1)
    while at >= 0:
        for name, content in sections(object_file[at:]):
            i = 0
            while name.startswith(".nv.info.") and i < len(content):
                form, attribute, value = struct.unpack_from("<BBH", content, i)
                i += 4
                if form == 4:  # the value is the size of what follows
                    if attribute == 5:
                        x, y, z = struct.unpack_from("<III", content, i)
                        bounds[name.removeprefix(".nv.info.")] = x * y * z
                    i += value
        at = object_file.find(b"\x7fELF", at + 1)
    return bounds


def blocks_by_registers(registers, threads):
    """Returns how many blocks a multiprocessor has registers for."""
    of_warp = WARP * -(-max(registers, 1) // REGISTER_UNIT) * REGISTER_UNIT
    warps = REGISTERS // SCHEDULERS // of_warp * SCHEDULERS
    return min(warps // -(-threads // WARP), MAX_BLOCKS)


def short_names(mangled):
    """Returns names as in the source: without namespace, return type and parameters."""
    done = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True)
    names = done.stdout.splitlines()
    return [re.sub(r"^void |\([^()]*\)$", "", name.replace("quire::kernels::", "").replace("(anonymous namespace)::", ""))
            for name in names]


def read_budgets(text):
    """Returns the budgets of a table: KERNEL ARCHITECTURE MAX_SPILL_BYTES MIN_BLOCKS, separated by two spaces or more."""
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    rows = [re.split(r" {2,}", line) for line in lines if line]
    return [Budget(kernel, architecture, int(spill), int(blocks)) for kernel, architecture, spill, blocks in rows]


def budget_of(kernel, budgets):
    """Returns the last budget that covers a kernel."""
    return next((budget for budget in reversed(budgets) if budget.covers(kernel)), None)


def breaches(kernels, budgets):
    """Returns a line for each number beyond its budget, and for each kernel without a budget."""
    lines = []
    for kernel in kernels:
        budget = budget_of(kernel, budgets)
        place = f"{kernel.name} ({kernel.source}) for {kernel.architecture}"
        if budget is None:
            lines.append(f"{place}: has no budget")
            continue
        if kernel.spill_bytes > budget.max_spill_bytes:
            lines.append(f"{place}: spills {kernel.spill_bytes} bytes, allowed are {budget.max_spill_bytes}")
        if kernel.blocks < budget.min_blocks:
            lines.append(f"{place}: {kernel.blocks} blocks fit by registers ({kernel.registers} a thread, "
                         f"{kernel.max_threads} threads a block), at least {budget.min_blocks} must")
    return lines


def unused(kernels, budgets):
    """Returns a line for each budget that covers no kernel, because a kernel was renamed or has other parameters."""
    return [f"the budget `{budget.kernel}` for {budget.architecture} covers no kernel" for budget in budgets
            if not any(budget.covers(kernel) for kernel in kernels)]


def shipped_architectures():
    """Returns the architectures of the preset package-cuda: "80", "90a"."""
    presets = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]
    shipped = next(preset for preset in presets if preset["name"] == "package-cuda")
    return [name.split("-")[0] for name in shipped["cacheVariables"]["QUIRE_CUDA_ARCHITECTURES"].split(";")]


def included_files(sources):
    """Returns the sources and all files of the project that they include, directly or not, as sorted paths below ROOT."""
    found, waiting = set(), [(KERNELS / source).relative_to(ROOT).as_posix() for source in sources]
    while waiting:
        path = waiting.pop()
        if path not in found and (ROOT / path).is_file():
            found.add(path)
            waiting += re.findall(r'^\s*#\s*include\s*"([^"]+)"', (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    return sorted(found)


def digest(nvcc, sources, architectures):
    """Returns a digest of the compiler's version, the options, the budgets, this script and all that is compiled."""
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    whole = hashlib.sha256(repr((version, FLAGS, architectures)).encode())
    scripts = [path.relative_to(ROOT).as_posix() for path in (BUDGETS, pathlib.Path(__file__).resolve())]
    for path in scripts + included_files(sources):
        whole.update(path.encode() + b"\0" + hashlib.sha256((ROOT / path).read_bytes()).digest())
    return whole.hexdigest()


def compile_source(nvcc, source, architecture):
    """Returns the kernels of a source, compiled for one architecture."""
    launcher = [ccache] if (ccache := shutil.which("ccache")) else []
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder, "kernels.o")
        done = subprocess.run([*launcher, nvcc, "-c", *FLAGS, "-gencode", f"arch=compute_{architecture},code=sm_{architecture}",
                               (KERNELS / source).relative_to(ROOT), "-o", target],
                              cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{source} for {architecture} does not compile:\n{done.stdout}")
        kernels = parse_report(done.stdout, source, architecture)
        bounds = launch_bounds(target.read_bytes())
    if not kernels:
        raise RuntimeError(f"{source} for {architecture}: the compiler reports no kernel:\n{done.stdout}")
    for (mangled, kernel), name in zip(kernels.items(), short_names(kernels)):
        kernel.name = name
        kernel.max_threads = bounds.get(mangled, 1024)
        kernel.blocks = blocks_by_registers(kernel.registers, kernel.max_threads)
    return sorted(kernels.values(), key=lambda kernel: kernel.name)


def compile_all(nvcc, sources, architectures):
    """Returns the kernels of all sources. Prints a line on the standard error stream for each compilation that ends."""
    jobs = [(source, architecture) for source in sources for architecture in architectures
            if source in SOURCES_FOR_TWINS or TWINS.get(architecture) not in architectures]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = {pool.submit(compile_source, nvcc, *job): job for job in jobs}
        try:
            for num_done, future in enumerate(concurrent.futures.as_completed(results), start=1):
                future.result()
                source, architecture = results[future]
                print(f"{num_done} of {len(jobs)}: {source} for {architecture}", file=sys.stderr, flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [kernel for future in results for kernel in future.result()]


def table(kernels, budgets):
    """Returns the lines of an aligned table. A spill or a number of blocks is followed by its budget."""
    head = ("kernel", "arch", "registers", "stack", "spill", "allowed", "shared", "threads", "blocks", "required")
    rows = []
    for kernel in kernels:
        budget = budget_of(kernel, budgets)
        rows.append((kernel.name, kernel.architecture, kernel.registers, kernel.stack_bytes, kernel.spill_bytes,
                     budget.max_spill_bytes if budget else "-", kernel.shared_bytes, kernel.max_threads, kernel.blocks,
                     budget.min_blocks if budget else "-"))
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        cells = [str(cell).ljust(width) if i < 2 else str(cell).rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        yield "  ".join(cells).rstrip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--arch", action="append", help="only this architecture")
    parser.add_argument("--source", action="append", help="only the source with this name: gemm_exl2")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of a table")
    parser.add_argument("--changed", action="store_true", help="compile nothing if the last whole check passed for the same sources")
    arguments = parser.parse_args()
    architectures = arguments.arch or shipped_architectures()
    sources = [source for source in SOURCES if not arguments.source or pathlib.Path(source).stem in arguments.source]
    budgets = read_budgets(BUDGETS.read_text(encoding="utf-8"))
    is_whole = not arguments.arch and not arguments.source
    try:
        key = digest(arguments.nvcc, sources, architectures) if is_whole else None
        if arguments.changed and is_whole and PASSED.is_file() and PASSED.read_text(encoding="utf-8").strip() == key:
            print("no change since the last check, which passed")
            return 0
        kernels = compile_all(arguments.nvcc, sources, architectures)
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"kernel_budgets: {error}")
    if arguments.json:
        for kernel in kernels:
            print(json.dumps({**dataclasses.asdict(kernel), "spill_bytes": kernel.spill_bytes}), flush=True)
    else:
        print("\n".join(table(kernels, budgets)), flush=True)
    lines = breaches(kernels, budgets)
    if is_whole:
        lines += unused(kernels, budgets)
    for line in lines:
        print(f"kernel_budgets: {line}", file=sys.stderr)
    if is_whole and not lines:
        PASSED.write_text(key + "\n", encoding="utf-8")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
