#!/usr/bin/env python3
"""Attacks a server with the embedded model, and measures what it grants, its memory, and the latency of others.

usage: attacks.py SERVER MODEL_DIR [ATTACK]. Runs all attacks, or those whose name contains ATTACK. Needs only Python.
Prints a line with the figures of each.
"""
import concurrent.futures
import contextlib
import hashlib
import http.client
import json
import os
import socket
import statistics
import sys
import time

import peers

SERVER, MODEL = sys.argv[1:3]
WANTED = sys.argv[3] if len(sys.argv) > 3 else ""
RATE = 100  # tokens a minute of the metered key
ENDLESS = {"prompt": "Once upon a time", "max_tokens": 1500, "ignore_eos": True, "stream": True}


def key(owner, **limits):
    return {"sha256": hashlib.sha256(owner.encode()).hexdigest(), "owner": owner, **limits}


def place(base):
    host, port = base.removeprefix("http://").split(":")
    return host, int(port)


@contextlib.contextmanager
def cut_off(base, path, body, headers=None):
    """Sends a request whose answer is not read, and closes the connection at the end."""
    connection = http.client.HTTPConnection(*place(base), timeout=30)
    try:
        with contextlib.suppress(OSError):  # the server may refuse a body before it is whole
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        yield connection
    finally:
        connection.close()


def resident(process):
    with open(f"/proc/{process}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def generated(base):
    """Returns the number of tokens that the server has generated."""
    text = peers.Peer(base, "free").get("/metrics").text
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("quire_server_new_tokens_total"))


def metered_streams(base, _):
    """Starts 15 streams at a time with a metered key, and cuts each off after its first tokens."""
    def one(_):
        with cut_off(base, "/v1/completions", {"model": "m", **ENDLESS}, {"Authorization": "Bearer metered"}) as connection:
            connection.sock.settimeout(0.4)
            began = time.monotonic()
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = connection.getresponse()
                while time.monotonic() - began < 0.4 and answer.read(64):
                    pass
    before, began = generated(base), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(15) as threads:
        while time.monotonic() - began < 8:
            list(threads.map(one, range(15)))
    time.sleep(0.5)  # cancelled jobs end within a step
    seconds, tokens = time.monotonic() - began, generated(base) - before
    allowed = RATE * (1 + seconds / 60) + 15
    print(f"metered key: {tokens:.0f} new tokens in {seconds:.1f} s, of {allowed:.0f} allowed with a step of 15 streams")
    assert 0 < tokens <= allowed


def large_metadata(base, process):
    """Stores 60 responses and conversations with 8 MiB of metadata. They are refused before anything is computed."""
    free = peers.Peer(base, "free")
    before, statuses = resident(process), set()
    one, many = {"a": "b" * (8 << 20)}, {f"key{j}": "v" * 512 for j in range(16384)}
    for _ in range(15):
        for metadata in (one, many):
            statuses.add(free.send("POST", "/v1/responses", {"model": "m", "input": "a", "max_output_tokens": 1, "metadata": metadata}).status)
            statuses.add(free.send("POST", "/v1/conversations", {"metadata": metadata}).status)
    grown = (resident(process) - before) / 2**20
    print(f"metadata: 60 requests of 8 MiB answered with {sorted(statuses)}, resident memory {grown:+.0f} MiB")
    assert statuses == {400} and grown < 192


def latency(base):
    began = time.monotonic()
    peers.Peer(base, "free").post("/v1/completions", model="m", prompt="Once upon a time", max_tokens=4, temperature=0)
    return time.monotonic() - began


def prompts_without_clients(base, _):
    """Sends prompts of 15 MiB whose clients leave at once, and measures requests of others in turns with a quiet server."""
    long = "a king " * (15 * 2**20 // 7)
    quiet, beside, before = [], [], generated(base)
    for path, body in (("/v1/completions", {"model": "m", "prompt": long}), ("/v1/tokenize", {"model": "m", "prompt": long}),
                       ("/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": long}]})):
        for _ in range(2):
            quiet += [latency(base) for _ in range(5)]
            for _ in range(4):
                with cut_off(base, path, body, {"Authorization": "Bearer free"}):
                    pass
            beside += [latency(base) for _ in range(5)]
    ratio = statistics.median(beside) / statistics.median(quiet)
    print(f"prompts without clients: others took {statistics.median(beside) * 1000:.1f} ms, and {statistics.median(quiet) * 1000:.1f}"
          f" ms on a quiet server, {ratio:.2f} times")
    assert generated(base) - before == 4 * (len(quiet) + len(beside))  # the tokens of others, all of them, and no more


def pages_of_others(base, _):
    """A page of another origin, and one that has bound its name to the server's address, get nothing."""
    free = peers.Peer(base, "free")
    body = {"model": "m", "prompt": "a", "max_tokens": 1}
    for headers in ({"Origin": "https://evil.example.com"}, {"Origin": "null"}, {"Host": "evil.example.com"},
                    {"Origin": "http://evil.example.com:8080", "Host": "evil.example.com:8080"}):
        for method, path, sent in (("POST", "/v1/completions", body), ("GET", "/v1/models", None), ("GET", "/", None), ("GET", "/metrics", None)):
            answer = free.send(method, path, sent, headers)
            assert answer.status == 403 and not answer.headers["Access-Control-Allow-Origin"], (headers, path, answer.status)
    print("pages of others: refused with 403")


def slow_requests(base, process):
    """Opens 300 connections that send their headers or bodies a byte at a time, and 20 deep or endless bodies."""
    before = resident(process)
    slow = []
    for i in range(300):
        slow.append(socket.create_connection(place(base)))
        slow[-1].sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + (b"Content-Length: 999\r\n\r\n{" if i % 2 else b"X-Slow: "))
    served = [latency(base) for _ in range(5)]
    for text in ("[" * 1000000, '{"a":' * 100000, '{"model":"m","messages":' + "[" * 100000, '{"model":"m","prompt":"' + "\\u0000" * 100000 + '"}'):
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection(*place(base), timeout=30)
            connection.request("POST", "/v1/completions", text, {"Authorization": "Bearer free"})
            status = connection.getresponse().status
            assert status == 400, (status, text[:40])
    closed = sum(1 for connection in slow if ends(connection))
    print(f"slow requests: others took {statistics.median(served) * 1000:.1f} ms beside 300 of them, {closed} closed by the server, "
          f"resident memory {(resident(process) - before) / 2**20:+.0f} MiB")
    assert closed == 300 and resident(process) - before < 256 << 20
    latency(base)


def ends(connection):
    """Reports whether the server closes the connection."""
    with connection:
        connection.settimeout(30)
        try:
            while connection.recv(4096):
                pass
            return True
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def main():
    keys = [key("free"), key("metered", tokens_per_minute=RATE)]
    with peers.running(SERVER, MODEL, {"max_jobs": 16}, keys=keys, limits={"body_seconds": 3, "drain_seconds": 600}) as (base, process):
        latency(base)
        for attack in (metered_streams, large_metadata, prompts_without_clients, pages_of_others, slow_requests):
            if WANTED in attack.__name__:
                attack(base, process)


main()
