#!/usr/bin/env python3
"""Relative links in the documents lead to files and headings of the project, and every page under docs/ is linked."""
import posixpath
import re

import guard

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"#{1,6} +(.*?) *#*$")


def anchors(tree, page):
    """Returns the anchors that GitHub gives to the headings of a page."""
    found, in_code = set(), False
    for _, line in tree.lines(page):
        if line.startswith("```"):
            in_code = not in_code
        heading = None if in_code else HEADING.match(line)
        if not heading:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = 0
        while (anchor if count == 0 else f"{anchor}-{count}") in found:
            count += 1
        found.add(anchor if count == 0 else f"{anchor}-{count}")
    return found


def check(tree):
    pages = [p for p in tree.paths if p.endswith(".md")]
    if not pages:
        raise guard.GuardError("there are no documents")
    folders = {posixpath.dirname(p) for p in tree.paths}
    breaches, reached = [], set()
    for page in pages:
        for number, line in tree.lines(page):
            for target, anchor in LINK.findall(line):
                if re.match(r"[a-z]+:", target):
                    continue
                path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) if target else page
                if target:
                    reached.add(path)
                if path not in tree.paths and path not in folders:
                    breaches.append(f"{page}:{number}: there is no {path}")
                elif anchor and path.endswith(".md") and anchor not in anchors(tree, path):
                    breaches.append(f"{page}:{number}: {path} has no heading for #{anchor}")
    for page in pages:
        if page.startswith("docs/") and page not in reached and not page.startswith("docs/adr/"):
            breaches.append(f"{page}: no other page links to it")
    return breaches


SELF_TESTS = [
    ("a good link", {"README.md": "[a](docs/a.md#x-y)\n# R\n[r](#r)", "docs/a.md": "[b](../README.md)\n## X, [y](z:)"}, 0),
    ("a broken anchor", {"README.md": "[a](docs/a.md#x)", "docs/a.md": "```\n# x\n```\n"}, 1),
    ("a broken link", {"README.md": "[a](docs/b.md)"}, 1),
    ("a page that nobody links to", {"README.md": "", "docs/a.md": ""}, 1),
    ("a folder", {"README.md": "[a](docs/adr)", "docs/adr/0001.md": ""}, 0),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)
