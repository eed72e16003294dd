#!/usr/bin/env python3
"""Drives a server with the official Python clients of OpenAI and Anthropic, and holds its answers against the schemas
of both. usage: openai_clients.py BASE_URL SHARED_DIR; the server answers as tests/bindings/go/server/fake scripts."""
import json
import sys
import urllib.request
from pathlib import Path

import anthropic
import jsonschema
import openai

base, shared = sys.argv[1], Path(sys.argv[2])
client = openai.OpenAI(base_url=base + "/v1", api_key="k")
claude = anthropic.Anthropic(base_url=base, api_key="k", max_retries=0)
user = lambda text: [{"role": "user", "content": text}]


def nullable(node):
    """OpenAPI's `nullable`, which JSON Schema does not know."""
    if isinstance(node, list):
        return [nullable(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: nullable(value) for key, value in node.items()}
    return {"anyOf": [node, {"type": "null"}]} if node.pop("nullable", False) is True else node


def schema(kind, name):
    return nullable(json.loads((shared / "golden" / kind / f"{name}.json").read_text()))


def post(path, body):
    request = urllib.request.Request(base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return response.read().decode()


def check(kind, name, value):
    jsonschema.Draft202012Validator(schema(kind, name)).validate(value)


def events(path, body):
    text = post(path, {**body, "stream": True})
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def schemas():
    for text in ["hello there", "call f {\"a\": 1}", "think a|b"]:
        body = {"model": "m", "messages": user(text), "logprobs": True, "top_logprobs": 2}
        check("openai", "CreateChatCompletionResponse", json.loads(post("/v1/chat/completions", body)))
        for event in events("/v1/chat/completions", {**body, "stream_options": {"include_usage": True}}):
            check("openai", "CreateChatCompletionStreamResponse", event)
        body = {"model": "m", "input": text}
        check("openai", "Response", json.loads(post("/v1/responses", body)))
        for event in events("/v1/responses", body):
            check("openai", "ResponseStreamEvent", event)
        body = {"model": "m", "messages": user(text), "max_tokens": 9}
        check("anthropic", "Message", json.loads(post("/v1/messages", body)))
        for event in events("/v1/messages", body):
            if event["type"] != "ping":
                check("anthropic", "RawMessageStreamEvent", event)
    body = {"model": "m", "prompt": ["a b", "c"], "logprobs": 1}
    check("openai", "CreateCompletionResponse", json.loads(post("/v1/completions", body)))
    for event in events("/v1/completions", {**body, "stream_options": {"include_usage": True}}):
        for choice in event["choices"]:  # null until the end, which the service does and its schema does not say
            choice["finish_reason"] = choice["finish_reason"] or "stop"
        check("openai", "CreateCompletionResponse", event)
    check("openai", "CreateEmbeddingResponse", json.loads(post("/v1/embeddings", {"model": "m", "input": "a"})))
    for path, name in (("/v1/models", "ListModelsResponse"), ("/v1/models/m", "Model")):
        check("openai", name, json.loads(urllib.request.urlopen(base + path).read()))


def openai_client():
    answer = client.chat.completions.create(model="m", messages=user("hello there"))
    assert answer.choices[0].message.content == "hello there", answer
    pieces = client.chat.completions.create(model="m", messages=user("one two three"), stream=True)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == "one two three"
    with client.chat.completions.stream(model="m", messages=user('call f {"a": 1}')) as stream:
        final = stream.get_final_completion()
    assert json.loads(final.choices[0].message.tool_calls[0].function.arguments) == {"a": 1}, final
    assert client.completions.create(model="m", prompt="a b").choices[0].text == "a b"
    assert len(client.embeddings.create(model="m", input="abc").data[0].embedding) == 4
    assert [model.id for model in client.models.list()] == ["m"]
    response = client.responses.create(model="m", input="hello")
    assert response.output_text == "hello", response
    assert client.responses.retrieve(response.id).output_text == "hello"
    kinds = [event.type for event in client.responses.create(model="m", input="a b", stream=True)]
    assert kinds[-1] == "response.completed", kinds
    client.responses.delete(response.id)
    for text, kind in (("fail", openai.APIError), ("refuse", openai.BadRequestError)):
        try:
            list(client.with_options(max_retries=0).chat.completions.create(model="m", messages=user(text), stream=True))
            raise AssertionError(text + " was not an error")
        except kind:
            pass
    try:
        client.chat.completions.create(model="nobody", messages=user("x"))
        raise AssertionError("an unknown model was found")
    except openai.NotFoundError:
        pass
    stream = client.chat.completions.create(model="m", messages=user("wait"), stream=True)
    next(iter(stream))
    stream.close()


def anthropic_client():
    message = claude.messages.create(model="m", max_tokens=9, messages=user("hello there"))
    assert message.content[0].text == "hello there", message
    with claude.messages.stream(model="m", max_tokens=9, messages=user("think hm|yes")) as stream:
        assert "".join(stream.text_stream) == "yes"
        assert stream.get_final_message().content[0].thinking == "hm"
    message = claude.messages.create(model="m", max_tokens=9, messages=user('call f {"a": 1}'),
                                     tools=[{"name": "f", "input_schema": {"type": "object"}}])
    assert message.content[0].input == {"a": 1} and message.stop_reason == "tool_use", message
    assert claude.messages.count_tokens(model="m", messages=user("four")).input_tokens == 4
    try:
        claude.messages.create(model="m", max_tokens=9, messages=user("refuse"))
        raise AssertionError("refuse was not an error")
    except anthropic.BadRequestError:
        pass


for part in (schemas, openai_client, anthropic_client):
    part()
    print(part.__name__, "passed")
