#!/usr/bin/env python3
"""Mask times of JSON Schema compared with llguidance and xgrammar, in turns on one core, for the real schemas of
../shared/golden/json_schema/real and a real vocabulary of 130,072 tokens:

    pip install llguidance==1.9.1 numpy mistral-common    (contains the vocabulary, tekken_240911.json)
    pip install xgrammar==0.2.8 transformers              (with torch, some GB)
    taskset -c 0 python3 tests/bench/constraint_speed.py build/release/bin/constraint_bench [--json]

All get the same tokens of the same texts, split greedily into the longest tokens; a library that is not installed is
skipped. Times are processor times. Both libraries are called from Python, which adds the time of the row "call" to each
call. xgrammar runs with one thread and allows members and items that a schema does not name (strict_mode=False), as JSON
Schema requires."""
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
    """Tokenizer interface that llguidance requires."""
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


class Llguidance:
    def __init__(self, words):
        import llguidance
        import llguidance.numpy
        self.library = llguidance
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(words))
        self.bits = llguidance.numpy.allocate_token_bitmask(1, self.tokenizer.vocab_size)

    def compile(self, schema):
        matcher = self.library.LLMatcher(self.tokenizer, self.library.LLMatcher.grammar_from_json_schema(json.dumps(schema)))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def begin(self, matcher):
        matcher.reset()
        return matcher

    def mask(self, matcher):
        self.library.numpy.fill_next_token_bitmask(matcher, self.bits)

    def take(self, matcher, token):
        return matcher.consume_token(token)

    def may_end(self, matcher):
        return matcher.is_accepting()


class Xgrammar:
    def __init__(self, words):
        import xgrammar
        self.library = xgrammar
        info = xgrammar.TokenizerInfo(words.tokens, vocab_size=len(words.tokens), stop_token_ids=[words.eos_token_id])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        self.bits = xgrammar.allocate_token_bitmask(1, len(words.tokens))
        self.end = words.eos_token_id

    def compile(self, schema):
        return self.compiler.compile_json_schema(json.dumps(schema), strict_mode=False)

    def begin(self, compiled):
        return self.library.GrammarMatcher(compiled)

    def mask(self, matcher):
        matcher.fill_next_token_bitmask(self.bits)

    def take(self, matcher, token):
        return matcher.accept_token(token)

    def may_end(self, matcher):
        return matcher.is_completed()


def theirs(peer, schemas):
    compiles, masks, calls = [], [], []
    found = {"refused": 0, "valid_refused": 0, "invalid_taken": 0}
    for schema, valid, invalid in schemas:
        start = time.process_time_ns()
        try:
            compiled = peer.compile(schema)
        except (ValueError, RuntimeError):
            found["refused"] += 1
            continue
        compiles.append((time.process_time_ns() - start) / 1000)
        for ids in valid:
            matcher = peer.begin(compiled)
            found["valid_refused"] += not takes_all(peer, matcher, ids, masks)
            start = time.thread_time_ns()
            peer.may_end(matcher)
            calls.append((time.thread_time_ns() - start) / 1000)
        for ids in invalid:
            found["invalid_taken"] += takes_all(peer, peer.begin(compiled), ids, [])
    return {**found, "compile": figures(compiles), "mask": figures(masks), "call": figures(calls)}


def takes_all(peer, matcher, ids, masks):
    for token in ids:
        start = time.thread_time_ns()
        peer.mask(matcher)
        masks.append((time.thread_time_ns() - start) / 1000)
        if not peer.take(matcher, token):
            return False
    return peer.may_end(matcher)


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
    found = {name.replace(" ", "_"): int(re.search(rf"^(\d+) {name}", said, re.MULTILINE)[1])
             for name in ("refused", "valid refused", "invalid taken")}
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
        schemas.append((test["schema"], *([words.encode(json.dumps(value).encode()) for value in test[key]] for key in ("valid", "invalid"))))
    found = {"vocabulary": len(tokens), "load": os.getloadavg()[0], "quire": ours(sys.argv[1], tokens)}
    for name, peer in (("llguidance", Llguidance), ("xgrammar", Xgrammar)):
        if importlib.util.find_spec(name):
            found[name] = theirs(peer(words), schemas)
    if "--json" in sys.argv:
        return print(json.dumps(found))
    print(f"load {found['load']:.1f}\n{'microseconds':24}{'count':>8}{'median':>10}{'99 %':>12}{'99.9 %':>12}{'most':>12}")
    for engine in ("quire", "llguidance", "xgrammar"):
        if engine not in found:
            continue
        for name in [row for row in ("compile", "mask", "call") if row in found[engine]]:
            row = found[engine][name]
            print(f"{engine + ' ' + name:24}{row['count']:8}{row['median']:10.1f}{row['p99']:12.1f}{row['p99.9']:12.1f}{row['most']:12.1f}")
        print(f"{engine}: {found[engine]['refused']} schemas refused; of the others' instances {found[engine]['valid_refused']} valid ones "
              f"refused, {found[engine]['invalid_taken']} invalid ones let through")


if __name__ == "__main__":
    main()
