"""The shared libraries that packages of languages carry."""
import pathlib
import tempfile

from context import run


def stripped(path):
    """The bytes of a library without what only a debugger reads."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "library"
        run("strip", "--strip-unneeded", "-o", copy, path)
        return copy.read_bytes()


def libquire(build):
    """The name under which others look for the library, and its bytes."""
    links = [path for path in (build / "lib").glob("libquire.so.*") if path.is_symlink()]
    if len(links) != 1:
        raise SystemExit(f"dist: {build}/lib has no libquire.so.MAJOR.MINOR: build the target quire")
    return links[0].name, stripped(links[0].resolve())


def binding(build, language):
    """The half of a binding that is native, which looks for libquire beside itself."""
    path = build / "lib" / f"libquire_{language}.so"
    if "$ORIGIN]" not in run("readelf", "-d", path):
        raise SystemExit(f"dist: {path} does not look for libquire beside itself")
    return path.name, stripped(path)
