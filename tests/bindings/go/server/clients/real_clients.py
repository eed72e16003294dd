#!/usr/bin/env python3
"""Drives quire-server on a real model with the official Python clients of OpenAI and Anthropic.

usage: real_clients.py SERVER MODEL_DIR. Exits with status 77 and a message if a client is not installed
(pip install openai anthropic jsonschema). Downloads nothing.
"""
import json
import sys
import time

try:
    import anthropic
    import openai

    import serving
    from schemas import Checker
except ImportError as absent:
    print(f"skipped: {absent.name} is not installed")
    sys.exit(77)

SERVER, MODEL = sys.argv[1:]


def user(text):
    return [{"role": "user", "content": text}]


WEATHER = {"name": "weather", "description": "The weather of a city.",
           "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
CITY = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"],
        "additionalProperties": False}
ENDLESS = {"logit_bias": {"1": -1000, "2": -1000}, "max_tokens": 1500}  # no end token is chosen


def figure(checker, name):
    import urllib.request
    text = urllib.request.urlopen(checker.base + "/metrics").read().decode()
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + "{"))


def must_fail(kind, function):
    try:
        function()
    except kind as failure:
        return failure
    raise AssertionError(f"expected {kind.__name__}")


def schemas(checker):
    checker.chat({"model": "m", "messages": user("Tell me of a king."), "max_tokens": 20, "logprobs": True,
                  "top_logprobs": 2, "n": 2})
    checker.chat({"model": "m", "messages": user("hello"), "max_tokens": 20,
                  "tools": [{"type": "function", "function": WEATHER}]})
    checker.response({"model": "m", "input": "hello", "max_output_tokens": 20, "top_logprobs": 2,
                      "include": ["message.output_text.logprobs"]})
    assert checker.input_tokens({"model": "m", "input": "hello"}) > 3
    checker.message({"model": "m", "messages": user("hello"), "max_tokens": 20})
    checker.completion({"model": "m", "prompt": ["Once upon a time", "c"], "logprobs": 1, "max_tokens": 8})
    checker.lists("m")


def openai_client(checker):
    client = openai.OpenAI(base_url=checker.base + "/v1", api_key="k", max_retries=0)
    greedy = {"model": "m", "temperature": 0, "max_tokens": 24}
    whole = client.chat.completions.create(messages=user("Tell me of a king."), **greedy)
    text = whole.choices[0].message.content
    pieces = list(client.chat.completions.create(messages=user("Tell me of a king."), stream=True, **greedy))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == text, text
    assert len(pieces) > 5 and whole.usage.completion_tokens <= 24 and whole.usage.prompt_tokens > 8
    cut = text[10:14]
    assert cut not in client.chat.completions.create(messages=user("Tell me of a king."), stop=[cut],
                                                     **greedy).choices[0].message.content
    seeded = [client.completions.create(model="m", prompt="Once", max_tokens=16, seed=3).choices[0].text
              for _ in range(2)]
    assert seeded[0] == seeded[1], seeded
    vectors = client.embeddings.create(model="m", input=["a king", "a queen"])  # the client requests base64
    assert abs(sum(x * x for x in vectors.data[0].embedding) - 1) < 1e-3
    response = client.responses.create(model="m", input="hello", max_output_tokens=16)
    assert client.responses.retrieve(response.id).output_text == response.output_text
    more = client.responses.create(model="m", input="and then?", previous_response_id=response.id, max_output_tokens=4)
    assert more.usage.input_tokens > response.usage.input_tokens
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}, "required": ["name"],
              "additionalProperties": False}
    formatted = client.chat.completions.create(model="m", messages=user("Who?"), max_tokens=100, response_format={
        "type": "json_schema", "json_schema": {"name": "person", "schema": schema, "strict": True}})
    assert list(json.loads(formatted.choices[0].message.content)) == ["name"], formatted
    must_fail(openai.NotFoundError, lambda: client.chat.completions.create(model="x", messages=user("a")))
    refused = must_fail(openai.BadRequestError, lambda: client.chat.completions.create(
        model="m", messages=user("word " * 20000)))
    assert refused.code == "context_length_exceeded", refused
    must_fail(openai.BadRequestError, lambda: client.chat.completions.create(model="m", messages=user("a"), top_p=2))
    stream = client.chat.completions.create(model="m", messages=user("a"), stream=True, **ENDLESS)
    next(iter(stream))
    stream.close()
    for _ in range(1000):
        if figure(checker, "quire_jobs_running") == 0:
            return
        time.sleep(0.01)
    raise AssertionError("the job of a client that has gone runs on")


