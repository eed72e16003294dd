"""Common code of all guards: the files of the project, and a self-test that proves that the guard can fail.

A guard is a script with `check(tree)`, which returns one line per breach, and `SELF_TESTS`, a list of
(description, {path: content}, number of breaches). It exits with 1 if a rule is broken or if a tool or input is missing:
a guard that cannot check must not pass."""
import argparse
import pathlib
import subprocess
import sys
import tempfile


class GuardError(Exception):
    """The guard cannot run: a tool or an input is missing."""


class Tree:
    """Files of a checkout that belong to the project, as paths relative to its root."""

    def __init__(self, root, paths, build=None):
        self.root = pathlib.Path(root)
        self.paths = sorted(paths)
        self.build = pathlib.Path(build) if build else None

    def select(self, *suffixes, under=("",)):
        """Returns the paths with one of the suffixes below one of the folders."""
        return [p for p in self.paths if p.endswith(suffixes) and p.startswith(tuple(under))]

    def read(self, path):
        return (self.root / path).read_text(encoding="utf-8")

    def lines(self, path):
        """Yields (line number, text) of each line."""
        return enumerate(self.read(path).splitlines(), start=1)


def run(*command, **kwargs):
    """Runs a tool and returns its output; a missing or failing tool makes the guard fail."""
    try:
        return subprocess.run(command, check=True, text=True, capture_output=True, **kwargs).stdout
    except FileNotFoundError as error:
        raise GuardError(f"the tool {command[0]} is missing") from error
    except subprocess.CalledProcessError as error:
        raise GuardError(f"{' '.join(map(str, command))}: {error.stderr.strip()}") from error


def project_tree(root, build=None):
    """Returns tracked files and new files that git does not ignore, without deleted ones."""
    listing = run("git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z")
    paths = [p for p in listing.split("\0") if p and (pathlib.Path(root) / p).is_file()]
    if not paths:
        raise GuardError(f"{root} has no files")
    return Tree(root, paths, build)


def self_test_failures(check, cases):
    """Runs the check on each small tree and compares the number of breaches."""
    for description, files, num_breaches in cases:
        with tempfile.TemporaryDirectory() as folder:
            for path, content in files.items():
                target = pathlib.Path(folder, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content if isinstance(content, bytes) else content.encode())
            breaches = check(Tree(folder, files, build=folder))
            if len(breaches) != num_breaches:
                yield f"{description}: expected {num_breaches} breaches, found {len(breaches)}: {breaches}"


def main(check, self_tests):
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--build", help="build folder, where a guard looks at what was built")
    parser.add_argument("--self-test", action="store_true", help="prove that the guard can fail")
    arguments = parser.parse_args()
    try:
        if arguments.self_test:
            if not any(num_breaches for _, _, num_breaches in self_tests):
                raise GuardError("no case of the self-test expects a breach")
            breaches = list(self_test_failures(check, self_tests))
        else:
            breaches = check(project_tree(arguments.root, arguments.build))
    except GuardError as error:
        breaches = [f"cannot check: {error}"]
    for breach in breaches:
        print(breach)
    print(f"{len(breaches)} breaches" if breaches else "ok")
    sys.exit(1 if breaches else 0)
