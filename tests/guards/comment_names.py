#!/usr/bin/env python3
"""Comments of the bindings name only what exists: every `Type.Member` (in Java also `Type#member`) is a member of that
type, in the handwritten sources or in the layers that bindings/generator writes. They speak the language of their
reader: no function, constant, null or type of C."""
import json
import re
import sys

import guard

LANGUAGES = {"java": ".java", "csharp": ".cs", "go": ".go"}
NOT_READ = ("bindings/go/internal/native/",)
TOKEN = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"""|@"(?:[^"]|"")*"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|`[^`]*`'
                   r"|(?P<comment>//[^\n]*|/\*.*?\*/)", re.DOTALL)
DECLARATION = re.compile(r"\b(?:class|interface|enum|record|struct)\s+(\w+)(?:<[^<>]*>)?\s*(\([^{]*?\))?\s*([^{};]*?)\s*\{")
GO_TYPE = re.compile(r"^type (\w+)(?:\[[^\]]*\])? (?:struct|interface)? ?(\{)?", re.MULTILINE)
GO_METHOD = re.compile(r"^func \(\w* ?\*?(\w+)(?:\[[^\]]*\])?\) (\w+)", re.MULTILINE)
MENTION = re.compile(r"(?<![\w.@/#-])([A-Z]\w*)[.#]([A-Za-z_]\w*)(?!\w*[/-])")
OWN_MENTION = re.compile(r"(?<![\w.])#(\w+)")
FILE_ENDINGS = {"java", "cs", "go", "py", "md", "h", "dll", "so", "xml", "csproj", "json"}
# Types and namespaces of others.
FOREIGN = {"System", "Microsoft", "Flow", "Future", "Thread", "IO", "EOF"}
# Members that types inherit from those of others.
INHERITED = {"close", "getMessage", "toString", "Message", "Error", "String", "Dispose"}
C_IDIOM = re.compile(r"\bquire_[a-z]\w*|\bQUIRE_[A-Z]\w*|\bNULL\b|\bconst char\b|\b(?:size_t|u?int(?:8|16|32|64)_t)\b|\bchar ?\*|\bout_\w+")
# Names of libraries, of a Python module, and of variables of the environment.
NO_IDIOM = re.compile(r"quire_(?:java|csharp|serve|dynamic)$|QUIRE_(?:LIBRARY|API_KEY|\w+_DIR|TEST_\w+|ARTIFACTS)$")


def parted(text):
    """Returns the code with comments and texts blanked, and (line number, text) of each comment."""
    comments = []

    def blank(match):
        if match.group("comment"):
            for offset, line in enumerate(match[0].split("\n")):
                comments.append((text.count("\n", 0, match.start()) + 1 + offset, line))
        return re.sub(r"[^\n]", " ", match[0])

    return TOKEN.sub(blank, text), comments


def body(code, start):
    """Returns the words directly inside the braces that open before `start`, without those inside other brackets, and
    the position after them."""
    depth, words, position = 1, [], start
    for match in re.finditer(r"[{(\[]|[})\]]|\w+", code[start:]):
        if match[0] in "{([":
            depth += 1
        elif match[0] in "})]":
            depth -= 1
            if depth == 0:
                position = start + match.end()
                break
        elif depth == 1:
            words.append(match[0])
    return words, position


class Types:
    """Members and bases of each type of one language."""

    def __init__(self):
        self.members, self.bases = {}, {}

    def add(self, name, words, bases=()):
        self.members.setdefault(name, set()).update(words)
        self.bases.setdefault(name, set()).update(bases)

    def read(self, code):
        for match in DECLARATION.finditer(code):
            components = re.findall(r"\w+", match[2] or "")
            self.add(match[1], body(code, match.end())[0] + components, re.findall(r"\w+", match[3]))

    def read_go(self, code):
        for match in GO_TYPE.finditer(code):
            words, end = body(code, match.end()) if match[2] else ([], match.end())
            embedded = re.findall(r"^\t\*?(?:\w+\.)?(\w+)$", code[match.end():end], re.MULTILINE)
            self.add(match[1], words, embedded)
        for name, method in GO_METHOD.findall(code):
            self.add(name, [method])

    def has(self, name, member, seen=()):
        bases = self.bases.get(name, set()) - {name, *seen}
        return member in self.members.get(name, ()) or any(self.has(base, member, (*seen, name)) for base in bases)


def generated(tree, language):
    """Returns {path: text} of the layer that the build makes of a language; Go's is committed."""
    if language == "go" or "bindings/generator/generate.py" not in tree.paths:
        return {}
    script = ("import sys, json; sys.path[:0] = [sys.argv[1] + '/bindings/generator']; import generate; "
              "print(json.dumps(generate.files(sys.argv[2])))")
    return json.loads(guard.run(sys.executable, "-B", "-c", script, str(tree.root), language))


