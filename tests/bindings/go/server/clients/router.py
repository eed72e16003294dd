#!/usr/bin/env python3
"""Runs three replicas of quire-server on loopback. Behind a real vllm-router, one is killed: no request that had not
begun to stream is lost. With page events, the router sends prompts to the replica that has their beginnings cached.
Without a router, prompts that are sent to the replica with the most cached tokens, as page events report them, find
more tokens than at random.

usage: router.py SERVER MODEL_DIR. Exits with status 77 and a message if vllm-router (or the command at QUIRE_ROUTER),
pyzmq or msgspec is not installed.
"""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

from streams import complete, free_port, stream, wait_until_served

REPLICAS = 3
PREFIXES = 9
ROUNDS = 6
PAGE_TOKENS = 256
CACHE_TOKENS = 16 * PAGE_TOKENS  # of one replica: a little more than a third of the prefixes
WANTED_RATIO = 1.5

try:
    import msgspec
    import zmq
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)

ROUTER = os.environ.get("QUIRE_ROUTER") or shutil.which("vllm-router")
if ROUTER is None:
    print("skipped: vllm-router is not installed")
    sys.exit(77)


class Replica:
    def __init__(self, server, model, folder, number):
        self.events, self.replay, self.port = free_port(), free_port(), free_port()
        config = folder / f"{number}.json"
        config.write_text(json.dumps({"models": {"m": {
            "path": model, "preload": True, "cache_tokens": CACHE_TOKENS,
            "page_events": {"listen": f"127.0.0.1:{self.events}", "replay": f"127.0.0.1:{self.replay}"}}}}))
        self.log = open(folder / f"{number}.log", "w", encoding="utf-8")
        self.process = subprocess.Popen([server, "--config", str(config), "--listen", f"127.0.0.1:{self.port}"],
                                        stderr=self.log)

    def has_ended(self):
        return self.process.poll() is not None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


@contextlib.contextmanager
def replicated(server, model):
    """Yields new replicas, and the folder of their files."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        replicas = []
        for number in range(REPLICAS):
            replicas.append(Replica(server, model, folder, number))
            stack.callback(replicas[-1].end)
        for replica in replicas:
            wait_until_served(replica.port, replica.has_ended)
        yield replicas, folder


@contextlib.contextmanager
def routed(replicas, folder, policy):
    """Yields the port and the path of the log of a router for the replicas."""
    port = free_port()
    command = [ROUTER, "--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port()), "--policy",
               policy, "--health-check-interval-secs", "1", "--cb-failure-threshold", "2", "--retry-max-retries", "5",
               "--worker-urls", *[replica.url for replica in replicas]]
    path = folder / "router.log"
    with open(path, "w", encoding="utf-8") as log:
        router = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_until_served(port, lambda: router.poll() is not None)
            yield port, path
        finally:
            router.kill()
            router.wait()


def prefix(number):
    return f"Book {number}. " + f"On the day number {number} nothing came and nobody asked why. " * 60


class Pages:
    """The cached pages of one replica, as its subscriber sees them: the tokens of each prefix by its last page."""

    def __init__(self, context, replica):
        self.socket = context.socket(zmq.SUB)
        self.socket.connect(f"tcp://127.0.0.1:{replica.events}")
        self.socket.subscribe(b"kv@")
        self.prefixes = {}

    def read(self):
        while self.socket.poll(20):
            for event in msgspec.msgpack.decode(self.socket.recv_multipart()[2])[1]:
                if event["type"] == "AllBlocksCleared":
                    self.prefixes.clear()
                elif event["type"] == "BlockRemoved":
                    self.prefixes.pop(event["block_hashes"][0], None)
                elif (parent := event["parent_block_hash"]) is None or parent in self.prefixes:
                    self.prefixes[event["block_hashes"][0]] = self.prefixes.get(parent, ()) + tuple(event["token_ids"])

    def longest(self, tokens):
        return max((len(known) for known in self.prefixes.values() if known == tokens[:len(known)]), default=0)


def rendered(port, prompt):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/v1/completions/render", json.dumps({"model": "m", "prompt": prompt}))
    return tuple(json.loads(connection.getresponse().read())[0]["token_ids"])


def found_tokens(server, model, by_events):
    """Returns how many cached tokens prompts with common beginnings find, sent at random or by page events."""
    order = [number for _ in range(ROUNDS) for number in random.Random(7).sample(range(PREFIXES), PREFIXES)]
    chance, found = random.Random(11), 0
    with replicated(server, model) as (replicas, _), zmq.Context() as context:
        pages = [Pages(context, replica) for replica in replicas]
        for place, number in enumerate(order):
            prompt, chosen = f"{prefix(number)} Question {place}.", chance.randrange(REPLICAS)
            if by_events:
                for one in pages:
                    one.read()
                lengths = [one.longest(rendered(replicas[0].port, prompt)) for one in pages]
                # A prompt that no replica has goes to the replica with the fewest pages.
                chosen = lengths.index(max(lengths)) if max(lengths) > 0 else min(
                    range(REPLICAS), key=lambda replica: len(pages[replica].prefixes))
            status, cached = complete(replicas[chosen].port, prompt, 4)
            assert status == 200, status
            found += cached
        for one in pages:
            one.socket.close(linger=0)
    return found


def wait_until_followed(log):
    for _ in range(100):
        if log.read_text(encoding="utf-8").count("kv_index subscriber for") == REPLICAS:
            time.sleep(1)  # until the subscriptions of its sockets have arrived
            return
        time.sleep(0.1)
    raise AssertionError("the router does not follow page events:\n" + log.read_text(encoding="utf-8"))


def found_behind_router(server, model):
    """Returns the cached tokens that each prompt finds through the router. Its beginning was sent to one of the
    replicas before, without the router."""
    found = []
    with replicated(server, model) as (replicas, folder), routed(replicas, folder, "kv_aware") as (port, log):
        wait_until_followed(log)
        for number in range(2 * REPLICAS):
            assert complete(replicas[number % REPLICAS].port, prefix(number), 1)[0] == 200
        time.sleep(1)  # until the router has read the events
        for number in range(2 * REPLICAS):
            status, cached = complete(port, f"{prefix(number)} Question.", 4)
            assert status == 200, status
            found.append(cached)
    return found


def kill_one(server, model):
    """Returns how many requests ended in which way when one of the replicas is killed during them."""
    with replicated(server, model) as (replicas, folder), routed(replicas, folder, "round_robin") as (port, _):
        with concurrent.futures.ThreadPoolExecutor(24) as clients:
            asked = [clients.submit(stream, port, number) for number in range(240)]
            while sum(one.done() for one in asked) < 60:
                time.sleep(0.01)
            replicas[1].process.kill()
            ends = [one.result() for one in asked]
    return {end: ends.count(end) for end in sorted(set(ends))}


def main(server, model):
    at_random, by_events = found_tokens(server, model, False), found_tokens(server, model, True)
    print(f"tokens found in caches: {at_random} at random, {by_events} by page events")
    routed_found = found_behind_router(server, model)
    print("found by prompts through the router:", routed_found)
    ends = kill_one(server, model)
    print("with a replica killed:", ends)
    assert by_events >= WANTED_RATIO * at_random
    assert min(routed_found) >= 3 * PAGE_TOKENS, routed_found
    assert set(ends) <= {"whole", "cut"} and ends["whole"] > 180, ends


main(*sys.argv[1:])
