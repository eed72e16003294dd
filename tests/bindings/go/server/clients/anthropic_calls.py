"""Calls of Anthropic's official Python client."""
import asyncio
import time
from enum import Enum
from typing import Literal

import anthropic
from pydantic import BaseModel

from calls import CITIES, CITY, FEW, KEY, QUESTION, is_call, is_city, must_fail, user

PACKAGE = "anthropic"
TOOL = {"name": "weather", "description": "Returns the weather of a city.", "input_schema": CITY}


class Name(str, Enum):
    OSLO = "Oslo"
    ROME = "Rome"


class City(BaseModel):
    city: Name


def client(base, key=KEY, **settings):
    return anthropic.Anthropic(base_url=base, api_key=key, **{"max_retries": 0, "timeout": 120, **settings})


def asked(temperature=0, **fields):
    """The client has no parameter for the temperature any more, but servers of others have."""
    extra = {"temperature": temperature, **fields.pop("extra_body", {})}
    return {"model": "m", "messages": user("Tell me of a king."), "max_tokens": 16, "extra_body": extra, **fields}


def called(**fields):
    return {"model": "calls", "messages": user(QUESTION), "tools": [TOOL], "max_tokens": 100,
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True}, **fields}


def message(base):
    answer = client(base).messages.create(**asked(system="Be brief."))
    assert answer.content[0].text and answer.role == "assistant" and answer.model == "m", answer
    assert answer.stop_reason in ("end_turn", "max_tokens") and answer.usage.output_tokens <= 16, answer
    assert answer._request_id.startswith("req_"), answer  # pylint: disable=protected-access


def message_from_parts(base):
    parts = [{"type": "text", "text": "Tell me of a king.", "cache_control": {"type": "ephemeral"}}]
    answer = client(base).messages.create(**asked(messages=[{"role": "user", "content": parts}],
                                                  system=[{"type": "text", "text": "Be brief."}]))
    assert answer.content[0].text == client(base).messages.create(**asked(system="Be brief.")).content[0].text


def streamed(base):
    api = client(base)
    kinds = [event.type for event in api.messages.create(**asked(stream=True)) if event.type != "ping"]
    assert kinds[:2] == ["message_start", "content_block_start"], kinds
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"], kinds
    whole = api.messages.create(**asked())
    with api.messages.stream(**asked()) as stream:
        assert "".join(stream.text_stream) == whole.content[0].text
        final = stream.get_final_message()
    assert final.usage.output_tokens == whole.usage.output_tokens and final.stop_reason == whole.stop_reason, final


def continued(base):
    answer = client(base).messages.create(**asked(messages=[*user("Who?"), {"role": "assistant", "content": "The king"}]))
    assert answer.content[0].text, answer


def stop_sequence(base):
    api = client(base)
    text = api.messages.create(**asked()).content[0].text
    answer = api.messages.create(**asked(stop_sequences=[text[10:14]]))
    assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == text[10:14], answer


def samplers(base):
    assert client(base).messages.create(**asked(extra_body={"top_p": 0.9, "top_k": 5}, temperature=1,
                                                metadata={"user_id": "u"})).content


def tool(base):
    answer = client(base).messages.create(**called())
    assert answer.stop_reason == "tool_use" and answer.content[-1].id, answer
    is_call(answer.content[-1].name, answer.content[-1].input)


def tool_streamed(base):
    with client(base).messages.stream(**called()) as stream:
        pieces = [event.partial_json for event in stream if event.type == "input_json"]
        block = stream.get_final_message().content[-1]
    is_call(block.name, block.input)
    is_city("".join(pieces))


def tool_by_name(base):
    other = {"name": "time", "input_schema": {"type": "object", "properties": {}}}
    answer = client(base).messages.create(**called(tools=[other, TOOL], tool_choice={"type": "tool", "name": "weather"}))
    assert answer.content[-1].name == "weather", answer


def tool_answered(base):
    answer = client(base).messages.create(**called(tool_choice={"type": "none"}, max_tokens=8, messages=[
        *user(QUESTION), {"role": "assistant", "content": [
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "3 degrees"}]}]))
    assert answer.content[0].type == "text", answer


def tool_runner(base):
    """The helper of the client that runs functions."""
    calls = []

    @anthropic.beta_tool
    def weather(city: Literal["Oslo", "Rome"]) -> str:
        """Returns the weather of a city.

        Args:
            city: the city
        """
        calls.append(city)
        return "3 degrees"
    runner = client(base).beta.messages.tool_runner(**called(tools=[weather], max_iterations=2))
    assert len(list(runner)) == 2 and len(calls) == 2, calls


