"""Requests to servers on loopback ports, and the ways their streams end, for the tests that kill a server under load."""
import contextlib
import http.client
import json
import socket
import time


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def request(port, prompt, tokens, stream):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = {"model": "m", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": stream}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    return connection.getresponse()


def complete(port, prompt, tokens):
    """Returns the status, and how many tokens of the prompt were cached."""
    answer = request(port, prompt, tokens, False)
    text = answer.read()
    if answer.status != 200:
        return answer.status, 0
    return 200, json.loads(text)["usage"].get("prompt_tokens_details", {}).get("cached_tokens", 0)


def wait_until_served(port, has_ended=lambda: False):
    for _ in range(300):
        with contextlib.suppress(OSError):
            if complete(port, "Hello", 1)[0] == 200:
                return
        assert not has_ended(), "it has ended"
        time.sleep(0.2)
    raise AssertionError("it does not answer")


def stream(port, number):
    """Returns the end of one request: whole, cut after its stream had begun, or lost before."""
    begun = False
    try:
        answer = request(port, f"Once upon a time {number}", 64, True)
        if answer.status != 200:
            return f"lost: {answer.status} {answer.read()[:200]}"
        text = b""
        while piece := answer.read1():
            begun = begun or b"data:" in piece
            text += piece
        if text.endswith(b"data: [DONE]\n\n"):
            return "whole"
        return "cut" if begun else "lost: nothing came"
    except (OSError, http.client.HTTPException) as error:
        return "cut" if begun else f"lost: {error!r}"
