"""quire generate: the same text for each way to request it."""
import json
import pathlib
import tempfile

import command
from command import PROMPT

GREEDY = ("--temperature", "0", "--max-new-tokens", "24")
EAGLE = command.SHARED / "golden/mtp/eagle3_story/draft"
WARM = ("--temperature", "0.9", "--top-k", "50", "--top-p", "0.95", "--min-p", "0.01", "--max-new-tokens", "24",
        "--ignore-eos")


class Generate(command.CommandTest):
    def generate(self, *args, **options):
        return self.json_of("generate", *args, **options)

    def test_streams_only_the_text(self):
        result = self.succeed("generate", "--prompt", PROMPT, *GREEDY)
        expected = self.generate("--prompt", PROMPT, *GREEDY)
        self.assertEqual(result.stdout, expected["text"] + "\n")
        self.assertRegex(result.stderr, r"\Aprompt: 9 tokens in .* generated: 24 tokens in .* tokens/s(, \d+ of \d+ drafts accepted)?\n\Z")

    def test_quiet(self):
        self.assertEqual(self.succeed("generate", "--prompt", PROMPT, *GREEDY, "--quiet").stderr, "")

    def test_json_has_the_documented_fields(self):
        result = self.generate("--prompt", PROMPT, *GREEDY, "--log-probs")
        self.assertEqual(len(result["tokens"]), 24)
        self.assertEqual(len(result["log_probs"]), 24)
        self.assertTrue(all(value <= 0 for value in result["log_probs"]))
        self.assertEqual(result["finish_reason"], "length")
        self.assertEqual(result["prompt_tokens"], 9)
        self.assertEqual(result["new_tokens"], 24)
        self.assertEqual(len(result["jobs"]), 1)
        self.assertGreater(result["time_generate_ms"], 0)
        text = self.succeed("detokenize", json.dumps(result["tokens"])).stdout
        self.assertEqual(json.loads(text), result["text"])

    def test_same_seed_same_text(self):
        first = self.generate("--prompt", PROMPT, *WARM, "--seed", "5")
        self.assertEqual(self.generate("--prompt", PROMPT, *WARM, "--seed", "5")["tokens"], first["tokens"])
        self.assertNotEqual(self.generate("--prompt", PROMPT, *WARM, "--seed", "6")["tokens"], first["tokens"])

    def test_without_a_seed_each_run_draws_one(self):
        hot = ("--temperature", "1", "--max-new-tokens", "24", "--ignore-eos")
        first, second = (self.generate("--prompt", PROMPT, *hot) for _ in range(2))
        self.assertNotEqual(first["seed"], second["seed"])
        again = self.generate("--prompt", PROMPT, *hot, "--seed", first["seed"])
        self.assertEqual(again["tokens"], first["tokens"])

    def test_drafts_change_nothing(self):
        prompt = "one two three four, " * 4 + "one two three"
        for settings in (GREEDY, (*WARM, "--seed", "3")):
            results = {drafter: self.generate("--prompt", prompt, *settings, "--drafter", drafter, "--max-drafts", "8")
                       for drafter in ("none", "ngram", "auto")}
            self.assertEqual(results["none"]["draft_tokens"], 0)
            for result in results.values():
                self.assertEqual(result["tokens"], results["none"]["tokens"])
                self.assertLessEqual(result["accepted_draft_tokens"], result["draft_tokens"])
        self.fail_with(command.USAGE, ["--drafter", "auto, none, ngram, mtp", "eagle"], "generate", "--prompt", prompt,
                       "--drafter", "eagle")
        self.fail_with(command.USAGE, ["--max-drafts"], "generate", "--prompt", prompt, "--max-drafts", "16")

    def test_a_draft_network_of_a_hub_must_be_there(self):
        with tempfile.TemporaryDirectory() as cache:
            self.fail_with(command.NO_MODEL, ["acme/eagle", "quire pull"], "generate", "--prompt", PROMPT, "--drafter", "acme/eagle",
                           HF_HUB_CACHE=cache)

    def test_a_network_that_does_not_fit_the_model_is_refused(self):
        self.fail_with(command.NO_MODEL, ["multi-token prediction"], "generate", "--prompt", PROMPT, "--drafter", "mtp")
        with tempfile.TemporaryDirectory() as empty:
            self.fail_with(command.NO_MODEL, [empty], "generate", "--prompt", PROMPT, "--drafter", empty)

    @command.needs(EAGLE)
    def test_a_draft_network_changes_nothing(self):
        for settings in (GREEDY, (*WARM, "--seed", "3")):
            plain = self.generate("--prompt", PROMPT, *settings, "--drafter", "none")
            drafted = self.generate("--prompt", PROMPT, *settings, "--drafter", EAGLE)
            self.assertEqual(drafted["tokens"], plain["tokens"])
            self.assertGreater(drafted["draft_tokens"], 0)

    def test_unset_sampling_is_that_of_the_authors(self):
        def recommend(model):
            config = model / "generation_config.json"
            told = json.loads(config.read_text())
            config.unlink()
            config.write_text(json.dumps({**told, "do_sample": True, "top_k": 1}))

        whole = self.generate("--prompt", PROMPT, *GREEDY)["tokens"]
        with command.broken_model(recommend) as model:
            likeliest = self.generate("--prompt", PROMPT, "--max-new-tokens", "24", "--model", model)
            self.assertEqual(likeliest["tokens"], whole)
            wide = self.generate("--prompt", PROMPT, *WARM, "--seed", "5", "--model", model)
        self.assertEqual(wide["tokens"], self.generate("--prompt", PROMPT, *WARM, "--seed", "5")["tokens"])

    def test_a_negative_prompt_changes_the_text(self):
        guided = ("--prompt", PROMPT, *GREEDY, "--negative-prompt", "There was nobody", "--guidance-scale")
        plain = self.generate("--prompt", PROMPT, *GREEDY)["tokens"]
        strong = self.generate(*guided, "4")
        self.assertEqual(len(strong["tokens"]), 24)
        self.assertNotEqual(strong["tokens"], plain)
        self.assertEqual([job["tokens"] for job in self.generate(*guided, "4", "--jobs", "3")["jobs"]],
                         [strong["tokens"]] * 3)
        towards = self.generate(*guided, "0")["tokens"]
        self.assertEqual(towards, self.generate("--prompt", "There was nobody", *GREEDY)["tokens"])

    def test_guidance_needs_both(self):
        for alone, word in ((("--guidance-scale", "2"), "negative_prompt"), (("--negative-prompt", "x"), "guidance_scale")):
            self.fail_with(2, (word,), "generate", "--prompt", PROMPT, *GREEDY, *alone)

    def test_threads_do_not_change_the_text(self):
        short = ("--temperature", "1.2", "--max-new-tokens", "6", "--seed", "5")
        one, two = (self.generate("--prompt", PROMPT, *short, "--threads", n)["tokens"] for n in (1, 2))
        self.assertEqual(one, two)

    def test_concurrent_jobs_equal_single_jobs(self):
        together = self.generate("--prompt", PROMPT, *WARM, "--seed", "11", "--jobs", "4")["jobs"]
        alone = [self.generate("--prompt", PROMPT, *WARM, "--seed", 11 + idx) for idx in range(4)]
        self.assertEqual([job["seed"] for job in together], [11, 12, 13, 14])
        self.assertEqual([job["tokens"] for job in together], [job["tokens"] for job in alone])
        self.assertEqual([job["text"] for job in together], [job["text"] for job in alone])

    def test_text_of_several_jobs_has_headings_in_order(self):
        result = self.succeed("generate", "--prompt", PROMPT, *WARM, "--seed", "11", "--jobs", "3")
        jobs = self.generate("--prompt", PROMPT, *WARM, "--seed", "11", "--jobs", "3")["jobs"]
        expected = [f"=== job {idx}, seed {11 + idx}, length ===\n{job['text']}\n" for idx, job in enumerate(jobs)]
        self.assertEqual(result.stdout, "\n".join(expected))
        self.assertRegex(result.stderr, r"\A3 jobs: 72 tokens in ")

    def test_a_continued_text_equals_an_uninterrupted_one(self):
        ids = json.loads(self.succeed("tokenize", PROMPT).stdout)
        whole = self.generate("--prompt", PROMPT, *GREEDY)
        self.assertEqual(whole["prompt_tokens"], len(ids))

    def test_prompt_from_file_and_standard_input(self):
        prompt = "The king said: \U0001F600 caf\u00e9"
        expected = self.generate("--prompt", prompt, *GREEDY)["tokens"]
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "prompt.txt"
            path.write_text(prompt, encoding="utf-8")
            self.assertEqual(self.generate("--prompt-file", path, *GREEDY)["tokens"], expected)
        self.assertEqual(self.generate("--prompt-file", "-", *GREEDY, stdin=prompt)["tokens"], expected)

    def test_prompt_that_cannot_be_read(self):
        self.fail_with(command.FAILED, ["no-such-file"], "generate", "--prompt-file", "no-such-file")
        self.fail_with(command.FAILED, ["directory"], "generate", "--prompt-file", "/")

    def test_prompt_that_is_not_utf8(self):
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "prompt.txt"
            path.write_bytes(b"abc\xff")
            self.fail_with(command.FAILED, ["3"], "generate", "--prompt-file", path)

    def test_stops(self):
        whole = self.generate("--prompt", PROMPT, *GREEDY)
        word = whole["text"].split()[5]
        stopped = self.generate("--prompt", PROMPT, *GREEDY, "--stop", word, "--stop", "never to be seen")
        self.assertEqual(stopped["finish_reason"], "stop_string")
        self.assertEqual(stopped["stop_text"], word)
        self.assertEqual(stopped["text"], whole["text"][:whole["text"].index(word)])
        token = whole["tokens"][7]
        stopped = self.generate("--prompt", PROMPT, *GREEDY, "--stop-token", token)
        self.assertEqual(stopped["finish_reason"], "stop_token")
        self.assertEqual(stopped["stop_token"], token)

    def test_banned_and_biased_tokens(self):
        first = self.generate("--prompt", PROMPT, *GREEDY)["tokens"][0]
        banned = self.generate("--prompt", PROMPT, *GREEDY, "--ban-token", first)["tokens"]
        self.assertNotIn(first, banned)
        biased = self.generate("--prompt", PROMPT, "--max-new-tokens", "4", "--logit-bias", "77=1000")["tokens"]
        self.assertEqual(biased, [77] * 4)

    def test_special_tokens_in_a_prompt_are_text_by_default(self):
        prompt = "<|im_start|>a"
        plain = self.generate("--prompt", prompt, "--max-new-tokens", "1")["prompt_tokens"]
        parsed = self.generate("--prompt", prompt, "--max-new-tokens", "1", "--parse-special")["prompt_tokens"]
        bare = self.generate("--prompt", prompt, "--max-new-tokens", "1", "--no-special")["prompt_tokens"]
        self.assertEqual(parsed, 3)
        self.assertGreater(plain, parsed)
        self.assertEqual(bare, plain - 1)

    def test_a_later_run_finds_the_stored_prompt(self):
        prompt = "The old house stood on the hill above the town. " * 40
        with tempfile.TemporaryDirectory() as directory:
            keep = ("--prompt", prompt, "--log-probs", "--prefix-directory", directory, *GREEDY)
            first = self.generate(*keep)
            self.assertEqual(first["cached_tokens"], 0)
            self.assertTrue(list(pathlib.Path(directory).glob("*.page")))
            again = self.generate(*keep)
            self.assertGreaterEqual(again["cached_tokens"], 256)
            for field in ("tokens", "log_probs", "text"):
                self.assertEqual(again[field], first[field])
            for page in pathlib.Path(directory).glob("*.page"):
                content = bytearray(page.read_bytes())
                content[len(content) // 2] ^= 1
                page.write_bytes(content)
            damaged = self.generate(*keep)
            self.assertEqual(damaged["cached_tokens"], 0)
            self.assertEqual(damaged["log_probs"], first["log_probs"])

    def test_a_growing_cache_gives_the_same_text(self):
        prompt = "The old house stood on the hill above the town. " * 60
        jobs = ("--prompt", prompt, *GREEDY, "--jobs", "4")
        grown = self.generate(*jobs, "--min-cache-tokens", "1024")
        self.assertGreater(grown["jobs"][0]["prompt_tokens"], 512)
        self.assertEqual([job["tokens"] for job in grown["jobs"]],
                         [job["tokens"] for job in self.generate(*jobs)["jobs"]])

    def test_an_initial_size_over_the_maximum_is_refused(self):
        self.fail_with(command.USAGE, ["min_tokens"], "generate", "--prompt", PROMPT, *GREEDY,
                       "--min-cache-tokens", "1000000")

    def test_a_missing_prefix_directory_is_refused(self):
        self.fail_with(command.USAGE, ["prefix_directory", "/nowhere"], "generate", "--prompt", PROMPT,
                       "--prefix-directory", "/nowhere")

    def test_a_prompt_longer_than_the_context(self):
        self.fail_with(command.FAILED, [], "generate", "--prompt", "word " * 300, "--context", "64")


class Golden(command.CommandTest):
    """Compares the greedy text of the full-precision model with another program's, up to the first near-tie."""

    @command.needs(command.SHARED / "models/story-15m")
    def test_greedy_continuations(self):
        directory = command.SHARED / "models/story-15m"
        cases = json.loads((directory / "golden.json").read_text())
        prompts = {prompt: golden for prompt, golden in cases.items() if isinstance(golden, dict)}
        self.assertEqual(len(prompts), 3)
        for prompt, golden in prompts.items():
            with self.subTest(prompt=prompt):
                result = self.json_of("generate", "--model", directory, "--prompt", prompt, "--temperature", "0",
                                      "--max-new-tokens", "64", "--ignore-eos")
                sure = next((i for i, gap in enumerate(golden["gap"]) if gap < 0.01), 64)
                self.assertGreater(sure, 0)
                self.assertEqual(result["tokens"][:sure], golden["greedy"][:sure])


if __name__ == "__main__":
    command.main()
