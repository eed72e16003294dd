"""Shared libraries inside the packages of languages."""
import pathlib
import tempfile

from context import run


def stripped(path):
    """Returns the bytes of a library without symbols that only a debugger needs."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "library"
        run("strip", "--strip-unneeded", "-o", copy, path)
        return copy.read_bytes()


def libquire(build):
    """Returns the name under which other libraries find libquire, and its bytes."""
    links = [path for path in (build / "lib").glob("libquire.so.*") if path.is_symlink()]
    if len(links) != 1:
        raise SystemExit(f"dist: {build}/lib has no libquire.so.MAJOR.MINOR: build the target quire")
    return links[0].name, stripped(links[0].resolve())


def binding(build, language):
    """Returns name and bytes of the native library of a binding, which must find libquire in its own folder."""
    path = build / "lib" / f"libquire_{language}.so"
    if "$ORIGIN]" not in run("readelf", "-d", path):
        raise SystemExit(f"dist: {path} does not search its own folder for libquire: its run path must be $ORIGIN")
    return path.name, stripped(path)
