#!/usr/bin/env python3
"""Words that must not occur in the repository: notes of unfinished work, paths of one machine, calls that a
library must not make in a host's process, and words of place that mean order."""
import re

import guard

TEXT = (".h", ".c", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake", ".txt", ".md", ".i", ".go", ".java", ".cs", ".in")
LIBRARY = ("core/", "kernels/", "capi/src/")
GENERATED = ("bindings/go/internal/native/",)

# Each word is written in two parts, so that this file does not contain it.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE_PATH = re.compile(r"(^|[\s\"'`(=])/(wo" r"rk|ho" r"me|ro" r"ot)/|/tmp/(build|brief)")

# In the library: no output, no end of the process, no locale, no state of the process, no std::regex.
FORBIDDEN_CALLS = re.compile(
    r"std::(cout|cerr|clog|regex|abort|exit|terminate|quick_exit|locale::global|setlocale|signal)\b"
    r"|#\s*include\s*<(regex|iostream|clocale)>"
    r"|(?<![\w:.>~])(abort|exit|_exit|printf|puts|setlocale|longjmp|setjmp|alloca|srand|rand|setenv|putenv)\s*\(")
COMMENT = re.compile(r'//.*|"(\\.|[^"\\])*"|/\*.*?\*/')

# In prose, order is expressed by "before" and "after"; words of place are allowed for a true place.
PROSE = ("core/", "kernels/", "capi/", "bindings/", "docs/")
PLACE = re.compile(r"\b(be" r"hind|in fr" r"ont)\b", re.IGNORECASE)
TRUE_PLACE = re.compile(
    r"(caches?|models?|put|stands?|one) (is |live )?be" r"hind (an?|the|it|its|his)\b|be" r"hind (an?|the) (alias|name)\b"
    r"|(leaves?|left) ([\w-]+ )*be" r"hind|hid(e|es|den) be" r"hind|(or|them) be" r"hind (Transport|an ordinary router)"
    r"|replaced be" r"hind it|queued be" r"hind", re.IGNORECASE)
PROSE_OF_CODE = re.compile(r'"(?:\\.|[^"\\])*"|((?://|/\*|^\s*\*|(?:^|\s)#\s).*)')


def prose(path, line):
    if path.endswith(".md"):
        return line
    return " ".join(match.group(1) or "" for match in PROSE_OF_CODE.finditer(line))


def prose_breaches(tree, path):
    if not path.startswith(PROSE) or path.startswith(GENERATED):
        return
    for number, line in tree.lines(path):
        match = PLACE.search(TRUE_PLACE.sub("", prose(path, line)))
        if match:
            yield f"{path}:{number}: \"{match.group(0)}\" for order: say before or after"


def library_breaches(tree, path):
    if not path.startswith(LIBRARY) or not path.endswith((".h", ".cpp", ".c", ".cu", ".cuh")):
        return
    in_comment = False
    for number, line in tree.lines(path):
        code = COMMENT.sub("", line)
        if in_comment:
            if "*/" not in code:
                continue
            code, in_comment = code.split("*/", 1)[1], False
        if "/*" in code:
            code, in_comment = code.split("/*", 1)[0], True
        match = FORBIDDEN_CALLS.search(code)
        if match:
            yield f"{path}:{number}: {match.group(0).strip()} has no place in a library"


def check(tree):
    paths = tree.select(*TEXT) + [p for p in ("dev", ".ci/run") if p in tree.paths]
    if not paths:
        raise guard.GuardError("there are no text files")
    breaches = []
    for path in paths:
        for number, line in tree.lines(path):
            for pattern in (UNFINISHED, MACHINE_PATH):
                match = pattern.search(line)
                if match:
                    breaches.append(f"{path}:{number}: {match.group(0).strip()}")
        breaches += library_breaches(tree, path)
        breaches += prose_breaches(tree, path)
    return breaches


SELF_TESTS = [
    ("clean", {"core/a.cpp": "// exit (of a loop), printf()\nint x = f.exit();\n"}, 0),
    ("unfinished", {"docs/a.md": "TO" "DO: more\n"}, 1),
    ("a path of one machine", {"docs/a.md": "see /ho" "me/me/x\n"}, 1),
    ("prints", {"core/a.cpp": 'void f() { printf("x"); }\n'}, 1),
    ("ends the process", {"kernels/a.cu": "if (x) std::abort();\n"}, 1),
    ("in a comment of several lines", {"core/a.cpp": "/* first\n abort();\n*/ int x;\n"}, 0),
    ("after such a comment", {"core/a.cpp": "/* first\n*/ abort();\n"}, 1),
    ("a test may", {"tests/a.cpp": "std::abort();\n"}, 0),
    ("order as a place", {"core/a.h": "int x;  // the token be" "hind it\n"}, 1),
    ("order as a place, in a document", {"docs/a.md": "In fr" "ont of it comes another.\n"}, 1),
    ("a true place", {"docs/a.md": "The cache be" "hind the alias leaves nothing be" "hind.\n"}, 0),
    ("in code and texts", {"core/a.cpp": 'f(be' 'hind, "queued be' 'hind it");\n'}, 0),
    ("std::regex", {"core/a.h": "#include <regex>\n"}, 1),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)
