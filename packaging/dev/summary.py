#!/usr/bin/env python3
"""Summarizes the results of all test programs on one screen: failed cases with their messages, a line for each reason why
cases were skipped, and a closing line with the counts.

usage: summary.py RESULTS_DIR

RESULTS_DIR has ctest-PRESET.xml (JUnit) and PRESET/*.xml (GoogleTest) for each tested build. A GoogleTest program counts by
its cases, any other test as one."""
import collections
import pathlib
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree

MAX_FAILURES = 20  # lines
MAX_REASONS = 20   # lines


def one_line(text):
    return " ".join((text or "").split())


def gtest_cases(path):
    """Yields (outcome, name, reason) of each case of one GoogleTest XML file."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        failure = case.find("failure")
        if failure is not None:
            yield "failed", name, one_line(failure.get("message"))
        elif skipped is not None or case.get("result") == "skipped":
            message = (skipped.get("message") or "") if skipped is not None else ""
            yield "skipped", name, message.strip().splitlines()[-1].strip() if message.strip() else "no reason given"
        elif case.get("status") != "notrun":
            yield "passed", name, ""


def reason_in(output):
    """Returns the reason that a program printed as `skipped: REASON`."""
    found = re.search(r"^skipped: *(.+)$", output or "", re.MULTILINE)
    return one_line(found.group(1)) if found else "its input or tool is absent"


def ctest_cases(path, programs):
    """Yields the tests of a CTest JUnit file. A program with an XML file of its own is only yielded if CTest
    reports a failure that the XML lacks (a crash writes no XML)."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name, status = case.get("name"), case.get("status")
        if status == "fail":
            if programs.get(name, 0) == 0:
                yield "failed", name, ""
        elif status == "run":
            if name not in programs:
                yield "passed", name, ""
        else:
            yield "skipped", name, reason_in(case.findtext("system-out"))


def collect(results):
    """Returns the counts by outcome, the number of skipped cases for each reason, and a line for each failed case."""
    counts, reasons, failures = collections.Counter(), collections.Counter(), []
    for junit in sorted(results.glob("ctest-*.xml")):
        preset = junit.stem.removeprefix("ctest-")
        programs, cases = {}, []
        for report in sorted((results / preset).glob("*.xml")):
            found = list(gtest_cases(report))
            programs[report.stem] = sum(outcome == "failed" for outcome, _, _ in found)
            cases += found
        cases += ctest_cases(junit, programs)
        for outcome, name, reason in cases:
            counts[outcome] += 1
            if outcome == "skipped":
                reasons[reason] += 1
            elif outcome == "failed":
                failures.append(f"failed: {preset}: {name}: {reason or 'its output is above'}")
    return counts, reasons, failures


def cut(line, width):
    return line if len(line) <= width else line[:width - 1] + "…"


def report(counts, reasons, failures, width):
    """Returns the lines of the summary."""
    lines = failures[:MAX_FAILURES]
    if len(failures) > MAX_FAILURES:
        lines.append(f"... and {len(failures) - MAX_FAILURES} more that failed")
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    lines += [f"skipped {count:4}: {reason}" for reason, count in ordered[:MAX_REASONS]]
    if len(ordered) > MAX_REASONS:
        rest = sum(count for _, count in ordered[MAX_REASONS:])
        lines.append(f"skipped {rest:4}: for {len(ordered) - MAX_REASONS} other reasons")
    lines.append(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return [cut(line, width) for line in lines]


def main():
    width = shutil.get_terminal_size((120, 24)).columns
    for line in report(*collect(pathlib.Path(sys.argv[1])), width):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
