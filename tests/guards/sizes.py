#!/usr/bin/env python3
"""Sizes: a source file has at most 600 lines, or gives a reason in its first 20 lines ("Long file: ..."). In core,
capi and bindings the limit is 500 lines, and few files exceed it. In core and capi a function has at most 60 lines,
and a type has at most 12 data members or gives a reason in its comment ("Wide type: ..."); few types do. A function
of the library has at most six parameters. The tracked files together stay under 45 MiB, and no file except the
embedded model is larger than 2 MiB."""
import os
import re

import cpp_scopes
import guard

MAX_LINES = 600
LAYERS = ("core/", "capi/", "bindings/")
MAX_LAYER_LINES = 500
MAX_LONG_FILES = 8
MEASURED = ("core/", "capi/")
MAX_FUNCTION_LINES = 60
MAX_MEMBERS = 12
MAX_WIDE_TYPES = 12
MAX_TREE_BYTES = 45 << 20
MAX_FILE_BYTES = 2 << 20
LARGE_FILES = {"packaging/model/story-15m-exl2-4.0bpw/output.safetensors"}
SOURCES = (".h", ".c", ".cpp", ".cu", ".cuh", ".py", ".sh", ".go", ".java", ".cs", ".i", ".mjs", ".css", ".html")
GENERATED = ("bindings/go/internal/native/", "bindings/go/generated_", "capi/include/quire_dynamic.h")

MAX_PARAMETERS = 6
LIBRARY = ("core/", "capi/", "kernels/")
# Kernels and the functions that launch them with the same arguments.
KERNELS = "kernels/cuda/"
# Second parameters of things that C passes as two: a text, array or buffer with its size, a wait with its
# cancel. The error is an output and does not count.
C_NAME = re.compile(r"quire_\w+$")
C_SECONDS = re.compile(r"\b(\w+_(len|capacity|size)|num_\w+|size|quire_cancel\s*\*\s*cancel|quire_error\s*\*\*\s*error)$")

# The name of a function, a pointer to a function, or the brackets of a lambda, before its parameters.
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
    text = cpp_scopes.without_noise(source)
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


def has_reason(lines, line, mark):
    """Returns whether the comment before a line, or the line itself, contains the mark."""
    while line > 0 and lines[line - 1].lstrip().startswith(("//", "template")):
        line -= 1
        if mark in lines[line]:
            return True
    return False


def breaches_of_scopes(tree):
    """Returns a breach for each long function, each wide type without a reason, and too many wide types."""
    breaches, wide = [], []
    for path in tree.select(".h", ".c", ".cpp", under=MEASURED):
        if path.startswith(GENERATED):
            continue
        source = tree.read(path)
        text = cpp_scopes.without_noise(source)
        for scope in cpp_scopes.scopes(text):
            line = text.count("\n", 0, scope.begin)
            num_lines = text.count("\n", scope.begin, scope.end) + 1
            if scope.kind == "function" and num_lines > MAX_FUNCTION_LINES:
                breaches.append(f"{path}:{line + 1}: {scope.name} has {num_lines} lines; {MAX_FUNCTION_LINES} is the limit")
            if scope.kind != "type" or scope.num_members <= MAX_MEMBERS:
                continue
            wide.append(f"{scope.name} ({path})")
            if not has_reason(source.splitlines(), line, "Wide type:"):
                breaches.append(f"{path}:{line + 1}: {scope.name} has {scope.num_members} members; more than"
                                f" {MAX_MEMBERS} need a 'Wide type:' line in the comment")
    if len(wide) > MAX_WIDE_TYPES:
        breaches.append(f"{len(wide)} types have more than {MAX_MEMBERS} members; {MAX_WIDE_TYPES} may: {', '.join(wide)}")
    return breaches


