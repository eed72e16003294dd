#!/usr/bin/env python3
"""The C examples in README.md and docs/ compile: each ```c block is a whole file or, without an #include,
part of a function that can use the handles below."""
import re
import subprocess
import tempfile

import guard

BLOCK = re.compile(r"^```c\n(.*?)^```", re.DOTALL | re.MULTILINE)
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", "-Wno-unused-parameter", "-fsyntax-only"]
PIECE = """#include <inttypes.h>
#include <quire/quire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int piece(quire_runtime* runtime, quire_model* model, quire_cache* cache, quire_job* job, quire_queue* queue,
          quire_job_request* request, quire_error* error);
int piece(quire_runtime* runtime, quire_model* model, quire_cache* cache, quire_job* job, quire_queue* queue,
          quire_job_request* request, quire_error* error) {
%s
return 0;
}
"""


def compile_error(tree, code):
    """Returns the compiler's first error, or None."""
    whole = code if "#include" in code else PIECE % code
    with tempfile.NamedTemporaryFile("w", suffix=".c") as source:
        source.write(whole)
        source.flush()
        command = ["cc", *FLAGS, "-I", str(tree.root / "capi/include"), source.name]
        try:
            result = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError as error:
            raise guard.GuardError("the C compiler is missing") from error
    if result.returncode == 0:
        return None
    complaints = [line for line in result.stderr.splitlines() if "error" in line]
    return (complaints or ["it does not compile"])[0].split(": ", 1)[-1]


def check(tree):
    if not tree.select("quire.h", under=("capi/include/quire/",)):
        raise guard.GuardError("capi/include/quire/quire.h is missing")
    breaches, num_blocks = [], 0
    for path in [p for p in tree.paths if p == "README.md" or (p.startswith("docs/") and p.endswith(".md"))]:
        text = tree.read(path)
        for match in BLOCK.finditer(text):
            num_blocks += 1
            complaint = compile_error(tree, match.group(1))
            if complaint:
                breaches.append(f"{path}:{text.count(chr(10), 0, match.start()) + 2}: {complaint}")
    if num_blocks == 0:
        raise guard.GuardError("the documents have no C example")
    return breaches


HEADER = ("#include <stddef.h>\ntypedef struct q quire_runtime, quire_model, quire_cache, quire_job, quire_queue,"
          " quire_job_request, quire_error;\nint quire_model_free(quire_model* m, quire_error** e);\n")
SELF_TESTS = [
    ("a piece", {"capi/include/quire/quire.h": HEADER, "README.md": "```c\nquire_model_free(model, &error);\n```\n"}, 0),
    ("a wrong piece", {"capi/include/quire/quire.h": HEADER, "docs/a.md": "```c\nquire_model_free(model);\n```\n"}, 1),
    ("a whole file", {"capi/include/quire/quire.h": HEADER,
                      "README.md": "```c\n#include <quire/quire.h>\nint main(void) { return 0; }\n```\n"}, 0),
    ("an unknown name", {"capi/include/quire/quire.h": HEADER,
                         "README.md": "```c\n#include <quire/quire.h>\nint main(void) { return f(); }\n```\n"}, 1),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)
