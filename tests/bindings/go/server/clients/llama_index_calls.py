"""Calls of LlamaIndex's models of servers with OpenAI's interface."""
import asyncio
from typing import Literal

import openai
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

from calls import CITIES, KEY, QUESTION, is_call, must_fail

PACKAGE = "llama-index-llms-openai-like"
KING = [ChatMessage(role="user", content="Tell me of a king.")]


class City(BaseModel):
    """A city."""
    city: Literal["Oslo", "Rome"]


def weather(city: Literal["Oslo", "Rome"]) -> str:
    """Returns the weather of a city."""
    return f"3 degrees in {city}"


def model(base, name="m", **settings):
    return OpenAILike(**{"model": name, "api_base": base + "/v1", "api_key": KEY, "temperature": 0, "max_tokens": 16,
                         "max_retries": 0, "timeout": 120, "is_chat_model": True, "is_function_calling_model": True,
                         "context_window": 2048, **settings})


def chat(base):
    answer = model(base).chat([ChatMessage(role="system", content="Be brief."), *KING])
    assert answer.message.content and answer.raw.usage.completion_tokens <= 16, answer


def stream_chat(base):
    assert list(model(base).stream_chat(KING))[-1].message.content == model(base).chat(KING).message.content


def complete(base):
    api = model(base, is_chat_model=False)
    assert list(api.stream_complete("Once upon a time"))[-1].text == api.complete("Once upon a time").text != ""


def asynchronous(base):
    async def both():
        api = model(base)
        last = [piece async for piece in await api.astream_chat(KING)][-1]
        return (await api.achat(KING)).message.content, last.message.content
    assert len(set(asyncio.run(both()))) == 1


def tools(base):
    api = model(base, "calls", max_tokens=100)
    tool = FunctionTool.from_defaults(weather)
    answer = api.chat_with_tools([tool], user_msg=QUESTION, tool_required=True)
    call = api.get_tool_calls_from_response(answer)[0]
    is_call(call.tool_name, call.tool_kwargs)
    last = list(api.stream_chat_with_tools([tool], user_msg=QUESTION, tool_required=True))[-1]
    is_call(*[(one.tool_name, one.tool_kwargs) for one in api.get_tool_calls_from_response(last)][0])
    assert "3 degrees" in str(api.predict_and_call([tool], user_msg=QUESTION, tool_required=True))


def structured(base):
    prompt = PromptTemplate("{question}")
    for settings in ({"should_use_structured_outputs": True}, {}):
        api = model(base, "calls", max_tokens=100, **settings)
        assert api.structured_predict(City, prompt, question=QUESTION).city in CITIES


def log_probabilities(base):
    answer = model(base, logprobs=True, top_logprobs=2).chat(KING)
    assert answer.logprobs and answer.logprobs[0][0].logprob <= 0, answer


def embeddings(base):
    api = OpenAILikeEmbedding(model_name="m", api_base=base + "/v1", api_key=KEY, max_retries=0)
    vectors = api.get_text_embedding_batch(["a king", "a queen"])
    assert len(vectors) == 2 and max(abs(x - y) for x, y in zip(api.get_query_embedding("a king"), vectors[0])) < 1e-3


def errors(base):
    must_fail(openai.NotFoundError, model(base, "x").chat, KING)
    must_fail(openai.AuthenticationError, model(base, api_key="wrong").chat, KING)
    must_fail(openai.BadRequestError, model(base, additional_kwargs={"top_p": 2}).chat, KING)


CALLS = [chat, stream_chat, complete, asynchronous, tools, structured, log_probabilities, embeddings, errors]
