"""Values common to all packages of a distribution: build, version, commit and time."""
import dataclasses
import json
import pathlib
import re
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **options):
    """Runs a command and returns its output. A failure ends the program with that output."""
    result = subprocess.run([str(part) for part in command], text=True, capture_output=True, check=False, **options)
    if result.returncode != 0:
        raise SystemExit(f"dist: {' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


@dataclasses.dataclass(frozen=True)
class Context:
    build: pathlib.Path  # build tree with the command, the server and the bindings
    out: pathlib.Path    # output folder, created anew
    version: str
    commit: str
    epoch: int           # time of every file in every package, in seconds since 1970
    left_out: list = dataclasses.field(default_factory=list)  # packages that could not be made, with the reason

    @property
    def time(self):
        """Returns the time as text."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.epoch))


def version():
    text = (ROOT / "capi/include/quire/version.h").read_text(encoding="utf-8")
    return re.search(r'#define QUIRE_VERSION_STRING "([^"]+)"', text).group(1)


def commit():
    """Returns the commit of the checkout, with a mark if the checkout is changed; "unknown" without git."""
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
    """Returns the third-party parts that are linked into these components (packaging/notices/parts.json)."""
    parts = json.loads((ROOT / "packaging/notices/parts.json").read_text(encoding="utf-8"))
    return [part for part in parts if set(part["within"]) & set(components)]


def licence():
    return (ROOT / "LICENSE").read_bytes()


def notices(context):
    """Returns the notices that CMake wrote for the library."""
    return (context.build / "packaging/notices/runtime/NOTICES").read_bytes()
