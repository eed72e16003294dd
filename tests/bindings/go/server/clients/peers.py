"""What the server's tests of other engines assert, in our words: a table of assertions, and what a server answers.

An assertion is a function that raises if it does not hold. `MISSES` of a table gives the reason for each that does not
hold, by its name; one that holds is not a miss, so it fails too."""
import concurrent.futures
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request

import serving

# Writes tools and calls in the hermes dialect, and obeys add_generation_prompt.
TEMPLATE = """{% for tool in tools or [] %}<tool_call>{{ tool | tojson }}</tool_call>
{% endfor %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


class Answer:
    """Holds the status, the headers and the JSON of an answer, or its text if it is no JSON."""

    def __init__(self, status, headers, text):
        self.status, self.headers, self.text = status, headers, text
        try:
            self.body = json.loads(text)
        except ValueError:
            self.body = None


class Peer:
    """Sends requests to a server."""

    def __init__(self, base, key=None):
        self.base, self.headers = base, {"Authorization": f"Bearer {key}"} if key else {}

    def send(self, method, path, body=None, headers=None, timeout=120):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json", **self.headers, **(headers or {})},
                                         method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return Answer(response.status, response.headers, response.read().decode())
        except urllib.error.HTTPError as refused:
            return Answer(refused.code, refused.headers, refused.read().decode())

    def get(self, path):
        return self.send("GET", path)

    def post(self, path, **body):
        """Sends a request that must succeed, and returns the JSON of the answer."""
        answer = self.send("POST", path, body)
        assert answer.status == 200, (path, body, answer.status, answer.text[:500])
        return answer.body

    def refused(self, path, status=400, **body):
        """Sends a request that must be refused, and returns the error."""
        answer = self.send("POST", path, body)
        assert answer.status == status, (path, body, answer.status, answer.text[:500])
        return answer.body["error"]

    def events(self, path, **body):
        answer = self.send("POST", path, {**body, "stream": True})
        assert answer.status == 200, (path, body, answer.status, answer.text[:500])
        return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]

    def leave(self, path, **body):
        """Begins a stream, and closes the connection after the first event of its answer."""
        request = urllib.request.Request(self.base + path, json.dumps({**body, "stream": True}).encode(),
                                         {"Content-Type": "application/json", **self.headers})
        with urllib.request.urlopen(request, timeout=120) as response:
            assert response.readline().startswith(b"data: {"), (path, body)

    def together(self, calls):
        """Makes calls of `post`, each (path, body), at the same time."""
        with concurrent.futures.ThreadPoolExecutor(len(calls)) as threads:
            return list(threads.map(lambda one: self.post(one[0], **one[1]), calls))


@contextlib.contextmanager
def running(server, model, settings=None, **config):
    """Runs a server with one model, named "m", and yields its address and the id of its process."""
    with tempfile.TemporaryDirectory() as directory:
        template = pathlib.Path(directory, "template.jinja")
        template.write_text(TEMPLATE)
        file = pathlib.Path(directory, "config.json")
        file.write_text(json.dumps({"models": {"m": {"path": model, "chat_template": str(template), "max_jobs": 4, "preload": True,
                                                     **(settings or {})}}, **config}))
        process = subprocess.Popen([server, "--config", str(file), "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        try:
            base = serving.address(process)
            ready(base)
            threading.Thread(target=process.stderr.read, daemon=True).start()  # its log must not fill the pipe
            yield base, process.pid
        finally:
            process.terminate()
            status = process.wait()
        assert status == 0, f"the server ended with status {status}"


@contextlib.contextmanager
def started(server, model, settings=None, **config):
    """Runs a server with one model, named "m", and yields its address."""
    with running(server, model, settings, **config) as (base, _):
        yield base


def ready(base):
    """Waits until the models are loaded."""
    for _ in range(1200):
        if Peer(base).get("/health/ready").status == 200:
            return
        time.sleep(0.05)
    raise AssertionError("the server is not ready")


def check(assertions, misses, *peers):
    """Runs the assertions and prints how many hold. Ends the program with status 1 if one differs from the table."""
    held, wrong = 0, []
    for assertion in assertions:
        name = assertion.__name__
        try:
            assertion(*peers)
            held += 1
            if name in misses:
                wrong.append(f"{name} holds, but is listed as a miss")
        except Exception:  # pylint: disable=broad-except
            if name not in misses:
                wrong.append(f"{name}: {traceback.format_exc(limit=-2)}")
    print(f"{held} of {len(assertions)} assertions hold")
    for name, reason in misses.items():
        print(f"missed: {name}: {reason}")
    unknown = set(misses) - {assertion.__name__ for assertion in assertions}
    for message in [*wrong, *(f"{name} is no assertion" for name in unknown)]:
        print("WRONG:", message)
    sys.exit(1 if wrong or unknown else 0)
