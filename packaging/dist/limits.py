"""Limits of a distribution (limits.json): the size of each file, and the versions of libc and libstdc++ that its
programs and libraries need."""
import fnmatch
import json
import pathlib
import re

from context import run

LIMITS = json.loads((pathlib.Path(__file__).parent / "limits.json").read_text(encoding="utf-8"))
NEEDED = re.compile(r"\b(GLIBC|GLIBCXX|CXXABI|GCC)_([0-9.]+)")


def _numbers(version):
    return tuple(int(number) for number in version.split("."))


def newest_symbols(path):
    """Returns the newest symbol version of each library that a program or library needs."""
    needs = run("readelf", "-V", path).partition(".gnu.version_r")[2]
    newest = {}
    for library, version in NEEDED.findall(needs):
        if _numbers(version) > _numbers(newest.get(library, "0")):
            newest[library] = version
    return newest


def symbol_breaches(path):
    for library, version in newest_symbols(path).items():
        allowed = LIMITS["symbols"][library]
        if _numbers(version) > _numbers(allowed):
            yield f"{path.name} needs {library}_{version}, but the limit is {library}_{allowed}"


def size_breaches(out):
    """Yields files that exceed their limit or have none."""
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        name = str(path.relative_to(out))
        limit = next((kib for pattern, kib in LIMITS["kibibytes"].items() if fnmatch.fnmatch(name, pattern)), None)
        if limit is None:
            yield f"{name} has no limit in limits.json; add one"
        elif path.stat().st_size > limit * 1024:
            yield f"{name} has {path.stat().st_size // 1024} KiB, but the limit is {limit}"


def built(build):
    """Returns the shipped programs and libraries of a build."""
    names = ("lib/libquire.so", "lib/libquire_java.so", "lib/libquire_csharp.so", "lib/libquire_cuda.so", "bin/quire",
             "bin/quire-server")
    return [build / name for name in names if (build / name).exists()]


def check(context):
    breaches = list(size_breaches(context.out))
    for path in built(context.build):
        breaches += symbol_breaches(path)
    if breaches:
        raise SystemExit("dist: " + "\ndist: ".join(breaches))
