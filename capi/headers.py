"""What the public headers declare: functions with their parameters and comments, and constants."""
import pathlib
import re
from dataclasses import dataclass

INCLUDE = pathlib.Path(__file__).resolve().parent / "include/quire"
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FUNCTION = re.compile(r"(?:/\*\*((?:(?!\*/).)*)\*/\s*)?QUIRE_API\s+([^;(]*?)\b(quire_\w+)\s*\(([^;]*?)\);", re.DOTALL)
CONSTANT = re.compile(r"(?:/\*((?:(?!\*/).)*)\*/\s*)?#define (QUIRE_(?!API\b|\w+_H\b)\w+)[ \t]+"
                      r"(\(-?\d+\)|-?\d+|\"[^\"]*\")[ \t]*(?:/\*((?:(?!\*/).)*)\*/)?", re.DOTALL)


@dataclass
class Function:
    name: str
    result: str
    parameters: list  # (type, name)
    comment: str
    header: str

    def declaration(self):
        return ", ".join(f"{kind} {name}" for kind, name in self.parameters) or "void"


@dataclass
class Constant:
    name: str
    value: str
    comment: str  # beside it
    above: str  # what is said above it: of a group, by its first
    header: str


def words(comment):
    """The text of a comment in one line."""
    return " ".join(re.sub(r"^\s*\*", " ", comment or "", flags=re.MULTILINE).split())


def parameters(text):
    text = " ".join(COMMENT.sub(" ", text).split())
    if text == "void":
        return []
    pairs = (re.fullmatch(r"(.*?[\s*])(\w+)", one.strip()).groups() for one in text.split(","))
    return [(kind.strip(), name) for kind, name in pairs]


def functions(texts=None):
    for header, text in sorted((texts or read()).items()):
        for comment, result, name, given in FUNCTION.findall(text):
            yield Function(name, " ".join(COMMENT.sub(" ", result).split()), parameters(given), words(comment), header)


def constants(texts=None):
    for header, text in sorted((texts or read()).items()):
        for above, name, value, beside in CONSTANT.findall(text.replace("\\\n", " ")):
            yield Constant(name, value.strip("()"), words(beside), words(above), header)


def read():
    """{name of a header: its text}"""
    return {path.name: path.read_text(encoding="utf-8") for path in INCLUDE.glob("*.h")}
