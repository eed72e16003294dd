#!/usr/bin/env python3
"""Runs programs of .NET under CoreCLR, without a machine-wide installation.

usage: coreclr.py run PROGRAM LIB_DIR ARGUMENTS...     a program for Mono, with Quire.dll and its native library in LIB_DIR
       coreclr.py adapter LIB_DIR FOLDER ARGUMENTS...  Quire.Extensions.AI compiled, its tests, and the examples of
                                                       docs/integrations.md

The folder dotnet in QUIRE_ARTIFACTS (default: build/artifacts) contains `runtime` (the assemblies of a self-contained
application: libcoreclr.so, System.*.dll, Microsoft.Extensions.*.dll) and `roslyn` (csc.dll and its dependencies).
`./dev artifacts` downloads them. Exits with status 77 and a message if they are absent. Downloads nothing.
"""
import ctypes
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
ARTIFACTS = pathlib.Path(os.environ.get("QUIRE_ARTIFACTS", ROOT / "build/artifacts"))
RUNTIME = ARTIFACTS / "dotnet/runtime"
ROSLYN = ARTIFACTS / "dotnet/roslyn"
IMPORTS = ["System", "System.Collections.Generic", "System.Linq", "System.Threading", "System.Threading.Tasks",
           "Microsoft.Extensions.AI", "Microsoft.Extensions.DependencyInjection", "Quire", "Quire.Extensions.AI"]


def require(*paths):
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        print(f"skipped: no {missing[0]}; ./dev artifacts brings it")
        sys.exit(77)


def texts(values):
    return (ctypes.c_char_p * max(1, len(values)))(*[str(value).encode() for value in values])


def execute(program, assemblies, native, arguments):
    """Runs a program in this process, as a host does, and returns its exit code. `assemblies` come before those of
    the runtime."""
    trusted = {path.stem: path for path in RUNTIME.glob("*.dll")}
    trusted.update({path.stem: path for path in (*assemblies, program)})
    properties = {"TRUSTED_PLATFORM_ASSEMBLIES": ":".join(map(str, trusted.values())),
                  "NATIVE_DLL_SEARCH_DIRECTORIES": f"{RUNTIME}:{native}",
                  "APP_CONTEXT_BASE_DIRECTORY": f"{program.parent}/",
                  "System.Globalization.Invariant": "true"}
    clr = ctypes.CDLL(str(RUNTIME / "libcoreclr.so"))
    host, domain, code = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint()
    status = clr.coreclr_initialize(str(program).encode(), b"quire", len(properties), texts(properties.keys()),
                                    texts(properties.values()), ctypes.byref(host), ctypes.byref(domain))
    if status == 0:
        status = clr.coreclr_execute_assembly(host, domain, len(arguments), texts(arguments), str(program).encode(),
                                              ctypes.byref(code))
        clr.coreclr_shutdown_2(host, domain, ctypes.byref(ctypes.c_int()))
    if status != 0:
        sys.exit(f"{program}: CoreCLR failed with {status & 0xffffffff:#x}")
    return code.value


def run(program, lib, arguments):
    """Does the same in a new process."""
    subprocess.run([sys.executable, __file__, "run", str(program), str(lib), *map(str, arguments)], check=True, timeout=600)


def compiled(output, sources, references, *options):
    system = [path for pattern in ("System*.dll", "netstandard.dll", "mscorlib.dll", "Microsoft.*.dll")
              for path in RUNTIME.glob(pattern)]
    command = ["-nologo", "-nostdlib", "-noconfig", "-langversion:8", "-nullable:enable", "-warnaserror", "-deterministic",
               "-nowarn:1701,1702,1705", *options, f"-out:{output}", *(f"-r:{path}" for path in (*system, *references)),
               *map(str, sources)]
    subprocess.run([sys.executable, __file__, "compile", *command], check=True, timeout=600)
    return output


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
    require(RUNTIME / "libcoreclr.so", RUNTIME / "Microsoft.Extensions.AI.Abstractions.dll", ROSLYN / "csc.dll")
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
    if verb == "compile":
        sys.exit(execute(ROSLYN / "csc.dll", list(ROSLYN.glob("*.dll")), ROSLYN, rest))
    if verb == "run":
        program, lib, *arguments = rest
        require(RUNTIME / "libcoreclr.so")
        program, lib = pathlib.Path(program).resolve(), pathlib.Path(lib).resolve()
        beside = [path for path in program.parent.glob("*.dll") if path != program]
        sys.exit(execute(program, [lib / "Quire.dll", *beside], lib, arguments))
    lib, folder, *arguments = rest
    adapter(lib, folder, arguments)


if __name__ == "__main__":
    main()
