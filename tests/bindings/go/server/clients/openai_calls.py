"""Calls of OpenAI's official Python client: chats, completions, embeddings and models. Those of Responses are in
openai_responses_calls.py."""
import asyncio
import json
import math
import time
from enum import Enum

import openai
from pydantic import BaseModel

from calls import CITIES, FEW, KEY, NO_END, QUESTION, TOOL, is_call, is_city, must_fail, user

PACKAGE = "openai"


class Name(str, Enum):
    OSLO = "Oslo"
    ROME = "Rome"


class City(BaseModel):
    city: Name


def client(base, key=KEY, **settings):
    return openai.OpenAI(base_url=base + "/v1", api_key=key, **{"max_retries": 0, "timeout": 120, **settings})


def asked(**fields):
    return {"model": "m", "messages": user("Tell me of a king."), "temperature": 0, "max_tokens": 16, **fields}


def called(**fields):
    return {"model": "calls", "messages": user(QUESTION), "tools": [TOOL], "tool_choice": "required",
            "parallel_tool_calls": False, "max_tokens": 100, **fields}


def chat(base):
    answer = client(base).chat.completions.create(**asked())
    assert answer.choices[0].message.content and answer.choices[0].message.role == "assistant", answer
    assert answer.choices[0].finish_reason == "length" or answer.usage.completion_tokens < 16, answer
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 8, answer
    assert answer.system_fingerprint.startswith("fp_") and answer.model == "m", answer


def chat_streamed(base):
    api = client(base)
    chunks = list(api.chat.completions.create(**asked(stream=True, stream_options={"include_usage": True})))
    whole = api.chat.completions.create(**asked())
    assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens and not chunks[-1].choices, chunks[-1]
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason, chunks[-2]


def chat_events(base):
    choice = {"guided_choice": list(CITIES)}  # the client raises an exception if an answer is cut off
    with client(base).chat.completions.stream(**asked(logprobs=True, extra_body=choice)) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done", "logprobs.content.delta"} <= set(kinds), set(kinds)
    assert final.choices[0].message.content in CITIES, final


def chat_history(base):
    """Every role and form of content that the client can send."""
    answer = client(base).chat.completions.create(**called(tool_choice="none", messages=[
        {"role": "developer", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "3 degrees"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "3 degrees."}]}, *user("And in Rome?")]))
    assert answer.usage.prompt_tokens > 30, answer


def choices_and_seed(base):
    api = client(base)
    first, second = (api.chat.completions.create(**asked(n=2, temperature=1, seed=7)) for _ in range(2))
    texts = [choice.message.content for choice in first.choices]
    assert texts == [choice.message.content for choice in second.choices] and len(set(texts)) == 2, texts


def stops(base):
    api = client(base)
    text = api.chat.completions.create(**asked()).choices[0].message.content
    stopped = api.chat.completions.create(**asked(stop=[text[10:14]])).choices[0]
    assert text.startswith(stopped.message.content) and text[10:14] not in stopped.message.content, (text, stopped)
    assert stopped.finish_reason == "stop", stopped


def biases(base):
    answer = client(base).chat.completions.create(**asked(logit_bias={"300": 100}, max_tokens=4, logprobs=True))
    assert len({entry.token for entry in answer.choices[0].logprobs.content}) == 1, answer


def chat_log_probabilities(base):
    answer = client(base).chat.completions.create(**asked(logprobs=True, top_logprobs=3))
    entries = answer.choices[0].logprobs.content
    assert len(entries) == answer.usage.completion_tokens, answer
    for entry in entries:
        assert entry.logprob <= 0 and len(entry.top_logprobs) == 3, entry
        assert entry.token == entry.top_logprobs[0].token and entry.logprob == entry.top_logprobs[0].logprob, entry


def penalties(base):
    answer = client(base).chat.completions.create(**asked(frequency_penalty=1, presence_penalty=1, top_p=0.9))
    assert answer.choices[0].message.content, answer


def reasoning_effort(base):
    assert client(base).chat.completions.create(**asked(reasoning_effort="low")).choices[0].message.content


def schema(base):
    answer = client(base).chat.completions.parse(**asked(response_format=City, max_tokens=60))
    assert isinstance(answer.choices[0].message.parsed, City), answer


