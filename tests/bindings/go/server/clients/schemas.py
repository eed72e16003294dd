"""Sends requests without a client library and checks the answers against the schemas of OpenAI and Anthropic."""
import json
import urllib.request
from pathlib import Path

import jsonschema

GOLDEN = Path(__file__).resolve().parents[4] / "golden"


def nullable(node):
    """Translates OpenAPI's `nullable`, which JSON Schema does not have."""
    if isinstance(node, list):
        return [nullable(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: nullable(value) for key, value in node.items()}
    return {"anyOf": [node, {"type": "null"}]} if node.pop("nullable", False) is True else node


class Checker:
    """Sends requests to a server and checks its answers against the schemas in tests/golden."""

    def __init__(self, base):
        self.base = base

    def get(self, path):
        with urllib.request.urlopen(self.base + path) as response:
            return json.loads(response.read())

    def post(self, path, body):
        request = urllib.request.Request(self.base + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as response:
            return response.read().decode()

    def events(self, path, body):
        text = self.post(path, {**body, "stream": True})
        return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]

    def check(self, kind, name, value):
        schema = nullable(json.loads((GOLDEN / kind / f"{name}.json").read_text()))
        jsonschema.Draft202012Validator(schema).validate(value)

    def chat(self, body):
        """Sends the request whole and streamed, and returns the whole answer."""
        answer = json.loads(self.post("/v1/chat/completions", body))
        self.check("openai", "CreateChatCompletionResponse", answer)
        for event in self.events("/v1/chat/completions", {**body, "stream_options": {"include_usage": True}}):
            self.check("openai", "CreateChatCompletionStreamResponse", event)
        return answer

    def response(self, body):
        answer = json.loads(self.post("/v1/responses", body))
        self.check("openai", "Response", answer)
        for event in self.events("/v1/responses", body):
            self.check("openai", "ResponseStreamEvent", event)
        return answer

    def stored(self, path):
        """Reads a stored response."""
        answer = self.get(path)
        self.check("openai", "Response", answer)
        return answer

    def input_tokens(self, body):
        answer = json.loads(self.post("/v1/responses/input_tokens", body))
        self.check("openai", "TokenCountsResource", answer)
        return answer["input_tokens"]

    def message(self, body):
        answer = json.loads(self.post("/v1/messages", body))
        self.check("anthropic", "Message", answer)
        for event in self.events("/v1/messages", body):
            if event["type"] != "ping":
                self.check("anthropic", "RawMessageStreamEvent", event)
        return answer

    def completion(self, body):
        answer = json.loads(self.post("/v1/completions", body))
        self.check("openai", "CreateCompletionResponse", answer)
        for event in self.events("/v1/completions", {**body, "stream_options": {"include_usage": True}}):
            for choice in event["choices"]:  # null until the end: the real service does so, but its schema does not allow it
                choice["finish_reason"] = choice["finish_reason"] or "stop"
            self.check("openai", "CreateCompletionResponse", event)
        return answer

    def lists(self, model):
        self.check("openai", "CreateEmbeddingResponse",
                   json.loads(self.post("/v1/embeddings", {"model": model, "input": "a"})))
        self.check("openai", "ListModelsResponse", self.get("/v1/models"))
        self.check("openai", "Model", self.get("/v1/models/" + model))
