#!/usr/bin/env python3
"""Generates the manual pages of the C interface from the public headers: a page for each header, and for each function
a page that leads there.

  functions.py --version VERSION --out FOLDER    writes FOLDER/man3
"""
import argparse
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "capi"))

import headers  # noqa: E402
from manual import escaped  # noqa: E402

FIRST_COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)


def page_name(header):
    return "quire_" + header.removesuffix(".h")


def paragraphs(comment):
    """Returns the paragraphs of a comment, each in one line."""
    lines = [re.sub(r"^\s*\* ?", "", line).strip() for line in comment.splitlines()]
    return [" ".join(block.split("\n")) for block in re.split(r"\n{2,}", "\n".join(lines).strip()) if block]


def declaration(function):
    """Returns the declaration with one parameter a line, as synopses of other libraries have it."""
    given = [f"{kind} {name}" for kind, name in function.parameters] or ["void"]
    return [f"{function.result} {function.name}("] + [f"    {one}," for one in given[:-1]] + [f"    {given[-1]});"]


def page(header, text, functions, constants, version):
    name = page_name(header)
    about = paragraphs(FIRST_COMMENT.search(text).group(1))
    summary = re.split(r"(?<=[.:;])\s", about[0])[0].rstrip(".:;")
    listed = [name] + [one.name for one in functions if one.name != name]
    lines = [f'.TH {name.upper()} 3 "" "Quire {version}" "C interface of Quire"', ".nh", ".ad l", ".SH NAME",
             f"{', '.join(listed)} \\- {escaped(summary[:1].lower() + summary[1:])}", ".SH SYNOPSIS",
             f".B #include <quire/{header}>", ".SH DESCRIPTION"]
    for number, paragraph in enumerate(about):
        lines += [".PP"] * (number > 0) + [escaped(paragraph)]
    if functions:
        lines.append(".SH FUNCTIONS")
    for function in functions:
        lines += [f".SS {function.name}", ".nf", *map(escaped, declaration(function)), ".fi", ".PP",
                  escaped(function.comment)]
    if constants:
        lines.append(".SH CONSTANTS")
    for constant in constants:
        lines += [".TP", f"\\fB{constant.name}\\fR = {escaped(constant.value)}",
                  escaped(constant.comment or constant.above) or "\\&"]
    return "\n".join(lines + [".SH SEE ALSO", "\\fBquire\\fR(1), \\fBquire_base\\fR(3)"]) + "\n"


def pages(version):
    """Returns {name of a file: text}."""
    texts = {header: text for header, text in headers.read().items() if header != "quire.h"}
    functions, constants = list(headers.functions(texts)), list(headers.constants(texts))
    made = {}
    for header, text in sorted(texts.items()):
        own = [one for one in functions if one.header == header]
        made.update({f"{one.name}.3": f".so man3/{page_name(header)}.3\n" for one in own})
        made[f"{page_name(header)}.3"] = page(header, text, own, [one for one in constants if one.header == header], version)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    folder = options.out / "man3"
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.3"):
        stale.unlink()
    for name, text in pages(options.version).items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