def schema_streamed(base):
    with client(base).chat.completions.stream(**asked(response_format=City, max_tokens=60)) as stream:
        assert any(event.type == "content.delta" for event in stream)
        assert stream.get_final_completion().choices[0].message.parsed.city.value in CITIES


def json_object(base):
    answer = client(base).chat.completions.create(**asked(response_format={"type": "json_object"}, max_tokens=200))
    assert answer.choices[0].finish_reason == "length" or isinstance(json.loads(answer.choices[0].message.content), dict)


def tool(base):
    choice = client(base).chat.completions.create(**called()).choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.tool_calls[0].id, choice
    is_call(choice.message.tool_calls[0].function.name, choice.message.tool_calls[0].function.arguments)


def tool_parsed(base):
    class weather(BaseModel):  # pylint: disable=invalid-name
        city: Name
    answer = client(base).chat.completions.parse(**called(tools=[openai.pydantic_function_tool(weather)]))
    assert answer.choices[0].message.tool_calls[0].function.parsed_arguments.city.value in CITIES, answer


def tool_streamed(base):
    with client(base).chat.completions.stream(**called()) as stream:
        kinds = {event.type for event in stream}
        call = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds, kinds
    is_call(call.function.name, call.function.arguments)


def tool_by_name(base):
    other = {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}}
    choice = {"type": "function", "function": {"name": "weather"}}
    answer = client(base).chat.completions.create(**called(tools=[other, TOOL], tool_choice=choice))
    assert answer.choices[0].message.tool_calls[0].function.name == "weather", answer


def allowed_tools(base):
    other = {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}}
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "weather"}}]}
    answer = client(base).chat.completions.create(**called(
        tools=[other, TOOL], tool_choice={"type": "allowed_tools", "allowed_tools": allowed}))
    assert answer.choices[0].message.tool_calls[0].function.name == "weather", answer


def first_form_of_functions(base):
    fields = called(functions=[TOOL["function"]], function_call={"name": "weather"})
    for name in ("tools", "tool_choice", "parallel_tool_calls"):
        del fields[name]
    choice = client(base).chat.completions.create(**fields).choices[0]
    assert choice.finish_reason in ("function_call", "stop"), choice
    is_call(choice.message.function_call.name, choice.message.function_call.arguments)


