"""What llama.cpp asserts of responses and of messages."""
import re

from llama_requests import MESSAGES, WEATHER, assertion


def respond(m, **more):
    return m.post("/responses", **{"model": "m", "input": MESSAGES, "max_output_tokens": 8, "temperature": 0, **more})


def output_of(answer):
    return next(item for item in answer["output"] if item["type"] == "message")


@assertion
def formats_of_responses(m, _):
    constant = {"type": "json_schema", "name": "test", "schema": {"const": "foooooo"}}
    assert output_of(respond(m, max_output_tokens=20, text={"format": constant}))["content"][0]["text"] == '"foooooo"'
    assert output_of(respond(m, text={"format": {"type": "json_object"}}))["content"][0]["text"].lstrip().startswith("{")
    respond(m, text={"format": {"type": "text"}})
    m.refused("/responses", model="m", input="a", text={"format": {"type": "json_schema", "name": "test"}})


@assertion
def a_response(m, _):
    answer = respond(m)
    assert answer["id"].startswith("resp_") and output_of(answer)["id"].startswith("msg_") and output_of(answer)["content"][0]["text"]


@assertion
def a_streamed_response_keeps_its_ids(m, _):
    events = m.events("/responses", model="m", input=MESSAGES, max_output_tokens=8, temperature=0)
    item = next(event["item"]["id"] for event in events if event["type"] == "response.output_item.added")
    assert item.startswith("msg_") and all(event["item_id"] == item for event in events if "item_id" in event)
    assert len({event["response"]["id"] for event in events if "response" in event}) == 1
    joined = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert joined == output_of(events[-1]["response"])["content"][0]["text"]


@assertion
def progress_of_the_prompt_of_a_response(m, _):
    assert any("prompt_progress" in event for event in m.events("/responses", model="m", input=MESSAGES, return_progress=True))


def message(m, **more):
    return m.post("/v1/messages", **{"model": "m", "max_tokens": 8, "messages": MESSAGES[1:], "temperature": 0, **more})


@assertion
def a_message(m, _):
    answer = message(m, system="Book")
    assert answer["type"] == "message" and answer["role"] == "assistant" and answer["stop_reason"] == "max_tokens", answer
    assert answer["content"][0]["type"] == "text" and answer["usage"]["output_tokens"] == 8 and answer["id"].startswith("msg_")


@assertion
def a_streamed_message(m, _):
    kinds = [event["type"] for event in m.events("/v1/messages", model="m", max_tokens=8, messages=MESSAGES[1:])]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop" and kinds.count("content_block_delta") > 1, kinds
    assert kinds.index("content_block_start") < kinds.index("content_block_delta") < kinds.index("content_block_stop")


@assertion
def stop_texts_of_messages(m, _):
    stop = message(m, max_tokens=32)["content"][0]["text"][8:11]
    answer = message(m, max_tokens=32, stop_sequences=[stop])
    assert answer["stop_reason"] == "stop_sequence" and answer["stop_sequence"] == stop and stop not in answer["content"][0]["text"]


@assertion
def tokens_of_messages_are_counted(m, _):
    few = m.post("/v1/messages/count_tokens", model="m", messages=MESSAGES[1:])["input_tokens"]
    assert 0 < few < m.post("/v1/messages/count_tokens", model="m", messages=MESSAGES[1:], system="Book")["input_tokens"]


@assertion
def a_tool_of_messages_is_called(m, _):
    tool = {"name": "weather", "input_schema": WEATHER["function"]["parameters"]}
    answer = message(m, max_tokens=300, tools=[tool], tool_choice={"type": "tool", "name": "weather", "disable_parallel_tool_use": True})
    assert answer["stop_reason"] == "tool_use" and answer["content"][-1]["input"]["city"] in ("Oslo", "Rome"), answer


@assertion
def results_of_tools_are_read(m, _):
    call = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "warm"}
    tool = {"name": "weather", "input_schema": WEATHER["function"]["parameters"]}
    assert message(m, tools=[tool], messages=[*MESSAGES[1:], {"role": "assistant", "content": [call]},
                                              {"role": "user", "content": [result]}])["usage"]["output_tokens"] > 0


@assertion
def instructions_of_messages_may_be_blocks(m, _):
    blocks = [{"type": "text", "text": "Bo"}, {"type": "text", "text": "ok"}]
    assert message(m, system=blocks)["usage"]["input_tokens"] > 0


@assertion
def content_of_messages_may_be_blocks(m, _):
    blocks = [{"type": "text", "text": "What is"}, {"type": "text", "text": " the best book"}]
    assert message(m, messages=[{"role": "user", "content": blocks}])["content"][0]["text"]


@assertion
def messages_have_several_turns(m, _):
    turns = [*MESSAGES[1:], {"role": "assistant", "content": "A long one."}, {"role": "user", "content": "Why?"}]
    assert message(m, messages=turns)["content"][0]["text"]


@assertion
def samplers_of_messages(m, _):
    assert message(m, temperature=0.5, top_p=0.9, top_k=20)["content"][0]["text"]
    assert message(m, temperature=0.5, top_p=0.9, top_k=20, metadata={"user_id": "u"})["usage"]["output_tokens"] <= 8


@assertion
def the_last_message_of_the_assistant_is_continued(m, _):
    answer = message(m, messages=[*MESSAGES[1:], {"role": "assistant", "content": "Once upon"}])
    assert answer["role"] == "assistant" and not answer["content"][0]["text"].startswith("Once upon")


@assertion
def tokens_of_tools_are_counted(m, _):
    tool = {"name": "weather", "input_schema": WEATHER["function"]["parameters"]}
    few = m.post("/v1/messages/count_tokens", model="m", messages=MESSAGES[1:])["input_tokens"]
    assert few < m.post("/v1/messages/count_tokens", model="m", messages=MESSAGES[1:], tools=[tool])["input_tokens"]


@assertion
def a_tool_of_messages_is_called_in_a_stream(m, _):
    tool = {"name": "weather", "input_schema": WEATHER["function"]["parameters"]}
    events = m.events("/v1/messages", model="m", max_tokens=300, messages=MESSAGES[1:], tools=[tool],
                      tool_choice={"type": "any", "disable_parallel_tool_use": True})
    assert any(event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use" for event in events)
    joined = "".join(event["delta"].get("partial_json", "") for event in events if event["type"] == "content_block_delta")
    assert re.search('"(Oslo|Rome)"', joined), joined


@assertion
def usage_of_a_streamed_message(m, _):
    events = m.events("/v1/messages", model="m", max_tokens=8, messages=MESSAGES[1:])
    last = next(event for event in events if event["type"] == "message_delta")
    assert events[0]["message"]["usage"]["input_tokens"] > 0 and last["usage"]["output_tokens"] > 0
    assert last["delta"]["stop_reason"] in ("max_tokens", "end_turn")


@assertion
def roles_of_messages_are_checked(m, _):
    m.refused("/v1/messages", model="m", max_tokens=8, messages=[{"role": "robot", "content": "a"}])
    m.refused("/v1/messages", model="m", max_tokens=8, messages="a")


@assertion
def a_message_without_its_limit_is_refused(m, _):
    m.refused("/v1/messages", model="m", messages=MESSAGES[1:])
    m.refused("/v1/messages", model="m", max_tokens=8)
