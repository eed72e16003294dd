#!/usr/bin/env python3
"""Translates CUDA C++ to C++: replaces syntax that a C++ compiler does not support with calls of emulation.h.

    translate.py SOURCE TARGET
"""
import re
import sys

SHARED_ARRAY = re.compile(r"extern __shared__\s+(?:__align__\(\d+\)\s+)?(\w+)\s+(\w+)\[\];")
LAUNCH = re.compile(r"\b(\w+(?:<[\w, ]+>)?)<<<(.*?)>>>\(", re.DOTALL)


def translate(text):
    text = SHARED_ARRAY.sub(r"\1* const \2 = reinterpret_cast<\1*>(::emulation::dynamic_shared());", text)
    text = text.replace("__CUDA_ARCH__", "QUIRE_EMULATED_ARCH")
    text = text.replace("__noinline__", "__attribute__((noinline))")
    return LAUNCH.sub(r"::emulation::issue(\1, ::emulation::Place{\2}, ", text)


def main():
    source, target = sys.argv[1:]
    with open(source) as file:
        text = file.read()
    with open(target, "w") as file:
        file.write(f'#line 1 "{source}"\n' + translate(text))


main()
