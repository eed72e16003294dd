#!/usr/bin/env python3
"""Random texts of every schema, tool set, pattern and grammar of ../shared/golden, each validated by an independent checker.

    pip install jsonschema==4.26.0 regress==2026.9.1 regex==2026.11.19 lark==1.3.1 llguidance==1.9.1 xgrammar==0.2.8
    python3 tests/stress/random_outputs.py build/release/bin/random_outputs [--texts 130000] [--seed 1] [--tokenizer FOLDER]
        [--form any] [--schemas 500]

JSON is drawn in the form of jobs or, with --form any, in every spelling. --schemas adds random schemas (random_schemas.py).

Schemas and the arguments of tools are checked by jsonschema, with decimal numbers in place of floating point and with ECMA
262 patterns by regress. Regular expressions are checked by re, texts with characters newer than Python's Unicode by regex.
GBNF is checked by xgrammar, otherwise by llguidance. Lark is checked by lark if it supports the dialect, otherwise by
llguidance or xgrammar. Every text must end and be valid, except those named in EXPECTED. Prints the number of texts and
each text that fails; exits with code 1 if there is one."""
import argparse
import collections
import concurrent.futures
import decimal
import fractions
import functools
import glob
import json
import os
import re
import signal
import subprocess
import sys
import unicodedata
import warnings

import jsonschema
import jsonschema._keywords
import jsonschema._utils
import lark
import llguidance
import llguidance.gbnf_to_lark
import regex
import regress
import xgrammar

import random_schemas

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "..", "shared", "golden")
MOST_MATCHES = 20
MOST_UNFINISHED = 10  # texts per source; sources with more are not examined
MOST_SECONDS = 5  # of a checker for one text
# Sources under which no text ends, and the expected symptom.
EXPECTED = {
    "regex_edge 0": ("no token is allowed", "(?=a)b matches nothing"),
    "xgrammar_lark 22": ("no token is allowed", "a(?=b)c matches nothing; xgrammar ignores the lookahead"),
    "xgrammar_lark 23": ("no token is allowed", "a^b$c matches nothing; xgrammar ignores the anchors"),
    "regex_edge 11": ("too long", "its only text has a million characters"),
    "JsonSchemaStore__utam-page-object.json": ("the constraint is too ambiguous: more than max_ways", "a limit"),
    "regex_edge 12": ("the constraint needs more than max_states", "its only text has a hundred million characters"),
}
TOKENIZER = os.path.join(ROOT, "packaging", "model", "story-15m-exl2-4.0bpw")


def load(*path):
    with open(os.path.join(GOLDEN, *path), encoding="utf-8") as file:
        return json.load(file)


def sources():
    for path in sorted(glob.glob(os.path.join(GOLDEN, "json_schema", "real", "*.json"))):
        yield os.path.basename(path), "schema", json.dumps(load(path)["schema"])
    for path in sorted(glob.glob(os.path.join(GOLDEN, "json_schema", "tools", "*.json"))):
        yield os.path.basename(path), "schema", json.dumps(calls_schema(load(path)["tools"]))
    for name, key, kind in (("regex", "regex", "regex"), ("regex_edge", "regex", "regex"), ("xgrammar_regex", "regex", "regex"),
                            ("xgrammar_lark", "grammar", "lark"), ("gbnf_files", "grammar", "gbnf"),
                            ("llama_cpp_grammars", "grammar", "gbnf"), ("xgrammar_ebnf", "grammar", "gbnf")):
        for number, case in enumerate(load("grammars", name + ".json")["cases"]):
            yield f"{name} {number}", kind, case[key]


def calls_schema(tools):
    """Returns the calls of a tool set as one JSON schema."""
    calls = [{"type": "object", "properties": {"name": {"const": tool["function"]["name"]}, "arguments": tool["function"]["parameters"]},
              "required": ["name", "arguments"], "additionalProperties": False} for tool in tools]
    return {"type": "array", "items": {"anyOf": calls}, "minItems": 1, "maxItems": 3}


