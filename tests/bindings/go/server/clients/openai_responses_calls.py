"""Calls of OpenAI's official Python client to Responses and to conversations."""
import json
import time
from enum import Enum

import openai
from pydantic import BaseModel

from calls import CITIES, FUNCTION, KEY, NO_END, QUESTION, is_call, is_city, must_fail, user

PACKAGE = "openai"
TOOL = {"type": "function", **FUNCTION}


class Name(str, Enum):
    OSLO = "Oslo"
    ROME = "Rome"


class City(BaseModel):
    city: Name


def client(base):
    return openai.OpenAI(base_url=base + "/v1", api_key=KEY, max_retries=0, timeout=120)


def asked(**fields):
    return {"model": "m", "input": "Tell me of a king.", "temperature": 0, "max_output_tokens": 16, **fields}


def called(**fields):
    return {"model": "calls", "input": QUESTION, "tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False,
            "max_output_tokens": 100, **fields}


def response(base):
    answer = client(base).responses.create(**asked(instructions="Be brief."))
    assert answer.output_text and answer.status in ("completed", "incomplete"), answer
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens, answer
    assert answer.instructions == "Be brief." and answer.model == "m", answer
    if answer.status == "incomplete":
        assert answer.incomplete_details.reason == "max_output_tokens", answer


def streamed(base):
    events = list(client(base).responses.create(**asked(stream=True)))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"], kinds
    assert kinds[-1] in ("response.completed", "response.incomplete"), kinds
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text and text == client(base).responses.create(**asked()).output_text


def stream_helper(base):
    with client(base).responses.stream(**asked(text_format=City, max_output_tokens=60)) as stream:
        deltas = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert stream.get_final_response().output_parsed.city.value in CITIES
    is_city(deltas)


def schema(base):
    answer = client(base).responses.parse(**asked(text_format=City, max_output_tokens=60))
    assert answer.output_parsed.city.value in CITIES, answer
    given = {"type": "json_schema", "name": "city", "schema": FUNCTION["parameters"], "strict": True}
    is_city(client(base).responses.create(**asked(text={"format": given}, max_output_tokens=60)).output_text)


def json_object(base):
    answer = client(base).responses.create(**asked(text={"format": {"type": "json_object"}}, max_output_tokens=200))
    assert answer.status == "incomplete" or isinstance(json.loads(answer.output_text), dict), answer


def tool(base):
    item = client(base).responses.create(**called()).output[0]
    assert item.type == "function_call" and item.call_id and item.status == "completed", item
    is_call(item.name, item.arguments)


def tool_streamed(base):
    events = list(client(base).responses.create(**called(stream=True)))
    deltas = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
    done = next(event for event in events if event.type == "response.function_call_arguments.done")
    assert deltas == done.arguments
    is_city(deltas)


def tool_choices(base):
    other = {"type": "function", "name": "time", "parameters": {"type": "object", "properties": {}}, "strict": False}
    named = {"type": "function", "name": "weather"}
    for choice in (named, {"type": "allowed_tools", "mode": "required", "tools": [named]}):
        answer = client(base).responses.create(**called(tools=[other, TOOL], tool_choice=choice))
        assert answer.output[0].name == "weather", answer


def tool_answered(base):
    api = client(base)
    first = api.responses.create(**called())
    output = {"type": "function_call_output", "call_id": first.output[0].call_id, "output": "3 degrees"}
    chained = api.responses.create(**called(input=[output], previous_response_id=first.id, tool_choice="none",
                                            max_output_tokens=8))
    items = [*user(QUESTION), *(item.to_dict() for item in first.output), output]
    whole = api.responses.create(**called(input=items, tool_choice="none", max_output_tokens=8))
    assert chained.usage.input_tokens == whole.usage.input_tokens, (chained, whole)


def log_probabilities(base):
    answer = client(base).responses.create(**asked(include=["message.output_text.logprobs"], top_logprobs=2))
    entries = answer.output[0].content[0].logprobs
    assert len(entries) == answer.usage.output_tokens and all(len(one.top_logprobs) == 2 for one in entries), answer


def input_tokens(base):
    counted = client(base).responses.input_tokens.count(model="m", input="Tell me of a king.").input_tokens
    assert counted == client(base).responses.create(**asked()).usage.input_tokens, counted


