#!/usr/bin/env python3
"""Includes between folders, and the circles among them. Run directly, it prints both for core/engine, and fails if there
is a circle."""
import collections
import pathlib
import re
import sys

import guard

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(quire/[^>]+)>)')


def includes_of(tree, path):
    """Yields (line number, included path) of each include of a project header."""
    for number, line in tree.lines(path):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1) or match.group(2)


def folder_edges(tree, paths, folder_of):
    """Returns the included folders by including folder, without includes inside a folder."""
    edges = collections.defaultdict(set)
    for path in paths:
        for _, included in includes_of(tree, path):
            if folder_of(included) != folder_of(path):
                edges[folder_of(path)].add(folder_of(included))
    return edges


def reachable(edges, start):
    """Returns the folders that `start` includes, directly or through others."""
    found, waiting = set(), [start]
    while waiting:
        new = edges.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


def circles(edges):
    """Returns the sets of folders that all include each other, each as a sorted tuple."""
    reach = {folder: reachable(edges, folder) for folder in edges}
    return sorted({tuple(sorted(other for other in edges if folder in reach[other] and other in reach[folder]))
                   for folder in edges if folder in reach[folder]})


if __name__ == "__main__":
    import include_direction

    project = guard.project_tree(pathlib.Path(__file__).resolve().parents[2])
    sources = project.select(".h", ".cpp", under=("core/engine/",))
    found_edges = folder_edges(project, sources, include_direction.folder_of)
    for including in sorted(found_edges):
        inside = sorted(folder for folder in found_edges[including] if folder.startswith("core/engine"))
        print(f"{including}: {' '.join(inside)}")
    found_circles = circles(found_edges)
    print("circles:", found_circles or "none")
    sys.exit(1 if found_circles else 0)
