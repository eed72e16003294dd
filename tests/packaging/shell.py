"""Commands, folders and failures of the package tests."""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def run(*command, **kwargs):
    """Runs a command; prints its output if it fails."""
    result = subprocess.run([str(part) for part in command], text=True, capture_output=True, **kwargs)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}exit status {result.returncode}")
    return result.stdout


def require(holds, message):
    if not holds:
        sys.exit(message)


def skip(why):
    """Ends the test as skipped."""
    print(f"skipped: {why}")
    sys.exit(77)


def fresh_folder(path):
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def environment(**variables):
    """Returns the caller's environment without variables that could select another library."""
    kept = {key: value for key, value in os.environ.items()
            if key not in ("LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH")}
    return kept | variables