def breaches_of_files(tree):
    """Returns a breach for each long file without a reason, and for too many long files."""
    breaches, long_files = [], []
    for path in tree.select(*SOURCES):
        if path.startswith(GENERATED):
            continue
        lines = tree.read(path).splitlines()
        limit = MAX_LAYER_LINES if path.startswith(LAYERS) else MAX_LINES
        if len(lines) <= limit:
            continue
        if path.startswith(LAYERS):
            long_files.append(path)
        if not any("Long file:" in line for line in lines[:20]):
            breaches.append(f"{path}: {len(lines)} lines; {limit} is the limit without a 'Long file:' line")
    if len(long_files) > MAX_LONG_FILES:
        breaches.append(f"{len(long_files)} files have more than {MAX_LAYER_LINES} lines; {MAX_LONG_FILES} may: "
                        + ", ".join(long_files))
    return breaches


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
    return breaches + breaches_of_files(tree) + breaches_of_scopes(tree) + list(breaches_of_functions(tree))


SEVEN = "int a, const Type& b, std::vector<std::pair<int, int>> c, char* d, int e = f(1, 2), bool g, int h"
SIX = SEVEN.rsplit(",", 1)[0]
LONG = "int x;\n" * 601
LAYER_LONG = "// Long file: one table.\n" + "int x;\n" * 500


def function(num_lines, head="int A::f(int a) const {"):
    return head + "\n" + "  if (a) { b(); }\n" * (num_lines - 2) + "}\n"


def type_with(num_members, comment=""):
    members = "".join(f"  std::vector<std::pair<int, int>> m{i} = {{}};\n" for i in range(num_members))
    return (comment + "struct A final : B {\n  A() : m0{1}, m1(2) { int x; int y; }\n  static int s;\n"
            "  struct C { int a; int b; };\n  int f(int a = 1) const;\n  bool operator<(const A&) const = default;\n"
            + members + "};\n")


SELF_TESTS = [
    ("small", {"core/a.cpp": "int x;\n" * 500, "tests/a.cpp": "int x;\n" * 600}, 0),
    ("a long file", {"tests/a.cpp": LONG}, 1),
    ("a long file that says why", {"tests/a.cpp": "// Long file: one table.\n" + LONG}, 0),
    ("a long file of a layer", {"bindings/a.go": "x\n" * 501}, 1),
    ("eight long files that say why", {f"core/{i}.cpp": LAYER_LONG for i in range(MAX_LONG_FILES)}, 0),
    ("nine long files that say why", {f"core/{i}.cpp": LAYER_LONG for i in range(MAX_LONG_FILES + 1)}, 1),
    ("a function of 60 lines", {"core/a.cpp": "namespace q {\n" + function(60) + "}\n"}, 0),
    ("a function of 61 lines", {"core/a.cpp": "namespace q {\n" + function(61) + "}\n"}, 1),
    ("61 lines in a class", {"core/a.h": "class A {\n public:\n" + function(61, "void f() override {") + "};\n"}, 1),
    ("61 lines of a constructor", {"core/a.cpp": function(61, "A::A(int a) : a_{a}, b_{1} {")}, 1),
    ("61 lines of a table", {"core/a.cpp": "constexpr A kTable[] = {\n" + "  {1, f(2)},\n" * 60 + "};\n"}, 0),
    ("braces in literals", {"core/a.cpp": "void f() {\n  g('{', \"{\", 1'000);  // {\n}\n" + "int x;\n" * 60}, 0),
    ("a long function of a test", {"tests/a.cpp": function(61)}, 0),
    ("twelve members", {"capi/a.h": type_with(12)}, 0),
    ("thirteen members", {"capi/a.h": type_with(13)}, 1),
    ("thirteen members with a reason", {"capi/a.h": type_with(13, "// Wide type: a table.\n")}, 0),
    ("too many wide types", {f"core/{i}.h": type_with(13, "// Wide type: a table.\n")
                             for i in range(MAX_WIDE_TYPES + 1)}, 1),
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
