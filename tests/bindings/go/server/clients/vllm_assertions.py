#!/usr/bin/env python3
"""Checks what vLLM's server tests assert of text models (tests/entrypoints/openai and serve, November 2026), in our words.

usage: vllm_assertions.py SERVER MODEL_DIR. An assertion is one test of theirs. Left out are tests of images, audio, adapters,
prompt embeddings, their command line, and of endpoints for training."""
import json
import re
import sys

import peers

MESSAGES = [{"role": "system", "content": "you are a helpful assistant"}, {"role": "user", "content": "what is 1+1?"}]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "maximum": 99}},
          "required": ["name", "age"], "additionalProperties": False}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"], "additionalProperties": False}}}
IDS = [0, 300, 301, 302, 303]
ASSERTIONS = []

MISSES = {
    "usage_is_in_every_event": "continuous_usage_stats is refused: a client counts the events, and the last one has the usage",
    "options_of_streams_need_a_stream": "stream_options without a stream change nothing, so they are passed over",
    "bodies_of_another_type_are_refused": "curl sends this type unless it is told otherwise; pages of others are refused by origin",
    "a_chat_is_echoed": "echo of a chat is refused; the client has the messages",
}


def assertion(function):
    ASSERTIONS.append(function)
    return function


def complete(m, **more):
    return m.post("/v1/completions", **{"model": "m", "prompt": "Hello, my name is", "max_tokens": 5, "temperature": 0, **more})


def chat(m, **more):
    return m.post("/v1/chat/completions", **{"model": "m", "messages": MESSAGES, "max_completion_tokens": 5, "temperature": 0, **more})


def text_of(answer):
    return answer["choices"][0]["message"]["content"]


# Completions.

