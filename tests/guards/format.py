#!/usr/bin/env python3
"""Every C, C++ and CUDA file is formatted by clang-format (`./dev format`)."""
import guard

SUFFIXES = (".h", ".c", ".cpp", ".cu", ".cuh")
GENERATED = ("bindings/go/internal/native/",)
TOOL = "clang-format-14"


def check(tree):
    paths = [p for p in tree.select(*SUFFIXES) if not p.startswith(GENERATED)]
    if not paths:
        raise guard.GuardError("there are no sources")
    breaches = []
    for start in range(0, len(paths), 100):
        chunk = paths[start:start + 100]
        replacements = guard.run(TOOL, "--output-replacements-xml", *chunk, cwd=tree.root)
        for path, document in zip(chunk, replacements.split("</replacements>")):
            if "<replacement " in document:
                breaches.append(f"{path}: not formatted; run ./dev format")
    return breaches


STYLE = "BasedOnStyle: Google\n"
SELF_TESTS = [
    ("formatted", {".clang-format": STYLE, "core/a.cpp": "int x = 1;\n"}, 0),
    ("not formatted", {".clang-format": STYLE, "core/a.cpp": "int x=1;\n", "core/b.cpp": "int y = 1;\n"}, 1),
    ("the second is not", {".clang-format": STYLE, "core/a.cpp": "int x = 1;\n", "core/b.cpp": "int  y;\n"}, 1),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)
