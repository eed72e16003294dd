#!/usr/bin/env python3
"""Runs quire-server under Ray Serve on loopback: three replicas by packaging/server/ray/quire_serve.py. One of the
servers is killed under load. No request that had not begun to stream is lost, and the server comes back.

usage: ray_serve.py SERVER MODEL_DIR. Exits with status 77 and a message if ray[serve] is not installed.
"""
import collections
import concurrent.futures
import functools
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
from streams import free_port, stream, wait_until_served  # noqa: E402

REPLICAS = 3
REQUESTS = 96
AT_ONCE = 24
PORT = free_port()


def servers(config):
    found = subprocess.run(["pgrep", "-f", "--", f"--config {config}"], capture_output=True, text=True).stdout.split()
    return [int(process) for process in found]


def run(config):
    serve.start(http_options={"host": "127.0.0.1", "port": PORT})
    serve.run(quire_serve.app({"config": str(config), "command": sys.argv[1], "replicas": REPLICAS}), name="quire")
    wait_until_served(PORT)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        endings = collections.Counter(pool.map(functools.partial(stream, PORT), range(AT_ONCE)))
        assert endings == {"whole": AT_ONCE}, endings
        under_way = [pool.submit(stream, PORT, number) for number in range(REQUESTS)]
        time.sleep(0.5)
        before = servers(config)
        os.kill(before[0], signal.SIGKILL)
        endings = collections.Counter(each.result() for each in under_way)
    print(f"{len(before)} servers, one of them killed: {dict(endings)}")
    assert not [ending for ending in endings if ending.startswith("lost")], endings
    assert stream(PORT, REQUESTS) == "whole"
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
