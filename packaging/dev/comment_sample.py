#!/usr/bin/env python3
"""Draws comment lines at random for a reader who did not write them, who marks each that needs a second reading.

usage: comment_sample.py [--count N] [--seed S] [--folder PREFIX]...

Prints for each drawn line its place and the whole comment that it belongs to, the drawn line marked with ">". Without
--folder lines are drawn from all folders alike (core, capi, kernels, bindings, tests), so that each folder's rate shows.
Generated files are left out. The seed of the published figure is the default.
"""
import argparse
import pathlib
import random
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUFFIXES = (".h", ".c", ".cpp", ".cu", ".cuh", ".go", ".java", ".cs")
FOLDERS = ("core/", "capi/", "kernels/", "bindings/", "tests/")
GENERATED = ("bindings/go/internal/native/", "bindings/go/generated_", "capi/include/quire_dynamic.h")
SEED = 20261127


def is_comment(line):
    return line.strip().startswith(("//", "/*", "* ", "*/"))


def has_words(line):
    return any(letter.isalpha() for letter in line)


def sources(folder):
    listing = subprocess.run(["git", "-C", ROOT, "ls-files", "--", folder], check=True, capture_output=True, text=True).stdout
    return [p for p in listing.splitlines() if p.endswith(SUFFIXES) and not p.startswith(GENERATED)]


def comment_lines(folder):
    """(path, index of the line) of every line that is a comment and nothing but a comment."""
    for path in sources(folder):
        for index, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines()):
            if is_comment(line) and has_words(line):
                yield path, index


def print_block(number, path, index):
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    begin, end = index, index + 1
    while begin > 0 and is_comment(lines[begin - 1]):
        begin -= 1
    while end < len(lines) and is_comment(lines[end]):
        end += 1
    print(f"[{number}] {path}:{index + 1}")
    for i in range(max(begin, index - 6), min(end + 1, index + 7, len(lines))):
        print(("> " if i == index else "  ") + lines[i])
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--folder", action="append", help="a path prefix; may be given more than once")
    arguments = parser.parse_args()
    folders = arguments.folder or FOLDERS
    number = 0
    for folder in folders:
        candidates = list(comment_lines(folder))
        drawn = random.Random(arguments.seed).sample(candidates, min(len(candidates), arguments.count // len(folders)))
        for path, index in drawn:
            number += 1
            print_block(number, path, index)


if __name__ == "__main__":
    main()
