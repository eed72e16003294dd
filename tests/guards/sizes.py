#!/usr/bin/env python3
"""Sizes: a source file has at most 600 lines, or says in its first 20 why it is longer ("Long file: ..."); the
tracked files together stay under 45 MiB, and none but the embedded model is larger than 2 MiB."""
import os

import guard

MAX_LINES = 600
MAX_TREE_BYTES = 45 << 20
MAX_FILE_BYTES = 2 << 20
LARGE_FILES = {"packaging/model/story-15m-exl2-4.0bpw/output.safetensors"}
SOURCES = (".h", ".c", ".cpp", ".cu", ".cuh", ".py", ".sh", ".go", ".java", ".cs", ".i")
GENERATED = ("bindings/go/internal/native/", "bindings/go/generated_")


def check(tree):
    breaches = []
    total_bytes = 0
    for path in tree.paths:
        file_bytes = os.path.getsize(tree.root / path)
        total_bytes += file_bytes
        if file_bytes > MAX_FILE_BYTES and path not in LARGE_FILES:
            breaches.append(f"{path}: {file_bytes} bytes; {MAX_FILE_BYTES} is the limit of a file")
    if total_bytes > MAX_TREE_BYTES:
        breaches.append(f"the tree has {total_bytes} bytes; {MAX_TREE_BYTES} is the limit")
    for path in tree.select(*SOURCES):
        lines = tree.read(path).splitlines()
        excused = any("Long file:" in line for line in lines[:20])
        if len(lines) > MAX_LINES and not excused and not path.startswith(GENERATED):
            breaches.append(f"{path}: {len(lines)} lines; {MAX_LINES} is the limit without a 'Long file:' line")
    return breaches


LONG = "int x;\n" * 601
SELF_TESTS = [
    ("small", {"core/a.cpp": "int x;\n" * 600}, 0),
    ("a long file", {"core/a.cpp": LONG}, 1),
    ("a long file that says why", {"core/a.cpp": "// Long file: one table.\n" + LONG}, 0),
    ("a large file", {"tests/golden/a.bin": b"\0" * ((2 << 20) + 1)}, 1),
    ("a large tree", {f"tests/golden/{i}.bin": b"\0" * (2 << 20) for i in range(23)}, 1),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)