def words_of(kind, source, form):
    """Returns words that lead a text of a source to its end."""
    if kind == "schema" and form == "drawn":
        words = words_of(kind, source, "any")
        spaced = [[re.sub(r"^,", ", ", word) + (" " if word.endswith(":") else "") for word in group] for group in words["keys"]]
        return {**words, "keys": spaced}
    if kind == "regex":
        return {"pieces": [pieces_of(source)]}
    if kind != "schema":
        literals = re.findall(r'"((?:[^"\\\n]|\\.)+)"', source)
        patterns = re.findall(r"/((?:[^/\\\n]|\\.)+)/", source)
        closers = [*'"}])>', "*/"] * 4
        return {"pieces": [closers + literals + [piece for pattern in patterns for piece in pieces_of(pattern)]]}
    required, others, values, pieces = set(), set(), {"null", "true", "false", "0", "1", '""'}, set()
    todo = [json.loads(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo += node
        if not isinstance(node, dict):
            continue
        todo += node.values()
        required.update(each for each in as_list(node.get("required")) if isinstance(each, str))
        others.update(node["properties"] if isinstance(node.get("properties"), dict) else ())
        values.update(map(json.dumps, as_list(node.get("enum")) + [node[key] for key in ("const",) if key in node]))
        pieces.update(pieces_of(node["pattern"]) if isinstance(node.get("pattern"), str) else ())
        pieces.update(*map(pieces_of, node["patternProperties"] if isinstance(node.get("patternProperties"), dict) else ()))
    keys = [[form + json.dumps(key) + ":" for key in sorted(names) for form in ("", ",")] for names in (required, others - required)]
    return {"keys": [*keys, [","]], "values": [sorted(values), ["{", "["]], "pieces": [sorted(pieces)]}


def pieces_of(pattern):
    """Returns its runs of letters, its punctuation, and short texts that match it."""
    runs = re.findall(r"[a-zA-Z]{2,}", re.sub(r"\\.", " ", pattern)) + re.findall(r"[^\w\s]", pattern)
    try:
        with warnings.catch_warnings(action="ignore"):
            return runs + [text for text in matches(re._parser.parse(pattern)) if text]
    except re.error:
        return runs


def matches(items):
    """Returns short texts for a pattern as Python parses it; each alternative of a group is in one of them."""
    texts = [""]
    for kind, value in items:
        if kind is re._constants.LITERAL:
            here = [chr(value)]
        elif kind is re._constants.BRANCH:
            here = [text for branch in value[1] for text in matches(branch)]
        elif kind is re._constants.SUBPATTERN:
            here = matches(value[3])
        elif kind in (re._constants.MAX_REPEAT, re._constants.MIN_REPEAT):
            here = [text * min(value[0], 1000) for text in matches(value[2])]
        elif kind is re._constants.IN:
            tried = [chr(value[0][1][0])] if value[0][0] is re._constants.RANGE else [*"1a.-_ "]
            here = [next((char for char in tried if re._compiler.compile(re._parser.SubPattern(re._parser.State(), [(kind, value)])).match(char)), "a")]
        elif kind is re._constants.ANY:
            here = ["a"]
        else:
            here = [""]
        here = here[:MOST_MATCHES]
        texts = [texts[min(n, len(texts) - 1)] + here[min(n, len(here) - 1)] for n in range(max(len(texts), len(here)))]
    return texts


def as_list(value):
    return value if isinstance(value, list) else []


class Ecma:
    """Replaces the module re in jsonschema's checks of patterns."""

    @staticmethod
    @functools.cache
    def compiled(pattern):
        try:
            return regress.Regex(pattern, "u")
        except regress.RegressError:
            return regress.Regex(pattern)

    @staticmethod
    def search(pattern, text):
        return Ecma.compiled(pattern).find(text)


jsonschema._keywords.re = Ecma
jsonschema._utils.re = Ecma


def multiple_of(validator, divisor, instance, schema):
    if validator.is_type(instance, "number") and fractions.Fraction(instance) % fractions.Fraction(divisor) != 0:
        yield jsonschema.ValidationError(f"{instance} is no multiple of {divisor}")


def is_integer(checker, instance):
    if isinstance(instance, bool):
        return False
    return isinstance(instance, int) or (isinstance(instance, decimal.Decimal) and instance == instance.to_integral_value())


def parsed(text):
    return json.loads(text, parse_float=decimal.Decimal)


def schema_checker(source):
    schema = json.loads(source, parse_float=decimal.Decimal)
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    types = kind.TYPE_CHECKER
    if kind not in (jsonschema.Draft3Validator, jsonschema.Draft4Validator):
        types = types.redefine("integer", is_integer)
    validator = jsonschema.validators.extend(kind, {"multipleOf": multiple_of}, type_checker=types)(schema)

    def check(text):
        error = next(validator.iter_errors(parsed(text)), None)
        return None if error is None else f"{error.json_path}: {error.message[:200]}"
    return "jsonschema", check


POSIX = {"alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s", "xdigit": "0-9a-fA-F",
         "word": r"\w", "punct": r"!-/:-@\[-`{-~", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "print": " -~", "graph": "!-~"}


def regex_checker(source):
    spelt = re.sub(r"\[:(\w+):\]", lambda match: POSIX[match[1]], source)
    try:
        name, pattern = "re", re.compile(spelt)
    except re.error:
        name, pattern = "regex", regex.compile(spelt)

    def check(text):
        knows = all(unicodedata.category(char) != "Cn" for char in text)
        return None if (pattern if knows else regex.compile(spelt)).fullmatch(text) else "no match"
    return name, check


class Bytes:
    """A vocabulary of single bytes for llguidance."""
    bos_token_id = None
    eos_token_id = 256
    special_token_ids = [256]
    tokens = [*(bytes([byte]) for byte in range(256)), b"<|end|>"]

    def __call__(self, text):
        return list(text.encode() if isinstance(text, str) else text)


@functools.cache
def byte_tokenizer():
    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()))


