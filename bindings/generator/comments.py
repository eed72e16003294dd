"""Comments of the headers in the words of a language."""
import re
import textwrap

NO_NEWS = re.compile(r"^(Returns\b|NULL\b|(-1|NaN|0|QUIRE_WAIT_FAILED) on failure|The caller owns)")
WAIT_ENDS = re.compile(r"^1: [^;]*; after QUIRE_WAIT_TIMEOUT or QUIRE_WAIT_CANCELLED ")
FAILS = re.compile(r"^(?:Returns .*?|NULL|-1|QUIRE_WAIT_FAILED)(?: on failure)?[:;] (QUIRE_ERROR.*|as .*|what .*)")
TAILS = re.compile(r"[;,.]? ?(?:and )?(?:-1|NaN|NULL|0)(?: with an error)? on failure(?=[.;]|$)|"
                   r" ?\((?:base\.h|event\.h|stats\.h|job\.h|queue\.h)[^)]*\)|: \[[^\]]*\](?= )|, \[\w+\]")
YES = [(r"^1: ", "true: "), (r"^1, the default: ", "true, the default: "), (r"\b0, the default: ", "false, the default: "),
       (r"\b0: ", "false: "), (r"Default: 0\.", "Default: false."), (r"Default: 1\.", "Default: true.")]


def sentences(text):
    return re.split(r"(?<=\.) (?=[A-Z0-9-])", text)


def plain(text, kind=""):
    """Without what a language says by itself: who owns a result, and how failure shows itself."""
    kept = []
    for sentence in sentences(TAILS.sub("", text)):
        fails = FAILS.match(sentence)
        if fails:
            kept.append("Fails with " + fails[1] if not fails[1].startswith("as") else "Fails " + fails[1])
        elif not NO_NEWS.match(sentence):
            kept.append(WAIT_ENDS.sub("Where the wait ends early, ", sentence))
    said = " ".join(kept)
    for pattern, instead in YES if kind == "bool" else [("Nanoseconds", "Time")] if kind == "time" else ():
        said = re.sub(pattern, instead, said)
    said = said.rstrip(" ;:,")
    return said if not said or said.endswith(".") else said + "."


def translate(text, names):
    """With the names that a language has for functions and constants."""
    def name(match):
        found = match[0]
        if found.endswith("_*"):
            return names.get(found[:-1], found)
        return names.get(found, found)
    return re.sub(r"\b(?:quire|QUIRE)_\w+\*?", name, text)


def wrapped(text, prefix, width=116):
    return [prefix + line for line in textwrap.wrap(text, width - len(prefix), break_long_words=False,
                                                    break_on_hyphens=False)]
