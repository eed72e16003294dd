#!/usr/bin/env python3
"""Relative links in the documents lead to files of the project, and every page under docs/ is linked."""
import posixpath
import re

import guard

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s#]+)(?:#[^)]*)?\)")


def check(tree):
    pages = [p for p in tree.paths if p.endswith(".md")]
    if not pages:
        raise guard.GuardError("there are no documents")
    folders = {posixpath.dirname(p) for p in tree.paths}
    breaches, reached = [], set()
    for page in pages:
        for number, line in tree.lines(page):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:", target):
                    continue
                path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
                reached.add(path)
                if path not in tree.paths and path not in folders:
                    breaches.append(f"{page}:{number}: there is no {path}")
    for page in pages:
        if page.startswith("docs/") and page not in reached and not page.startswith("docs/adr/"):
            breaches.append(f"{page}: no other page links to it")
    return breaches


SELF_TESTS = [
    ("a good link", {"README.md": "[a](docs/a.md#x)", "docs/a.md": "[back](../README.md) [w](https://x.org/y)"}, 0),
    ("a broken link", {"README.md": "[a](docs/b.md)"}, 1),
    ("a page that nobody links to", {"README.md": "", "docs/a.md": ""}, 1),
    ("a folder", {"README.md": "[a](docs/adr)", "docs/adr/0001.md": ""}, 0),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)
