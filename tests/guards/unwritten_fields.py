#!/usr/bin/env python3
"""Kernel interface: the engine or the C boundary writes every field that a backend reads, so that no backend supports a
setting that cannot be set.

A field counts as written if it is assigned by name, or if its struct is made from a list. Structs that backends fill,
and those that constexpr functions of the interface compute, are skipped."""
import re

import guard

INTERFACE = "kernels/interface/"
WRITERS = ("core/", "capi/src/", "kernels/interface/")
FILLED_BY_BACKENDS = {"Backend", "CopyPiece", "DeviceInfo", "KernelTable", "MemoryUse", "PackedOrder", "PackedPart",
                      "PackedWeight", "QuantRun", "SampleOutcome"}
# Fields that need no writer, with reasons.
EXEMPT = {
    "BatchView.num_single": "of a backend itself, which counts it where it places a batch",
    "DeviceOptions.memory_limit_bytes": "of tests that run out of memory on purpose",
    "DeviceOptions.deterministic": "of the bench, which compares the backend's products with a library's",
}
STRUCT = re.compile(r"\bstruct (\w+)[^{};]*\{(.*?)\n\};", re.DOTALL)
FIELD = re.compile(r"^[\w:<>,\s*]*[\s*](\w+)(\[[^\]]*\])?\s*(=.*|\{.*)?$", re.DOTALL)


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def fields(body):
    for declaration in body.split(";"):
        found = FIELD.match(declaration.strip())
        if found and "(" not in declaration.split("=")[0] and found.group(1) != "operator":
            yield found.group(1)


def is_written(field, code):
    assigned = rf"(\.|->){field}(\[[^\]]*\]|\.\w+)*\s*[-+*|&/]?=(?!=)"
    return re.search(assigned, code) is not None


def is_made_from_list(struct, interface, code):
    """Returns whether code has `Struct{a, b}`, `Struct name = {a, b}`, or a list passed to a member or to a
    vector of them."""
    members = re.findall(rf"^  {struct} (\w+);", interface, re.MULTILINE)
    made = [rf"\b{struct}(\s+\w+\s*=)?\s*\{{\s*[^\s}}]", rf"\bvector<(\w+::)*{struct}>"]
    made += [rf"\.{member}\s*=\s*\{{\s*[^\s}}]" for member in members]
    return any(re.search(pattern, code) for pattern in made)


def is_computed(struct, interface):
    """Returns whether a constexpr function of the interface returns the struct."""
    return re.search(rf"\bconstexpr {struct} \w+\(", interface) is not None


def check(tree):
    headers = tree.select(".h", under=(INTERFACE,))
    if not headers:
        raise guard.GuardError("the kernel interface has no headers")
    interface = {path: without_comments(tree.read(path)) for path in headers}
    # Headers of functions and tables write; those that declare structs only describe.
    describing = {path for path, text in interface.items() if STRUCT.search(text)}
    code = "\n".join(without_comments(tree.read(path)) for path in tree.select(".h", ".cpp", under=WRITERS)
                     if path not in describing)
    all_headers = "\n".join(interface.values())
    breaches = []
    for path in headers:
        for struct, body in STRUCT.findall(interface[path]):
            if struct in FILLED_BY_BACKENDS or is_computed(struct, all_headers) or is_made_from_list(struct, all_headers, code):
                continue
            breaches += [f"{path}: nothing writes {struct}.{field}" for field in fields(body)
                         if not is_written(field, code) and f"{struct}.{field}" not in EXEMPT]
    return breaches


HEADER = "struct Limits {\n  int a = 0;\n  const int* b = nullptr;\n};\n"
SELF_TESTS = [
    ("all written", {"kernels/interface/a.h": HEADER, "core/a.cpp": "x.a = 1; y->b = p;\n"}, 0),
    ("one not written", {"kernels/interface/a.h": HEADER, "core/a.cpp": "x.a = 1; if (x.b == p) f();\n"}, 1),
    ("written by a test alone", {"kernels/interface/a.h": HEADER, "core/a.cpp": "x.b = p;\n",
                                 "tests/a.cpp": "x.a = 1;\n"}, 1),
    ("made from a list", {"kernels/interface/a.h": HEADER, "core/a.cpp": "Limits x = {1, p};\n"}, 0),
    ("made from a list for a member", {"kernels/interface/a.h": HEADER + "struct All {\n  Limits limits;\n};\n",
                                       "core/a.cpp": "all.limits = {1, p};\n"}, 0),
    ("computed by the interface", {"kernels/interface/a.h": HEADER + "constexpr Limits limits_of(int a) {\n  return {.a = a};\n}\n",
                                   "core/a.cpp": "f();\n"}, 0),
    ("in a comment", {"kernels/interface/a.h": HEADER, "core/a.cpp": "x.a = 1;  // x.b = p\n"}, 1),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)
