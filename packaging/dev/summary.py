#!/usr/bin/env python3
"""Summarizes the results of the test programs: skipped cases with reasons, failed cases with their messages, and one
closing line.

A GoogleTest program counts by its cases (from its XML), any other test as one."""
import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


MAX_WORDS = 500  # maximum characters of one failure


def gtest_cases(path):
    """Yields (outcome, name, reason) of each case of one GoogleTest XML file."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        failure = case.find("failure")
        if failure is not None:
            yield "failed", name, " ".join((failure.get("message") or "").split())[:MAX_WORDS]
        elif skipped is not None or case.get("result") == "skipped":
            message = (skipped.get("message") or "") if skipped is not None else ""
            reason = message.strip().splitlines()[-1].strip() if message.strip() else "no reason given"
            yield "skipped", name, reason
        elif case.get("status") != "notrun":
            yield "passed", name, ""


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
            yield "skipped", name, "its input or tool is absent"


def collect(results):
    """Returns the counts by outcome, the names of skipped cases for each reason, and a line for each failed
    case."""
    counts, reasons, failures = collections.Counter(), collections.defaultdict(list), []
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
                reasons[reason].append(f"{preset}: {name}")
            elif outcome == "failed":
                failures.append(f"{preset}: {name}: {reason or 'its output is above'}")
    return counts, reasons, failures


def main():
    counts, reasons, failures = collect(pathlib.Path(sys.argv[1]))
    for reason, names in sorted(reasons.items()):
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        print(f"skipped ({reason}): {shown}")
    for line in failures:
        print(f"failed: {line}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
