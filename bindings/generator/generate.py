#!/usr/bin/env python3
"""Writes the common part of the layers of Go, Java and C#: enums, figures, settings and methods. The input is the
headers and interface.py. The Go layer is committed, since users compile it with their modules; the other layers are
made by the build."""
import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "capi"), str(HERE)]

import csharp  # noqa: E402
import golang  # noqa: E402
import headers  # noqa: E402
import java  # noqa: E402
import purego  # noqa: E402
import shape  # noqa: E402

LANGUAGES = {"go": golang, "java": java, "csharp": csharp}


def files(language, texts=None):
    """Returns {path: text} of a language, from the headers of the project or from the given texts."""
    made = shape.read(list(headers.functions(texts)), list(headers.constants(texts)))
    return LANGUAGES[language].files(made)


def outputs(language):
    """Returns the generated files of a language: its layer and, for Go, also the native layer for builds without cgo."""
    return files(language) | (purego.files() if language == "go" else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("language", choices=LANGUAGES)
    parser.add_argument("--check", action="store_true", help="compare with the existing files")
    parser.add_argument("--list", action="store_true", help="print the names of the files only")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT, help="root folder of the output")
    arguments = parser.parse_args()
    for path, text in outputs(arguments.language).items():
        target = arguments.output / path
        if arguments.list:
            print(path)
        elif not arguments.check:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        elif not target.is_file() or target.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} is out of date: run bindings/generator/generate.py {arguments.language}")


if __name__ == "__main__":
    main()