def llguidance_checker(grammar):
    compiled = llguidance.LLMatcher.grammar_from_lark(grammar)
    if llguidance.LLMatcher(byte_tokenizer(), compiled).is_error():
        raise ValueError("llguidance does not read it")

    def check(text):
        matcher = llguidance.LLMatcher(byte_tokenizer(), compiled)
        taken = matcher.try_consume_tokens(list(text.encode()))
        if taken != len(text.encode()):
            return f"refused at byte {taken}"
        return None if matcher.is_accepting() else "not at an end"
    return "llguidance", check


def xgrammar_checker(kind, source):
    info = xgrammar.TokenizerInfo(Bytes.tokens, vocab_size=len(Bytes.tokens), stop_token_ids=[Bytes.eos_token_id])
    # patterns may use up all memory
    read = {"gbnf": xgrammar.Grammar.from_ebnf, "lark": xgrammar.Grammar.from_lark}[kind]
    compiled = xgrammar.GrammarCompiler(info, max_threads=1).compile_grammar(read(source))

    def check(text):
        matcher = xgrammar.GrammarMatcher(compiled)
        if not matcher.accept_string(text.encode()):
            return "refused"
        return None if matcher.is_completed() else "not at an end"
    return "xgrammar", check


def lark_checker(source):
    if "%ignore" in source:  # lark matches ignored text greedily, llguidance matches none at the end
        return xgrammar_checker("lark", source)
    json_alone = re.fullmatch(r"\s*start:\s*%json\s*(\{.*\})\s*", source, re.DOTALL)
    if json_alone:  # llguidance accepts one spelling of each value
        return schema_checker(json_alone[1])
    try:
        if re.search(r'"\\[bf]"', source):
            raise ValueError("lark takes the backslash itself")
        parser = lark.Lark(source, lexer="dynamic_complete")
    except Exception:  # the dialect is not supported by lark
        return llguidance_checker(source)

    def check(text):
        try:
            parser.parse(text)
        except lark.exceptions.UnexpectedInput as error:
            return type(error).__name__
        return None
    return "lark", check


