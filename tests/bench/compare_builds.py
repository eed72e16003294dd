#!/usr/bin/env python3
"""Runs `quire bench` of two builds in turns and prints the ratio of their speeds, to detect a slowdown.

  compare_builds.py OLD NEW [--device D] [--rounds N] [--prompt-tokens N] [--new-tokens N] [--only-worse] MODEL:BATCHES ...

OLD and NEW contain bin/quire and lib. MODEL is a value of --model: synthetic:llama-3.1-8b,format=exl2,bits=4.0,head_bits=6:1,32
A ratio is of medians over the rounds. If it is below 0.98, the line ends with "worse" and the exit code is 1."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

LEAST_RATIO = 0.98


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("runs", nargs="+", metavar="MODEL:BATCHES")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt-tokens", default="192")
    parser.add_argument("--new-tokens", default="128")
    parser.add_argument("--only-worse", action="store_true")
    parser.add_argument("--seconds", type=float, default=120, help="for one run of quire bench")
    return parser.parse_args()


def speeds(build, model, batches, options):
    """Returns (measurement, batch) -> tokens per second of one run."""
    libraries = [str(build / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {**os.environ, "QUIRE_BACKEND_DIR": str(build / "lib"), "LD_LIBRARY_PATH": ":".join(filter(None, libraries))}
    command = [build / "bin" / "quire", "bench", "--json", "--device", options.device, "--model", model, "--batch", batches,
               "--prompt-tokens", options.prompt_tokens, "--new-tokens", options.new_tokens]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.seconds, check=False)
    if run.returncode != 0:
        sys.exit(f"{build}: {model}: {run.stderr.strip().splitlines()[-1:]}")
    return {(what, row["batch"]): row[f"{what}_tokens_per_second"]
            for row in json.loads(run.stdout)["results"] for what in ("prefill", "decode")}


def compare(model, batches, options):
    """Returns whether everything is as fast as before."""
    taken = {"old": [], "new": []}
    for number in range(options.rounds):
        order = [("old", options.old), ("new", options.new)]
        for name, build in order if number % 2 == 0 else reversed(order):
            taken[name].append(speeds(build, model, batches, options))
    good = True
    for key in taken["old"][0]:
        old, new = (statistics.median(run[key] for run in taken[name]) for name in ("old", "new"))
        spread = max(run[key] for run in taken["new"]) / min(run[key] for run in taken["new"]) - 1
        is_worse = new < LEAST_RATIO * old
        good = good and not is_worse
        if is_worse or not options.only_worse:
            print(f"  {key[0]:8} batch {key[1]:4} {old:12.1f} {new:12.1f} {new / old:7.3f}  spread {100 * spread:4.1f} %"
                  f"{'  worse' if is_worse else ''}", flush=True)
    return good


def main():
    options = arguments()
    all_good = True
    for run in options.runs:
        model, _, batches = run.rpartition(":")
        print(f"{model}{' ' * 4}old, new tokens/s, ratio of medians of {options.rounds}", flush=True)
        all_good = compare(model, batches, options) and all_good
    sys.exit(0 if all_good else 1)


main()
