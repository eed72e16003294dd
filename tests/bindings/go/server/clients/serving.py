"""A server on the embedded model for client tests: named "m", and named "calls" with a template that calls tools."""
import contextlib
import json
import pathlib
import subprocess
import tempfile
import threading

# A template of a model family that writes calls in the hermes dialect.
TEMPLATE = """{% for tool in tools or [] %}<tool_call>{{ tool | tojson }}</tool_call>
{% endfor %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}<|im_end|>
{% endfor %}<|im_start|>assistant
"""


@contextlib.contextmanager
def template():
    """Yields the path of the template."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "template.jinja")
        path.write_text(TEMPLATE)
        yield path


@contextlib.contextmanager
def served(server, model, **settings):
    """Yields the server's address and checks that it ends without error. The settings are further fields of its
    configuration."""
    with template() as path:
        config = path.with_name("config.json")
        config.write_text(json.dumps({**settings, "models": {"m": {"path": model}, "calls": {
            "path": model, "cache_tokens": 4096, "chat_template": str(path)}}}))
        process = subprocess.Popen([server, "--config", str(config), "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE,
                                   text=True)
        try:
            base = address(process)
            threading.Thread(target=process.stderr.read, daemon=True).start()  # a full pipe would hold the server
            yield base
        finally:
            process.terminate()
            process.wait()
        assert process.returncode == 0, process.returncode


def address(process):
    for line in process.stderr:
        if json.loads(line)["message"] == "listening":
            return "http://" + json.loads(line)["address"]
    raise AssertionError("the server did not start")
