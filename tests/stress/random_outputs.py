#!/usr/bin/env python3
"""Random texts of every schema, tool set, pattern and grammar of ../shared/golden, each held to a checker that is not Quire's.

    pip install jsonschema==4.26.0 regress==2026.9.1 lark==1.3.1 llguidance==1.9.1
    python3 tests/stress/random_outputs.py build/release/bin/random_outputs [--texts 100000] [--seed 1] [--tokenizer FOLDER]

Schemas and the arguments of tools by jsonschema, with decimal numbers in place of floating point and patterns of ECMA 262 by
regress; regular expressions by re; Lark by lark where it reads the dialect, else by llguidance; GBNF by llguidance. Prints what
was drawn and each text that is not valid; exit code 1 where there is one. Texts without
end are counted apart: nothing favours the members that a schema wants over others that it allows. Of members that a schema does not name
one may come twice, and the last counts.
"""
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
import subprocess
import sys

import jsonschema
import jsonschema._keywords
import jsonschema._utils
import lark
import llguidance
import llguidance.gbnf_to_lark
import regress

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "..", "shared", "golden")
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
    """Calls of a tool set as one JSON value."""
    calls = [{"type": "object", "properties": {"name": {"const": tool["function"]["name"]}, "arguments": tool["function"]["parameters"]},
              "required": ["name", "arguments"], "additionalProperties": False} for tool in tools]
    return {"type": "array", "items": {"anyOf": calls}, "minItems": 1, "maxItems": 3}


class Ecma:
    """In place of the module re where jsonschema looks for patterns."""

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


def regex_checker(source):
    pattern = re.compile(source)
    return "re", lambda text: None if pattern.fullmatch(text) else "no match"


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


def lark_checker(source):
    try:
        parser = lark.Lark(source, lexer="dynamic_complete")
    except Exception:  # the dialect goes beyond it
        return llguidance_checker(source)

    def check(text):
        try:
            parser.parse(text)
        except lark.exceptions.UnexpectedInput as error:
            return type(error).__name__
        return None
    return "lark", check


def gbnf_checker(source):
    return llguidance_checker(llguidance.gbnf_to_lark.gbnf_to_lark(source))


CHECKERS = {"schema": schema_checker, "regex": regex_checker, "lark": lark_checker, "gbnf": gbnf_checker}


def check_source(name, kind, source, lines):
    tally, failures = collections.Counter(), []
    if lines and "refused" in lines[0]:
        return collections.Counter({f"{kind}: sources refused": 1}), []
    try:
        checker, check = CHECKERS[kind](source)
    except Exception as error:
        tally[f"{kind}: texts of sources that no checker reads"] = len(lines)
        checker, check = "nothing", None
    for line in lines:
        wrong = None
        if line.get("why") == "too long":
            tally[f"{kind}: texts without end"] += 1
            continue
        if not line["ended"]:
            wrong = line["why"]
        elif check is not None:
            try:
                wrong = check(line["text"])
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"[:200]
        tally[f"{kind}: texts by {checker}"] += 1
        if wrong is not None:
            tally[f"{kind}: FAILED"] += 1
            failures.append((name, wrong, line["text"][:400]))
    return tally, failures


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program")
    options.add_argument("--texts", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--tokenizer", default=TOKENIZER)
    options.add_argument("--only", default="", help="sources whose name has this")
    chosen = options.parse_args()
    found = [each for each in sources() if chosen.only in each[0]]
    given = "".join(json.dumps({"kind": kind, "source": source}) + "\n" for _, kind, source in found)
    each = -(-chosen.texts // len(found))
    drawn = subprocess.run([chosen.program, chosen.tokenizer, str(each), str(chosen.seed)], input=given, check=True,
                           capture_output=True, text=True).stdout
    by_source = collections.defaultdict(list)
    for line in map(json.loads, drawn.splitlines()):
        by_source[line["source"]].append(line)
    tally, failures = collections.Counter(), []
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
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
