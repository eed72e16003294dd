#!/usr/bin/env python3
"""Interleavings: capi_interleaving_test calls every public function that takes a handle against each other,
including new ones."""
import re

import guard

HEADERS = "capi/include/quire/"
ENTRIES = "tests/stress/c_entry_points.cpp"
OF_REQUESTS = "tests/stress/c_request_entries.cpp"
DECLARATION = re.compile(r"QUIRE_API\b[^;(]*?\b(quire_\w+)\s*\(([^;]*)\);", re.DOTALL)
HANDLE = re.compile(r"\bquire_\w+\s*\*(?!\*)")
# Functions that are left out, with reasons.
EXEMPT = {
    "quire_error_is_retryable": "reads an error that one thread has",
    "quire_error_retry_after_ns": "reads an error that one thread has",
    "quire_runtime_measure_read_rate": "takes tenths of a second",
    "quire_runtime_measure_op_rate": "takes tenths of a second",
    "quire_runtime_serve_stage": "serves other processes until it is cancelled",
}


def functions_with_handles(tree):
    for path in tree.select(".h", under=(HEADERS,)):
        text = re.sub(r"/\*.*?\*/", " ", tree.read(path), flags=re.DOTALL)
        for name, parameters in DECLARATION.findall(text):
            if HANDLE.search(re.sub(r"quire_error\s*\*\*", "", parameters)):
                yield path, name


def check(tree):
    functions = list(functions_with_handles(tree))
    if not functions:
        raise guard.GuardError(f"{HEADERS} declares no function that takes a handle")
    if ENTRIES not in tree.paths:
        raise guard.GuardError(f"there is no {ENTRIES}")
    text = "".join(tree.read(path) for path in (ENTRIES, OF_REQUESTS) if path in tree.paths)
    called = set(re.findall(r"\bquire_\w+", re.sub(r"//.*", "", text)))
    return [f"{path}: {name} is no call of {ENTRIES}" for path, name in functions
            if name not in called and name not in EXEMPT]


HEADER = "QUIRE_API int32_t\nquire_a_tell(quire_a* a,\n quire_error** error);\n"
SELF_TESTS = [
    ("called", {HEADERS + "a.h": HEADER, ENTRIES: "call(quire_a_tell, w.a);"}, 0),
    ("not called", {HEADERS + "a.h": HEADER, ENTRIES: "call(quire_a_tell_more, w.a);"}, 1),
    ("called in a comment alone", {HEADERS + "a.h": HEADER, ENTRIES: "// quire_a_tell"}, 1),
    ("takes no handle", {HEADERS + "a.h": HEADER + "QUIRE_API quire_a* quire_a_make(quire_error** error);",
                         ENTRIES: "quire_a_tell"}, 0),
    ("excused", {HEADERS + "a.h": HEADER.replace("quire_a_tell", "quire_runtime_measure_op_rate"), ENTRIES: ""}, 0),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)
