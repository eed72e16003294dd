#!/usr/bin/env python3
"""Tests the summary that ./dev test ends with. usage: dev_summary_test.py ROOT"""
import os
import pathlib
import subprocess
import sys
import tempfile

SUMMARY = pathlib.Path(sys.argv[1]) / "packaging/dev/summary.py"


def gtest_case(name, inside=""):
    return f'<testcase name="{name}" status="run" result="completed" classname="S">{inside}</testcase>'


def summary_of(gtest, ctest, width=100):
    """Returns the lines for one program with these cases, and these other tests."""
    with tempfile.TemporaryDirectory() as name:
        results = pathlib.Path(name)
        (results / "release").mkdir()
        (results / "release/program_test.xml").write_text(
            f'<testsuites><testsuite name="S">{gtest}</testsuite></testsuites>')
        (results / "ctest-release.xml").write_text(
            f'<testsuite><testcase name="program_test" status="run"/>{ctest}</testsuite>')
        done = subprocess.run([sys.executable, "-B", SUMMARY, results], capture_output=True, text=True, encoding="utf-8",
                              env={**os.environ, "COLUMNS": str(width), "PYTHONIOENCODING": "utf-8"}, check=True)
        return done.stdout.splitlines()


def skipped(reason):
    return f'<skipped message="a_test.cpp:7&#x0A;{reason}"/>'


def expect(value, expected):
    if value != expected:
        sys.exit(f"got {value}\nexpected {expected}")


expect(summary_of(gtest_case("a") + gtest_case("b"), '<testcase name="c" status="run"/>'), ["3 passed, 0 failed, 0 skipped"])

# A reason has one line, however many cases have it; the most frequent one comes first.
cases = gtest_case("a", skipped("no compiler")) + "".join(gtest_case(f"b{i}", skipped("no card")) for i in range(300))
lacks = '<testcase name="d" status="notrun"><system-out>loading\nskipped: node is not installed\n</system-out></testcase>'
expect(summary_of(cases, lacks), ["skipped  300: no card", "skipped    1: no compiler", "skipped    1: node is not installed",
                                  "0 passed, 0 failed, 302 skipped"])

# Everything fits on a screen: lines are cut to its width, and many failures or reasons to their first twenty.
cases = "".join(gtest_case(f"f{i}", '<failure message="' + "x" * 400 + '"/>') for i in range(50))
cases += "".join(gtest_case(f"s{i}", skipped(f"reason {i}")) for i in range(50))
lines = summary_of(cases, "", width=80)
expect(len(lines), 20 + 1 + 20 + 1 + 1)
expect(max(map(len, lines)), 80)
expect(lines[20], "... and 30 more that failed")
expect(lines[41], "skipped   30: for 30 other reasons")
expect(lines[-1], "0 passed, 50 failed, 50 skipped")

# A program that crashes writes no results of its own.
expect(summary_of("", '<testcase name="e" status="fail"/>'),
       ["failed: release: e: its output is above", "0 passed, 1 failed, 0 skipped"])
