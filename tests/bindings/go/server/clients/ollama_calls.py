"""Calls of ollama's Python client."""
import asyncio
import json
from typing import Literal

import ollama

from calls import CITY, KEY, QUESTION, is_city, must_fail, user

PACKAGE = "ollama"
OPTIONS = {"temperature": 0, "num_predict": 16, "num_ctx": 1024}


def client(base, key=KEY, **settings):
    return ollama.Client(host=base, headers={"Authorization": f"Bearer {key}"}, timeout=120, **settings)


def weather(city: Literal["Oslo", "Rome"]) -> str:
    """Returns the weather of a city.

    Args:
        city: the city
    """
    return f"3 degrees in {city}"


def chat(base):
    answer = client(base).chat("m", user("Tell me of a king."), options=OPTIONS)
    assert answer.message.content and answer.done and answer.eval_count <= 16 and answer.prompt_eval_count > 8, answer
    assert answer.total_duration >= answer.eval_duration > 0 and answer.done_reason in ("stop", "length"), answer


def chat_streamed(base):
    pieces = list(client(base).chat("m:latest", user("Tell me of a king."), options=OPTIONS, stream=True))
    text = "".join(piece.message.content for piece in pieces)
    assert text == client(base).chat("m", user("Tell me of a king."), options=OPTIONS).message.content
    assert pieces[-1].done and not pieces[0].done, pieces


def schema(base):
    long = {**OPTIONS, "num_predict": 100}
    is_city(client(base).chat("m", user(QUESTION), format=CITY, options=long).message.content)
    is_city(client(base).generate("m", QUESTION, format=CITY, options=long).response)
    answer = client(base).chat("m", user(QUESTION), format="json", options=long)
    assert answer.done_reason == "length" or isinstance(json.loads(answer.message.content), dict), answer


def tools(base):
    """ollama has no choice of tools, so the model is free, and this one does not call."""
    answer = client(base).chat("calls", user(QUESTION), tools=[weather], options=OPTIONS)
    assert answer.message.content or answer.message.tool_calls, answer


def tool_results(base):
    call = {"function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    messages = [*user(QUESTION), {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "content": "3 degrees", "tool_name": "weather"}]
    assert client(base).chat("calls", messages, tools=[weather], options=OPTIONS).prompt_eval_count > 20


def generate(base):
    api = client(base)
    whole = api.generate("m", "Once upon a time", system="Be brief.", options=OPTIONS)
    pieces = list(api.generate("m", "Once upon a time", system="Be brief.", options=OPTIONS, stream=True))
    assert "".join(piece.response for piece in pieces) == whole.response != "", whole
    assert api.generate("m", "Once upon a time", raw=True, options=OPTIONS).response


def log_probabilities(base):
    answer = client(base).chat("m", user("Tell me of a king."), options=OPTIONS, logprobs=True, top_logprobs=2)
    assert len(answer.logprobs) == answer.eval_count and len(answer.logprobs[0].top_logprobs) == 2, answer


def embeddings(base):
    answer = client(base).embed("m", ["a king", "a queen"])
    assert len(answer.embeddings) == 2 and answer.prompt_eval_count > 3, answer
    assert len(client(base).embed("m", "a king", dimensions=8).embeddings[0]) == 8
    assert len(client(base).embeddings("m", "a king").embedding) == len(answer.embeddings[0])


def models(base):
    api = client(base)
    assert {model.model for model in api.list().models} == {"m:latest", "calls:latest"}
    shown = api.show("m")
    assert shown.modelinfo and "completion" in shown.capabilities and shown.details.family, shown
    api.generate("m", "a", options=OPTIONS)
    assert "m:latest" in {model.model for model in api.ps().models}


def refused(base):
    api = client(base)
    for change in (lambda: api.pull("other"), lambda: api.push("m"), lambda: api.create("new", from_="m"),
                   lambda: api.copy("m", "new"), lambda: api.delete("m")):
        assert must_fail(ollama.ResponseError, change).status_code == 403
    must_fail(ollama.ResponseError, lambda: list(api.pull("other", stream=True)))
    for fields in ({"think": True}, {"options": {"nothing": 1}}):
        assert must_fail(ollama.ResponseError, api.chat, "m", user("a"), **fields).status_code == 400
    assert must_fail(ollama.ResponseError, api.generate, "m", "a", template="b").status_code == 400
    assert must_fail(ollama.ResponseError, api.generate, "m", "a", suffix="b").status_code == 400
    assert must_fail(ollama.ResponseError, api.systemone, "m", "a", {}).status_code == 404


def errors(base):
    assert must_fail(ollama.ResponseError, client(base).chat, "x", user("a")).status_code == 404
    assert must_fail(ollama.ResponseError, client(base, "wrong").chat, "m", user("a")).status_code == 401
    long = must_fail(ollama.ResponseError, client(base).chat, "m", user("word " * 20000))
    assert long.status_code == 400 and "prompt is too long" in long.error, long


def asynchronous(base):
    async def both():
        api = ollama.AsyncClient(host=base, headers={"Authorization": f"Bearer {KEY}"})
        stream = await api.chat("m", user("Tell me of a king."), options=OPTIONS, stream=True)
        return "".join([piece.message.content async for piece in stream]), (
            await api.chat("m", user("Tell me of a king."), options=OPTIONS)).message.content
    assert len(set(asyncio.run(both()))) == 1


CALLS = [chat, chat_streamed, schema, tools, tool_results, generate, log_probabilities, embeddings, models, refused, errors,
         asynchronous]
