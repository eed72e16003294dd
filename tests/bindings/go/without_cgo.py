#!/usr/bin/env python3
"""Runs the Go tests as a program without cgo: CGO_ENABLED=0, and the library is found at run time.

usage: without_cgo.py GO. Exits with status 77 and a message if github.com/ebitengine/purego is not in the module
cache (go mod download -modfile=without_cgo.mod in this folder). Downloads nothing.
"""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
PACKAGES = (".", "./server/local")


def main(go):
    environment = {**os.environ, "CGO_ENABLED": "0", "GOPROXY": "off", "GOFLAGS": "-mod=readonly"}
    known = subprocess.run([go, "list", "-modfile=without_cgo.mod", "-deps", "-test", *PACKAGES], cwd=HERE, env=environment,
                           capture_output=True, text=True)
    if known.returncode != 0:
        print("skipped:", known.stderr.strip().splitlines()[-1])
        sys.exit(77 if "purego" in known.stderr else 1)
    subprocess.run([go, "test", "-modfile=without_cgo.mod", "-count=1", *PACKAGES], cwd=HERE, env=environment, check=True)
    missing = {**environment, "QUIRE_LIBRARY": "/nowhere/libquire.so"}
    subprocess.run([go, "test", "-modfile=without_cgo.mod", "-count=1", "-run=^TestARuntimeWithoutTheLibrary", "./without_cgo"],
                   cwd=HERE, env=missing, check=True)


main(*sys.argv[1:])
