#!/usr/bin/env python3
"""Reach: the hand-written layer of each language calls every function of the C interface and has a name for
every constant, so that Go, Java and C# programs can use all of them."""
import re
import sys

import guard

HEADERS = "capi/include/quire/"
DECLARATION = re.compile(r"QUIRE_API\b[^;(]*?\b(quire_\w+)\s*\(")
CONSTANT = re.compile(r"^#define (QUIRE_(?!API\b|\w+_H\b)\w+) ", re.MULTILINE)
SETTINGS = (HEADERS + "options.h", HEADERS + "request.h")
# Files of a layer, their suffixes, and the headers whose constants need a name in the layer. SWIG makes those
# of Java public, which suffices for results; settings take an enum. Functions called by a typemap count as
# reached.
LANGUAGES = {
    "Go": (("bindings/go/", "bindings/typemaps/go.i"), (".go", ".i"), (HEADERS,)),
    "Java": (("bindings/java/dev/quire/", "bindings/typemaps/java.i"), (".java", ".i"), SETTINGS),
    "C#": (("bindings/csharp/", "bindings/typemaps/csharp.i"), (".cs", ".i"), (HEADERS,)),
}
GENERATED = "bindings/go/internal/"
# Generator of the files of a layer that are not committed.
GENERATOR = "bindings/generator/generate.py"
GENERATED_WITH_BUILD = {"Java": "java", "C#": "csharp"}
FOR_A_SINK = "of use with a log sink alone"
OF_THE_HEADER = "of the header; quire_version_string tells of the library"
TAKEN_IN_BATCHES = "these languages take events with the drains"
ANSWER_OF_A_WAIT = "an error, a timeout or a cancelled wait shows itself otherwise there"
FILLED_ANEW = "a request is filled anew for each use"
# Reasons why a layer may omit a function or constant.
EXEMPT = {
    "QUIRE_VERSION_MAJOR": OF_THE_HEADER,
    "QUIRE_VERSION_MINOR": OF_THE_HEADER,
    "QUIRE_VERSION_PATCH": OF_THE_HEADER,
    "QUIRE_VERSION_STRING": OF_THE_HEADER,
    "QUIRE_WAIT_CANCELLED": ANSWER_OF_A_WAIT,
    "QUIRE_WAIT_FAILED": ANSWER_OF_A_WAIT,
    "QUIRE_WAIT_TIMEOUT": ANSWER_OF_A_WAIT,
    "quire_cancel_is_triggered": "a context or token of the language tells",
    "quire_job_request_clear_logit_biases": FILLED_ANEW,
    "quire_job_request_clear_banned_texts": FILLED_ANEW,
    "quire_job_request_clear_stop_texts": FILLED_ANEW,
    "quire_job_poll": TAKEN_IN_BATCHES,
    "quire_queue_poll": TAKEN_IN_BATCHES,
    "quire_queue_fd": "for event loops; these languages wait in threads",
    "quire_runtime_options_set_log_level": FOR_A_SINK,
    "quire_runtime_options_set_log_sink": "called on threads that block all signals, with which runtimes stop threads",
}


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def declared(tree):
    """Yields (path, name, whether it is a constant) of the declarations in the headers."""
    for path in tree.select(".h", under=(HEADERS,)):
        if path.endswith("experimental.h"):
            continue  # for benchmarks only
        text = without_comments(tree.read(path))
        yield from ((path, name, False) for name in DECLARATION.findall(text))
        yield from ((path, name, True) for name in CONSTANT.findall(tree.read(path)))


def generated_with_build(tree, language):
    if language not in GENERATED_WITH_BUILD or GENERATOR not in tree.paths:
        return ""
    sys.path.insert(0, str((tree.root / GENERATOR).parent))
    import generate  # pylint: disable=import-outside-toplevel
    headers = {path.rsplit("/", 1)[1]: tree.read(path) for path in tree.select(".h", under=(HEADERS,))}
    return without_comments("\n".join(generate.files(GENERATED_WITH_BUILD[language], headers).values()))


def names_in_layer(tree, language, files, suffixes):
    """Returns the C names in the code of a layer. SWIG capitalizes function names in Go."""
    paths = [p for p in tree.select(*suffixes, under=files) if not p.startswith(GENERATED)]
    if not paths:
        raise guard.GuardError(f"{files[0]} has no sources")
    text = "\n".join(without_comments(tree.read(path)) for path in paths) + generated_with_build(tree, language)
    return {name.replace("Quire_", "quire_") for name in re.findall(r"\b(?:[Qq]uire_|QUIRE_)\w+", text)}


def check(tree):
    interface = list(declared(tree))
    if not interface:
        raise guard.GuardError(f"{HEADERS} declares nothing")
    breaches = []
    reached = {language: names_in_layer(tree, language, files, suffixes)
               for language, (files, suffixes, _) in LANGUAGES.items()}
    for path, name, is_constant in interface:
        lacking = [language for language, (_, _, named) in LANGUAGES.items()
                   if name not in reached[language] and (not is_constant or path.startswith(named))]
        if lacking and name not in EXEMPT:
            breaches.append(f"{path}: {name} is not reached from the layer of {', '.join(lacking)} in bindings/")
        if not lacking and name in EXEMPT:
            breaches.append(f"{path}: {name} is reached from every layer: nothing to exempt")
    return breaches


def layers(go="", java="", csharp=""):
    """Returns a tree with one header and three layers."""
    return {HEADERS + "a.h": "#define QUIRE_A_ONE 1 /* one */\n#define QUIRE_A_H\n#define QUIRE_API x\n"
                             "QUIRE_API int32_t\nquire_a_tell(quire_a* a);\n/* QUIRE_API int quire_old(); */\n"
                             "QUIRE_API int quire_queue_fd(quire_queue* queue);\n",
            "bindings/go/a.go": go, "bindings/java/dev/quire/A.java": java, "bindings/csharp/A.cs": csharp}


GO = "native.Quire_a_tell(native.QUIRE_A_ONE)"
JAVA = "QuireNative.quire_a_tell(a)"
CSHARP = "One = QuireNative.QUIRE_A_ONE, QuireNative.quire_a_tell(a)"
SELF_TESTS = [
    ("reached", layers(GO, JAVA, CSHARP), 0),
    ("not in Java", layers(GO, "", CSHARP), 1),
    ("in a comment alone", layers("// " + GO, JAVA, CSHARP), 2),
    ("a longer name", layers(GO, JAVA.replace("tell", "tell_more"), CSHARP), 1),
    ("a constant that has no name", layers("native.Quire_a_tell(1)", JAVA, CSHARP), 1),
    ("in generated code alone", dict(layers("", JAVA, CSHARP), **{GENERATED + "native/a.go": GO}), 2),
    ("through a typemap", dict(layers(GO, "", CSHARP), **{"bindings/typemaps/java.i": "quire_a_tell(a);"}), 0),
    ("a constant of a setting that has no name", dict(layers(GO, JAVA, CSHARP), **{SETTINGS[0]:
        "#define QUIRE_A_ONE 1\n"}), 1),
    ("exempt and reached by all", layers(*(code + " quire_queue_fd" for code in (GO, JAVA, CSHARP))), 1),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)