def gbnf_checker(source):
    try:  # llguidance splits a text into words before it applies rules
        return xgrammar_checker("gbnf", source)
    except Exception:
        read = llguidance.gbnf_to_lark.gbnf_to_lark(source)
        return llguidance_checker(read.replace("/./", r"/(.|\n)/"))  # a dot of GBNF matches line ends too


CHECKERS = {"schema": schema_checker, "regex": regex_checker, "lark": lark_checker, "gbnf": gbnf_checker}


class Unfinished(Exception):
    pass


def stop(*_):
    raise Unfinished


def checker_of(kind, source):
    for make in (CHECKERS[kind], functools.partial(xgrammar_checker, kind)):
        try:
            return make(source)
        except Exception:
            continue
    return "nothing", None


def check_source(name, kind, source, lines):
    tally, failures = collections.Counter(), []
    if lines and "refused" in lines[0]:
        return collections.Counter({f"{kind}: sources refused": 1}), []
    checker, check = checker_of(kind, source)
    unfinished = f"{kind}: texts that {checker} does not finish: {name}"
    for line in lines:
        wrong = None
        if tally[unfinished] >= MOST_UNFINISHED:
            tally[unfinished] += 1
            continue
        if name in EXPECTED and line.get("why", "").startswith(EXPECTED[name][0]):
            tally[f"{kind}: texts that cannot end: {name}, {EXPECTED[name][1]}"] += 1
            continue
        if not line["ended"]:
            wrong = line["why"]
        elif check is not None:
            signal.alarm(MOST_SECONDS)
            try:
                wrong = check(line["text"])
            except (Unfinished, RecursionError):
                tally[unfinished] += 1
                continue
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"[:200]
            finally:
                signal.alarm(0)
        tally[f"{kind}: texts by {checker}"] += 1
        if wrong is not None:
            tally[f"{kind}: FAILED"] += 1
            failures.append((name, wrong, line["text"][:400]))
    return tally, failures


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program")
    options.add_argument("--texts", type=int, default=130_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--tokenizer", default=TOKENIZER)
    options.add_argument("--form", choices=["any", "drawn"], default="drawn")
    options.add_argument("--schemas", type=int, default=0, help="number of random schemas")
    options.add_argument("--only", default="", help="sources whose name has this")
    chosen = options.parse_args()
    made = enumerate(random_schemas.random_schemas(chosen.schemas, chosen.seed))
    found = [each for each in [*sources(), *((f"random {number}", "schema", json.dumps(schema)) for number, schema in made)]
             if chosen.only in each[0]]
    given = "".join(json.dumps({"kind": kind, "source": source, "words": words_of(kind, source, chosen.form)}) + "\n" for _, kind, source in found)
    each = -(-chosen.texts // len(found))
    drawn = subprocess.run([chosen.program, chosen.tokenizer, str(each), str(chosen.seed), chosen.form], input=given, check=True,
                           capture_output=True, text=True).stdout
    by_source = collections.defaultdict(list)
    for line in map(json.loads, drawn.splitlines()):
        by_source[line["source"]].append(line)
    tally, failures = collections.Counter(), []
    with concurrent.futures.ProcessPoolExecutor(2, initializer=signal.signal, initargs=(signal.SIGALRM, stop)) as pool:
        for counts, wrong in pool.map(check_source, *zip(*found), [by_source[number] for number in range(len(found))]):
            tally += counts
            failures += wrong
    for name, count in sorted(tally.items()):
        print(f"{count:8} {name}")
    for name, count in collections.Counter(name for name, _, _ in failures).most_common():
        first = next(failure for failure in failures if failure[0] == name)
        print(f"{name}: {count} failed, the first: {first[1]}\n    {first[2]!r}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
