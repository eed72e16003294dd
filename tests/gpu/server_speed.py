#!/usr/bin/env python3
"""Measures the overhead of the server: 32 parallel jobs of 128 + 128 tokens, as HTTP streams and with `quire bench`, in turn.
  server_speed.py BIN MODEL DEVICE [ROUNDS]     BIN has quire, quire-server and load; MODEL has a tokenizer"""
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

JOBS, CACHE_TOKENS = 32, 65536
WARM = 3  # rounds that count, after one in which steps are recorded
ADDRESS = "127.0.0.1:18080"


def start_server(programs, model, device, folder):
    config = {"models": {"m": {"path": model, "devices": [device], "cache_tokens": CACHE_TOKENS, "max_jobs": JOBS,
                               "preload": True}}}
    path = pathlib.Path(folder) / "server.json"
    path.write_text(json.dumps(config))
    with open(pathlib.Path(folder) / "log", "w") as log:
        server = subprocess.Popen([programs / "quire-server", "--config", path, "--listen", ADDRESS], stderr=log)
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://{ADDRESS}/health/ready", timeout=1)
            return server
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.2)
    server.kill()
    sys.exit("the server did not start: " + (pathlib.Path(folder) / "log").read_text()[-1000:])


def by_server(programs, jobs, rounds):
    """Returns the tokens per second and the median time to the first token, in milliseconds, of each round."""
    out = subprocess.run([programs / "load", f"http://{ADDRESS}", "m", str(jobs), str(rounds)], check=True, text=True,
                         capture_output=True, timeout=120).stdout
    return [tuple(map(float, found)) for found in re.findall(r"([\d.]+) tokens/s, first token after ([\d.]+) ms", out)]


def by_command(programs, model, device, jobs):
    out = subprocess.run([programs / "quire", "bench", "--json", "--model", model, "--device", device, "--workload", "128/128",
                          "--rate", ",".join(["0"] * (1 + WARM)), "--jobs", str(jobs), "--max-batch", str(JOBS),
                          "--cache-tokens", str(CACHE_TOKENS)], check=True, text=True, capture_output=True, timeout=120).stdout
    return [(point["tokens_per_second"], point["first_token_ms"]["p50"]) for point in json.loads(out)["results"][1:]]


def compare(name, server, command, number, unit):
    of = [statistics.median(pair[number] for pair in side) for side in (server, command)]
    spread = [f"{min(p[number] for p in side):.1f} to {max(p[number] for p in side):.1f}" for side in (server, command)]
    print(f"{name}: server {of[0]:.1f} {unit} ({spread[0]}), command {of[1]:.1f} ({spread[1]}), "
          f"{of[0] / of[1]:.3f}, {of[0] - of[1]:+.2f}")


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    programs, model, device = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 4
    for jobs in (JOBS, 1):
        server, command = [], []
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(rounds):
                process = start_server(programs, model, device, folder)
                try:
                    server += by_server(programs, jobs, 1 + WARM)[1:]
                finally:
                    process.terminate()
                    process.wait(timeout=60)
                command += by_command(programs, model, device, jobs)
        compare(f"{jobs} jobs, throughput", server, command, 0, "tokens/s")
        compare(f"{jobs} jobs, first token", server, command, 1, "ms")


if __name__ == "__main__":
    main()
