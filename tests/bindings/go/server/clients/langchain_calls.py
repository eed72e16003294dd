"""Calls of LangChain's models of OpenAI's interface."""
import asyncio
from typing import Literal

import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel

from calls import CITIES, KEY, QUESTION, TOOL, is_call, must_fail

PACKAGE = "langchain-openai"


class City(BaseModel):
    """A city."""
    city: Literal["Oslo", "Rome"]


def model(base, name="m", **settings):
    return ChatOpenAI(**{"model": name, "base_url": base + "/v1", "api_key": KEY, "temperature": 0, "max_tokens": 16,
                         "max_retries": 0, "timeout": 120, **settings})


def invoke(base):
    answer = model(base).invoke([SystemMessage("Be brief."), HumanMessage("Tell me of a king.")])
    assert answer.content and answer.usage_metadata["output_tokens"] <= 16, answer
    assert answer.response_metadata["finish_reason"] in ("stop", "length"), answer


def stream(base):
    whole = model(base).invoke("Tell me of a king.")
    pieces = list(model(base, stream_usage=True).stream("Tell me of a king."))
    assert "".join(piece.content for piece in pieces) == whole.content and len(pieces) > 3
    total = pieces[0]
    for piece in pieces[1:]:
        total += piece
    assert total.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"], total


def batch(base):
    assert len({answer.content for answer in model(base).batch(["Tell me of a king."] * 3)}) == 1


def asynchronous(base):
    async def both():
        api = model(base)
        return (await api.ainvoke("Tell me of a king.")).content, "".join(
            [piece.content async for piece in api.astream("Tell me of a king.")])
    assert len(set(asyncio.run(both()))) == 1


def tools(base):
    bound = model(base, "calls", max_tokens=100).bind_tools([TOOL], tool_choice="required", parallel_tool_calls=False)
    answer = bound.invoke(QUESTION)
    is_call(answer.tool_calls[0]["name"], answer.tool_calls[0]["args"])
    total = None
    for piece in bound.stream(QUESTION):
        total = piece if total is None else total + piece
    is_call(total.tool_calls[0]["name"], total.tool_calls[0]["args"])


def tool_results(base):
    call = {"name": "weather", "args": {"city": "Oslo"}, "id": "c1"}
    answer = model(base, "calls").bind_tools([TOOL], tool_choice="none").invoke([
        HumanMessage(QUESTION), AIMessage("", tool_calls=[call]), ToolMessage("3 degrees", tool_call_id="c1")])
    assert answer.content and not answer.tool_calls, answer


def structured_output(base):
    for method in ("json_schema", "function_calling"):
        api = model(base, "calls", max_tokens=100).with_structured_output(City, method=method)
        assert api.invoke(QUESTION).city in CITIES


def log_probabilities(base):
    answer = model(base, logprobs=True, top_logprobs=2).invoke("Tell me of a king.")
    entries = answer.response_metadata["logprobs"]["content"]
    assert len(entries) == answer.usage_metadata["output_tokens"] and len(entries[0]["top_logprobs"]) == 2, answer


def responses(base):
    """The same model over Responses."""
    api = model(base, use_responses_api=True)
    whole = api.invoke("Tell me of a king.")
    assert whole.text and "".join(piece.text for piece in api.stream("Tell me of a king.")) == whole.text, whole
    bound = model(base, "calls", use_responses_api=True, max_tokens=100).bind_tools([TOOL], tool_choice="weather")
    call = bound.invoke(QUESTION).tool_calls[0]
    is_call(call["name"], call["args"])
    chained = model(base, use_responses_api=True, use_previous_response_id=True)
    assert chained.invoke([HumanMessage("Tell me of a king."), whole, HumanMessage("And then?")]).text


def completion(base):
    api = OpenAI(model="m", base_url=base + "/v1", api_key=KEY, temperature=0, max_tokens=16, max_retries=0)
    whole = api.invoke("Once upon a time")
    assert whole and "".join(api.stream("Once upon a time")) == whole
    assert len(api.batch(["Once", "There was"])) == 2


def embeddings(base):
    """The client splits texts by OpenAI's tokenizer, unless it is told not to."""
    api = OpenAIEmbeddings(model="m", base_url=base + "/v1", api_key=KEY, check_embedding_ctx_length=False)
    vectors = api.embed_documents(["a king", "a queen"])
    assert len(vectors) == 2 and max(abs(x - y) for x, y in zip(api.embed_query("a king"), vectors[0])) < 1e-3


def errors(base):
    must_fail(openai.NotFoundError, model(base, "x").invoke, "a")
    must_fail(openai.AuthenticationError, model(base, api_key="wrong").invoke, "a")
    assert must_fail(openai.BadRequestError, model(base).invoke, "word " * 20000).code == "context_length_exceeded"
    must_fail(openai.APITimeoutError, model(base, timeout=0.02, max_tokens=1000).invoke, "a")


CALLS = [invoke, stream, batch, asynchronous, tools, tool_results, structured_output, log_probabilities, responses, completion,
         embeddings, errors]