def schema(base):
    given = {"format": {"type": "json_schema", "schema": CITY}}
    is_city(client(base).messages.create(**asked(output_config=given, max_tokens=60)).content[0].text)
    assert client(base).messages.parse(**asked(output_format=City, max_tokens=60)).parsed_output.city.value in CITIES


def thinking(base):
    for value in ({"type": "disabled"}, {"type": "adaptive"}, {"type": "enabled", "budget_tokens": 1024}):
        assert client(base).messages.create(**asked(thinking=value, temperature=1, max_tokens=1100 if "budget_tokens" in value
                                                    else 16, stop_sequences=["e"])).content


def count_tokens(base):
    api = client(base)
    few = api.messages.count_tokens(model="m", messages=user("Tell me of a king.")).input_tokens
    usage = api.messages.create(**asked()).usage
    assert few == usage.input_tokens + usage.cache_read_input_tokens, usage
    assert api.messages.count_tokens(model="m", messages=user("Tell me of a king."), tools=[TOOL]).input_tokens > few


def models(base):
    assert {model.id for model in client(base).models.list(limit=1)} == {"m", "calls"}
    assert client(base).models.retrieve("m").display_name == "m"
    must_fail(anthropic.NotFoundError, client(base).models.retrieve, "nobody")


def batches(base):
    api = client(base).messages.batches
    one = {"custom_id": "a", "params": asked()}
    for refused in (lambda: api.create(requests=[one]), api.list, lambda: api.retrieve("msgbatch_1"),
                    lambda: api.cancel("msgbatch_1"), lambda: api.delete("msgbatch_1")):
        failure = must_fail(anthropic.NotFoundError, refused)
        assert "batches" in failure.message and failure.body["request_id"] == failure.request_id, failure


def errors(base):
    create = client(base).messages.create
    wrong = must_fail(anthropic.AuthenticationError, client(base, "wrong").messages.create, **asked())
    assert wrong.body["error"]["type"] == "authentication_error", wrong.body
    must_fail(anthropic.NotFoundError, create, **asked(model="x"))
    must_fail(anthropic.BadRequestError, create, **asked(max_tokens=0))
    must_fail(anthropic.BadRequestError, create, **asked(tools=[{"type": "web_search_20250305", "name": "web_search"}]))
    must_fail(anthropic.BadRequestError, create, **asked(extra_body={"mcp_servers": [{"url": "x"}]}))
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    refused = must_fail(anthropic.BadRequestError, create, **asked(messages=[{"role": "user", "content": [image]}]))
    assert "messages[0].content[0]" in refused.message, refused
    must_fail(anthropic.APIStatusError, lambda: list(create(**asked(messages=user("word " * 20000), stream=True))))


def limits(base):
    few = client(base, FEW)
    assert few.messages.create(**asked(max_tokens=1)).content
    refused = must_fail(anthropic.RateLimitError, few.messages.create, **asked(max_tokens=1))
    assert int(refused.response.headers["retry-after"]) > 0, refused


def timeouts(base):
    must_fail(anthropic.APITimeoutError, client(base, timeout=0.05).messages.create, **asked(max_tokens=400))
    late = must_fail(anthropic.APIStatusError, client(base).messages.create, **asked(
        max_tokens=1000, temperature=1, extra_headers={"x-request-timeout": "0.05"}))
    assert late.status_code == 504 and late.body["error"]["type"] == "timeout_error", late


def closed_stream(base):
    began = time.monotonic()
    with client(base).messages.stream(**asked(max_tokens=1000, temperature=1)) as stream:
        next(iter(stream))
    assert time.monotonic() - began < 20


def asynchronous(base):
    async def many():
        async with anthropic.AsyncAnthropic(base_url=base, api_key=KEY, max_retries=0) as api:
            whole = await asyncio.gather(*(api.messages.create(**asked()) for _ in range(4)))
            async with api.messages.stream(**asked()) as stream:
                text = "".join([piece async for piece in stream.text_stream])
            return {one.content[0].text for one in whole} | {text}
    assert len(asyncio.run(many())) == 1


CALLS = [message, message_from_parts, streamed, continued, stop_sequence, samplers, tool, tool_streamed, tool_by_name,
         tool_answered, tool_runner, schema, thinking, count_tokens, models, batches, errors, limits, timeouts,
         closed_stream, asynchronous]
