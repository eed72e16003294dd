#!/usr/bin/env python3
"""Runs the tests of the parts of the page that need no browser (tests/bindings/go/server/page) in Node.

usage: page_parts.py. Exits with status 77 and a message if Node of version 18 or later is not installed.
"""
import pathlib
import re
import shutil
import subprocess
import sys

node = shutil.which("node") or shutil.which("nodejs")
version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout if node else ""
if not re.match(r"v(1[89]|[2-9]\d)\.", version):
    print("skipped: Node of version 18 or later is not installed")
    sys.exit(77)
parts = pathlib.Path(__file__).resolve().parent.parent / "page"
files = sorted(str(path) for path in parts.glob("*.test.mjs"))
assert files, f"there are no tests in {parts}"
sys.exit(subprocess.run([node, "--test", *files]).returncode)
