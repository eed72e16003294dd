"""quire score: log-probabilities, perplexity, raw logits, those of draft networks."""
import json
import math
import pathlib
import struct
import tempfile

import command

MTP = command.SHARED / "golden/mtp"
TEXT = "It was a dark and stormy night; the rain fell in torrents, and the king was not at home. \u2603"


def read_tensors(path):
    """Returns the shape and the values of each F32 and I32 tensor of a safetensors file, by name."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, of in header.items():
        begin, end = (8 + length + offset for offset in of["data_offsets"])
        kind = {"F32": "f", "I32": "i"}[of["dtype"]]
        tensors[name] = (of["shape"], struct.unpack(f"<{math.prod(of['shape'])}{kind}", data[begin:end]))
    assert len(data) == 8 + length + max(of["data_offsets"][1] for of in header.values())
    return tensors


def read_tensor(path, name):
    """Returns the rows of the only tensor of a safetensors file, an F32 matrix."""
    tensors = read_tensors(path)
    assert list(tensors) == [name], list(tensors)
    (rows, columns), values = tensors[name]
    return [values[row * columns:(row + 1) * columns] for row in range(rows)]


def relative_rms(values, reference):
    return math.sqrt(sum((a - b)**2 for a, b in zip(values, reference)) / sum(b * b for b in reference))


def log_softmax(row, token):
    largest = max(row)
    return row[token] - largest - math.log(sum(math.exp(value - largest) for value in row))


class ScoreTest(command.CommandTest):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def score(self, *args, **options):
        return self.json_of("score", *args, **options)

    def write_ids(self, ids):
        path = self.directory / "ids.json"
        path.write_text(json.dumps(ids))
        return path


class Score(ScoreTest):
    def setUp(self):
        super().setUp()
        self.text = self.directory / "text.txt"
        self.text.write_text(TEXT, encoding="utf-8")

    def test_perplexity_is_that_of_the_log_probs(self):
        result = self.score("--text", self.text)
        self.assertIsNone(result["log_probs"][0])
        values = result["log_probs"][1:]
        self.assertEqual(result["num_tokens"], len(result["tokens"]))
        self.assertEqual(result["num_predictions"], len(values))
        self.assertAlmostEqual(result["mean_log_prob"], sum(values) / len(values), places=5)
        self.assertAlmostEqual(result["perplexity"] / math.exp(-sum(values) / len(values)), 1.0, places=4)
        self.assertTrue(all(value < 0 for value in values))

    def test_each_kv_format_changes_perplexity_a_little(self):
        exact = self.score("--text", self.text)["perplexity"]
        for kv_format, most in (("f16", 0.0), ("q8", 0.01), ("q6", 0.2), ("q4", 0.4), ("fp8", 0.4)):
            result = self.score("--text", self.text, "--kv-format", kv_format)
            self.assertEqual(result["kv_format"], kv_format)
            cost = abs(math.log(result["perplexity"] / exact))
            self.assertLessEqual(cost, most, kv_format)
            self.assertEqual(cost == 0.0, kv_format == "f16", f"{kv_format} is not what was computed with")

    def test_text_and_its_ids_score_alike(self):
        from_text = self.score("--text", self.text)
        ids = json.loads(self.succeed("tokenize", "--plain", TEXT).stdout)
        self.assertEqual(from_text["tokens"], ids)
        from_ids = self.score("--ids", self.write_ids(ids))
        self.assertEqual(from_ids["log_probs"], from_text["log_probs"])
        self.assertEqual(self.score("--ids", "-", stdin=json.dumps(ids))["log_probs"], from_text["log_probs"])

    def test_windows_are_independent(self):
        ids = self.score("--text", self.text)["tokens"]
        windowed = self.score("--ids", self.write_ids(ids), "--window", "8")
        self.assertEqual(windowed["num_windows"], -(-len(ids) // 8))
        expected = []
        for begin in range(0, len(ids), 8):
            piece = ids[begin:begin + 8]
            expected += self.score("--ids", self.write_ids(piece))["log_probs"] if len(piece) > 1 else [None]
        self.assertEqual(windowed["log_probs"], expected)

    def test_limit(self):
        ids = self.score("--text", self.text)["tokens"]
        limited = self.score("--ids", self.write_ids(ids), "--limit", "10")
        self.assertEqual(limited["tokens"], ids[:10])

    def test_the_summary_omits_the_tokens(self):
        result = self.score("--text", self.text, "--summary")
        self.assertNotIn("log_probs", result)
        self.assertIn("perplexity", result)

    def test_text_output(self):
        result = self.score("--text", self.text)
        lines = self.succeed("score", "--text", self.text).stdout.splitlines()
        self.assertEqual(len(lines), result["num_tokens"] + 2)
        rows = [line.split("\t") for line in lines[:-2]]
        self.assertEqual([int(row[1]) for row in rows], result["tokens"])
        self.assertEqual(rows[0][2], "-")
        self.assertAlmostEqual(float(rows[3][2]), result["log_probs"][3], places=5)
        self.assertRegex(lines[-1], r"^perplexity  \d+\.\d+$")

    def test_logits_agree_with_the_log_probs(self):
        path = self.directory / "logits.safetensors"
        result = self.score("--text", self.text, "--window", "16", "--logits", path)
        begin = (result["num_windows"] - 1) * 16
        tokens, log_probs = result["tokens"][begin:], result["log_probs"][begin:]
        rows = read_tensor(path, "logits")
        self.assertEqual(len(rows), len(tokens))
        for row, token, expected in zip(rows, tokens[1:], log_probs[1:]):
            self.assertAlmostEqual(log_softmax(row, token), expected, places=4)
        self.assertEqual(sorted(p.name for p in self.directory.iterdir()), ["logits.safetensors", "text.txt"])

    def test_logits_that_cannot_be_written(self):
        self.fail_with(command.FAILED, ["no/such/place"], "score", "--text", self.text, "--logits", "no/such/place/x")

    def test_invalid_input_is_refused(self):
        for content in ("{}", "[1, 2", '[1, "a"]', "[1, -2]", "[1, 2.5]", "[1, 99999999999]", ""):
            with self.subTest(content=content):
                path = self.directory / "ids.json"
                path.write_text(content)
                self.fail_with(command.FAILED, ["ids.json"], "score", "--ids", path)
        self.fail_with(command.FAILED, ["at least 2"], "score", "--ids", self.write_ids([5]))
        result = command.run("score", "--ids", self.write_ids([5, 6, 10**6]))
        self.assertIn(result.returncode, (command.USAGE, command.FAILED))
        self.assertIn("1000000", result.stderr)


class DraftLogits(ScoreTest):
    def draft_logits(self, ids, *args):
        path = self.directory / "draft.safetensors"
        self.score("--ids", self.write_ids(ids), "--summary", "--draft-logits", path, *args)
        return read_tensor(path, "logits")

    def compare(self, golden, tensor, *args):
        reference = read_tensors(golden / "golden.safetensors")
        rows = self.draft_logits(reference["input_ids"][1], *args)
        shape, values = reference[tensor]
        self.assertEqual([len(rows), len(rows[0])], shape)
        self.assertLess(relative_rms([value for row in rows for value in row], values), 2e-3)

    @command.needs(MTP / "qwen3_5")
    def test_heads_equal_the_reference(self):
        self.compare(MTP / "qwen3_5", "mtp_logits", "--model", MTP / "qwen3_5", "--drafter", "mtp")

    @command.needs(MTP / "eagle3")
    def test_an_eagle_network_equals_the_reference(self):
        golden = MTP / "eagle3"
        self.compare(golden, "draft_all_logits", "--model", golden / "target", "--drafter", golden / "draft")

    def test_a_model_that_drafts_for_itself_has_its_own_logits(self):
        ids = [1, *range(300, 380)]
        own = self.directory / "logits.safetensors"
        rows = self.draft_logits(ids, "--drafter", command.EMBEDDED, "--logits", own)
        self.assertEqual(rows, read_tensor(own, "logits"))
        limited = self.draft_logits(ids, "--drafter", command.EMBEDDED, "--limit", 10, "--window", 4)
        self.assertEqual(limited, rows[:10], "all tokens, whatever the window")

    def test_what_is_missing_is_named(self):
        ids = self.write_ids([5, 6, 7])
        path = self.directory / "draft.safetensors"
        text = self.directory / "text.txt"
        text.write_text(TEXT)
        self.fail_with(command.USAGE, ["--draft-logits", "--ids"], "score", "--text", text, "--drafter", command.EMBEDDED,
                       "--draft-logits", path)
        for drafter in ((), ("--drafter", "none"), ("--drafter", "auto"), ("--drafter", "ngram")):
            self.fail_with(command.USAGE, ["--draft-logits", "--drafter mtp"], "score", "--ids", ids, *drafter,
                           "--draft-logits", path)
        self.fail_with(command.USAGE, ["--drafter", "--draft-logits"], "score", "--ids", ids, "--drafter", command.EMBEDDED)
        self.fail_with(command.NO_MODEL, ["multi-token prediction"], "score", "--ids", ids, "--drafter", "mtp",
                       "--draft-logits", path)
        self.assertFalse(path.exists())


class Golden(command.CommandTest):
    def test_perplexity_of_the_embedded_model(self):
        result = self.json_of("score", "--ids", command.GOLDEN / "models/eval_ids.json", "--limit", "2048",
                              "--window", "512", "--summary")
        self.assertEqual(result["num_predictions"], 4 * 511)
        self.assertGreater(result["perplexity"], 20)
        self.assertLess(result["perplexity"], 90)


if __name__ == "__main__":
    command.main()
