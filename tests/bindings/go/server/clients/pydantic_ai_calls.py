"""Calls of pydantic-ai: agents over chat completions and over Responses."""
import asyncio
from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent, Embedder, NativeOutput, ToolOutput
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from calls import CITIES, KEY, QUESTION, must_fail

PACKAGE = "pydantic-ai-slim"
KING = "Tell me of a king."


class City(BaseModel):
    """A city."""
    city: Literal["Oslo", "Rome"]


def agent(base, name="m", model=OpenAIChatModel, key=KEY, max_tokens=16, **settings):
    provider = OpenAIProvider(base_url=base + "/v1", api_key=key)
    return Agent(model(name, provider=provider), model_settings={"temperature": 0, "max_tokens": max_tokens, "timeout": 120},
                 **settings)


def text(base):
    for model in (OpenAIChatModel, OpenAIResponsesModel):
        result = agent(base, model=model, instructions="Be brief.").run_sync(KING)
        assert result.output and result.usage.output_tokens <= 16, result


def streamed(base):
    async def pieces(one):
        async with one.run_stream(KING) as result:
            return "".join([piece async for piece in result.stream_text(delta=True)])
    for model in (OpenAIChatModel, OpenAIResponsesModel):
        assert asyncio.run(pieces(agent(base, model=model))) == agent(base, model=model).run_sync(KING).output


def output_by_schema(base):
    for model in (OpenAIChatModel, OpenAIResponsesModel):
        one = agent(base, "calls", model, max_tokens=100, output_type=NativeOutput(City))
        assert one.run_sync(QUESTION).output.city in CITIES


def output_by_tool(base):
    for model in (OpenAIChatModel, OpenAIResponsesModel):
        one = agent(base, "calls", model, max_tokens=100, output_type=ToolOutput(City, name="answer"))
        assert one.run_sync(QUESTION).output.city in CITIES


def output_streamed(base):
    async def last(one):
        async with one.run_stream(QUESTION) as result:
            return [piece async for piece in result.stream_output()][-1]
    one = agent(base, "calls", max_tokens=100, output_type=NativeOutput(City))
    assert asyncio.run(last(one)).city in CITIES


def tool_results(base):
    """A history with a call and its result, and a tool that the model may call."""
    history = [ModelRequest(parts=[UserPromptPart(QUESTION)]),
               ModelResponse(parts=[ToolCallPart("weather", {"city": "Oslo"}, tool_call_id="c1")]),
               ModelRequest(parts=[ToolReturnPart("weather", "3 degrees", tool_call_id="c1")])]
    for model in (OpenAIChatModel, OpenAIResponsesModel):
        one = agent(base, "calls", model, max_tokens=100, output_type=NativeOutput(City))
        assert one.run_sync("And where?", message_history=history).output.city in CITIES


def conversation(base):
    one = agent(base)
    first = one.run_sync(KING)
    second = one.run_sync("And then?", message_history=first.all_messages())
    assert second.usage.input_tokens > first.usage.input_tokens, second


def embeddings(base):
    model = OpenAIEmbeddingModel("m", provider=OpenAIProvider(base_url=base + "/v1", api_key=KEY))
    vectors = Embedder(model).embed_documents_sync(["a king", "a queen"]).embeddings
    assert len(vectors) == 2 and len(vectors[0]) == len(vectors[1]) > 8


def errors(base):
    assert must_fail(ModelHTTPError, agent(base, "x").run_sync, KING).status_code == 404
    assert must_fail(ModelHTTPError, agent(base, key="wrong").run_sync, KING).status_code == 401
    assert must_fail(ModelHTTPError, agent(base).run_sync, "word " * 20000).status_code == 400


CALLS = [text, streamed, output_by_schema, output_by_tool, output_streamed, tool_results, conversation, embeddings, errors]
