#!/usr/bin/env python3
"""Sizes: a source file has at most 600 lines, or gives a reason in its first 20 lines ("Long file: ..."). A
function of the library has at most six parameters. The tracked files together stay under 45 MiB, and no
file except the embedded model is larger than 2 MiB."""
import os
import re

import guard

MAX_LINES = 600
MAX_TREE_BYTES = 45 << 20
MAX_FILE_BYTES = 2 << 20
LARGE_FILES = {"packaging/model/story-15m-exl2-4.0bpw/output.safetensors"}
SOURCES = (".h", ".c", ".cpp", ".cu", ".cuh", ".py", ".sh", ".go", ".java", ".cs", ".i")
GENERATED = ("bindings/go/internal/native/", "bindings/go/generated_", "capi/include/quire_dynamic.h")

MAX_PARAMETERS = 6
LIBRARY = ("core/", "capi/", "kernels/")
# Kernels and the functions that launch them with the same arguments.
KERNELS = "kernels/cuda/"
# Second parameters of things that C passes as two: a text, array or buffer with its size, a wait with its
# cancel. The error is an output and does not count.
C_NAME = re.compile(r"quire_\w+$")
C_SECONDS = re.compile(r"\b(\w+_(len|capacity|size)|num_\w+|size|quire_cancel\s*\*\s*cancel|quire_error\s*\*\*\s*error)$")

NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.S | re.M)
# of a function, a pointer to one, a lambda
NAME = re.compile(r"(\b[A-Za-z_]\w*|\(\s*\*\s*\w+\s*\)|\])(?=\s*\()")
TYPED = re.compile(r"^(?:const\s+)?[\w:]+(?:\s*<.*>)?(?:\s+\w+)*?(?:::\w+)*[\s*&]+(?:const\s+|restrict\s+)?\w+"
                   r"(?:\[\w*\])*(?:\s*=.*)?$|^[\w:\s]+\(\s*\*\s*\w*\s*\)\s*\(.*\)$", re.S)
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "alignof", "decltype", "catch", "assert"}


def split_at_commas(text):
    """Splits a list at its top-level commas."""
    pieces, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        if letter in "([{<":
            depth += 1
        elif letter in ")]}" or (letter == ">" and text[i - 1] != "-"):
            depth -= 1
        elif letter == "," and depth == 0:
            pieces.append(text[start:i].strip())
            start = i + 1
    return pieces + [text[start:].strip()]


def closing_bracket(text, start):
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    return -1


def long_lists(source):
    """Yields (line, name, number of parameters) of each declaration with too many. Skips calls, whose
    arguments do not all look like a type and a name."""
    text = NOISE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)
    for match in NAME.finditer(text):
        begin = text.index("(", match.end())
        parameters = split_at_commas(text[begin + 1:closing_bracket(text, begin)])
        if match.group(1) in KEYWORDS or not all(map(TYPED.match, parameters)):
            continue
        if C_NAME.match(match.group(1)):
            parameters = [p for p in parameters if not C_SECONDS.search(p)]
        if len(parameters) <= MAX_PARAMETERS:
            continue
        yield text.count("\n", 0, match.start()) + 1, match.group(1), len(parameters)


def breaches_of_functions(tree):
    for path in tree.select(".h", ".c", ".cpp", under=LIBRARY):
        if path.startswith(GENERATED + (KERNELS,)):
            continue
        for line, name, number in long_lists(tree.read(path)):
            yield f"{path}:{line}: {name} has {number} parameters; at most {MAX_PARAMETERS} are allowed, pass a struct"


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
    return breaches + list(breaches_of_functions(tree))


SEVEN = "int a, const Type& b, std::vector<std::pair<int, int>> c, char* d, int e = f(1, 2), bool g, int h"
SIX = SEVEN.rsplit(",", 1)[0]
LONG = "int x;\n" * 601
SELF_TESTS = [
    ("small", {"core/a.cpp": "int x;\n" * 600}, 0),
    ("a long file", {"core/a.cpp": LONG}, 1),
    ("a long file that says why", {"core/a.cpp": "// Long file: one table.\n" + LONG}, 0),
    ("six parameters", {"core/a.h": f"void f({SIX});\n"}, 0),
    ("seven parameters", {"core/a.h": f"void f({SEVEN});\n"}, 1),
    ("seven of a member, over lines", {"kernels/a.cpp": "int A::f(" + SEVEN.replace(", ", ",\n") + ") const {\n}\n"}, 1),
    ("seven of an entry of a table", {"kernels/a.h": f"Status (*entry)({SEVEN}) = nullptr;\n"}, 1),
    ("seven of a lambda", {"core/a.cpp": f"auto f = [&]({SEVEN}) {{}};\n"}, 1),
    ("a call", {"core/a.cpp": "f(a, b, c, d, e, f, g * h);\n"}, 0),
    ("in a comment", {"core/a.cpp": f"// void f({SEVEN});\n"}, 0),
    ("a kernel", {"kernels/cuda/a.h": f"void f({SEVEN});\n"}, 0),
    ("sizes of a C function", {"capi/a.h": "int quire_f(T* a, const char* text, size_t text_len, int b, int c, int* out_ids,"
                               " size_t out_capacity, quire_error** error);\n"}, 0),
    ("seven of a C function", {"capi/a.h": f"int quire_f({SEVEN}, quire_error** error);\n"}, 1),
    ("a large file", {"tests/golden/a.bin": b"\0" * ((2 << 20) + 1)}, 1),
    ("a large tree", {f"tests/golden/{i}.bin": b"\0" * (2 << 20) for i in range(23)}, 1),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)
