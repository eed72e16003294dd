#!/usr/bin/env python3
"""quire-server under Ray Serve, started for real on loopback: three replicas by packaging/server/ray/quire_serve.py. One of the
servers is killed under load: no request is lost that had not begun to stream, and the server comes back.

usage: ray_serve.py SERVER MODEL_DIR. Exit status 77 with a word where ray[serve] is not installed."""
import collections
import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

try:
    import ray
    from ray import serve
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[5]
sys.path.insert(0, str(ROOT / "packaging/server/ray"))
import quire_serve  # noqa: E402

REPLICAS = 3
REQUESTS = 96
AT_ONCE = 24
PORT = 18431


def stream(number):
    """How one request ended."""
    begun, text = False, b""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=300)
        body = {"model": "m", "prompt": f"Once upon a time {number}", "max_tokens": 64, "temperature": 0, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            return f"lost: {answer.status} {answer.read()[:200]}"
        while piece := answer.read1():
            begun = begun or b"data:" in piece
            text += piece
        if text.endswith(b"data: [DONE]\n\n"):
            return "whole"
        return "cut" if begun else "lost: nothing came"
    except (OSError, http.client.HTTPException) as error:
        return "cut" if begun else f"lost: {error!r}"


def servers(config):
    found = subprocess.run(["pgrep", "-f", "--", f"--config {config}"], capture_output=True, text=True).stdout.split()
    return [int(process) for process in found]


def all_served():
    """The status of the list of models, until it is 200."""
    for _ in range(300):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
            connection.request("GET", "/v1/models")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError("it does not answer")


def run(config):
    serve.start(http_options={"host": "127.0.0.1", "port": PORT})
    serve.run(quire_serve.app({"config": str(config), "command": sys.argv[1], "replicas": REPLICAS}), name="quire")
    all_served()
    endings = collections.Counter(concurrent.futures.ThreadPoolExecutor(AT_ONCE).map(stream, range(AT_ONCE)))
    assert endings == {"whole": AT_ONCE}, endings
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        under_way = [pool.submit(stream, number) for number in range(REQUESTS)]
        time.sleep(0.5)
        before = servers(config)
        os.kill(before[0], signal.SIGKILL)
        endings = collections.Counter(each.result() for each in under_way)
    print(f"{len(before)} servers, one of them killed: {dict(endings)}")
    assert not [ending for ending in endings if ending.startswith("lost")], endings
    assert stream(REQUESTS) == "whole"
    for _ in range(100):
        if len(servers(config)) == len(before):
            return
        time.sleep(0.2)
    raise AssertionError(f"{len(servers(config))} servers of {len(before)}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "server.json"
        config.write_text(json.dumps({"models": {"m": {"path": sys.argv[2], "preload": True, "cache_tokens": 8192}}}))
        ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False,
                 runtime_env={"env_vars": {"PYTHONPATH": str(ROOT / "packaging/server/ray")}})
        try:
            run(config)
        finally:
            serve.shutdown()
            ray.shutdown()
        for _ in range(50):
            if not servers(config):
                return
            time.sleep(0.2)
        raise AssertionError("servers are left")


if __name__ == "__main__":
    main()
