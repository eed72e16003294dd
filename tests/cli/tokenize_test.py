"""quire tokenize and quire detokenize: JSON lines in both directions."""
import json

import command

TEXTS = ["Once upon a time", "", " ", "a\nb\tc", "\u4f60\u597d \U0001F600\u200d\U0001F680", "<|im_start|>user\nhi<|im_end|>",
         "\u0000\u0001", "tail  ", "\r\n\r\n", "caf\u00e9 cafe\u0301"]
TOKENIZER = command.EMBEDDED / "tokenizer.json"


def lines(values):
    return "".join(json.dumps(value) + "\n" for value in values)


def values(text):
    return [json.loads(line) for line in text.splitlines()]


class Tokenize(command.CommandTest):
    def test_round_trip(self):
        ids = self.succeed("tokenize", "--no-special", stdin=lines(TEXTS)).stdout
        self.assertEqual(len(values(ids)), len(TEXTS))
        self.assertEqual(values(self.succeed("detokenize", stdin=ids).stdout), TEXTS)

    def test_special_tokens_are_added_and_removed(self):
        plain = values(self.succeed("tokenize", "--no-special", stdin=lines(["Once"])).stdout)[0]
        with_special = values(self.succeed("tokenize", stdin=lines(["Once"])).stdout)[0]
        self.assertEqual(with_special, [0] + plain)
        back = self.succeed("detokenize", json.dumps(with_special)).stdout
        self.assertEqual(json.loads(back), "<|begin_of_text|>Once")
        back = self.succeed("detokenize", "--no-special", json.dumps(with_special)).stdout
        self.assertEqual(json.loads(back), "Once")

    def test_special_text_is_read_as_tokens_unless_plain(self):
        parsed = values(self.succeed("tokenize", "--no-special", "<|im_start|>").stdout)[0]
        plain = values(self.succeed("tokenize", "--no-special", "--plain", "<|im_start|>").stdout)[0]
        self.assertEqual(len(parsed), 1)
        self.assertGreater(len(plain), 1)

    def test_bare_tokenizer_file(self):
        expected = self.succeed("tokenize", stdin=lines(TEXTS)).stdout
        self.assertEqual(self.succeed("tokenize", "--model", TOKENIZER, stdin=lines(TEXTS)).stdout, expected)

    def test_an_argument_is_used_unchanged(self):
        for text in ("Once upon", "[a,b]", "", "a,b", '"quoted"', "{x}"):
            with self.subTest(text=text):
                self.assertEqual(self.succeed("tokenize", text).stdout, self.succeed("tokenize", stdin=lines([text])).stdout)

    def test_one_line_per_answer_for_every_line_break(self):
        texts = ["a\u2028b\u2029c\u0085d\u000be\u000cf"]
        ids = self.succeed("tokenize", "--no-special", stdin=lines(texts)).stdout
        self.assertEqual(values(self.succeed("detokenize", stdin=ids).stdout), texts)

    def test_json_object(self):
        result = self.json_of("tokenize", stdin=lines(TEXTS))
        self.assertEqual(result["results"], values(self.succeed("tokenize", stdin=lines(TEXTS)).stdout))
        self.assertEqual(self.json_of("detokenize", "--no-special", "[51]")["results"],
                         values(self.succeed("detokenize", "[51]").stdout))

    def test_empty_lines_and_a_missing_last_line_break(self):
        self.assertEqual(self.succeed("tokenize", stdin='"a"\n\n"b"').stdout,
                         self.succeed("tokenize", stdin='"a"\n"b"\n').stdout)
        self.assertEqual(self.succeed("tokenize", stdin="").stdout, "")

    def test_answers_line_by_line(self):
        process = command.start("tokenize", stdin=command.subprocess.PIPE, stdout=command.subprocess.PIPE, text=True)
        for text in TEXTS:
            process.stdin.write(json.dumps(text) + "\n")
            process.stdin.flush()
            self.assertIsInstance(json.loads(process.stdout.readline()), list)
        process.stdin.close()
        self.assertEqual(process.wait(60), command.OK)
        process.stdout.close()

    def test_wrong_lines_are_named(self):
        result = command.run("tokenize", stdin='"a"\n[1]\n')
        self.assertEqual(result.returncode, command.FAILED)
        self.assertIn("line 2", result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 1, "what came before is answered")
        for line in ("nonsense", '"\\ud800"', "1", "null"):
            self.fail_with(command.FAILED, ["line 1"], "tokenize", stdin=line + "\n")
        for line in ("nonsense", '"a"', "[1.5]", "[-1]", "[999999]"):
            self.fail_with(command.FAILED, ["line 1"], "detokenize", stdin=line + "\n")


class Golden(command.CommandTest):
    """Compares every id and every decoded text with the `tokenizers` library."""

    def test_byte_level_kinds(self):
        for kind in ("gpt2", "llama3", "qwen2", "o200k", "deepseek", "digits"):
            with self.subTest(kind=kind):
                directory = command.GOLDEN / "tokenizers" / kind
                golden = json.loads((directory / "golden.json").read_text(encoding="utf-8"))
                model = ("--model", directory / "tokenizer.json")
                ids = self.succeed("tokenize", "--no-special", *model, stdin=lines(c["text"] for c in golden)).stdout
                self.assertEqual(values(ids), [case["ids"] for case in golden])
                texts = self.succeed("detokenize", *model, stdin=ids).stdout
                self.assertEqual(values(texts), [case["decoded"] for case in golden])


if __name__ == "__main__":
    command.main()
