#!/usr/bin/env python3
"""Encoding speed compared with the `tokenizers` library, in turns on one core: needs `pip install tokenizers==0.23.3`.

    taskset -c 0 python3 tests/bench/tokenizer_speed.py build/release/bin/tokenizer_bench [rounds]"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests", "golden", "tokenizers")
KINDS = ["gpt2", "llama3", "qwen2", "o200k", "deepseek", "digits", "gemma", "llama2", "mistral_metaspace", "unigram", "wordpiece"]


def text():
    """Returns about a megabyte: prose, the project's own code, and the golden texts, which are in many
    languages."""
    prose = open(os.path.join(ROOT, "..", "shared", "models", "eval.txt"), encoding="utf-8").read()[:600000]
    code = "".join(open(path, encoding="utf-8").read() for path in sorted(glob.glob(os.path.join(ROOT, "core", "*", "*.cpp"))))[:250000]
    cases = json.load(open(os.path.join(GOLDEN, "llama2", "golden.json"), encoding="utf-8"))
    many = "\n".join(case["text"] for case in cases) + "\n"
    return prose + code + (many * (150000 // len(many) + 1))[:150000]


def documents(given):
    """Splits the text into documents of 4,000 characters: a typical size for a service, and faster for the
    library than a megabyte at once."""
    return [given[at:at + 4000] for at in range(0, len(given), 4000)]


def library_seconds(kind, given):
    tokenizer = Tokenizer.from_file(os.path.join(GOLDEN, kind, "tokenizer.json"))
    best = float("inf")
    for _ in range(3):
        start = time.process_time()  # processor time for both, because other programs may run
        for document in given:
            tokenizer.encode(document, add_special_tokens=False)
        best = min(best, time.process_time() - start)
    return best


def our_seconds(program, kind_idx, path):
    out = subprocess.run([program, f"--benchmark_filter=^encode_given/{kind_idx}$", "--benchmark_format=json", "--benchmark_min_time=0.3"],
                         env=dict(os.environ, QUIRE_BENCH_TEXT=path), check=True, capture_output=True, text=True).stdout
    return json.loads(out)["benchmarks"][0]["cpu_time"] / 1000


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    given = documents(text())
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as file:
        file.write("\0".join(given))
        file.flush()
        size = os.path.getsize(file.name) / 1e6
        print(f"{size:.2f} MB; MB/s, the best of {rounds} rounds")
        print("kind | quire | tokenizers | ratio")
        for idx, kind in enumerate(KINDS):
            ours = theirs = float("inf")
            for _ in range(rounds):
                theirs = min(theirs, library_seconds(kind, given))
                ours = min(ours, our_seconds(program, idx, file.name))
            print(f"{kind} | {size / ours:.1f} | {size / theirs:.1f} | {theirs / ours:.2f}", flush=True)


main()
