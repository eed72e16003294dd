#!/usr/bin/env python3
"""The public headers: each compiles alone and twice without a warning, as C99, as C++20 and in the dialects between.
Each obeys the rules of the interface, so that it can be bound to other languages and stays compatible."""
import argparse
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

DIALECTS = [("c", "c99"), ("c", "c11"), ("c", "c17"), ("c++", "c++11"), ("c++", "c++17"), ("c++", "c++20")]
DECLARATION = re.compile(r"QUIRE_API\s+([^;(]*?)\b(quire_\w+)\s*\(([^;]*)\);", re.DOTALL)
# Types that may be passed and returned: handles, integers of fixed width, double, bytes, arrays of numbers, and
# pointers for handles that a call creates: its error, events and jobs.
SCALARS = {"int32_t", "int64_t", "uint64_t", "size_t", "double", "void"}
POINTEES = {"char", "const char", "const int32_t", "int32_t", "int64_t", "uint8_t", "float", "size_t", "void"}
CALLBACKS = {"quire_log_fn", "quire_progress_fn"}
# Parameter names that typemaps match on, with the name that must follow.
PAIRS = {"text": "text_len", "tokens": "num_tokens", "out_text": "out_capacity", "out_tokens": "out_capacity",
         "out_values": "out_capacity", "out_bytes": "out_capacity", "out_sizes": "out_capacity", "out_counts": "out_capacity",
         "out_events": "max_events", "out_jobs": "num_jobs"}


def strip_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


def compile_failures(include, header, compilers):
    for compiler, (language, standard) in itertools.product(compilers, DIALECTS):
        for source in (f"#include <quire/{header}>\n", f"#include <quire/{header}>\n" * 2):
            command = [compiler, "-x", language, f"-std={standard}", "-pedantic-errors", "-Wall", "-Wextra",
                       "-Wconversion", "-Wstrict-prototypes" if language == "c" else "-Wold-style-cast", "-Werror",
                       "-fsyntax-only", f"-I{include}", "-"]
            result = subprocess.run(command, input=source, text=True, capture_output=True)
            if result.returncode != 0:
                yield f"{header}: {compiler} -std={standard}: {result.stderr.strip()}"


def is_allowed(type_text):
    words = " ".join(type_text.replace("*", " * ").split())
    if words in SCALARS or words in CALLBACKS:
        return True
    if words in ("quire_error * *", "quire_event * *", "quire_job * *"):
        return True
    if not words.endswith(" *"):
        return False
    pointee = words[:-2]
    return pointee in POINTEES or re.fullmatch(r"quire_\w+", pointee) is not None


def parameters_of(arguments):
    """Returns (type, name) of each parameter."""
    text = " ".join(arguments.split())
    if text in ("", "void"):
        return []
    return [re.fullmatch(r"(.*?)(\w+)", part.strip()).groups() for part in text.split(",")]


def signature_breaches(result, name, arguments):
    if "..." in arguments:
        yield f"{name}: variable arguments"
        return
    parameters = parameters_of(arguments)
    for type_text, parameter in parameters:
        if not is_allowed(type_text):
            yield f"{name}: {parameter} is a {type_text.strip()}"
    if not is_allowed(result):
        yield f"{name}: returns a {result.strip()}"
    names = [parameter for _, parameter in parameters]
    for first, second in PAIRS.items():
        if first in names and names[names.index(first) + 1:][:1] != [second]:
            yield f"{name}: {first} is not followed by {second}"
    exempt = name.startswith("quire_error_") or name == "quire_version_string"
    if not exempt and names[-1:] != ["error"]:
        yield f"{name}: the error is not its last parameter"
    frees = name.endswith("_free") and parameters[0][0].strip().startswith(name.removesuffix("_free"))
    if frees and names[:1] != ["handle"]:
        yield f"{name}: what it frees is not called handle"


