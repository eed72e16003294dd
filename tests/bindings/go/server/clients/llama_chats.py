"""What llama.cpp asserts of chats."""
import re

from llama_requests import MESSAGES, WEATHER, assertion, biased, chat, lacks_words, text_of


@assertion
def a_chat_has_its_figures(m, _):
    answer = chat(m)
    assert "cmpl" in answer["id"] and answer["system_fingerprint"] and answer["usage"]["completion_tokens"] == 8
    assert answer["usage"]["prompt_tokens"] > 10 and answer["choices"][0]["message"]["role"] == "assistant"
    assert answer["choices"][0]["finish_reason"] == "length" and text_of(answer)


@assertion
def content_may_be_parts(m, _):
    parts = [{"type": "text", "text": "What is"}, {"type": "text", "text": "the best book"}]
    assert text_of(chat(m, messages=[MESSAGES[0], {"role": "user", "content": parts}]))


@assertion
def a_streamed_chat_begins_with_its_role(m, _):
    first, *rest = m.events("/chat/completions", messages=MESSAGES, max_tokens=8, temperature=0)
    assert first["choices"][0]["delta"]["role"] == "assistant" and not first["choices"][0]["delta"].get("content")
    assert all("role" not in event["choices"][0]["delta"] and event["id"] == first["id"] and event["model"] == "m" for event in rest)
    assert "content" not in rest[-1]["choices"][0]["delta"] and rest[-1]["choices"][0]["finish_reason"] == "length"
    assert all(event["choices"][0]["finish_reason"] is None for event in rest[:-1])


@assertion
def the_prompt_of_a_chat_is_rendered(m, _):
    prompt = m.post("/apply-template", messages=MESSAGES)["prompt"]
    assert prompt.endswith("<|im_start|>user\nWhat is the best book<|im_end|>\n<|im_start|>assistant\n"), prompt


@assertion
def the_beginning_of_an_answer_may_be_left_out(m, _):
    assert "assistant" not in m.post("/apply-template", messages=MESSAGES, add_generation_prompt=False)["prompt"]


@assertion
def tools_are_in_the_prompt(m, _):
    assert "weather" in m.post("/apply-template", messages=MESSAGES, tools=[WEATHER])["prompt"]


@assertion
def the_beginning_of_an_answer_is_continued(m, _):
    for content in ("Whill", [{"type": "text", "text": "Wh"}, {"type": "text", "text": "ill"}]):
        prompt = m.post("/apply-template", messages=[*MESSAGES, {"role": "assistant", "content": content}])["prompt"]
        assert prompt.endswith("<|im_start|>assistant\nWhill"), prompt