@assertion
def a_completion_has_its_usage(m):
    answer = complete(m)
    choice, usage = answer["choices"][0], answer["usage"]
    assert answer["id"] and len(answer["choices"]) == 1 and len(choice["text"]) >= 5 and choice["finish_reason"] == "length"
    assert usage["completion_tokens"] == 5 and usage["prompt_tokens"] + 5 == usage["total_tokens"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= 0
    ids = complete(m, prompt=IDS)["choices"][0]
    assert ids["text"] and ids.get("prompt_logprobs") is None


@assertion
def prompts_are_cut_at_the_wanted_side(m):
    for side, kept in (("right", IDS[:3]), ("left", IDS[-3:])):
        answer = complete(m, prompt=IDS, return_token_ids=True, truncate_prompt_tokens=3, truncation_side=side)
        assert answer["choices"][0]["prompt_token_ids"] == kept, answer


@assertion
def no_log_probabilities(m):
    assert complete(m, prompt=IDS, logprobs=None)["choices"][0]["logprobs"] is None


@assertion
def log_probabilities_without_alternatives(m):
    found = complete(m, prompt=IDS, logprobs=0)["choices"][0]["logprobs"]
    assert len(found["token_logprobs"]) == 5 and len(found["top_logprobs"][0]) <= 1


@assertion
def log_probabilities_with_alternatives(m):
    found = complete(m, prompt=IDS, logprobs=5)["choices"][0]["logprobs"]
    assert all(5 <= len(each) <= 6 for each in found["top_logprobs"])


@assertion
def too_many_alternatives_are_refused(m):
    m.refused("/v1/completions", model="m", prompt=IDS, logprobs=21)
    m.refused("/v1/completions", model="m", prompt=IDS, logprobs=30, stream=True)
    complete(m)


@assertion
def log_probabilities_of_prompts(m):
    for num in (0, 1):
        choices = complete(m, prompt=["A robot may not", "My name is"], prompt_logprobs=num)["choices"]
        assert all(len(choice["prompt_logprobs"]) > 2 for choice in choices)
    assert complete(m)["choices"][0].get("prompt_logprobs") is None
    m.refused("/v1/completions", model="m", prompt="a", prompt_logprobs=-1)


@assertion
def a_streamed_completion_equals_a_whole_one(m):
    choices = [event["choices"][0] for event in m.events("/v1/completions", model="m", prompt="Hello, my name is", max_tokens=5, temperature=0)]
    assert "".join(choice["text"] for choice in choices) == complete(m)["choices"][0]["text"]
    assert [choice["finish_reason"] for choice in choices][-1] == "length" and sum(choice["finish_reason"] is not None for choice in choices) == 1


@assertion
def several_answers_differ(m):
    choices = complete(m, n=3, temperature=1.0, max_tokens=24, seed=42, logprobs=0)["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2] and len({choice["text"] for choice in choices}) == 3


@assertion
def several_answers_are_streamed(m):
    texts, ends = ["", "", ""], 0
    for event in m.events("/v1/completions", model="m", prompt="Hello", n=3, temperature=1.0, max_tokens=24, seed=42):
        texts[event["choices"][0]["index"]] += event["choices"][0]["text"]
        ends += event["choices"][0]["finish_reason"] is not None
    assert ends == 3 and len(set(texts)) == 3


def check_usage(events):
    *pieces, last = events
    assert all(event.get("usage") is None for event in pieces) and last["choices"] == []
    assert last["usage"]["total_tokens"] == last["usage"]["prompt_tokens"] + last["usage"]["completion_tokens"] > 5


@assertion
def usage_of_a_stream_is_in_its_last_event(m):
    body = {"model": "m", "prompt": "Hello, my name is", "max_tokens": 5}
    for options in ({"include_usage": False}, {}):
        assert all(event.get("usage") is None for event in m.events("/v1/completions", **body, stream_options=options))
    check_usage(m.events("/v1/completions", **body, stream_options={"include_usage": True}))
    check_usage(m.events("/v1/chat/completions", model="m", messages=MESSAGES, max_tokens=5, stream_options={"include_usage": True}))


@assertion
def usage_is_in_every_event(m):
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = m.events("/v1/completions", model="m", prompt="Hello", max_tokens=5, stream_options=options)
    assert all(event["usage"]["total_tokens"] > 0 for event in events)


@assertion
def options_of_streams_need_a_stream(m):
    m.refused("/v1/completions", model="m", prompt="Hello", max_tokens=5, stream_options={"include_usage": True})


@assertion
def prompts_come_in_batches(m):
    choices = complete(m, prompt=["Hello, my name is", "Hello, my name is"])["choices"]
    assert len(choices) == 2 and choices[0]["text"] == choices[1]["text"]
    assert len(complete(m, prompt=["a", "b"], n=2, temperature=1)["choices"]) == 4
    texts = ["", ""]
    for event in m.events("/v1/completions", model="m", prompt=["Hello, my name is"] * 2, max_tokens=5, temperature=0):
        texts[event["choices"][0]["index"]] += event["choices"][0]["text"]
    assert texts[0] == texts[1] == choices[0]["text"]


@assertion
def a_prompt_is_echoed_with_its_log_probabilities(m):
    choice = complete(m, echo=True, logprobs=1)["choices"][0]
    assert choice["text"].startswith("Hello, my name is")
    lists = choice["logprobs"]
    assert lists["token_logprobs"][0] is None and lists["top_logprobs"][0] is None
    assert len(lists["tokens"]) == len(lists["text_offset"]) == len(lists["top_logprobs"]) > 10


@assertion
def biases_choose_and_ban_tokens(m):
    assert complete(m, logit_bias={"300": 100}, return_token_ids=True)["choices"][0]["token_ids"] == [300] * 5
    banned = complete(m, return_token_ids=True)["choices"][0]["token_ids"]
    after = complete(m, return_token_ids=True, logit_bias={str(token): -100 for token in banned})["choices"][0]["token_ids"]
    assert not set(banned) & set(after)


@assertion
def only_allowed_tokens_are_drawn(m):
    assert set(complete(m, allowed_token_ids=[300, 301], return_token_ids=True)["choices"][0]["token_ids"]) <= {300, 301}


@assertion
def structured_completions(m):
    whole = complete(m, max_tokens=100, structured_outputs={"json": SCHEMA})["choices"][0]["text"]
    assert set(json.loads(whole)) == {"name", "age"}
    assert re.fullmatch(r"(\d{1,3}\.){3}\d{1,3}", complete(m, max_tokens=40, structured_outputs={"regex": r"(\d{1,3}\.){3}\d{1,3}"})["choices"][0]["text"])
    assert complete(m, max_tokens=20, structured_outputs={"choice": ["Python", "Rust"]})["choices"][0]["text"] in ("Python", "Rust")
    assert complete(m, max_tokens=20, structured_outputs={"grammar": 'root ::= "SELECT " ("a" | "b")'})["choices"][0]["text"] in ("SELECT a", "SELECT b")


@assertion
def two_constraints_are_refused(m):
    m.refused("/v1/completions", model="m", prompt="a", structured_outputs={"json": SCHEMA, "regex": "a"})
    m.refused("/v1/chat/completions", model="m", messages=MESSAGES, structured_outputs={"json": SCHEMA, "choice": ["a"]})


@assertion
def ids_of_tokens_are_returned(m):
    choice = complete(m, prompt="I love coding 🚀", return_token_ids=True)["choices"][0]
    assert m.post("/detokenize", model="m", tokens=choice["prompt_token_ids"])["prompt"].endswith("I love coding 🚀")
    assert m.post("/detokenize", model="m", tokens=choice["token_ids"])["prompt"] == choice["text"]
    without = complete(m)["choices"][0]
    assert without.get("token_ids") is None and without.get("prompt_token_ids") is None


@assertion
def ids_of_tokens_agree_with_log_probabilities(m):
    choice = complete(m, echo=True, logprobs=1, prompt_logprobs=1, return_token_ids=True, return_tokens_as_token_ids=True)["choices"][0]
    names = [int(name.removeprefix("token_id:")) for name in choice["logprobs"]["tokens"]]
    assert names == choice["prompt_token_ids"] + choice["token_ids"] and choice["prompt_logprobs"]


@assertion
def ids_of_tokens_are_streamed(m):
    first, *rest = m.events("/v1/chat/completions", model="m", messages=MESSAGES, max_tokens=8, temperature=0, return_token_ids=True)
    assert "helpful assistant" in m.post("/detokenize", model="m", tokens=first["prompt_token_ids"])["prompt"]
    assert all("prompt_token_ids" not in event for event in rest)
    ids = [token for event in rest for token in event["choices"][0].get("token_ids") or []]
    text = "".join(event["choices"][0]["delta"].get("content") or "" for event in rest)
    assert m.post("/detokenize", model="m", tokens=ids)["prompt"] == text


# Chats.

@assertion
def log_probabilities_of_chats(m):
    assert chat(m, logprobs=False)["choices"][0]["logprobs"] is None
    for num in (0, 5):
        entries = chat(m, logprobs=True, top_logprobs=num)["choices"][0]["logprobs"]["content"]
        assert all(len(entry["top_logprobs"]) == num for entry in entries) and len(entries) == 5


@assertion
def too_many_alternatives_of_chats_are_refused(m):
    for num, stream in ((21, True), (30, False)):
        m.refused("/v1/chat/completions", model="m", messages=MESSAGES, logprobs=True, top_logprobs=num, stream=stream)


@assertion
def log_probabilities_of_the_prompt_of_a_chat(m):
    assert chat(m).get("prompt_logprobs") is None
    for num in (1, 2):
        entries = chat(m, prompt_logprobs=num)["prompt_logprobs"]
        assert num <= len(entries[3]) <= num + 1 and len(entries) > 10
    m.refused("/v1/chat/completions", model="m", messages=MESSAGES, prompt_logprobs=-1)


@assertion
def a_chat_has_several_turns(m):
    answer = chat(m)
    assert answer["choices"][0]["finish_reason"] == "length" and answer["usage"]["completion_tokens"] == 5
    more = [*MESSAGES, {"role": "assistant", "content": text_of(answer)}, {"role": "user", "content": "express your result in json"}]
    assert chat(m, messages=more)["usage"]["prompt_tokens"] > answer["usage"]["prompt_tokens"]


@assertion
def a_streamed_chat_equals_a_whole_one(m):
    choices = [event["choices"][0] for event in m.events("/v1/chat/completions", model="m", messages=MESSAGES, max_completion_tokens=5, temperature=0)]
    assert "".join(choice["delta"].get("content") or "" for choice in choices) == text_of(chat(m))
    assert sum(choice["finish_reason"] is not None for choice in choices) == 1 and choices[-1]["finish_reason"] == "length"


@assertion
def structured_chats(m):
    assert set(json.loads(text_of(chat(m, max_completion_tokens=100, structured_outputs={"json": SCHEMA})))) == {"name", "age"}
    assert re.fullmatch(r"\d{3}-\d{2}", text_of(chat(m, max_completion_tokens=20, structured_outputs={"regex": r"\d{3}-\d{2}"})))
    assert text_of(chat(m, max_completion_tokens=20, structured_outputs={"choice": ["Python", "Rust"]})) in ("Python", "Rust")


@assertion
def a_choice_has_log_probabilities(m):
    answer = chat(m, max_completion_tokens=20, structured_outputs={"choice": ["Python", "Rust"]}, logprobs=True, top_logprobs=5)["choices"][0]
    entries = answer["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries).startswith(answer["message"]["content"])
    assert all(entry["logprob"] >= -9999.0 for entry in entries)


@assertion
def formats_of_answers(m):
    for form, kind in (({"type": "json_object"}, dict), ({"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA}}, dict)):
        answer = chat(m, max_completion_tokens=150, response_format=form)
        if answer["choices"][0]["finish_reason"] == "stop" or form["type"] == "json_schema":
            assert isinstance(json.loads(text_of(answer)), kind)
    m.refused("/v1/chat/completions", model="m", messages=MESSAGES, response_format={"type": "json_schema"})


@assertion
def unknown_parts_of_messages_are_refused(m):
    for content in ([{"type": "magic", "magic": 1}], [{"text": 7, "type": "text"}], 7, {"a": 1}):
        m.refused("/v1/chat/completions", model="m", max_tokens=2, messages=[{"role": "user", "content": content}])
    m.refused("/v1/chat/completions", model="m", max_tokens=2, messages=[{"content": "no role"}])


@assertion
def the_last_message_is_continued(m):
    messages = [{"role": "user", "content": "tell me a saying"}, {"role": "assistant", "content": "An apple a day, keeps"}]
    answer = chat(m, messages=messages, continue_final_message=True, add_generation_prompt=False)
    assert "An apple" not in text_of(answer) and answer["choices"][0]["message"]["role"] == "assistant"
    m.refused("/v1/chat/completions", model="m", messages=messages, continue_final_message=True, add_generation_prompt=True)


@assertion
def a_chat_is_echoed(m):
    messages = [{"role": "user", "content": "tell me a saying"}, {"role": "assistant", "content": "An apple a day, keeps"}]
    assert "An apple" in text_of(chat(m, messages=messages, echo=True, continue_final_message=True, add_generation_prompt=False))


@assertion
def biases_of_invalid_tokens_are_refused(m):
    for token in ("100000000", "-1", "x"):
        m.refused("/v1/chat/completions", model="m", messages=MESSAGES, max_tokens=2, logit_bias={token: 1.0})
    chat(m, logit_bias={"1": 1.0})


@assertion
def stop_tokens_end_an_answer_and_are_checked(m):
    ids = complete(m, return_token_ids=True)["choices"][0]["token_ids"]
    answer = complete(m, stop_token_ids=[ids[2]])["choices"][0]
    assert answer["finish_reason"] == "stop" and len(answer["text"]) < len(complete(m)["choices"][0]["text"])
    m.refused("/v1/chat/completions", model="m", messages=MESSAGES, max_tokens=2, stop_token_ids=[100000000])


@assertion
def tools_are_called(m):
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        answer = chat(m, max_completion_tokens=300, tools=[WEATHER], tool_choice=choice, parallel_tool_calls=False)["choices"][0]
        call = answer["message"]["tool_calls"][0]
        assert json.loads(call["function"]["arguments"])["city"] in ("Oslo", "Rome") and call["id"] and call["type"] == "function"


@assertion
def choices_of_tools_are_checked(m):
    m.refused("/v1/chat/completions", model="m", messages=MESSAGES, tool_choice={"type": "function", "function": {"name": "weather"}})
    m.refused("/v1/chat/completions", model="m", messages=MESSAGES, tools=[WEATHER], tool_choice={"type": "function", "function": {"name": "no"}})
    m.refused("/v1/chat/completions", model="m", messages=MESSAGES, tools=[WEATHER], tool_choice={})


@assertion
def the_least_number_of_tokens(m):
    assert chat(m, max_completion_tokens=10, min_tokens=10)["usage"]["completion_tokens"] == 10
    m.refused("/v1/completions", model="m", prompt="a", min_tokens=8, max_tokens=4)


# The server.

@assertion
def the_model_may_be_left_out(m):
    assert m.post("/v1/completions", prompt="Hello", max_tokens=2)["model"] == "m"


@assertion
def models_have_their_length(m):
    (model,) = m.get("/v1/models").body["data"]
    assert model["id"] == "m" and model["object"] == "model" and model["max_model_len"] > 100
    m.refused("/v1/completions", 404, model="absent", prompt="a")


@assertion
def the_server_has_a_version_and_its_health(m):
    assert m.get("/health").status == 200
    assert m.get("/version").body["version"]


@assertion
def clients_that_leave_free_the_server(m):
    for _ in range(20):
        try:
            m.send("POST", "/v1/chat/completions", {"model": "m", "messages": MESSAGES, "max_tokens": 400, "min_tokens": 400}, timeout=0.05)
        except TimeoutError:
            pass
    assert len(chat(m)["choices"]) == 1


@assertion
def bodies_of_another_type_are_refused(m):
    answer = m.send("POST", "/v1/chat/completions", {"model": "m", "messages": MESSAGES, "max_tokens": 2},
                    {"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.status in (400, 415), answer.status


@assertion
def bodies_that_are_no_objects_are_refused(m):
    for body in ([], "text", 7, None):
        assert m.send("POST", "/v1/chat/completions", body).status == 400


@assertion
def the_load_of_the_server(m):
    assert m.get("/load").body["server_load"] == 0


@assertion
def requests_have_ids(m):
    answer = m.send("POST", "/v1/completions", {"model": "m", "prompt": "a", "max_tokens": 1}, {"X-Request-Id": "mine"})
    assert answer.headers["x-request-id"] == "mine"


@assertion
def texts_and_chats_are_tokenized(m):
    for special in (True, False):
        answer = m.post("/tokenize", model="m", prompt="vllm1 This is a test", add_special_tokens=special)
        assert answer["count"] == len(answer["tokens"]) and (answer["tokens"][0] == 0) == special and answer["max_model_len"] > 100
    few = m.post("/tokenize", model="m", messages=MESSAGES, add_generation_prompt=False)["count"]
    assert few < m.post("/tokenize", model="m", messages=MESSAGES, add_generation_prompt=True)["count"]
    strings = m.post("/tokenize", model="m", prompt="vllm1 test", add_special_tokens=False, return_token_strs=True)["token_strs"]
    assert "".join(strings) == "vllm1 test"


@assertion
def embeddings(m):
    answer = m.post("/v1/embeddings", model="m", input=["The chef", IDS])
    assert [each["index"] for each in answer["data"]] == [0, 1] and len(answer["data"][0]["embedding"]) == len(answer["data"][1]["embedding"])
    assert answer["usage"]["completion_tokens"] == 0 if "completion_tokens" in answer["usage"] else answer["usage"]["total_tokens"] > 5


@assertion
def documents_are_ranked(m):
    answer = m.post("/v1/rerank", model="m", query="The king was old.", documents=["A cat.", "The king was old."], top_n=1)
    assert len(answer["results"]) == 1 and answer["results"][0]["index"] == 1


@assertion
def prompts_are_rendered(m):
    assert m.post("/v1/chat/completions/render", model="m", messages=MESSAGES)["token_ids"]
    assert m.post("/v1/completions/render", model="m", prompt="Hello")[0]["token_ids"]


def main():
    server, model = sys.argv[1:]
    with peers.started(server, model, {"context_tokens": 512}) as base:
        peers.check(ASSERTIONS, MISSES, peers.Peer(base))


main()