def breaches_of(path, comments, types, own):
    for number, line in comments:
        for name, member in MENTION.findall(line):
            if name in FOREIGN or member in FILE_ENDINGS or member in INHERITED and name in types.members:
                continue
            if name not in types.members and name.isupper():
                continue
            if not types.has(name, member):
                yield f"{path}:{number}: there is no {name}.{member}"
        for member in OWN_MENTION.findall(line) if path.endswith(".java") else ():
            if not any(types.has(name, member) for name in own):
                yield f"{path}:{number}: there is no #{member}"
        for idiom in C_IDIOM.findall(line):
            if not NO_IDIOM.search(idiom):
                yield f"{path}:{number}: {idiom} belongs to C; use the word of the language"


def check(tree):
    breaches, count = [], 0
    for language, suffix in LANGUAGES.items():
        paths = [path for path in tree.select(suffix, under=("bindings/",)) if not path.startswith(NOT_READ)]
        texts = {path: tree.read(path) for path in paths} | generated(tree, language)
        read, types = {path: parted(text) for path, text in texts.items()}, Types()
        for code, _ in read.values():
            (types.read_go if language == "go" else types.read)(code)
        for path, (code, comments) in read.items():
            breaches += breaches_of(path, comments, types, [match[1] for match in DECLARATION.finditer(code)])
        count += len(paths)
    if count == 0:
        raise guard.GuardError("there are no sources of bindings")
    return breaches


JAVA = "/** {} */\nclass Job extends Calls<Job> {{ void next(int only) {{ int inner; }} }}\nabstract class Calls<T> {{ int id() {{ return 1; }} }}\n"
CSHARP = "/// <summary>{}</summary>\nclass Job {{ public int Id {{ get; set; }} }}\n"
GO = "// {}\ntype Job struct {{\n\tcalls\n\tName string\n}}\ntype calls struct {{ ID int }}\nfunc (j *Job) Next(only int) {{}}\n"
SELF_TESTS = [
    ("a member, one of the base, and a file", {"bindings/java/a.java": JAVA.format("Job.next, Job.id and Job.java")}, 0),
    ("no member", {"bindings/java/a.java": JAVA.format("see Job.nexts")}, 1),
    ("a parameter and a local variable are no members", {"bindings/java/a.java": JAVA.format("Job.only Job.inner")}, 2),
    ("a link", {"bindings/java/a.java": JAVA.format("{@link Job#next} {@link Job#gone} {@link #next} {@link #lost}")}, 2),
    ("no type", {"bindings/java/a.java": JAVA.format("see Task.next")}, 1),
    ("in C#", {"bindings/csharp/a.cs": CSHARP.format("Job.Id Job.Name")}, 1),
    ("in Go", {"bindings/go/a.go": GO.format("Job.Next Job.Name Job.ID Job.Only")}, 1),
    ("a text is no comment", {"bindings/csharp/a.cs": 'class A { string b = "see // Job.Gone NULL"; }\n'}, 0),
    ("a function of C", {"bindings/go/a.go": GO.format("calls quire_job_free")}, 1),
    ("a constant, a null and types of C", {"bindings/java/a.java": JAVA.format("QUIRE_ERROR_IO NULL const char int32_t")}, 4),
    ("a library and a variable", {"bindings/java/a.java": JAVA.format("libquire_java quire_java QUIRE_LIBRARY")}, 0),
    ("Java's and C#'s own null", {"bindings/java/a.java": JAVA.format("null")}, 0),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)