def completion(base):
    api = client(base)
    answer = api.completions.create(model="m", prompt=["Once upon", "There was"], max_tokens=8, n=2, seed=1)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3] and answer.usage.completion_tokens == 32, answer
    text = api.completions.create(model="m", prompt="Once upon", max_tokens=8, temperature=0).choices[0].text
    pieces = api.completions.create(model="m", prompt="Once upon", max_tokens=8, temperature=0, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == text
    assert api.completions.create(model="m", prompt=[5, 6, 7], max_tokens=2, best_of=2).usage.prompt_tokens == 3


def completion_evaluated(base):
    """Evaluation harnesses read the log-probabilities of a prompt so."""
    choice = client(base).completions.create(model="m", prompt="Once upon a time", echo=True, logprobs=2,
                                             max_tokens=0).choices[0]
    probabilities = choice.logprobs
    assert choice.text == "Once upon a time" and probabilities.token_logprobs[0] is None, choice
    assert all(value <= 0 for value in probabilities.token_logprobs[1:]), probabilities
    assert len(probabilities.tokens) == len(probabilities.text_offset) == len(probabilities.top_logprobs), probabilities


def embeddings(base):
    api = client(base)
    encoded = api.embeddings.create(model="m", input=["a king", "a queen"])  # the client requests base64
    floats = api.embeddings.create(model="m", input=["a king", "a queen"], encoding_format="float")
    for one, other in zip(encoded.data, floats.data):
        assert all(math.isclose(x, y, abs_tol=1e-6) for x, y in zip(one.embedding, other.embedding))
    short = api.embeddings.create(model="m", input="a king", dimensions=8).data[0].embedding
    assert len(short) == 8 and math.isclose(sum(x * x for x in short), 1, abs_tol=1e-3), short
    assert api.embeddings.create(model="m", input=[[5, 6], [7]]).usage.prompt_tokens == 3


def models(base):
    assert {model.id for model in client(base).models.list()} == {"m", "calls"}
    assert client(base).models.retrieve("m").id == "m"
    must_fail(openai.NotFoundError, client(base).models.retrieve, "nobody")


def headers(base):
    raw = client(base).chat.completions.with_raw_response.create(**asked(), extra_headers={"x-request-id": "mine"})
    assert raw.headers["x-request-id"] == "mine" and raw.parse()._request_id == "mine"  # pylint: disable=protected-access
    with client(base).chat.completions.with_streaming_response.create(**asked()) as response:
        assert json.loads(response.read())["choices"]


def errors(base):
    api = client(base)
    create = api.chat.completions.create
    must_fail(openai.AuthenticationError, client(base, "wrong").chat.completions.create, **asked())
    assert must_fail(openai.NotFoundError, create, **asked(model="x")).code == "model_not_found"
    assert must_fail(openai.BadRequestError, create, **asked(top_p=2)).param == "top_p"
    long = must_fail(openai.BadRequestError, create, **asked(messages=user("word " * 20000)))
    assert long.code == "context_length_exceeded", long
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    refused = must_fail(openai.BadRequestError, create, **asked(messages=[{"role": "user", "content": [image]}]))
    assert "image" in refused.message, refused
    must_fail(openai.BadRequestError, create, **asked(response_format={"type": "json_schema", "json_schema": {
        "name": "a", "schema": {"type": "nothing"}}}))


def limits(base):
    few = client(base, FEW)
    assert few.chat.completions.create(**asked(max_tokens=1)).choices
    refused = must_fail(openai.RateLimitError, few.chat.completions.create, **asked(max_tokens=1))
    assert int(refused.response.headers["retry-after"]) > 0, refused


def absent_services(base):
    api = client(base)
    for absent in (api.files.list, api.batches.list, api.vector_stores.list, api.fine_tuning.jobs.list,
                   lambda: api.moderations.create(input="a"), lambda: api.images.generate(prompt="a"),
                   lambda: api.audio.speech.create(model="m", input="a", voice="alloy"),
                   lambda: api.chat.completions.retrieve("chatcmpl-1")):
        must_fail(openai.NotFoundError, absent)


def timeouts(base):
    endless = asked(max_tokens=1500, logit_bias=NO_END)
    must_fail(openai.APITimeoutError, client(base, timeout=0.5).chat.completions.create, **endless)
    late = must_fail(openai.InternalServerError, client(base).chat.completions.create, **endless,
                     extra_headers={"x-request-timeout": "0.3"})
    assert late.status_code == 504 and late.code == "timeout", late


def closed_stream(base):
    began = time.monotonic()
    stream = client(base).chat.completions.create(**asked(max_tokens=1500, logit_bias=NO_END, stream=True))
    next(iter(stream))
    stream.close()
    assert time.monotonic() - began < 20


def asynchronous(base):
    async def many():
        async with openai.AsyncOpenAI(base_url=base + "/v1", api_key=KEY, max_retries=0) as api:
            whole = await asyncio.gather(*(api.chat.completions.create(**asked()) for _ in range(4)))
            stream = await api.chat.completions.create(**asked(stream=True))
            return {one.choices[0].message.content for one in whole} | {
                "".join([chunk.choices[0].delta.content or "" async for chunk in stream])}
    assert len(asyncio.run(many())) == 1


def fields_of_other_servers(base):
    """Fields that vLLM's users send in extra_body."""
    api = client(base)
    text = api.chat.completions.create(**asked(extra_body={"guided_choice": list(CITIES)})).choices[0].message.content
    assert text in CITIES, text
    is_city(api.chat.completions.create(**asked(max_tokens=60, extra_body={"structured_outputs": {
        "json": TOOL["function"]["parameters"]}})).choices[0].message.content)
    answer = api.chat.completions.create(**asked(max_tokens=4, extra_body={
        "min_tokens": 4, "top_k": 5, "min_p": 0, "repetition_penalty": 1.1, "return_token_ids": True}))
    assert len(answer.choices[0].token_ids) == 4 and answer.prompt_token_ids, answer


CALLS = [chat, chat_streamed, chat_events, chat_history, choices_and_seed, stops, biases, chat_log_probabilities, penalties,
         reasoning_effort, schema, schema_streamed, json_object, tool, tool_parsed, tool_streamed, tool_by_name, allowed_tools,
         first_form_of_functions, completion, completion_evaluated, embeddings, models, headers, errors, limits,
         absent_services, timeouts, closed_stream, asynchronous, fields_of_other_servers]
