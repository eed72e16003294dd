#!/usr/bin/env python3
"""Draws random comment lines for a reader other than the author, who marks each line that needs a second reading.

usage: comment_sample.py [--count N] [--seed S] [--folder PREFIX]...

Prints for each drawn line its position and the whole comment it belongs to, with ">" before the drawn line. Without
--folder the same number of lines is drawn from each folder (core, capi, kernels, bindings, tests), which gives a rate
for each. Generated files are skipped. The default seed is that of the published figure."""
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
    """Yields (path, index of the line) of every line that is only a comment."""
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
