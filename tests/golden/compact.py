#!/usr/bin/env python3
"""Writes JSON files of golden data compactly: one case per line, no other white space.

    python3 tests/golden/compact.py FILE...

Members of the outermost object and elements of the outermost array get a line each, and so do the elements of a list
of cases: an array of objects or arrays that is a member of the outermost object. Everything else stays on its line.
Only white space changes: numbers, escapes and the order of keys are kept as they are written.
"""
import json
import pathlib
import re
import sys

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def literal_value(text):
    """Returns the value of a document with numbers as they are written and objects as lists of members."""
    return json.loads(text, object_pairs_hook=lambda members: ["object", *members], parse_float=lambda x: ("number", x),
                      parse_int=lambda x: ("number", x))


def has_lines(tokens, i, depth):
    """True if the container that begins at token `i` has a line for each of its members."""
    if tokens[i + 1] in "}]":
        return False
    is_list_of_cases = tokens[0] == "{" and tokens[i] == "[" and tokens[i + 1] in ("{", "[")
    return depth == 0 or (depth == 1 and is_list_of_cases)


def compact(text):
    """Returns the same document with one case per line."""
    tokens = TOKEN.findall(text)
    out, lined = [], []
    for i, token in enumerate(tokens):
        if token in ("{", "["):
            lined.append(has_lines(tokens, i, len(lined)))
            out.append(token + "\n" * lined[-1])
        elif token in ("}", "]"):
            out.append("\n" * lined.pop() + token)
        elif token == ",":
            out.append(token + "\n" * lined[-1])
        else:
            out.append(token)
    result = "".join(out) + "\n"
    if literal_value(result) != literal_value(text):
        raise ValueError("the compact text has another value")
    return result


def text_of(value):
    """Returns a value as a compact document, for the scripts that make golden data."""
    return compact(json.dumps(value, ensure_ascii=False))


def main():
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        text = path.read_bytes().decode()
        path.write_bytes(compact(text).encode())


if __name__ == "__main__":
    main()
