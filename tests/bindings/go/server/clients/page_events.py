#!/usr/bin/env python3
"""Reads the page events of quire-server through ZeroMQ's own socket and decodes them with the structs that vLLM
declares for them.

usage: page_events.py SERVER MODEL_DIR. Exits with status 77 and a message if pyzmq or msgspec is not installed.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request
from typing import Any, Optional, Union

try:
    import msgspec
    import zmq
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)

import serving


class EventBatch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    ts: float
    events: list[Any]
    data_parallel_rank: Optional[int] = None


class KVCacheEvent(msgspec.Struct, omit_defaults=True, gc=False, tag=True):
    pass


class BlockStored(KVCacheEvent):
    block_hashes: list[Union[bytes, int]]
    parent_block_hash: Optional[Union[bytes, int]]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str]
    lora_name: Optional[str]
    extra_keys: Optional[list[Optional[tuple[Any, ...]]]] = None


class BlockRemoved(KVCacheEvent):
    block_hashes: list[Union[bytes, int]]
    medium: Optional[str]


class AllBlocksCleared(KVCacheEvent):
    pass


class KVEventBatch(EventBatch):
    events: list[Union[BlockStored, BlockRemoved, AllBlocksCleared]]


DECODER = msgspec.msgpack.Decoder(type=KVEventBatch)
WAIT_MS = 20_000


def complete(base, number):
    text = f"Chapter {number}. " + f"It was the day number {number} and nothing came. " * 50
    body = json.dumps({"model": "m", "prompt": text, "max_tokens": 1}).encode()
    request = urllib.request.Request(base + "/v1/completions", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=60).read()


def addresses(process):
    found = {}
    for line in process.stderr:
        fields = json.loads(line)
        if fields["message"] == "page events are published":
            found["events"], found["replay"] = fields["address"], fields["replay"]
        if fields["message"] == "listening":
            return "http://" + fields["address"], found
    raise AssertionError("the server did not start")


def apply(known, batch, expected):
    for event in batch.events:
        if isinstance(event, AllBlocksCleared):
            known.clear()
        elif isinstance(event, BlockRemoved):
            for name in event.block_hashes:
                del known[name]
        else:
            assert event.parent_block_hash is None or event.parent_block_hash in known, event
            assert len(event.token_ids) == event.block_size == 256 and event.medium == "GPU", event
            known[event.block_hashes[0]] = event.token_ids
    return expected + 1


def check(base, at):
    context = zmq.Context()
    subscriber = context.socket(zmq.SUB)
    subscriber.setsockopt(zmq.RCVTIMEO, WAIT_MS)
    subscriber.setsockopt(zmq.HEARTBEAT_IVL, 100)  # the publisher must answer heartbeats
    subscriber.connect("tcp://" + at["events"])
    subscriber.subscribe(b"kv@")
    replay = context.socket(zmq.DEALER)
    replay.setsockopt(zmq.RCVTIMEO, WAIT_MS)
    replay.connect("tcp://" + at["replay"])
    complete(base, 0)
    known, live, number = {}, {}, None
    for i in range(1, 5):
        complete(base, i)
        if number is None or i > 1:
            topic, sequence, payload = subscriber.recv_multipart()
            assert topic == b"kv@m", topic
            number = int.from_bytes(sequence, "big")
            DECODER.decode(payload)
    subscriber.setsockopt(zmq.RCVTIMEO, 500)
    try:
        while True:
            _, sequence, payload = subscriber.recv_multipart()
            assert int.from_bytes(sequence, "big") == number + 1
            number += 1
            DECODER.decode(payload)
    except zmq.Again:
        pass
    replay.send_multipart([b"", (0).to_bytes(8, "big")])
    expected = 0
    while True:
        delimiter, topic, sequence, payload = replay.recv_multipart()
        assert delimiter == b""
        if int.from_bytes(sequence, "big", signed=True) == -1:
            break
        assert topic == b"kv@m", topic
        assert int.from_bytes(sequence, "big") == expected, (sequence, expected)
        expected = apply(known, DECODER.decode(payload), expected)
    assert expected == number + 1, (expected, number)
    assert 6 <= len(known) <= 8, len(known)
    context.destroy(linger=0)
    return len(known)


def main(server, model):
    with tempfile.TemporaryDirectory() as directory:
        config = pathlib.Path(directory, "config.json")
        events = {"listen": "127.0.0.1:0", "replay": "127.0.0.1:0"}
        config.write_text(json.dumps({"models": {"m": {"path": model, "cache_tokens": 2048, "page_events": events}}}))
        process = subprocess.Popen([server, "--config", str(config), "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE,
                                   text=True)
        try:
            print(check(*addresses(process)), "pages are known")
        finally:
            process.terminate()
            process.communicate()
        assert process.returncode == 0, process.returncode


main(*sys.argv[1:])
