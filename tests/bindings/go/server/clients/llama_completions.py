"""What llama.cpp asserts of its server itself and of completions."""
import time

from llama_requests import PROMPT, WORDS, assertion, biased, complete, lacks_words


@assertion
def health(m, _):
    assert m.get("/health").status == 200


@assertion
def props_describe_the_model(m, _):
    props = m.get("/props").body
    assert props["total_slots"] == 4 and props["model_path"], props
    assert props["default_generation_settings"]["n_ctx"] > 0 and "params" in props["default_generation_settings"]


@assertion
def models_are_listed(m, _):
    assert [model["id"] for model in m.get("/models").body["data"]][0] in ("m", "king")


@assertion
def aliases_are_members_of_a_model(m, _):
    models = {model["id"]: model for model in m.get("/models").body["data"]}
    assert models["m"]["aliases"] == ["king"], models  # an alias is in the list too, so clients that choose from it find it


@assertion
def slots_are_listed(m, _):
    slots = m.get("/slots").body
    assert len(slots) == 4 and all(slot["n_ctx"] > 0 and "params" not in slot for slot in slots), slots


@assertion
def the_page_is_at_the_root(m, _):
    assert "<!doctype html>" in m.get("/").text.lower()


@assertion
def a_completion_has_its_figures(m, _):
    answer = complete(m)
    assert answer["timings"]["prompt_n"] + answer["timings"]["cache_n"] == answer["tokens_evaluated"] > 5, answer
    assert answer["timings"]["predicted_n"] == 8 and answer["truncated"] is False and answer["content"]
    assert isinstance(answer["has_new_line"], bool) and answer["tokens"] == []


@assertion
def a_completion_returns_its_tokens(m, _):
    tokens = complete(m, return_tokens=True)["tokens"]
    assert len(tokens) == 8 and all(isinstance(token, int) for token in tokens), tokens


@assertion
def a_streamed_completion_ends_with_its_figures(m, _):
    *pieces, last = m.events("/completion", prompt=PROMPT, n_predict=8, temperature=0, seed=42)
    assert last["stop"] is True and last["stop_type"] == "limit" and last["truncated"] is False, last
    assert last["timings"]["predicted_n"] == 8 and isinstance(last["has_new_line"], bool)
    assert last["generation_settings"]["n_predict"] == 8 and last["generation_settings"]["seed"] == 42
    for piece in pieces:
        assert piece["stop"] is False and piece["tokens"] and all(isinstance(token, int) for token in piece["tokens"]), piece


@assertion
def a_streamed_completion_equals_a_whole_one(m, _):
    joined = "".join(event["content"] for event in m.events("/completion", prompt=PROMPT, n_predict=8, temperature=0))
    assert joined == complete(m)["content"]


@assertion
def a_completion_of_openai(m, _):
    answer = m.post("/v1/completions", prompt=PROMPT, max_tokens=8)
    assert answer["system_fingerprint"] and answer["choices"][0]["finish_reason"] == "length" and answer["choices"][0]["text"]


@assertion
def a_streamed_completion_of_openai(m, _):
    events = m.events("/v1/completions", prompt=PROMPT, max_tokens=8)
    assert "".join(event["choices"][0]["text"] for event in events if event["choices"])


