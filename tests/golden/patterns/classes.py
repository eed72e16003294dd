#!/usr/bin/env python3
"""Writes classes.json beside it: the characters that each class of a pattern takes, by Python's re and, for ECMA 262, by node.

    python3 tests/golden/patterns/classes.py

`unassigned` are the code points that Python's version of Unicode does not know: they are not compared. The classes of ECMA 262
depend on no version.
"""
import json
import os
import platform
import re
import subprocess
import sys
import unicodedata

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import compact  # noqa: E402

CLASSES = ["\\s", "\\S", "\\d", "\\D", "\\w", "\\W", "."]
SCALARS = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
NODE = """
const found = {};
for (const name of CLASSES) {
  const pattern = new RegExp('^' + name + '$', 'u'), codes = [];
  for (let code = 0; code < 0x110000; ++code)
    if ((code < 0xD800 || code > 0xDFFF) && pattern.test(String.fromCodePoint(code))) codes.push(code);
  found[name] = codes;
}
console.log(JSON.stringify([process.versions.node, found]));
"""


def ranges(codes):
    found = []
    for code in codes:
        if found and found[-1][1] + 1 == code:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def by_python():
    found = {name: ranges(code for code in SCALARS if re.fullmatch(name, chr(code))) for name in CLASSES}
    unassigned = ranges(code for code in SCALARS if unicodedata.category(chr(code)) == "Cn")
    return {"version": platform.python_version(), "unassigned": unassigned, "classes": found}


def by_node():
    script = "const CLASSES = " + json.dumps(CLASSES) + ";" + NODE
    said = subprocess.run(["node", "-e", script], check=True, capture_output=True, text=True).stdout
    version, found = json.loads(said)
    return {"version": version, "unassigned": [], "classes": {name: ranges(codes) for name, codes in found.items()}}


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "classes.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(compact.text_of({"python": by_python(), "ecma262": by_node()}))


if __name__ == "__main__":
    main()
