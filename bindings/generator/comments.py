"""Converts the comments of the headers to comments of another language."""
import re
import textwrap

# Sentences about ownership, buffers and return values that do not apply to the other languages.
NO_NEWS = re.compile(r"^(Returns (1|-1|0|NULL|NaN)(, or| on failure| when )|Returns (its|their) (length|number)|"
                     r"Returns the number of (dimensions|values)|Also returns|The caller owns|This function and|"
                     r"If out_len is not NULL|The text is also zero-terminated|A query of the size|.*pass a larger buffer)")
ON_FAILURE = re.compile(r",? (?:or|and) (?:-1|NaN|NULL|0|QUIRE_WAIT_FAILED)(?:, with an error,)? on failure(?=[.;,]|$)|"
                        r" ?\((?:base|cancel|event|stats|job|queue)\.h[^)]*\)|, \[\w+\]")
OUT = re.compile(r"\b([Ww])rites (.*?),? to out_(?:text|bytes|tokens|sizes|counts|values)\b")
WAIT_ENDS = re.compile(r"After QUIRE_WAIT_TIMEOUT or QUIRE_WAIT_CANCELLED,? ")
YES = [(r"\bReturns 1 if\b", "Returns true if"), (r"\bReturns 0, ", "Returns false, "), (r", otherwise 0\b", ""),
       (r": 1 or 0\b", ""), (r"Default: 0\.", "Default: false."), (r"Default: 1\.", "Default: true."), (r"Default: 1 unless", "Default: true unless"),
       (r"\bWith 0 ", "With false ")]
NANOSECONDS = [(r"\bthe nanoseconds\b", "the time"), (r", in nanoseconds,", "")]
FLAGS = [(r"\b(\w+_special) is 1\b", r"\1 is true"), (r"; if it is 0\b", "; if it is false")]


def sentences(text):
    return re.split(r"(?<=\.) (?=[A-Z0-9`-])", text)


def plain(text, kind=""):
    """Removes what other languages express in their own way: who owns a result, and how a failure is reported."""
    kept = [sentence for sentence in sentences(text) if not NO_NEWS.match(sentence)]
    said = WAIT_ENDS.sub("If the wait ends early, ", ON_FAILURE.sub("", " ".join(kept)))
    said = OUT.sub(lambda match: ("Returns " if match[1] == "W" else "returns ") + match[2], said)
    for pattern, instead in FLAGS + (YES if kind == "bool" else NANOSECONDS if kind == "time" else []):
        said = re.sub(pattern, instead, said)
    said = said.rstrip(" ;:,")
    return said if not said or said.endswith(".") else said + "."


def noun(text):
    """Turns the comment of a getter or a setter into that of a field, without its verb."""
    said = re.sub(r"(?<=\. )Returns (\w+) (if|while) ", r"It is \1 \2 ", re.sub(r"^(?:Returns|Sets|Adds) ", "", text))
    return said[:1].upper() + said[1:]


def named(name, text):
    """A comment in the style of Go, which begins with the name."""
    first = text[:1].lower() + text[1:]
    if re.match(r"(the|a|an) ", first):
        return f"{name} is {first}"
    return f"{name} {first}" if re.match(r"[a-z]+s ", first) and not re.match(r"(settings|weights|parts) ", first) else f"{name}: {first}"


def translate(text, names):
    """Replaces names of the C interface by those of the language, and drops references to headers."""
    def name(match):
        found = match[0]
        if found.endswith("_*"):
            return names.get(found[:-1], found)
        return names.get(found, found)
    return re.sub(r"\b(?:(?:quire|QUIRE)_\w+\*?|NULL\b)", name, re.sub(r" (?:\(\w+\.h\)|of \w+\.h\b)", "", text))


def wrapped(text, prefix, width=116):
    return [prefix + line for line in textwrap.wrap(text, width - len(prefix), break_long_words=False,
                                                    break_on_hyphens=False)]
