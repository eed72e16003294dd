#!/usr/bin/env python3
"""Masks of JSON Schema beside llguidance, in turns on one core, over the real schemas of ../shared/golden/json_schema/real and a
real vocabulary of 130,072 tokens: needs `pip install llguidance==1.9.1 numpy mistral-common` (whose tekken_240911.json it is).

    taskset -c 0 python3 tests/bench/constraint_speed.py build/release/bin/constraint_bench [--json]

Both get the same tokens of the same texts, the longest that fit first. xgrammar's package needs torch and is left out.
"""
import base64
import glob
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCHEMAS = os.path.join(ROOT, "..", "shared", "golden", "json_schema", "real")
VOCABULARY = "data/tekken_240911.json"
LONGEST = 32


def vocabulary():
    package = os.path.dirname(importlib.util.find_spec("mistral_common").origin)
    with open(os.path.join(package, VOCABULARY), encoding="utf-8") as file:
        tekken = json.load(file)
    size = tekken["config"]["default_vocab_size"] - tekken["config"]["default_num_special_tokens"]
    return [base64.b64decode(entry["token_bytes"]) for entry in tekken["vocab"][:size]]


class Words:
    """What llguidance asks of a tokenizer."""
    bos_token_id = None

    def __init__(self, tokens):
        self.tokens = [*tokens, b"<|end|>"]
        self.eos_token_id = len(tokens)
        self.special_token_ids = [self.eos_token_id]
        self.ids = {token: number for number, token in reversed(list(enumerate(tokens)))}

    def __call__(self, text):
        return self.encode(text.encode() if isinstance(text, str) else bytes(text))

    def encode(self, text):
        ids, at = [], 0
        while at < len(text):
            length = next(size for size in range(min(LONGEST, len(text) - at), 0, -1) if text[at:at + size] in self.ids)
            ids.append(self.ids[text[at:at + length]])
            at += length
        return ids


def theirs(words, schemas):
    import llguidance
    import llguidance.numpy
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(words))
    bits = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)
    compiles, masks, refused = [], [], 0
    for schema, instances in schemas:
        start = time.thread_time_ns()
        try:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
            matcher = llguidance.LLMatcher(tokenizer, grammar)
        except ValueError:
            refused += 1
            continue
        if matcher.is_error():
            refused += 1
            continue
        compiles.append((time.thread_time_ns() - start) / 1000)
        for ids in instances:
            matcher.reset()
            for token in ids:
                start = time.thread_time_ns()
                llguidance.numpy.fill_next_token_bitmask(matcher, bits)
                masks.append((time.thread_time_ns() - start) / 1000)
                if not matcher.consume_token(token):
                    break
    return {"refused": refused, "compile": figures(compiles), "mask": figures(masks)}


def figures(times):
    times.sort()
    at = {name: times[min(len(times) - 1, int(len(times) * share))] for name, share in
          (("median", 0.5), ("p99", 0.99), ("p99.9", 0.999))}
    return {"count": len(times), **at, "most": times[-1]}


def ours(program, tokens):
    with tempfile.NamedTemporaryFile("w", suffix=".hex") as file:
        file.write("".join(token.hex() + "\n" for token in tokens))
        file.flush()
        said = subprocess.run([program, file.name, SCHEMAS], check=True, capture_output=True, text=True).stdout
    found = {"refused": int(re.search(r"^(\d+) refused", said, re.MULTILINE)[1])}
    for name in ("compile", "mask"):
        row = re.search(rf"^{name}: (\d+), median ([\d.]+) us, 99 % ([\d.]+) us, 99.9 % ([\d.]+) us, most ([\d.]+) us", said, re.MULTILINE)
        found[name] = dict(zip(("count", "median", "p99", "p99.9", "most"), (int(row[1]), *map(float, row.groups()[1:]))))
    return found


def main():
    tokens = vocabulary()
    words = Words(tokens)
    schemas = []
    for path in sorted(glob.glob(os.path.join(SCHEMAS, "*.json"))):
        with open(path, encoding="utf-8") as file:
            test = json.load(file)
        schemas.append((test["schema"], [words.encode(json.dumps(value).encode()) for value in test["valid"]]))
    found = {"vocabulary": len(tokens), "quire": ours(sys.argv[1], tokens), "llguidance": theirs(words, schemas)}
    if "--json" in sys.argv:
        return print(json.dumps(found))
    print(f"{'microseconds':24}{'count':>8}{'median':>10}{'99 %':>12}{'99.9 %':>12}{'most':>12}{'refused':>9}")
    for engine in ("quire", "llguidance"):
        for name in ("compile", "mask"):
            row = found[engine][name]
            print(f"{engine + ' ' + name:24}{row['count']:8}{row['median']:10.1f}{row['p99']:12.1f}{row['p99.9']:12.1f}{row['most']:12.1f}"
                  f"{found[engine]['refused']:9}")


if __name__ == "__main__":
    main()
