#!/usr/bin/env python3
"""Every source and test file is named in a CMakeLists.txt of its folder or of a parent folder, and none is
found by a glob, so that no file is silently left out of the build."""
import functools
import posixpath
import re

import guard

FOLDERS = ("core/", "kernels/", "capi/src/", "capi/cli/", "capi/hub/", "tests/")
SUFFIXES = (".c", ".cpp", ".cu", ".py", ".go", ".java", ".cs")


def names_in(tree, folder):
    """Returns the words of the CMakeLists.txt of a folder, without comments."""
    path = posixpath.join(folder, "CMakeLists.txt") if folder else "CMakeLists.txt"
    if path not in tree.paths:
        return set()
    text = re.sub(r"#[^\n]*", "", tree.read(path))
    return {name.lstrip("/") for name in re.findall(r"[\w./+-]+", text)}


@functools.lru_cache
def names_anywhere(tree):
    """Returns all names relative to the root in any CMakeLists.txt."""
    return set().union(*(names_in(tree, posixpath.dirname(p)) for p in tree.paths if p.endswith("CMakeLists.txt")))


def is_listed(tree, path):
    """Returns whether a CMakeLists.txt from the file's folder upwards names it, relative to itself (a module
    that scripts import, without its suffix), or whether any other one names it from the root of the
    repository."""
    if path in names_anywhere(tree):
        return True
    folder = posixpath.dirname(path)
    while True:
        relative = posixpath.relpath(path, folder or ".")
        names = names_in(tree, folder)
        stem = relative.rsplit(".", 1)[0]
        if relative in names or stem in names:
            return True
        if not folder:
            return False
        folder = posixpath.dirname(folder)


def check(tree):
    sources = tree.select(*SUFFIXES, under=FOLDERS)
    if not sources:
        raise guard.GuardError("there are no sources")
    breaches = [f"{path}: no CMakeLists.txt names it" for path in sources if not is_listed(tree, path)]
    for path in [p for p in tree.paths if p.endswith(("CMakeLists.txt", ".cmake"))]:
        for number, line in tree.lines(path):
            if re.search(r"file\s*\(\s*GLOB|aux_source_directory", line.split("#")[0], re.IGNORECASE):
                breaches.append(f"{path}:{number}: sources are listed, not found by a glob")
    return breaches


SELF_TESTS = [
    ("named beside it", {"core/a/CMakeLists.txt": "add(SOURCES x.cpp)", "core/a/x.cpp": ""}, 0),
    ("named from above", {"core/CMakeLists.txt": "add(a/x.cpp)", "core/a/x.cpp": ""}, 0),
    ("named from the root", {"kernels/CMakeLists.txt": 'add("${ROOT}/tests/a/x.cpp")', "tests/a/x.cpp": ""}, 0),
    ("not named", {"core/a/CMakeLists.txt": "add(SOURCES x.cpp)", "core/a/x.cpp": "", "core/a/y.cpp": ""}, 1),
    ("named in a comment alone", {"core/a/CMakeLists.txt": "# x.cpp\n", "core/a/x.cpp": ""}, 1),
    ("a part of another name", {"core/a/CMakeLists.txt": "add(xx.cpp)", "core/a/x.cpp": ""}, 1),
    ("a glob", {"core/a/CMakeLists.txt": "file( GLOB s *.cpp)\nadd(x.cpp)", "core/a/x.cpp": ""}, 1),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)
