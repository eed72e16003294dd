#!/usr/bin/env python3
"""Checks that the examples of Go, Java and C# in README.md and docs/ compile. Each is the body of a function whose
parameters are the objects below, without those that it creates itself.

doc_examples.py LANGUAGE FOLDER COMMAND...: writes each example into FOLDER as a whole file (EXAMPLE.go and so on),
runs the command there, and prints the compiler's output for those that do not compile.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

GO = """package example
import (%(imports)s
	"quire.dev/quire"
)
func piece(%(parameters)s) error {
%(code)s
%(uses)s
	return nil
}
"""
JAVA = """import dev.quire.*;
import dev.quire.CacheOptions.*;
import java.time.Duration;
import java.util.*;
class Example {
  static void piece(%(parameters)s) {
%(code)s
  }
}
"""
CSHARP = """using System;
using System.Collections.Generic;
using System.Threading;
using Quire;
static class Example
{
    static void Piece(%(parameters)s)
    {
%(code)s
    }
}
"""
# Language of the block, file name, template of the file, and the parameters: (name, declaration).
LANGUAGES = {
    "go": ("go", "example.go", GO, [
        ("ctx", "ctx context.Context"), ("path", "path, prompt string"), ("runtime", "runtime *quire.Runtime"),
        ("model", "model *quire.Model"), ("cache", "cache *quire.Cache"),
        ("config", "config *server.Config"), ("log", "log *server.Logger")]),
    "java": ("java", "Example.java", JAVA, [
        ("path", "String path"), ("prompt", "String prompt"), ("runtime", "QuireRuntime runtime"),
        ("model", "Model model"), ("cache", "Cache cache")]),
    "csharp": ("csharp", "Example.cs", CSHARP, [
        ("path", "string path"), ("prompt", "string prompt"), ("runtime", "Runtime runtime"),
        ("model", "Model model"), ("cache", "Cache cache"),
        ("cancellationToken", "CancellationToken cancellationToken")]),
}
GO_PACKAGES = ("context", "errors", "fmt", "io", "net/http", "time", "quire.dev/quire/server",
               "quire.dev/quire/server/local")


def made_by(code):
    """Returns the variables that an example declares at its outermost level."""
    made = re.findall(r"^(\w+)(?:, (\w+))? :=", code, re.MULTILINE)
    made += re.findall(r"^(?:try \(|using \(| +)?(?:var|[A-Z]\w*) (\w+)(?:, (\w+))? =", code, re.MULTILINE)
    return {name for names in made for name in names if name}


def whole_file(text, at_hand, code):
    made = made_by(code)
    parameters = ", ".join(parameter for name, parameter in at_hand if name not in made)
    used = re.sub(r"//.*", "", code) + parameters
    packages = [name for name in GO_PACKAGES if re.search(rf"\b{name.split('/')[-1]}\.", used)]
    return text % {"parameters": parameters, "code": code, "uses": "".join(f"\t_ = {name}\n" for name in sorted(made)),
                   "imports": "".join(f'\n\t"{name}"' for name in packages)}


def main():
    language, folder, command = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    block, file_name, text, at_hand = LANGUAGES[language]
    folder.mkdir(parents=True, exist_ok=True)
    num_examples = num_broken = 0
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for code in re.findall(rf"^```{block}\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            num_examples += 1
            (folder / file_name).write_text(whole_file(text, at_hand, code), encoding="utf-8")
            result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if result.returncode != 0:
                num_broken += 1
                print(f"{path.name}: this does not compile:\n{code}{result.stdout}{result.stderr}")
    print(f"{num_examples} examples, {num_broken} broken")
    sys.exit(0 if num_examples > 0 and num_broken == 0 else 1)


if __name__ == "__main__":
    main()
