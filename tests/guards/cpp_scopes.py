"""Functions and types of C++ text, found by their braces. Knows no macros and no preprocessor conditions, which is
enough for sources in the project's format."""
import re

NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\[^\'\n]+|[^\'\\\n])\''
                   r"|\\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
TYPE_HEAD = re.compile(r"\b(?:class|struct|union)\s+(?:\w+\s+)*?([\w:]+)(?:<[^{}]*>)?\s*(?:final\s*)?(?::[^:].*)?$", re.S)
LABEL = re.compile(r"^(\s*(public|private|protected)\s*:(?!:))+")
INITIALIZER = re.compile(r"(=|,|\(|\breturn|\)\s*(noexcept\s*)?:(?!:).*[\w>])$", re.S)
NAME = re.compile(r"(operator\s*\S+?|[\w:~]+)\s*\(")
NO_MEMBER = re.compile(r"(static|using|typedef|friend|template|enum|class|struct|union|constexpr|extern)\b")


class Scope:
    """Text between a pair of braces: the body of a `function` or `type`, a `namespace`, or `other`."""

    def __init__(self, kind, name, begin):
        self.kind = kind
        self.name = name
        self.begin = begin  # position of the declaration
        self.end = 0  # position of the closing brace
        self.num_members = 0  # data members of a type, static ones excepted


def without_noise(source):
    """Replaces comments, literals and preprocessor lines by blanks; every other character keeps its position."""
    return NOISE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)


def kind_of(head, outer):
    """Returns the kind and name of the scope that a declaration opens. Braces inside functions are `other`."""
    if outer in ("function", "other"):
        return "other", ""
    if re.search(r"\b(namespace|extern)\b[^(]*$", head):
        return "namespace", ""
    found = TYPE_HEAD.search(head)
    if found and not re.search(r"\benum\b", head):
        return "type", found.group(1)
    if "(" not in re.sub(r"<.*>", "", head, flags=re.S) or INITIALIZER.search(head):
        return "other", ""
    name = NAME.search(head)
    return "function", name.group(1) if name else "?"


def num_members(statement):
    """Returns the number of data members that a statement of a type declares."""
    statement = LABEL.sub("", statement).strip()
    statement = re.sub(r"\{[^{}]*\}", "{}", re.sub(r"\{[^{}]*\}", "", statement))
    if not statement or NO_MEMBER.match(statement) or "operator" in statement:
        return 0
    previous = None
    while previous != statement:
        previous, statement = statement, re.sub(r"<[^<>;{}]*>", "", statement.replace("->", ""))
    statement = re.sub(r"\[\[.*?\]\]|alignas\([^)]*\)", "", statement)
    if re.search(r"\((?!\s*\*)", statement.split("=")[0].split("{")[0]):
        return 0  # a function
    previous = None
    while previous != statement:
        previous, statement = statement, re.sub(r"\([^()]*\)", "", statement)
    return statement.count(",") + 1


def scopes(text):
    """Yields the functions and types of a text without noise, inner ones first."""
    stack = [Scope("namespace", "", 0)]
    begin = 0  # of the statement
    for match in re.finditer(r"[{};]", text):
        outer = stack[-1]
        if match.group() == "{":
            head = LABEL.sub("", text[begin:match.start()]).strip()
            kind, name = kind_of(head, outer.kind)
            stack.append(Scope(kind, name, text.rindex(head, 0, match.start() + 1)))
        elif match.group() == ";" and outer.kind == "type":
            outer.num_members += num_members(text[begin:match.start()])
        elif match.group() == "}" and len(stack) > 1:
            stack.pop()
            outer.end = match.start()
            if outer.kind in ("function", "type"):
                yield outer
        if match.group() == "}" and outer.kind == "other" or match.group() == "{" and stack[-1].kind == "other":
            continue  # an initializer: the statement goes on
        begin = match.end()
