#!/usr/bin/env python3
"""Runs programs of .NET under CoreCLR, without a machine-wide installation.

usage: coreclr.py run PROGRAM LIB_DIR ARGUMENTS...     a program for Mono, with Quire.dll and its native library in LIB_DIR
       coreclr.py adapter LIB_DIR FOLDER ARGUMENTS...  Quire.Extensions.AI compiled, its tests, and the examples of
                                                       docs/integrations.md

packaging/dist/dotnet.py runs and compiles them. Exits with status 77 and a message if `./dev artifacts` has not brought
a runtime. Downloads nothing.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "packaging/dist"))

from dotnet import ROSLYN, RUNTIME, compiled, missing, run  # noqa: E402

IMPORTS = ["System", "System.Collections.Generic", "System.Linq", "System.Threading", "System.Threading.Tasks",
           "Microsoft.Extensions.AI", "Microsoft.Extensions.DependencyInjection", "Quire", "Quire.Extensions.AI"]


def require(*paths):
    absent = missing(*paths)
    if absent:
        print(f"skipped: no {absent}; ./dev artifacts brings it")
        sys.exit(77)


def example(code, number):
    """Returns a whole program from an example, which has the path of a model as an argument."""
    imports = "".join(f"using {name};\n" for name in IMPORTS)
    return (f"{imports}internal static class Example{number}\n{{\n    public static async Task Main(string[] arguments)\n    {{\n"
            f"        string path = arguments[0];\n{code}\n        await Task.Yield();\n    }}\n}}\n")


def run_examples(folder, references, lib, model):
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    codes = re.findall(r"^```csharp extensions-ai\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert codes, "docs/integrations.md has no example of C#"
    for number, code in enumerate(codes):
        source = folder / f"Example{number}.cs"
        source.write_text(example(code, number), encoding="utf-8")
        run(compiled(folder / f"Example{number}.dll", [source], references), lib, [model])


def check_version():
    header = (ROOT / "capi" / "include" / "quire" / "version.h").read_text()
    version = re.search(r'QUIRE_VERSION_STRING "([^"]+)"', header).group(1)
    project = (ROOT / "bindings" / "csharp" / "extensions-ai" / "Quire.Extensions.AI.csproj").read_text()
    assert f"<Version>{version}</Version>" in project, f"Quire.Extensions.AI.csproj has not the version {version}"


def adapter(lib, folder, arguments):
    require(RUNTIME / "Microsoft.Extensions.AI.Abstractions.dll", ROSLYN / "csc.dll")
    check_version()
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    quire = pathlib.Path(lib, "Quire.dll")
    sources = sorted((ROOT / "bindings" / "csharp" / "extensions-ai").glob("*.cs"))
    made = compiled(folder / "Quire.Extensions.AI.dll", sources, [quire], "-target:library")
    tests = pathlib.Path(__file__).parent
    test = compiled(folder / "ExtensionsAITest.dll", [tests / "extensions-ai" / "ExtensionsAITest.cs", tests / "Fixture.cs"],
                    [quire, made], "-nullable:annotations")
    run(test, lib, arguments)
    run_examples(folder, [quire, made], lib, arguments[0])


def main():
    verb, *rest = sys.argv[1:]
    if verb == "run":
        program, lib, *arguments = rest
        require()
        run(program, lib, arguments)
    else:
        lib, folder, *arguments = rest
        adapter(lib, folder, arguments)


if __name__ == "__main__":
    main()