def rule_breaches(header, text):
    code = strip_comments(text)
    if "//" in re.sub(r'"[^"\n]*"', "", code):
        yield f"{header}: a comment of another kind than /* */"
    for word, what in (("enum", "an enumeration"), ("union", "a union"), ("bool", "a bool"), ("float ", None)):
        if what and re.search(rf"\b{word}\b", code):
            yield f"{header}: {what}"
    if re.search(r"\bstruct\s+\w+\s*\{", code):
        yield f"{header}: a struct that is not opaque"
    if re.search(r"^#define\s+QUIRE_\w+\s+.*\b\d+[uUlL]+\b", code, re.MULTILINE):
        yield f"{header}: a constant with a suffix, which bindings copy into languages that do not know it"
    for result, name, arguments in DECLARATION.findall(code):
        yield from signature_breaches(result, name, arguments)
    declared = len(re.findall(r"^\s*QUIRE_API\b", code, re.MULTILINE))
    if declared != len(DECLARATION.findall(code)):
        yield f"{header}: {declared} functions, of which {len(DECLARATION.findall(code))} can be read"
    documented = len(re.findall(r"\*/\nQUIRE_API\b", text))
    if documented != declared:
        yield f"{header}: {declared} functions, of which {documented} have a comment right before them"


def check(include, compilers):
    headers = sorted(path.name for path in (include / "quire").glob("*.h"))
    if "quire.h" not in headers:
        return ["quire.h is missing"]
    breaches = []
    umbrella = (include / "quire/quire.h").read_text()
    for header in headers:
        text = (include / "quire" / header).read_text()
        breaches += rule_breaches(header, text)
        breaches += compile_failures(include, header, compilers)
        if header not in ("quire.h", "experimental.h") and f"#include <quire/{header}>" not in umbrella:
            breaches.append(f"quire.h does not include {header}")
    return breaches


GOOD = ("#ifndef A_H\n#define A_H\n#include <stddef.h>\n#include <stdint.h>\n#define QUIRE_API\n"
        "typedef struct quire_error quire_error;\ntypedef struct quire_a quire_a;\n"
        "/** Does it. */\nQUIRE_API int32_t quire_a_do(quire_a* a, quire_error** error);\n#endif\n")
LINE = "QUIRE_API int32_t quire_a_do(quire_a* a, quire_error** error);"
BROKEN = {
    "a line comment": GOOD + "// no\n",
    "no comment": GOOD.replace("/** Does it. */\n", ""),
    "an enumeration": GOOD + "enum quire_e { QUIRE_E };\n",
    "an open struct": GOOD + "struct quire_s { int32_t x; };\n",
    "a struct by value": GOOD.replace(LINE, "QUIRE_API int32_t quire_a_do(quire_s a, quire_error** error);"),
    "an int": GOOD.replace(LINE, "QUIRE_API int quire_a_do(quire_a* a, quire_error** error);"),
    "variable arguments": GOOD.replace(LINE, "QUIRE_API int32_t quire_a_do(quire_a* a, ...);"),
    "no error": GOOD.replace(LINE, "QUIRE_API int32_t quire_a_do(quire_a* a);"),
    "text without length": GOOD.replace(LINE, "QUIRE_API int32_t quire_a_do(const char* text, quire_error** error);"),
    "a constant with a suffix": GOOD + "#define QUIRE_X 1u\n",
    "what does not compile": GOOD + "int32_t 3x;\n",
    "not guarded": GOOD + "typedef int32_t quire_b; struct quire_c;\n#undef A_H\nstatic int32_t quire_d = 1;\n",
}


def self_test(compilers):
    def breaches_of(text):
        with tempfile.TemporaryDirectory() as folder:
            include = pathlib.Path(folder)
            (include / "quire").mkdir()
            (include / "quire/a.h").write_text(text)
            (include / "quire/quire.h").write_text("#include <quire/a.h>\n")
            return check(include, compilers)
    failures = [f"{what} is not found" for what, text in BROKEN.items() if not breaches_of(text)]
    good = breaches_of(GOOD)
    return failures + [f"a good header: {breach}" for breach in good]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", action="append", required=True)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    breaches = self_test(arguments.compiler) if arguments.self_test else check(arguments.include, arguments.compiler)
    print("\n".join(breaches) or "ok")
    sys.exit(1 if breaches else 0)


if __name__ == "__main__":
    main()