@assertion
def json_of_a_schema_beside_json_object(m, _):
    assert text_of(chat(m, response_format={"type": "json_object", "schema": {"const": "42"}})) == '"42"'
    listed = chat(m, max_tokens=40, response_format={"type": "json_object", "schema": {
        "type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 1}})
    assert re.match(r"\[\s*-?\d+", text_of(listed)), listed


@assertion
def json_of_a_schema(m, _):
    form = {"type": "json_schema", "json_schema": {"schema": {"const": "foooooo"}}}
    assert text_of(chat(m, max_tokens=20, response_format=form)) == '"foooooo"'


@assertion
def json_of_any_object(m, _):
    assert text_of(chat(m, response_format={"type": "json_object"})).lstrip().startswith("{")


@assertion
def invalid_formats_are_refused(m, _):
    for form in ({"type": "sound"}, {"type": "json_object", "schema": 123}, {"type": "json_object", "schema": {"type": 123}},
                 {"type": "json_object", "schema": {"type": "hiccup"}}):
        assert m.refused("/chat/completions", messages=MESSAGES, response_format=form)["message"]


@assertion
def a_schema_may_be_a_field(m, _):
    assert text_of(chat(m, json_schema={"const": "42"})) == '"42"'


@assertion
def a_grammar_is_obeyed(m, _):
    assert text_of(chat(m, grammar='root ::= "a"{5,5}')) == "aaaaa"


@assertion
def invalid_messages_are_refused(m, _):
    for messages in (None, "string", [123], [{}], [{"role": 123}], [{"role": "system", "content": 123}],
                     [{"role": "system", "content": "test"}, {}]):
        assert m.refused("/chat/completions", messages=messages, max_tokens=2)["message"]


@assertion
def the_last_event_of_a_chat_has_timings(m, _):
    first, *_, last = m.events("/chat/completions", messages=MESSAGES, max_tokens=10, timings_per_token=True,
                               stream_options={"include_usage": True})
    assert "timings" not in first and last["choices"] == [] and 0 < last["timings"]["predicted_n"] <= 10, last
    assert "prompt_per_second" in last["timings"] and "predicted_per_second" in last["timings"]


def check_logprobs(entries):
    for entry in entries:
        assert entry["logprob"] <= 0 and entry["bytes"] is not None and len(entry["top_logprobs"]) == 10, entry


@assertion
def log_probabilities(m, _):
    answer = chat(m, max_tokens=5, logprobs=True, top_logprobs=10)
    entries = answer["choices"][0]["logprobs"]["content"]
    check_logprobs(entries)
    assert "".join(entry["token"] for entry in entries) == text_of(answer)


@assertion
def log_probabilities_of_a_stream(m, _):
    text, tokens = "", ""
    for event in m.events("/chat/completions", messages=MESSAGES, max_tokens=5, temperature=0, logprobs=True, top_logprobs=10):
        choice = event["choices"][0]
        text += choice["delta"].get("content") or ""
        if choice["delta"].get("content"):
            check_logprobs(choice["logprobs"]["content"])
            tokens += "".join(entry["token"] for entry in choice["logprobs"]["content"])
    assert text == tokens and text


@assertion
def biases_of_a_chat(m, _):
    lacks_words(text_of(chat(m, max_tokens=48, logit_bias={token: -100 for token in biased(m)})))


@assertion
def a_long_chat_is_refused(m, _):
    for stream in (False, True):
        assert m.refused("/chat/completions", messages=MESSAGES * 300, stream=stream)["code"] == "context_length_exceeded"


@assertion
def the_error_type_of_a_long_prompt(m, _):
    error = m.refused("/chat/completions", messages=MESSAGES * 300)
    assert error["type"] == "exceed_context_size_error" and error["n_prompt_tokens"] > error["n_ctx"] > 0, error


@assertion
def progress_of_the_prompt(m, _):
    events = m.events("/chat/completions", messages=MESSAGES, max_tokens=4, return_progress=True)
    assert any("prompt_progress" in event for event in events)


@assertion
def several_answers(m, _):
    choices = chat(m, n=2)["choices"]
    assert len(choices) == 2 and all(choice["finish_reason"] == "length" and choice["message"]["role"] == "assistant" for choice in choices)


def check_call(call):
    assert call["function"]["name"] == "weather" and re.search('"(Oslo|Rome)"', call["function"]["arguments"]), call


@assertion
def a_required_tool_is_called(m, _):
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        answer = chat(m, max_tokens=300, tools=[WEATHER], tool_choice=choice, parallel_tool_calls=False)["choices"][0]
        assert answer["finish_reason"] == "tool_calls" and len(answer["message"]["tool_calls"]) == 1 and not answer["message"]["content"]
        check_call(answer["message"]["tool_calls"][0])


@assertion
def a_required_tool_is_called_in_a_stream(m, _):
    whole = {"function": {"name": "", "arguments": ""}}
    for event in m.events("/chat/completions", messages=MESSAGES, max_tokens=300, temperature=0, tools=[WEATHER],
                          tool_choice="required", parallel_tool_calls=False):
        for call in event["choices"][0]["delta"].get("tool_calls") or []:
            for name in whole["function"]:
                whole["function"][name] += call["function"].get(name) or ""
    check_call(whole)


@assertion
def no_tool_is_called_without_tools_or_by_choice(m, _):
    for more in ({}, {"tools": []}, {"tools": [WEATHER], "tool_choice": "none"}):
        assert not chat(m, **more)["choices"][0]["message"].get("tool_calls")