def stored(checker):
    client = openai.OpenAI(base_url=checker.base + "/v1", api_key="k", max_retries=0)
    asked = {"model": "m", "temperature": 0, "max_output_tokens": 16}
    whole = client.responses.create(input="Tell me of a king.", **asked)
    late = client.responses.create(input="Tell me of a king.", background=True, **asked)
    while late.status in ("queued", "in_progress"):
        time.sleep(0.01)
        late = client.responses.retrieve(late.id)
    assert late.output_text == whole.output_text, late
    checker.stored("/v1/responses/" + late.id)
    assert [item.role for item in client.responses.input_items.list(late.id)] == ["user"]
    endless = client.responses.create(model="m", input="a", background=True, max_output_tokens=1500,
                                      extra_body={"logit_bias": ENDLESS["logit_bias"]})
    assert client.responses.cancel(endless.id).status == "cancelled"
    conversation = client.conversations.create(items=[{"role": "user", "content": "Tell me of a king."}])
    for _ in range(2):
        client.responses.create(input="And then?", conversation=conversation.id, **asked)
    items = list(client.conversations.items.list(conversation.id, order="asc", limit=2))
    assert [item.role for item in items] == ["user", "user", "assistant", "user", "assistant"], items


def anthropic_client(checker):
    client = anthropic.Anthropic(base_url=checker.base, api_key="k", max_retries=0)
    asked = {"model": "m", "max_tokens": 24, "messages": user("Tell me of a king."),
             "extra_body": {"top_k": 1}}
    message = client.messages.create(**asked)
    text = "".join(block.text for block in message.content)
    with client.messages.stream(**asked) as stream:
        assert "".join(stream.text_stream) == text
        assert stream.get_final_message().usage.output_tokens == message.usage.output_tokens
    tools = [{"name": "weather", "input_schema": WEATHER["parameters"]}]
    client.messages.create(model="m", max_tokens=9, messages=user("hello"), tools=tools)
    few = client.messages.count_tokens(model="m", messages=user("hello")).input_tokens
    assert few < client.messages.count_tokens(model="m", messages=user("hello there, and more")).input_tokens
    continued = client.messages.create(model="m", max_tokens=9, messages=[*user("hello"), {
        "role": "assistant", "content": "The king"}])
    assert continued.role == "assistant"
    with client.messages.stream(**asked) as stream:
        start = next(iter(stream))
        assert start.message.usage.input_tokens == client.messages.count_tokens(
            model="m", messages=asked["messages"]).input_tokens, start
    formatted = client.messages.create(model="m", max_tokens=100, messages=user("Where?"), output_config={
        "format": {"type": "json_schema", "schema": CITY}})
    assert json.loads(formatted.content[0].text)["city"] in ("Oslo", "Rome"), formatted
    assert {model.id for model in client.models.list(limit=1)} == {"m", "calls"}
    batches = must_fail(anthropic.NotFoundError, client.messages.batches.list)
    assert "batches" in batches.message and batches.request_id, batches
    must_fail(anthropic.BadRequestError, lambda: client.messages.create(
        model="m", max_tokens=9, messages=user("a"), extra_body={"mcp_servers": [{"url": "x"}]}))
    must_fail(anthropic.NotFoundError, lambda: client.messages.create(model="x", max_tokens=9, messages=user("a")))
    must_fail(anthropic.BadRequestError, lambda: client.messages.create(model="m", max_tokens=0, messages=user("a")))


def is_call(name, arguments):
    assert name == "weather" and json.loads(arguments)["city"] in ("Oslo", "Rome"), (name, arguments)


def calls(checker):
    """Forces the model to call a tool. The call is valid, and a client of each interface reads it."""
    client = openai.OpenAI(base_url=checker.base + "/v1", api_key="k", max_retries=0)
    tool = {"type": "function", "function": {"name": "weather", "parameters": CITY, "strict": True}}
    asked = {"model": "calls", "messages": user("How warm is it?"), "tools": [tool], "tool_choice": "required",
             "parallel_tool_calls": False, "max_tokens": 400}
    checker.chat(asked)
    with client.chat.completions.stream(**asked) as stream:
        choice = stream.get_final_completion().choices[0]
    assert choice.finish_reason == "tool_calls", choice
    is_call(choice.message.tool_calls[0].function.name, choice.message.tool_calls[0].function.arguments)
    flat = {"type": "function", "name": "weather", "parameters": CITY, "strict": True}
    asked = {"model": "calls", "input": "How warm is it?", "tools": [flat], "max_output_tokens": 400,
             "tool_choice": {"type": "function", "name": "weather"}, "parallel_tool_calls": False}
    checker.response(asked)
    item = client.responses.create(**asked).output[0]
    is_call(item.name, item.arguments)
    claude = anthropic.Anthropic(base_url=checker.base, api_key="k", max_retries=0)
    asked = {"model": "calls", "messages": user("How warm is it?"), "max_tokens": 400, "tools": [
        {"name": "weather", "input_schema": CITY}], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
    checker.message(asked)
    with claude.messages.stream(**asked) as stream:
        message = stream.get_final_message()
    assert message.stop_reason == "tool_use", message
    is_call(message.content[0].name, json.dumps(message.content[0].input))


def main():
    with serving.served(SERVER, MODEL) as base:
        checker = Checker(base)
        checker.post("/v1/completions", {"model": "m", "prompt": "a", "max_tokens": 1})  # loads the model
        for part in (schemas, openai_client, stored, anthropic_client, calls):
            part(checker)
            print(part.__name__, "passed")


main()
