"""Calls of lm-evaluation-harness: a task of multiple choices over completions, and one of generated texts over chats."""
import json
import pathlib
import sys
import tempfile
import urllib.request

import lm_eval
import transformers  # the harness tokenizes with it
from lm_eval.tasks import TaskManager

import evaluation_task
from calls import KEY

PACKAGE = "lm_eval"
NUM_ITEMS = 12
CHAT = """task: quire_chat
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: query
doc_to_target: "x"
generation_kwargs: {{until: [" the"], max_gen_toks: 16, temperature: 0}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""


def post(base, path, body):
    request = urllib.request.Request(base + path, json.dumps(body).encode(), {
        "Content-Type": "application/json", "Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read())


def evaluate(base, model, path, task, folder, **settings):
    arguments = {"model": "m", "base_url": base + path, "tokenizer": tokenizer(folder), "num_concurrent": 2,
                 "max_retries": 1, "header": {"Authorization": f"Bearer {KEY}"}, **settings}
    return lm_eval.simple_evaluate(model=model, model_args=arguments, tasks=[task], log_samples=True, bootstrap_iters=0,
                                   task_manager=TaskManager(include_path=str(folder)),
                                   apply_chat_template=model == "local-chat-completions")


def tokenizer(folder):
    """Writes the tokenizer of the model of the tests in the form that transformers reads."""
    model = pathlib.Path(sys.argv[3])
    transformers.PreTrainedTokenizerFast(tokenizer_file=str(model / "tokenizer.json"), eos_token="<|end_of_text|>").save_pretrained(
        folder / "tokenizer")
    return str(folder / "tokenizer")


def likelihood(base, query, choice):
    """Returns the log-likelihood of a choice, by a request of our own with the same tokens."""
    ids = [post(base, "/v1/tokenize", {"model": "m", "prompt": text, "add_special_tokens": False})["tokens"]
           for text in (query, query + choice)]
    answer = post(base, "/v1/completions", {"model": "m", "prompt": ids[1], "echo": True, "logprobs": 0, "max_tokens": 0})
    return sum(answer["choices"][0]["logprobs"]["token_logprobs"][len(ids[0]):])


def choices(base):
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        evaluation_task.write(folder, NUM_ITEMS)
        result = evaluate(base, "local-completions", "/v1/completions", evaluation_task.TASK, folder)
    samples = result["samples"][evaluation_task.TASK]
    assert len(samples) == NUM_ITEMS, len(samples)
    right = 0
    for sample in samples:
        item = sample["doc"]
        expected = [likelihood(base, item["query"], choice) for choice in item["choices"]]
        measured = [float(one[0]) for one in sample["filtered_resps"]]
        assert max(abs(x - y) for x, y in zip(expected, measured)) < 1e-3, (expected, measured)
        right += expected.index(max(expected)) == item["gold"]
    assert result["results"][evaluation_task.TASK]["acc,none"] == right / NUM_ITEMS, result["results"]


def generated_texts(base):
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        evaluation_task.write(folder, NUM_ITEMS)
        (folder / "quire_chat.yaml").write_text(CHAT.format(data=folder / "items.jsonl"), encoding="utf-8")
        result = evaluate(base, "local-chat-completions", "/v1/chat/completions", "quire_chat", folder)
    texts = [sample["resps"][0][0] for sample in result["samples"]["quire_chat"]]
    assert len(texts) == NUM_ITEMS and all(" the" not in text for text in texts) and any(texts), texts


CALLS = [choices, generated_texts]
