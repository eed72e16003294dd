#!/usr/bin/env python3
"""Checks that compiled kernels do not touch the registers of running warpgroup products (HGMMA, wgmma).

    nvcc -cubin ... -o kernels.cubin; tests/gpu/in_flight.py kernels.cubin [--nvdisasm PATH]

Follows every path of the code from each product to the next wait for products. On these paths only other products may
write the weights that the product reads from registers, or touch its sums. Prints one line per kernel; the exit status
is 1 if there is a violation.
"""
import argparse
import re
import subprocess
import sys

NO_RESULT = {"ST", "STS", "STG", "STL", "RED", "SYNCS", "HGMMA", "BRA", "ISETP", "FSETP"}
GUARD = r"(?:@!?U?P\d+\s+)?"


def results(line):
    """Returns the registers that an instruction writes."""
    match = re.match(GUARD + r"([A-Z0-9_.]+)\s+(?:P\d,\s*)?R(\d+)\b", line)
    if match is None or match.group(1).split(".")[0] in NO_RESULT:
        return set()
    name, first = match.group(1), int(match.group(2))
    wide = 4 if ".128" in name else 2 if ".64" in name or name.startswith(("CS2R", "IMAD.WIDE")) else 1
    return set(range(first, first + wide))


def code_of(section):
    lines = (re.sub(r"/\*[0-9a-f]*\*/", "", line).strip().rstrip(";").strip() for line in section.split("\n"))
    return [line for line in lines if line]


def disturbances(code, labels, start, weights, sums):
    """Returns the instructions between a product and the wait for it that touch its registers. A group of products ends with
    gsb0; a wait leaves the given number of newest groups running."""
    first = 0 if "gsb0" in code[start] else -1  # groups that have ended since, without the product's own
    seen, ways = set(), [(start + 1, first)]
    while ways:
        at, groups = ways.pop()
        while at < len(code) and (at, groups) not in seen:
            seen.add((at, groups))
            line = code[at]
            wait = re.search(r"DEPBAR\.LE gsb0, (0x[0-9a-f]+)", line)
            if line.startswith("EXIT") or (wait and int(wait.group(1), 16) <= groups):
                break
            if "HGMMA" in line:
                groups = min(groups + ("gsb0" in line), 8)
            elif not line.startswith("."):
                used = {int(number) for number in re.findall(r"(?<!U)R(\d+)", line)}
                if results(line) & weights or used & sums:
                    yield line
            branch = re.search(r"BRA\S*\s+(?:!?U?P\d,\s*)?`\((\.L_x_\d+)\)", line)
            if branch:
                ways.append((labels[branch.group(1)], groups))
                if not line.startswith("@"):
                    break
            at += 1


def check(name, code):
    labels = {line[:-1]: at for at, line in enumerate(code) if re.fullmatch(r"\.L_x_\d+:", line)}
    products, found = 0, []
    for at, line in enumerate(code):
        match = re.search(r"HGMMA\.64x(\d+)x16\S*\s+R(\d+), R(\d+), gdesc", line)
        if match is None:
            continue
        products += 1
        columns, sums, weights = map(int, match.groups())
        found += [(line, other) for other in disturbances(code, labels, at, set(range(weights, weights + 4)),
                                                          set(range(sums, sums + columns // 2)))]
    if products > 0:
        print(f"{name[:72]:72s} {products:3d} products, {len(found)} disturbed")
    for product, other in found[:5]:
        print(f"    {product}\n    by {other}")
    return not found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cubin")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    options = parser.parse_args()
    text = subprocess.run([options.nvdisasm, "-c", options.cubin], capture_output=True, text=True, check=True).stdout
    sound = True
    for section in re.split(r"\n(?=//-+ \.text)", text):
        name = re.search(r"\.text\.(\S+)", section)
        if name and "HGMMA" in section:
            sound = check(name.group(1), code_of(section)) and sound
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
