"""Calls of litellm, over its providers of OpenAI's, vLLM's, Anthropic's and ollama's interfaces."""
import asyncio
from typing import Literal

import litellm
from pydantic import BaseModel

from calls import CITIES, FEW, KEY, QUESTION, TOOL, is_call, is_city, must_fail, user

PACKAGE = "litellm"


class City(BaseModel):
    city: Literal["Oslo", "Rome"]


def asked(base, provider="openai", name="m", **fields):
    root = {"openai": "/v1", "hosted_vllm": "/v1"}.get(provider, "")
    return {"model": f"{provider}/{name}", "api_base": base + root, "api_key": KEY, "messages": user("Tell me of a king."),
            "temperature": 0, "max_tokens": 16, "num_retries": 0, "timeout": 120, **fields}


def called(base, provider="openai", **fields):
    return asked(base, provider, "calls", messages=user(QUESTION), tools=[TOOL], max_tokens=100, **fields)


def completion(base):
    texts = set()
    for provider in ("openai", "hosted_vllm", "anthropic"):
        answer = litellm.completion(**asked(base, provider))
        assert answer.usage.completion_tokens <= 16 and answer.choices[0].finish_reason in ("stop", "length"), answer
        texts.add(answer.choices[0].message.content)
    assert len(texts) == 1, texts


def streamed(base):
    for provider in ("openai", "hosted_vllm", "anthropic", "ollama_chat"):
        pieces = list(litellm.completion(**asked(base, provider, stream=True, stream_options={"include_usage": True})))
        text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        assert text == litellm.completion(**asked(base, provider)).choices[0].message.content, (provider, text)


def asynchronous(base):
    async def both():
        stream = await litellm.acompletion(**asked(base, stream=True))
        return (await litellm.acompletion(**asked(base))).choices[0].message.content, "".join(
            [piece.choices[0].delta.content or "" async for piece in stream])
    assert len(set(asyncio.run(both()))) == 1


def tools(base):
    for provider in ("openai", "hosted_vllm", "anthropic"):
        answer = litellm.completion(**called(base, provider, tool_choice="required", parallel_tool_calls=False))
        call = answer.choices[0].message.tool_calls[0]
        is_call(call.function.name, call.function.arguments)


def tools_streamed(base):
    for provider in ("openai", "anthropic"):
        pieces = list(litellm.completion(**called(base, provider, tool_choice="required", parallel_tool_calls=False,
                                                  stream=True)))
        call = litellm.stream_chunk_builder(pieces).choices[0].message.tool_calls[0]
        is_call(call.function.name, call.function.arguments)


def schemas(base):
    for provider in ("openai", "hosted_vllm", "anthropic", "ollama_chat"):
        answer = litellm.completion(**asked(base, provider, response_format=City, max_tokens=100))
        is_city(answer.choices[0].message.content)


def text_completion(base):
    fields = asked(base, prompt="Once upon a time")
    del fields["messages"]
    fields["model"] = "text-completion-openai/m"
    answer = litellm.text_completion(**fields, logprobs=1)
    assert answer.choices[0].text and answer.choices[0].logprobs, answer


def embedding(base):
    answer = litellm.embedding(model="openai/m", api_base=base + "/v1", api_key=KEY, input=["a king", "a queen"])
    assert len(answer.data) == 2 and len(answer.data[0]["embedding"]) > 8, answer


def rerank(base):
    texts = ["The king lived in a castle.", "Bread is made of flour."]
    for provider, address in (("cohere", "/v2/rerank"), ("jina_ai", "/v1/rerank"), ("hosted_vllm", "/v1/rerank")):
        answer = litellm.rerank(model=f"{provider}/m", api_base=base + address, api_key=KEY, query="castle of a king",
                                documents=texts, top_n=2)
        assert [result["index"] for result in answer.results] == [0, 1], (provider, answer)


def responses(base):
    fields = {"model": "openai/m", "api_base": base + "/v1", "api_key": KEY, "input": "Tell me of a king.",
              "max_output_tokens": 16, "temperature": 0}
    whole = litellm.responses(**fields)
    events = list(litellm.responses(**fields, stream=True))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == whole.output[0].content[0].text != "", (text, whole)


def log_probabilities(base):
    answer = litellm.completion(**asked(base, logprobs=True, top_logprobs=2))
    assert len(answer.choices[0].logprobs["content"][0]["top_logprobs"]) == 2, answer


def errors(base):
    must_fail(litellm.NotFoundError, litellm.completion, **asked(base, name="x"))
    must_fail(litellm.AuthenticationError, litellm.completion, **asked(base, api_key="wrong"))
    must_fail(litellm.BadRequestError, litellm.completion, **asked(base, top_p=2))
    must_fail(litellm.ContextWindowExceededError, litellm.completion, **asked(base, messages=user("word " * 20000)))
    must_fail(litellm.Timeout, litellm.completion, **asked(base, timeout=0.02, max_tokens=1000))
    litellm.completion(**asked(base, api_key=FEW, max_tokens=1))
    must_fail(litellm.RateLimitError, litellm.completion, **asked(base, api_key=FEW, max_tokens=1))


def count_of_cities(base):
    """Asks for one of a list, as vLLM's users do."""
    answer = litellm.completion(**asked(base, "hosted_vllm", extra_body={"guided_choice": list(CITIES)}))
    assert answer.choices[0].message.content in CITIES, answer


CALLS = [completion, streamed, asynchronous, tools, tools_streamed, schemas, text_completion, embedding, rerank, responses,
         log_probabilities, errors, count_of_cities]
