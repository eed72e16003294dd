#!/usr/bin/env python3
"""Drives a server with the official Python clients of OpenAI and Anthropic, and checks its answers against the
schemas of both. usage: openai_clients.py BASE_URL. The server answers as scripted in
tests/bindings/go/server/fake."""
import json
import sys
import time

import anthropic
import openai

from schemas import Checker

base = sys.argv[1]
client = openai.OpenAI(base_url=base + "/v1", api_key="k")
claude = anthropic.Anthropic(base_url=base, api_key="k", max_retries=0)
user = lambda text: [{"role": "user", "content": text}]


def schemas():
    checker = Checker(base)
    for text in ["hello there", "call f {\"a\": 1}", "think a|b"]:
        checker.chat({"model": "m", "messages": user(text), "logprobs": True, "top_logprobs": 2})
        checker.response({"model": "m", "input": text, "top_logprobs": 2, "include": ["message.output_text.logprobs"]})
        checker.message({"model": "m", "messages": user(text), "max_tokens": 9})
    checker.completion({"model": "m", "prompt": ["a b", "c"], "logprobs": 1})
    checker.lists("m")
    assert checker.input_tokens({"model": "m", "input": "four"}) == 4


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


def wait_for(response):
    while response.status in ("queued", "in_progress"):
        time.sleep(0.01)
        response = client.responses.retrieve(response.id)
    return response


def stored():
    response = client.responses.create(model="m", input="hello")
    assert [item.content[0].text for item in client.responses.input_items.list(response.id)] == ["hello"]
    late = wait_for(client.responses.create(model="m", input="one two", background=True))
    assert late.status == "completed" and late.output_text == "one two", late
    endless = client.responses.create(model="m", input="wait", background=True)
    assert client.responses.cancel(endless.id).status == "cancelled"
    Checker(base).stored("/v1/responses/" + endless.id)
    conversation = client.conversations.create(metadata={"a": "b"}, items=user("hello"))
    client.responses.create(model="m", input="more", conversation=conversation.id)
    texts = [item.content[0].text for item in client.conversations.items.list(conversation.id, order="asc", limit=2)]
    assert texts == ["hello", "more", "more"], texts  # the client requests the second page
    item = client.conversations.items.create(conversation.id, items=user("x")).data[0]
    assert client.conversations.items.retrieve(item.id, conversation_id=conversation.id).content[0].text == "x"
    client.conversations.items.delete(item.id, conversation_id=conversation.id)
    assert client.conversations.update(conversation.id, metadata={"c": "d"}).metadata == {"c": "d"}
    assert client.conversations.delete(conversation.id).deleted


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
    assert [model.id for model in claude.models.list(limit=1)] == ["m"]
    assert claude.models.retrieve("m").display_name == "m"
    assert message._request_id.startswith("req_"), message._request_id
    try:
        claude.messages.batches.list()
        raise AssertionError("batches were listed")
    except anthropic.NotFoundError as failure:
        assert failure.body["request_id"] == failure.request_id, failure.body
    try:
        claude.messages.create(model="m", max_tokens=9, messages=user("refuse"))
        raise AssertionError("refuse was not an error")
    except anthropic.BadRequestError:
        pass


for part in (schemas, openai_client, stored, anthropic_client):
    part()
    print(part.__name__, "passed")