def wait_for(api, one):
    deadline = time.monotonic() + 60
    while one.status in ("queued", "in_progress") and time.monotonic() < deadline:
        time.sleep(0.02)
        one = api.responses.retrieve(one.id)
    return one


def background(base):
    api = client(base)
    late = api.responses.create(**asked(background=True))
    assert late.status in ("queued", "in_progress") and late.background, late
    assert wait_for(api, late).output_text == api.responses.create(**asked()).output_text


def cancelled(base):
    api = client(base)
    endless = asked(background=True, max_output_tokens=1500, extra_body={"logit_bias": NO_END})
    one = api.responses.create(**endless)
    assert api.responses.cancel(one.id).status == "cancelled"
    assert api.responses.retrieve(one.id).status == "cancelled"


def stored(base):
    api = client(base)
    first = api.responses.create(**asked())
    assert api.responses.retrieve(first.id).output_text == first.output_text
    assert [item.content[0].text for item in api.responses.input_items.list(first.id)] == ["Tell me of a king."]
    second = api.responses.create(**asked(input="And then?", previous_response_id=first.id))
    assert second.previous_response_id == first.id and second.usage.input_tokens > first.usage.input_tokens, second
    api.responses.delete(first.id)
    must_fail(openai.NotFoundError, api.responses.retrieve, first.id)
    unkept = api.responses.create(**asked(store=False))
    must_fail(openai.NotFoundError, api.responses.retrieve, unkept.id)


def conversations(base):
    api = client(base)
    made = api.conversations.create(metadata={"a": "b"}, items=user("Hello"))
    assert api.conversations.retrieve(made.id).metadata == {"a": "b"}
    for _ in range(2):
        api.responses.create(**asked(conversation=made.id))
    items = list(api.conversations.items.list(made.id, order="asc", limit=2))  # the client requests all pages
    assert [item.role for item in items] == ["user", "user", "assistant", "user", "assistant"], items
    item = api.conversations.items.create(made.id, items=user("More")).data[0]
    assert api.conversations.items.retrieve(item.id, conversation_id=made.id).content[0].text == "More"
    api.conversations.items.delete(item.id, conversation_id=made.id)
    assert api.conversations.update(made.id, metadata={"c": "d"}).metadata == {"c": "d"}
    assert api.conversations.delete(made.id).deleted
    must_fail(openai.NotFoundError, api.conversations.retrieve, made.id)


def metadata(base):
    answer = client(base).responses.create(**asked(metadata={"a": "b"}, user="me", truncation="auto"))
    assert answer.metadata == {"a": "b"} and answer.truncation == "auto", answer


def reasoning(base):
    assert client(base).responses.create(**asked(reasoning={"effort": "low", "summary": "auto"})).output_text


def errors(base):
    create = client(base).responses.create
    must_fail(openai.NotFoundError, create, **asked(model="x"))
    assert must_fail(openai.BadRequestError, create, **asked(top_p=2)).param == "top_p"
    assert must_fail(openai.BadRequestError, create, **asked(extra_body={"no_field": 1})).code == "unknown_parameter"
    must_fail(openai.BadRequestError, create, **asked(tools=[{"type": "web_search"}]))
    must_fail(openai.BadRequestError, create, **asked(prompt={"id": "p"}))
    must_fail((openai.NotFoundError, openai.BadRequestError), create, **asked(previous_response_id="resp_1"))
    image = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"}]}]
    must_fail(openai.BadRequestError, create, **asked(input=image))
    must_fail(openai.NotFoundError, client(base).responses.compact, model="m", input="a")
    retrieve = client(base).responses.retrieve
    must_fail(openai.NotFoundError, lambda: list(retrieve("resp_1", stream=True)))
    stored = create(**asked()).id  # neither streamed nor in the background, so it has no events
    must_fail(openai.BadRequestError, lambda: list(retrieve(stored, stream=True)))


CALLS = [response, streamed, stream_helper, schema, json_object, tool, tool_streamed, tool_choices, tool_answered,
         log_probabilities, input_tokens, background, cancelled, stored, conversations, metadata, reasoning, errors]
