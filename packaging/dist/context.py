"""What all packages of a distribution share: one build, one version, one commit, one time."""
import dataclasses
import json
import pathlib
import re
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **options):
    """What a command prints; a failure ends the program with all that it said."""
    result = subprocess.run([str(part) for part in command], text=True, capture_output=True, check=False, **options)
    if result.returncode != 0:
        raise SystemExit(f"dist: {' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


@dataclasses.dataclass(frozen=True)
class Context:
    build: pathlib.Path  # a build tree with the command, the server and the bindings
    out: pathlib.Path    # made anew
    version: str
    commit: str
    epoch: int           # seconds since 1970 that every file of every package has as its time

    @property
    def time(self):
        """That time as text."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.epoch))


def version():
    text = (ROOT / "capi/include/quire/version.h").read_text(encoding="utf-8")
    return re.search(r'#define QUIRE_VERSION_STRING "([^"]+)"', text).group(1)


def commit():
    """That of the checkout, and whether the checkout differs from it; sources without git have none."""
    try:
        name = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True, capture_output=True, check=True)
        changed = subprocess.run(["git", "status", "--porcelain", "--untracked-files=no"], cwd=ROOT, text=True,
                                 capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name.stdout.strip() + ("-changed" if changed.stdout.strip() else "")


def commit_time():
    try:
        shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(shown.stdout)


def parts_within(*components):
    """The parts of others that are linked into these components (packaging/notices/parts.json)."""
    parts = json.loads((ROOT / "packaging/notices/parts.json").read_text(encoding="utf-8"))
    return [part for part in parts if set(part["within"]) & set(components)]


def licence():
    return (ROOT / "LICENSE").read_bytes()


def notices(context):
    """The text that CMake wrote for the library."""
    return (context.build / "packaging/notices/runtime/NOTICES").read_bytes()
