#!/usr/bin/env python3
"""Writes what the layers of Go, Java and C# say alike: enums, figures, settings and methods, from the headers and from
interface.py. That of Go is committed, since a module is built where it is used; the others are made with the build."""
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
    """{path: text} of a language, from the headers of the project or from these."""
    made = shape.read(list(headers.functions(texts)), list(headers.constants(texts)))
    return LANGUAGES[language].files(made)


def outputs(language):
    """What is written of a language: its layer, and below that of Go the native one for builds without cgo."""
    return files(language) | (purego.files() if language == "go" else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("language", choices=LANGUAGES)
    parser.add_argument("--check", action="store_true", help="compare with what is there")
    parser.add_argument("--list", action="store_true", help="print the names of the files")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT, help="the root of what is written")
    arguments = parser.parse_args()
    for path, text in outputs(arguments.language).items():
        target = arguments.output / path
        if arguments.list:
            print(path)
        elif not arguments.check:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        elif not target.is_file() or target.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} is not what bindings/generator writes: run bindings/generator/generate.py {arguments.language}")


if __name__ == "__main__":
    main()
