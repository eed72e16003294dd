"""Calls of the command llm, with the server as a model of its file extra-openai-models.yaml."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from calls import CITY, KEY, QUESTION, is_city

PACKAGE = "llm"
MODELS = """
- {{model_id: m, model_name: m, api_base: "{base}/v1", api_key_name: quire, supports_schema: true, supports_tools: true}}
- {{model_id: calls, model_name: calls, api_base: "{base}/v1", api_key_name: quire, supports_schema: true, supports_tools: true}}
- {{model_id: text, model_name: m, api_base: "{base}/v1", api_key_name: quire, completion: true}}
- {{model_id: responses, model_name: m, api_base: "{base}/v1", api_key_name: quire, responses: true, supports_schema: true}}
- {{model_id: nobody, model_name: nobody, api_base: "{base}/v1", api_key_name: quire}}
"""
BRIEF = ("-o", "temperature", "0", "-o", "max_tokens", "16")


def run(base, *arguments, code=0, text=None):
    """Returns what the command prints, in a folder of its own for its settings."""
    with tempfile.TemporaryDirectory() as home:
        pathlib.Path(home, "extra-openai-models.yaml").write_text(MODELS.format(base=base), encoding="utf-8")
        pathlib.Path(home, "keys.json").write_text(json.dumps({"quire": KEY}), encoding="utf-8")
        known = {**os.environ, "LLM_USER_PATH": home}
        ended = subprocess.run([sys.executable, "-m", "llm", *arguments], env=known, capture_output=True, text=True,
                               input=text, check=False)
    assert ended.returncode == code, ended
    return ended.stdout if code == 0 else ended.stderr


def prompt(base):
    whole = run(base, "-m", "m", "Tell me of a king.", "-s", "Be brief.", "--no-stream", *BRIEF)
    assert whole.strip() and run(base, "-m", "m", "Tell me of a king.", "-s", "Be brief.", *BRIEF) == whole


def piped(base):
    assert run(base, "-m", "m", *BRIEF, text="Tell me of a king.").strip()


def completion(base):
    assert run(base, "-m", "text", "Once upon a time", *BRIEF).strip()


def responses(base):
    assert run(base, "-m", "responses", "Tell me of a king.", *BRIEF).strip()


def schema(base):
    is_city(run(base, "-m", "m", QUESTION, "--schema", json.dumps(CITY), "-o", "max_tokens", "60"))


def chat(base):
    answered = run(base, "chat", "-m", "m", *BRIEF, text="Tell me of a king.\nAnd then?\nexit\n")
    assert answered.count("\n> ") == 3, answered


def tools(base):
    """The model is free to call the tool, and this one does not."""
    function = "def weather(city: str) -> str:\n    return '3 degrees'\n"
    assert run(base, "-m", "calls", QUESTION, "--functions", function, *BRIEF).strip()


def errors(base):
    assert "nobody" in run(base, "-m", "nobody", "a", code=1)
    assert "context" in run(base, "-m", "m", code=1, text="word " * 20000)


CALLS = [prompt, piped, completion, responses, schema, chat, tools, errors]
