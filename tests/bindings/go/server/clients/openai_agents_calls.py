"""Calls of OpenAI's agents SDK, over chat completions and over Responses."""
import asyncio
from typing import Literal

import agents
import openai
from pydantic import BaseModel

from calls import CITIES, KEY, QUESTION, must_fail

PACKAGE = "openai-agents"
KING = "Tell me of a king."
# The client raises an exception if a response is cut off by its length. No call has the texts of the second.
END = {"stop": [",", ".", "\n"]}
END_WITH_CALLS = {"stop": [" and", " the", " of", " to"]}
MODELS = (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel)


class City(BaseModel):
    city: Literal["Oslo", "Rome"]


def agent(base, name="m", model=MODELS[0], key=KEY, **settings):
    api = openai.AsyncOpenAI(base_url=base + "/v1", api_key=key, max_retries=0, timeout=120)
    chosen = agents.ModelSettings(**{"temperature": 0, "max_tokens": 200, "extra_body": END, **settings.pop("model_settings", {})})
    return agents.Agent(name="story", model=model(name, openai_client=api), model_settings=chosen, **settings)


def text(base):
    for model in MODELS:
        result = agents.Runner.run_sync(agent(base, model=model, instructions="Be brief."), KING)
        assert result.final_output and result.context_wrapper.usage.output_tokens <= 200, result


def streamed(base):
    async def deltas(one):
        result = agents.Runner.run_streamed(one, KING)
        pieces = [event.data.delta async for event in result.stream_events()
                  if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"]
        return "".join(pieces), result.final_output
    for model in MODELS:
        pieces, final = asyncio.run(deltas(agent(base, model=model)))
        assert pieces == final != "", (pieces, final)


def tools(base):
    """The model must call the tool first. It is then free, and answers with a text."""
    called = []

    @agents.function_tool
    def weather(city: Literal["Oslo", "Rome"]) -> str:
        """Returns the weather of a city."""
        called.append(city)
        return "3 degrees"
    settings = {"tool_choice": "required", "parallel_tool_calls": False, "extra_body": END_WITH_CALLS}
    for model in MODELS:
        result = agents.Runner.run_sync(agent(base, "calls", model, tools=[weather], model_settings=settings), QUESTION)
        assert result.final_output is not None and called[-1] in CITIES, result
    assert len(called) == 2, called


def handoff(base):
    second = agent(base)
    settings = {"tool_choice": "required", "parallel_tool_calls": False, "extra_body": END_WITH_CALLS}
    for model in MODELS:
        result = agents.Runner.run_sync(agent(base, "calls", model, handoffs=[second], model_settings=settings), QUESTION)
        assert result.last_agent is second and result.final_output, result


def output_by_schema(base):
    for model in MODELS:
        one = agent(base, model=model, output_type=City, model_settings={"extra_body": {}})
        assert agents.Runner.run_sync(one, QUESTION).final_output.city in CITIES


def sessions(base):
    async def turns(session, one):
        first = await agents.Runner.run(one, KING, session=session)
        second = await agents.Runner.run(one, "And then?", session=session)
        assert len(await session.get_items()) == 4
        return first.context_wrapper.usage.input_tokens < second.context_wrapper.usage.input_tokens
    for model in MODELS:
        assert asyncio.run(turns(agents.SQLiteSession("one"), agent(base, model=model)))
    api = openai.AsyncOpenAI(base_url=base + "/v1", api_key=KEY, max_retries=0)
    assert asyncio.run(turns(agents.OpenAIConversationsSession(openai_client=api), agent(base, model=MODELS[1])))


def previous_response(base):
    one = agent(base, model=MODELS[1])
    first = agents.Runner.run_sync(one, KING)
    second = agents.Runner.run_sync(one, "And then?", previous_response_id=first.last_response_id)
    assert second.context_wrapper.usage.input_tokens > first.context_wrapper.usage.input_tokens, second


def errors(base):
    for model in MODELS:
        must_fail(openai.NotFoundError, agents.Runner.run_sync, agent(base, "x", model), KING)
        must_fail(openai.AuthenticationError, agents.Runner.run_sync, agent(base, model=model, key="wrong"), KING)
        must_fail(openai.BadRequestError, agents.Runner.run_sync, agent(base, model=model), "word " * 20000)
    web = agent(base, model=MODELS[1], tools=[agents.WebSearchTool()])
    must_fail(openai.BadRequestError, agents.Runner.run_sync, web, KING)


CALLS = [text, streamed, tools, handoff, output_by_schema, sessions, previous_response, errors]
