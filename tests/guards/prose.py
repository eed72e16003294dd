#!/usr/bin/env python3
"""Plain words in comments and documents, as far as a script can check (docs/style.md): no comment begins with
"Of", no person is called whoever or somebody, "else" does not end a sentence, code does not say or tell,
and there are no banners. Commit subjects have the form "area: verb object" within 72 characters."""
import re
import subprocess

import guard

SOURCES = (".h", ".c", ".cpp", ".cu", ".cuh", ".go", ".java", ".cs", ".i", ".mjs")
GENERATED = ("bindings/go/internal/native/", "bindings/go/generated_", "capi/include/quire_dynamic.h")
FOLDERS = ("core/", "kernels/", "capi/", "bindings/", "tests/")

# A comment on a line of its own, without its mark, and a comment after code.
OWN_LINE = re.compile(r"^\s*(?://+|/\*+|\*(?!/))\s?(.*?)\s*(?:\*/)?\s*$")
AFTER_CODE = re.compile(r'^(?:[^"/]|"(?:\\.|[^"\\])*"|/(?!/))*?\S(?:[^"/]|"(?:\\.|[^"\\])*"|/(?!/))*//+\s?(.*)$')

BANNER = re.compile(r"^[\s/*]*([-=*#~/])\1{5,}[\s/*]*$|^[-=*#~]{3,}\s+\w.*[-=*#~]{3,}$")
PERSONS = re.compile(r"\b(who" r"ever|some" r"body|no" r"body|any" r"body)\b", re.IGNORECASE)
SPEECH = re.compile(r"\b(sa" r"ys|tel" r"ls)\b", re.IGNORECASE)
TRAILING_ELSE = re.compile(r"(?<!or )(?<!or what )(?<!anything )(?<!nothing )(?<!something )(?<!everything )(?<!everyone )"
                           r"(?<!anyone )(?<!what )(?<!`)(?<!someone )(?<!somewhere )(?<!anywhere )(?<!elsewhere )(?<!nowhere )"
                           r"(?<!who )(?<!one )(?<!thing )(?<!\bif )\bel" r"se[.;](\s|$)")
# "where" in place of "if", without a place before it.
CONDITION = re.compile(r"\bwhe" r"re (there (is|are)|none|nothing|no (one|other|such))\b", re.IGNORECASE)
RULES = ((PERSONS, "name the party: the caller, the host, the engine thread"),
         (SPEECH, "a function returns or reports, a header declares, a field holds"),
         (TRAILING_ELSE, "write \"otherwise\" at the beginning"),
         (CONDITION, "write \"if\""))

SUBJECT = re.compile(r"^[a-z][a-z0-9 ,/_.-]*: \S")
MAX_SUBJECT = 72
# The first commit that follows the rule.
FIRST_SUBJECT = "core: rename engine types to the field's terms"


def comments(text):
    """Yields (line number, text, whether the comment begins on that line) of each line with a comment."""
    was_comment = False
    for number, line in enumerate(text.splitlines(), start=1):
        own = OWN_LINE.match(line) if line.lstrip().startswith(("//", "/*", "* ", "*/")) else None
        if own:
            yield number, own.group(1), not was_comment
            was_comment = was_comment or own.group(1) != ""  # a comment begins with its first words
            continue
        was_comment = False
        after = AFTER_CODE.match(line) if "//" in line else None
        if after:
            yield number, after.group(1), True


def source_breaches(tree, path):
    for number, text, begins in comments(tree.read(path)):
        if begins and re.match(r"O" r"f\b", text):
            yield f"{path}:{number}: a comment begins with \"{text[:20]}\"; begin with a verb or a noun"
        if BANNER.match(text):
            yield f"{path}:{number}: a banner"
        for rule, advice in RULES:
            match = rule.search(text)
            if match:
                yield f"{path}:{number}: \"{match.group(0).strip()}\"; {advice}"


def document_breaches(tree, path):
    in_code = False
    for number, line in tree.lines(path):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        match = None if in_code else PERSONS.search(line)
        if match:
            yield f"{path}:{number}: \"{match.group(0)}\"; {RULES[0][1]}"


def subject_breaches(subjects):
    for subject in subjects:
        if len(subject) > MAX_SUBJECT:
            yield f"commit \"{subject}\": {len(subject)} characters; {MAX_SUBJECT} is the limit"
        elif not SUBJECT.match(subject) and not subject.startswith(("Merge ", "Revert ")):
            yield f"commit \"{subject}\": not of the form \"area: verb object\""


def subjects_of(tree):
    """Returns the subjects since the first commit under the rule; none outside a repository or without that
    commit."""
    try:
        log = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(tree.root), "log", "--no-merges", "--format=%s", "-n", "2000"],
                             check=True, capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []
    return log[:log.index(FIRST_SUBJECT) + 1] if FIRST_SUBJECT in log else []


def check(tree):
    sources = [p for p in tree.select(*SOURCES, under=FOLDERS) if not p.startswith(GENERATED)]
    documents = [p for p in tree.select(".md") if p != "docs/style.md"]
    subjects = tree.read("subjects").splitlines() if "subjects" in tree.paths else subjects_of(tree)
    if not sources and not documents and not subjects:
        raise guard.GuardError("there is nothing to read")
    breaches = [breach for path in sources for breach in source_breaches(tree, path)]
    breaches += [breach for path in documents for breach in document_breaches(tree, path)]
    return breaches + list(subject_breaches(subjects))


SELF_TESTS = [
    ("plain", {"core/a.h": "// Number of pages, or of slots; nothing else.\nint x;  // where they lie\n"}, 0),
    ("begins with Of", {"core/a.h": "// O" "f a page.\nint x;  // O" "f all.\n"}, 2),
    ("begins with Of after its mark", {"capi/a.h": "/**\n * O" "f a page.\n */\n"}, 1),
    ("goes on with of", {"core/a.h": "// The number\n// O" "f Mice and Men\n"}, 0),
    ("a person", {"core/a.h": "// For who" "ever waits.\n", "docs/a.md": "No" "body waits.\n"}, 2),
    ("speech", {"core/a.h": "int x;  // the header sa" "ys how many\n"}, 1),
    ("in a string", {"core/a.cpp": 'f("it sa' 'ys so");\n'}, 0),
    ("a trailing else", {"core/a.h": "// One for the card, the CPU el" "se.\n"}, 1),
    ("where for if", {"core/a.h": "// Zero whe" "re there is none.\n"}, 1),
    ("a banner", {"core/a.h": "// ==========\n// ---- Part ----\n"}, 2),
    ("subjects", {"subjects": "core: add a page\nAdd a page\n" + "core: " + "x" * 70 + "\n"}, 2),
    ("in a document's code", {"docs/a.md": "```\nno" "body\n```\n"}, 0),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)