@assertion
def stop_texts_are_not_streamed(m, _):
    whole = complete(m, n_predict=32)["content"]
    stop = whole[len(whole) // 2:][:3]
    events = m.events("/v1/completions", prompt=PROMPT, max_tokens=32, temperature=0, stop=[stop])
    assert "".join(event["choices"][0]["text"] for event in events) == whole[:whole.index(stop)]


@assertion
def one_seed_gives_one_answer(m, _):
    answers = {complete(m, seed=42, n_predict=32, cache_prompt=False)["content"] for _ in range(4)}
    assert len(answers) == 1, answers


@assertion
def seeds_give_different_answers(m, _):
    answers = {complete(m, seed=seed, n_predict=32, temperature=1.0, cache_prompt=False)["content"] for seed in range(4)}
    assert len(answers) == 4, answers


@assertion
def answers_do_not_depend_on_the_batch(m, _):
    alone = complete(m, seed=42, temperature=1.0)["content"]
    body = {"prompt": PROMPT, "n_predict": 8, "seed": 42, "temperature": 1.0}
    assert {answer["content"] for answer in m.together([("/completion", body)] * 6)} == {alone}


@assertion
def the_cache_does_not_change_the_answer(m, _):
    answers = {complete(m, seed=42, temperature=1.0, n_predict=16, cache_prompt=cached)["content"] for cached in (True, False)}
    assert len(answers) == 1, answers


@assertion
def a_long_prompt_is_refused(m, _):
    m.refused("/completion", prompt=PROMPT * 2000)


@assertion
def a_prompt_may_be_tokens(m, _):
    tokens = m.post("/tokenize", content=PROMPT, add_special=True)["tokens"]
    assert complete(m, prompt=tokens)["content"] == complete(m)["content"]


@assertion
def prompts_may_be_a_list_of_tokens(m, _):
    tokens = m.post("/tokenize", content=PROMPT, add_special=True)["tokens"]
    first, second = complete(m, prompt=[tokens, tokens])
    assert first["content"] == second["content"]


@assertion
def prompts_may_be_texts_and_tokens(m, _):
    tokens = m.post("/tokenize", content=PROMPT, add_special=True)["tokens"]
    first, second = complete(m, prompt=[tokens, PROMPT])
    assert first["content"] == second["content"]


@assertion
def a_prompt_may_mix_texts_and_tokens(m, _):
    assert isinstance(complete(m, prompt=[1, 2, 3, 4, 5, 6, PROMPT, 7, 8, 9, 10, PROMPT])["content"], str)


@assertion
def more_requests_than_slots_are_all_answered(m, _):
    calls = [("/completion", {"prompt": f"{word} was", "n_predict": 24, "seed": 42, "ignore_eos": True}) for word in WORDS[:10]]
    assert all(len(answer["content"]) > 10 for answer in m.together(calls))


@assertion
def fields_of_the_answer_are_chosen(m, _):
    assert "generation_settings" in complete(m, response_fields=[])
    answer = complete(m, n_predict=16, response_fields=["content", "generation_settings/n_predict", "prompt"])
    assert len(answer) == 3 and answer["generation_settings/n_predict"] == 16 and PROMPT in answer["prompt"], answer


def check_probabilities(entries, num):
    for entry in entries:
        assert len(entry["top_logprobs"]) == num, entry
        for one in [entry, *entry["top_logprobs"]]:
            assert one["id"] > 0 and isinstance(one["token"], str) and one["logprob"] <= 0 and isinstance(one["bytes"], list), one


@assertion
def probabilities(m, _):
    entries = complete(m, n_probs=10, n_predict=5)["completion_probabilities"]
    assert len(entries) == 5
    check_probabilities(entries, 10)


@assertion
def probabilities_of_a_stream(m, _):
    for event in m.events("/completion", prompt=PROMPT, n_predict=5, n_probs=10, temperature=0):
        if not event["stop"]:
            assert len(event["completion_probabilities"]) == 1
            check_probabilities(event["completion_probabilities"], 10)


@assertion
def probabilities_after_sampling(m, _):
    entries = complete(m, n_probs=10, n_predict=5, post_sampling_probs=True)["completion_probabilities"]
    assert all(0 < entry["prob"] <= 1 and len(entry["top_probs"]) == 10 for entry in entries)


@assertion
def biases_of_tokens_in_pairs(m, _):
    lacks_words(complete(m, n_predict=48, logit_bias=[[token, -100] for token in biased(m)])["content"])


@assertion
def biases_of_tokens_in_an_object(m, _):
    lacks_words(complete(m, n_predict=48, logit_bias={token: -100 for token in biased(m)})["content"])


@assertion
def biases_of_texts_in_pairs(m, _):
    lacks_words(complete(m, n_predict=48, logit_bias=[[f" {word}", -100] for word in WORDS])["content"])


@assertion
def biases_of_texts_in_an_object(m, _):
    lacks_words(complete(m, n_predict=48, logit_bias={f" {word}": -100 for word in WORDS})["content"])


@assertion
def a_client_that_leaves_frees_its_slot(m, _):
    m.leave("/completion", prompt=PROMPT, ignore_eos=True)
    for _ in range(200):
        if not any(slot["is_processing"] for slot in m.get("/slots").body):
            return
        time.sleep(0.02)
    raise AssertionError("a slot is still in use")


@assertion
def the_end_of_sequence_is_biased_if_ignored(m, _):
    bias = complete(m, ignore_eos=True)["generation_settings"]["logit_bias"]
    assert bias and all(entry["bias"] is None for entry in bias), bias  # null means never


@assertion
def nothing_is_biased_otherwise(m, _):
    assert complete(m, ignore_eos=False)["generation_settings"]["logit_bias"] == []


@assertion
def a_short_prompt_fills_the_context(m, _):
    answer = complete(m, prompt="Hi how are you", n_predict=64, ignore_eos=True)
    assert answer["timings"]["predicted_n"] == 64 and answer["truncated"] is False
    whole = complete(m, prompt="Hi how are you", n_predict=-1, ignore_eos=True)
    context = m.get("/slots").body[0]["n_ctx"]
    assert whole["stop_type"] == "limit" and whole["tokens_evaluated"] + whole["tokens_predicted"] in range(context - 1, context + 2), whole


@assertion
def the_context_is_shifted(m, _):
    assert complete(m, prompt=PROMPT * 200)["truncated"] is True


@assertion
def a_stream_that_fills_the_context_ends_by_length(m, _):
    events = m.events("/v1/completions", prompt="Once", n_predict=1000, ignore_eos=True)
    reasons = [event["choices"][0]["finish_reason"] for event in events if event["choices"]]
    assert reasons[-1] == "length" and set(reasons[:-1]) <= {None}
