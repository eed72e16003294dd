"""Runs the built command; shared by the tests of this folder."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ["QUIRE_TEST_ROOT"])
COMMAND = os.environ["QUIRE_COMMAND"]
EMBEDDED = ROOT / "packaging/model/story-15m-exl2-4.0bpw"
GOLDEN = ROOT / "tests/golden"
SHARED = ROOT.parent / "shared"
PROMPT = "Once upon a time there was a"

OK, FAILED, USAGE, NO_MODEL, INTERRUPTED, READER_GONE = 0, 1, 2, 3, 130, 141


def environment(**changes):
    env = {key: value for key, value in os.environ.items() if key != "QUIRE_MODEL"}
    env.update(changes)
    return env


def command_line(args):
    """Adds one thread unless a test sets the number: tests run in parallel, and the threads of a step wait for each
    other."""
    threads = ["--threads", "1"] if args and args[0] in ("chat", "generate", "score", "bench") and "--threads" not in args else []
    return [COMMAND, *map(str, args), *threads]


def run(*args, stdin="", **changes):
    """Returns the finished process of `quire ARGS`, its streams as text; `changes` go to the environment."""
    return subprocess.run(command_line(args), input=stdin, capture_output=True, text=True, encoding="utf-8",
                          timeout=300, env=environment(**changes))


def start(*args, **streams):
    streams.setdefault("env", environment())
    return subprocess.Popen(command_line(args), **streams)


@contextlib.contextmanager
def broken_model(change):
    """Yields a copy of the embedded model with linked files, after change(directory) has damaged it."""
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name) / "model"
        directory.mkdir()
        for file in EMBEDDED.iterdir():
            os.symlink(file, directory / file.name)
        change(directory)
        yield directory


def replace(path, content):
    path.unlink()
    path.write_bytes(content)


def edit_json(path, **changes):
    config = json.loads(path.read_text())
    config.update(changes)
    replace(path, json.dumps(config).encode())


def needs(path):
    return unittest.skipUnless(path.exists(), f"{path.name} is absent")


class CommandTest(unittest.TestCase):
    def succeed(self, *args, **options):
        result = run(*args, **options)
        self.assertEqual(result.returncode, OK, result.stderr)
        return result

    def json_of(self, *args, **options):
        """Returns the only JSON object on standard output."""
        result = self.succeed(*args, "--json", **options)
        self.assertEqual(result.stdout.count("\n"), 1, "one line")
        value = json.loads(result.stdout)
        self.assertIsInstance(value, dict)
        return value

    def fail_with(self, code, words, *args, **options):
        """Asserts the exit code, an empty standard output, and one error line that contains all the words."""
        result = run(*args, **options)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, r"\Aquire: [^\n]+\n\Z")
        for word in words:
            self.assertIn(word, result.stderr)


def main():
    program = unittest.main(exit=False)
    result = program.result
    if result.testsRun == len(result.skipped):
        print("every case was skipped")
    sys.exit(0 if result.wasSuccessful() else 1)
