#!/usr/bin/env python3
"""Writes one C++ entry for each parameter of the public functions that can be misused: each handle, and each pointer
that has a length. misuse_test.cpp includes the table and defines its entries."""
import argparse
import pathlib
import re
import sys

DECLARATION = re.compile(r"QUIRE_API\s+([^;(]*?)\b(quire_\w+)\s*\(([^;]*)\);", re.DOTALL)
# Parameters for which NULL has a meaning.
NULLABLE = {
    ("quire_runtime_create", "options"), ("quire_cache_create", "options"),
    ("quire_cache_required_bytes", "options"), ("quire_model_options_set_planned_cache", "cache"),
    ("quire_plan_create", "cache"), ("quire_alias_set_cache", "cache"), ("quire_job_request_set_queue", "queue"),
    ("quire_job_request_set_constraint", "constraint"), ("quire_job_request_set_chat_template", "chat"),
    ("quire_response_detect", "model"),
}
# In a wait this may be NULL for every function.
OPTIONAL_PARAMETER = "cancel"
NOT_A_WAIT = {"quire_cancel_trigger", "quire_cancel_is_triggered"}

# Values for the parameters that are not under test. Lengths follow their pointers.
ORDINARY = {
    "const char*": '"a"', "const int32_t*": "valid.tokens", "int32_t*": "nullptr", "int64_t*": "nullptr",
    "uint8_t*": "nullptr", "float*": "nullptr", "char*": "nullptr", "size_t*": "nullptr", "void*": "nullptr",
    "quire_log_fn": "nullptr", "quire_progress_fn": "nullptr", "double": "0.5", "int32_t": "1", "int64_t": "1",
    "uint64_t": "1", "quire_error**": "error", "quire_event**": "valid.events", "quire_job**": "nullptr",
}
LENGTH_OF_INPUT = {"text_len", "num_tokens"}


def declarations(include):
    headers = sorted((include / "quire").glob("*.h"))
    if not headers:
        sys.exit(f"{include}/quire has no headers")
    for header in headers:
        text = re.sub(r"/\*.*?\*/", " ", header.read_text(encoding="utf-8"), flags=re.DOTALL)
        for result, name, arguments in DECLARATION.findall(text):
            yield without_blanks(result), name, parameters_of(arguments)


def without_blanks(type_text):
    words = type_text.split()
    return ("const " if words[0] == "const" else "") + "".join(word for word in words if word != "const")


def parameters_of(arguments):
    """Returns (type, name) of each parameter; types have no blanks except after const."""
    text = " ".join(arguments.split())
    if text in ("", "void"):
        return []
    pairs = (re.fullmatch(r"(.*?)(\w+)", part.strip()).groups() for part in text.split(","))
    return [(without_blanks(type_text), name) for type_text, name in pairs]


def is_handle(type_text):
    return re.fullmatch(r"quire_\w+\*", type_text) is not None


def value_of(type_text, name):
    if is_handle(type_text):
        return f"valid.{type_text[len('quire_'):-1]}"
    if type_text == "size_t":
        return "1" if name in LENGTH_OF_INPUT else "0"
    return ORDINARY[type_text]


def call(name, parameters, index, replacement, length=None):
    values = [value_of(type_text, parameter) for type_text, parameter in parameters]
    values[index] = replacement
    if length is not None:
        values[index + 1] = length
    return f"{name}({', '.join(values)})"


def is_optional(name, parameter):
    return (name, parameter) in NULLABLE or (parameter == OPTIONAL_PARAMETER and name not in NOT_A_WAIT)


def cases(result, name, parameters):
    for index, (type_text, parameter) in enumerate(parameters):
        if is_handle(type_text):
            kind = "free" if parameter == "handle" else "optional" if is_optional(name, parameter) else "required"
            bad = f"static_cast<{type_text}>(bad)"
            yield (f'{{"{name}", "{parameter}", "{type_text[:-1]}", Kind::{kind}_handle, '
                   f"[](void* bad, const Valid& valid, quire_error** error) {{ (void)bad; (void)valid; "
                   f"return has_failed({call(name, parameters, index, bad)}); }}}},")
        elif type_text.endswith("*") and parameters[index + 1:][:1] and parameters[index + 1][0] == "size_t":
            yield (f'{{"{name}", "{parameter}", "", Kind::pointer, '
                   f"[](void* bad, const Valid& valid, quire_error** error) {{ (void)bad; (void)valid; "
                   f"return has_failed({call(name, parameters, index, 'nullptr', '5')}); }}}},")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    lines = []
    num_functions = 0
    for result, name, parameters in declarations(arguments.include):
        # These have no error parameter. guard_test.cpp tests them.
        if name.startswith("quire_error_"):
            continue
        num_functions += 1
        lines += cases(result, name, parameters)
    lines = [f"// From {num_functions} functions, by misuse_generator.py.", "// clang-format off", *lines]
    arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
