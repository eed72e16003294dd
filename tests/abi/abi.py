#!/usr/bin/env python3
"""Compares the binary interface that the public headers declare with the recorded one.

It compiles a probe: a shared library with an empty definition of every declared function, always with full debug
information (abidiff sees no difference between libraries without it). The guard library_symbols checks that
libquire.so exports exactly these functions. Constants are not part of a library, so they are recorded as text.

  abi.py --work FOLDER            compares; exits with 0 if both are equal
  abi.py --work FOLDER --update   records the present interface
  abi.py --work FOLDER --self-test
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INCLUDE = ROOT / "capi/include"
BASELINE = HERE / "quire.abi"
CONSTANTS = HERE / "constants.txt"
DECLARATION = re.compile(r"QUIRE_API\s+([^;(]*?[\s*])(quire_\w+)\s*(\([^;]*\));", re.DOTALL)
# Versions are excluded, because every release changes them.
CONSTANT = re.compile(r"^#define (QUIRE_(?!VERSION_|ABI_|API\b)\w+) ", re.MULTILINE)


def run(*command, check=True):
    try:
        result = subprocess.run([str(part) for part in command], text=True, capture_output=True)
    except FileNotFoundError:
        sys.exit(f"the tool {command[0]} is missing")
    if check and result.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{result.stdout}{result.stderr}")
    return result


def header_text(include=INCLUDE):
    headers = sorted((include / "quire").glob("*.h"))
    if not headers:
        sys.exit("the public headers are missing")
    texts = [re.sub(r"/\*.*?\*/", " ", header.read_text(encoding="utf-8"), flags=re.DOTALL) for header in headers]
    return re.sub(r"\\\n", " ", "\n".join(texts))


def definitions(text):
    return [f"{result.strip()} {name}{arguments} {{ return 0; }}"
            for result, name, arguments in DECLARATION.findall(text)]


def dump(work, functions, include=INCLUDE):
    """Compiles the probe and returns the path of its interface as abidw writes it."""
    source, library, output = work / "probe.c", work / "libprobe.so", work / "now.abi"
    source.write_text("#include <quire/quire.h>\n" + "\n".join(functions) + "\n", encoding="utf-8")
    run("cc", "-g", "-shared", "-fPIC", "-w", f"-I{include}", f"-fdebug-prefix-map={work}=.",
        "-Wl,-soname,libquire",
        source, "-o", library)
    run("abidw", "--headers-dir", include, "--drop-private-types", "--exported-interfaces-only",
        "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", "--out-file", output, library)
    found = output.read_text(encoding="utf-8").count("<function-decl")
    if found != len(functions):
        sys.exit(f"the dump has {found} functions of {len(functions)}")
    return output


def constants(work, text):
    """Returns the value of every constant, one a line, as the compiler evaluates it."""
    names = sorted(set(CONSTANT.findall(text)))
    if not names:
        sys.exit("the public headers define no constants")
    source, program = work / "constants.c", work / "constants"
    lines = "".join(f'  printf("{name} %lld\\n", (long long)({name}));\n' for name in names)
    source.write_text("#include <quire/quire.h>\n#include <stdio.h>\nint main(void) {\n" + lines + "}\n")
    run("cc", f"-I{INCLUDE}", source, "-o", program)
    return run(program).stdout


def differences(baseline, now):
    result = run("abidiff", baseline, now, check=False)
    return "" if result.returncode == 0 else f"abidiff exited with {result.returncode}:\n{result.stdout}{result.stderr}"


def constant_changes(before, now):
    old = dict(line.split() for line in before.splitlines())
    new = dict(line.split() for line in now.splitlines())
    return [f"{name}: {old.get(name, 'absent')} -> {new.get(name, 'absent')}"
            for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]


def self_test(work, functions):
    """Checks that a removed function, a changed argument and a changed constant are detected."""
    whole = work / "whole.abi"
    dump(work, functions).replace(whole)
    if differences(whole, dump(work, functions)):
        sys.exit("the interface differs from itself")
    if not differences(whole, dump(work, functions[1:])):
        sys.exit("a removed function is not seen")
    changed = work / "include"
    shutil.rmtree(changed, ignore_errors=True)
    shutil.copytree(INCLUDE, changed)
    header = changed / "quire" / "error.h"
    header.write_text(header.read_text(encoding="utf-8").replace("(int32_t code)", "(int64_t code)"), encoding="utf-8")
    if not differences(whole, dump(work, definitions(header_text(changed)), changed)):
        sys.exit("a changed type is not seen")
    if constant_changes("A 1\nB 2\n", "A 1\nB 3\n") != ["B: 2 -> 3"]:
        sys.exit("a changed constant is not seen")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    text = header_text()
    functions = definitions(text)
    if options.self_test:
        return self_test(options.work, functions)
    now, values = dump(options.work, functions), constants(options.work, text)
    if options.update:
        BASELINE.write_text(now.read_text(encoding="utf-8"), encoding="utf-8")
        CONSTANTS.write_text(values, encoding="utf-8")
        return None
    found = differences(BASELINE, now) + "\n".join(constant_changes(CONSTANTS.read_text(encoding="utf-8"), values))
    if found:
        sys.exit(f"{found}\nThe binary interface changed. Where that is meant: raise QUIRE_ABI_MINOR for what was "
                 "added, QUIRE_ABI_MAJOR and the SONAME for what changed or went, then record it with "
                 "tests/abi/abi.py --work FOLDER --update, in the same commit.")
    return None


if __name__ == "__main__":
    main()
