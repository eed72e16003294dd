"""The command line itself: help, versions, and mistakes."""
import re

import command

COMMANDS = ("generate", "score", "tokenize", "detokenize", "inspect", "diagnose", "bench", "pull", "models")


class Usage(command.CommandTest):
    def test_help_goes_to_standard_output(self):
        for args in (["--help"], *([name, "--help"] for name in COMMANDS)):
            with self.subTest(args=args):
                result = self.succeed(*args)
                self.assertIn("Usage: quire", result.stdout)
                self.assertEqual(result.stderr, "")

    def test_version(self):
        self.assertRegex(self.succeed("--version").stdout, r"\Aquire \d+\.\d+\.\d+\n\Z")

    def test_every_flag_is_documented(self):
        page = (command.ROOT / "docs/command.md").read_text()
        for name in COMMANDS:
            flags = re.findall(r"(?<![\w-])--[a-z][a-z-]+", self.succeed(name, "--help").stdout.split("Examples:")[0])
            self.assertIn("--help", flags)
            for flag in set(flags) - {"--help"}:
                with self.subTest(command=name, flag=flag):
                    self.assertIn(f"`{flag}", page)

    def test_exit_codes_are_documented(self):
        page = (command.ROOT / "docs/command.md").read_text()
        text = self.succeed("--help").stdout
        for code in (0, 1, 2, 3, 130, 141):
            self.assertRegex(page, rf"(?m)^\| {code} \|")
            self.assertRegex(text, rf"(?m)^  {code}\b")

    def test_mistakes(self):
        cases = [
            ([], ["no command"]),
            (["frobnicate"], ['"frobnicate"']),
            (["--frobnicate"], ["--frobnicate"]),
            (["generate"], ["--prompt"]),
            (["generate", "--prompt", "a", "--prompt-file", "b"], ["--prompt"]),
            (["generate", "--prompt", "a", "--temperature", "warm"], ["--temperature", "warm"]),
            (["generate", "--prompt", "a", "--jobs", "0"], ["--jobs", "from 1"]),
            (["generate", "--prompt", "a", "--frobnicate"], ["--frobnicate"]),
            (["score"], ["--text"]),
            (["score", "--ids", "x", "--limit", "-3"], ["--limit"]),
            (["inspect", "--batch", "0"], ["--batch"]),
            (["bench", "--batch", "1,zero"], ["zero"]),
            (["bench", "--synthetic", "llama-9"], ["llama-9", "llama-3.1-8b"]),
            (["bench", "--synthetic", "llama-3.2-1b", "--bits", "9"], ["--bits"]),
            (["bench", "--synthetic", "llama-3.2-1b", "--model", "x"], ["--synthetic", "--model"]),
            (["bench", "--format", "gptq"], ["--synthetic"]),
        ]
        for args, words in cases:
            with self.subTest(args=args):
                self.fail_with(command.USAGE, words, *args)

    def test_values_refused_by_the_library(self):
        cases = [("--temperature", "-1"), ("--temperature", "nan"), ("--top-p", "0"), ("--top-k", "-1"),
                 ("--min-p", "1.5"), ("--repetition-penalty", "0"), ("--frequency-penalty", "inf"),
                 ("--penalty-range", "-2"), ("--max-new-tokens", "0"), ("--logit-bias", "3=warm"),
                 ("--logit-bias", "3=inf"), ("--stop", "")]
        for flag, value in cases:
            with self.subTest(flag=flag, value=value):
                self.fail_with(command.USAGE, [flag], "generate", "--prompt", "a", flag, value)

    def test_unknown_ids_are_refused(self):
        for args in (["--ban-token", "999999"], ["--logit-bias", "999999=1"], ["--stop-token", "999999"]):
            with self.subTest(args=args):
                self.fail_with(command.USAGE, ["999999"], "generate", "--prompt", "a", *args)

    def test_an_unknown_device_is_refused(self):
        result = command.run("generate", "--prompt", "a", "--device", "abacus")
        self.assertIn(result.returncode, (command.USAGE, command.FAILED))
        self.assertRegex(result.stderr, r"\Aquire: [^\n]*abacus[^\n]*\n\Z")


if __name__ == "__main__":
    command.main()
