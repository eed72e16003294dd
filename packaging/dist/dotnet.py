#!/usr/bin/env python3
"""Runs programs of .NET, and its compiler, under CoreCLR without a machine-wide installation.

usage: dotnet.py compile ARGUMENTS...                  the compiler
       dotnet.py run PROGRAM LIB_DIR ARGUMENTS...       a program, with the assemblies beside it, and with Quire.dll and
                                                        its native library in LIB_DIR

The folder dotnet in QUIRE_ARTIFACTS (default: build/artifacts) contains `runtime` (the assemblies of a self-contained
application: libcoreclr.so, System.*.dll, Microsoft.Extensions.*.dll) and `roslyn` (csc.dll and its dependencies).
`./dev artifacts` downloads them. Downloads nothing."""
import ctypes
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARTIFACTS = pathlib.Path(os.environ.get("QUIRE_ARTIFACTS", ROOT / "build/artifacts")).absolute()
RUNTIME = ARTIFACTS / "dotnet/runtime"
ROSLYN = ARTIFACTS / "dotnet/roslyn"


def missing(*paths):
    """Returns the first of the paths, or of what every program needs, that does not exist; None if all do."""
    return next((path for path in (RUNTIME / "libcoreclr.so", *paths) if not path.exists()), None)


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
    """Compiles C# 8 with nullable references, against the assemblies of the runtime."""
    system = [path for pattern in ("System*.dll", "netstandard.dll", "mscorlib.dll", "Microsoft.*.dll")
              for path in sorted(RUNTIME.glob(pattern))]
    command = ["-nologo", "-nostdlib", "-noconfig", "-langversion:8", "-nullable:enable", "-warnaserror", "-deterministic",
               "-nowarn:1701,1702,1705", *options, f"-out:{output}", *(f"-r:{path}" for path in (*system, *references)),
               *map(str, sources)]
    result = subprocess.run([sys.executable, __file__, "compile", *command], text=True, capture_output=True, check=False, timeout=600)
    if result.returncode != 0:
        sys.exit(f"{output} does not compile:\n{result.stdout}{result.stderr}")
    return output


def main():
    verb, *rest = sys.argv[1:]
    if verb == "compile":
        sys.exit(execute(ROSLYN / "csc.dll", list(ROSLYN.glob("*.dll")), ROSLYN, rest))
    program, lib, *arguments = rest
    program, lib = pathlib.Path(program).resolve(), pathlib.Path(lib).resolve()
    beside = [path for path in program.parent.glob("*.dll") if path != program]
    sys.exit(execute(program, [lib / "Quire.dll", *beside], lib, arguments))


if __name__ == "__main__":
    main()
