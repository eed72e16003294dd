"""Calls of instructor, in each of its modes that servers of OpenAI's interface have."""
import asyncio
from typing import Literal

import instructor
import openai
from pydantic import BaseModel, Field

from calls import CITIES, KEY, QUESTION, must_fail, user

PACKAGE = "instructor"
MODES = ("TOOLS", "TOOLS_STRICT", "JSON_SCHEMA")  # the mode JSON only describes the schema in the prompt


class City(BaseModel):
    """A city."""
    city: Literal["Oslo", "Rome"]


class Place(City):
    """A city and its number of people."""
    people: int = Field(ge=0, le=9)


def client(base, mode="TOOLS", key=KEY):
    return instructor.from_openai(openai.OpenAI(base_url=base + "/v1", api_key=key, max_retries=0, timeout=120),
                                  mode=instructor.Mode[mode])


def asked(**fields):
    return {"model": "calls", "messages": user(QUESTION), "response_model": Place, "max_retries": 0, "temperature": 0,
            "max_tokens": 200, **fields}


def is_place(value):
    assert value.city in CITIES and 0 <= value.people <= 9, value


def modes(base):
    for mode in MODES:
        is_place(client(base, mode).chat.completions.create(**asked()))


def responses(base):
    is_place(client(base, "RESPONSES_TOOLS").responses.create(
        model="calls", input=QUESTION, response_model=Place, max_output_tokens=200))


def with_completion(base):
    place, completion = client(base).chat.completions.create_with_completion(**asked())
    is_place(place)
    assert completion.usage.completion_tokens > 0, completion


def partial(base):
    for mode in ("TOOLS", "JSON_SCHEMA"):
        pieces = list(client(base, mode).chat.completions.create_partial(**asked()))
        is_place(pieces[-1])


def iterable(base):
    for place in client(base).chat.completions.create_iterable(**asked(max_tokens=300)):
        is_place(place)
        break


def asynchronous(base):
    async def one():
        api = instructor.from_openai(openai.AsyncOpenAI(base_url=base + "/v1", api_key=KEY, max_retries=0))
        return await api.chat.completions.create(**asked())
    is_place(asyncio.run(one()))


def errors(base):
    for kind, failing in ((openai.NotFoundError, lambda: client(base).chat.completions.create(**asked(model="x"))),
                          (openai.AuthenticationError, lambda: client(base, key="wrong").chat.completions.create(**asked()))):
        failure = must_fail(Exception, failing)
        causes = [failure, failure.__cause__, *(one.exception for one in getattr(failure, "failed_attempts", None) or [])]
        assert any(isinstance(cause, kind) for cause in causes), causes
    cut = must_fail(Exception, client(base).chat.completions.create, **asked(max_tokens=3))
    assert "incomplete" in str(cut).lower(), cut


CALLS = [modes, responses, with_completion, partial, iterable, asynchronous, errors]
