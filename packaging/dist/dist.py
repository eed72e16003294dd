#!/usr/bin/env python3
"""Creates a distribution from one build: every package, checksums and the bill of materials.

  dist.py --build FOLDER --out FOLDER [--only KIND...]

Every file has the time SOURCE_DATE_EPOCH, or otherwise that of the commit, so that two runs give the same bytes.
"""
import argparse
import hashlib
import os
import pathlib
import shutil

import adapters
import context as shared
import gomodule
import jar
import limits
import materials
import nuget


def _cpack(kind):
    """Returns a function that packs with cpack in a folder of its own."""
    def make(context):
        work = context.out / f"cpack-{kind}"
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(context.epoch)}
        shared.run("cpack", "--config", context.build / "CPackConfig.cmake", "-G", kind, "-B", work,
                   cwd=context.build, env=environment)
        for path in work.iterdir():
            if path.is_file():
                path.rename(context.out / path.name)
        shutil.rmtree(work)
    return make


KINDS = {"tgz": _cpack("TGZ"), "deb": _cpack("DEB"), "rpm": _cpack("RPM"), "jar": jar.make, "adapters": adapters.make,
         "nuget": nuget.make, "go": gomodule.make}


# Parts of a build that may be absent: (file, package, reason).
PARTS = (("lib/libquire_cuda.so", "the CUDA backend", "the build has none; `./dev cuda` brings a compiler, which must be on the PATH"),
         ("bin/quire-server", "quire-server", "the build has none; it needs go"))


def print_left_out(context):
    """Prints what the distribution lacks; ./dev package shows these lines at its end."""
    absent = [f"{package}: {reason}" for file, package, reason in PARTS if not (context.build / file).exists()]
    for line in absent + context.left_out:
        print(f"dist: left out: {line}")


def write_checksums(out):
    """Writes checksums in the format of sha256sum -c."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out)}\n"
             for path in sorted(out.rglob("*")) if path.is_file()]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def make(context, kinds):
    shutil.rmtree(context.out, ignore_errors=True)
    context.out.mkdir(parents=True)
    for kind in kinds:
        KINDS[kind](context)
    materials.make(context)
    write_checksums(context.out)
    limits.check(context)
    print_left_out(context)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or shared.commit_time())
    context = shared.Context(options.build.resolve(), options.out.resolve(), shared.version(), shared.commit(), epoch)
    make(context, options.only)


if __name__ == "__main__":
    main()
