"""quire chat: a conversation through a pipe and in a terminal."""
import json
import os
import pathlib
import pty
import re
import select
import tempfile
import time

import command
from command import PROMPT

TEMPLATE = "{% for m in messages %}{{ m.content }}{% if not loop.last %} {% endif %}{% endfor %}"
SHORT = ("--temperature", "0", "--max-new-tokens", "12")
SMOLLM2 = pathlib.Path(os.environ.get("QUIRE_SMOLLM2_DIR", "/nowhere"))
SCHEMA = json.dumps({"type": "object", "required": ["name", "year"], "additionalProperties": False,
                     "properties": {"name": {"type": "string", "maxLength": 40},
                                    "year": {"type": "integer", "minimum": 1900, "maximum": 2100}}})
TOOLS = json.dumps([{"type": "function", "function": {
    "name": "get_weather", "description": "The weather in a city now.",
    "parameters": {"type": "object", "required": ["city"], "additionalProperties": False,
                   "properties": {"city": {"type": "string", "maxLength": 20}}}}}])
DOCS = command.ROOT / "docs/chat.md"


class Chat(command.CommandTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.template = self.folder / "template.jinja"
        self.template.write_text(TEMPLATE)

    def chat(self, lines, *args):
        return command.run("chat", "--template", self.template, *args, stdin=lines)

    def said(self, lines, *args):
        result = self.chat(lines, *args)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def generated(self, prompt, *args):
        return self.json_of("generate", "--prompt", prompt, "--no-special", *args)["text"]

    def test_a_pipe_gets_only_answers(self):
        first = self.generated(PROMPT, *SHORT)
        second = self.generated(f"{PROMPT} {first} Then", *SHORT)
        self.assertEqual(self.said(f"{PROMPT}\nThen\n", *SHORT), f"{first}\n{second}\n")

    def test_messages_of_several_lines(self):
        one = self.generated("Once\nupon a\ntime", *SHORT) + "\n"
        self.assertEqual(self.said("Once\\\nupon a\\\ntime\n", *SHORT), one)
        self.assertEqual(self.said('"""Once\nupon a\ntime"""\n', *SHORT), one)

    def test_saves_the_conversation(self):
        file = self.folder / "said.json"
        answer = self.said(f"/system Be kind.\nOnce\n/save {file}\n", *SHORT)
        self.assertEqual(json.loads(file.read_text()),
                         {"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Once"},
                                       {"role": "assistant", "content": answer[:-1]}]})

    def test_stats_report_cached_tokens(self):
        lines = self.said(f"/stats\n{PROMPT}\nThen\n/stats\n", *SHORT).splitlines()
        self.assertEqual(lines[0], "no answer yet")
        self.assertRegex(lines[-1], r"^4 messages; prompt: \d+ tokens, [1-9]\d* of them cached, .* 12 tokens, .*, length$")

    def test_reset_starts_a_new_conversation(self):
        once = self.said("Once\n", *SHORT)
        self.assertEqual(self.said("Once\n/reset\nOnce\n", *SHORT), once * 2)

    def test_each_answer_matches_the_schema(self):
        schema = self.folder / "schema.json"
        schema.write_text('{"type": "object", "properties": {"age": {"type": "integer", "minimum": 1, "maximum": 9}}, '
                          '"required": ["age"], "additionalProperties": false}')
        answer = json.loads(self.said("How old?\n", "--schema", schema, "--max-new-tokens", "40"))
        self.assertEqual(list(answer), ["age"])

    def test_calls_are_data_and_have_results(self):
        tools = self.folder / "tools.json"
        tools.write_text(TOOLS)
        file = self.folder / "said.json"
        # A dialect without reasoning: the small model might reason to the limit of tokens.
        result = self.chat(f"/result early\nWeather?\n/result sunny\n/save {file}\n", "--tools", tools,
                           "--dialect", "mistral", "--tool-choice", "get_weather", "--max-new-tokens", "200",
                           "--temperature", "0")
        self.assertRegex(result.stderr, r"\Aquire: /result: [^\n]+\n\Z")
        said = json.loads(file.read_text())["messages"]
        calls = [line for line in result.stdout.splitlines() if line]
        self.assertEqual([json.loads(line)["name"] for line in calls], ["get_weather"] * len(calls))
        self.assertNotIn("TOOL_CALLS", result.stdout)
        self.assertEqual([turn["role"] for turn in said], ["user", "assistant", "tool", "assistant"])
        call = said[1]["tool_calls"][0]
        self.assertEqual(json.loads(call["function"]["arguments"]), json.loads(calls[0])["arguments"])
        self.assertEqual((said[2]["tool_call_id"], said[2]["content"]), (call["id"], "sunny"))

    def test_an_invalid_command_ends_nothing(self):
        result = self.chat("/sing\n/tools /nowhere\nOnce\n", *SHORT)
        self.assertEqual(result.returncode, command.FAILED)
        self.assertEqual(result.stdout, self.said("Once\n", *SHORT))
        self.assertRegex(result.stderr, r"\Aquire: /sing: [^\n]+\nquire: cannot read /nowhere: [^\n]+\n\Z")

    def test_a_model_without_a_template_is_refused(self):
        with command.broken_model(lambda model: (model / "chat_template.jinja").unlink()) as model:
            result = command.run("chat", "--model", model, stdin="Hello\n")
        self.assertEqual(result.returncode, command.FAILED)
        self.assertIn("no chat template", result.stderr)

    def test_help(self):
        for name in ("/system", "/tools", "/save", "/stats", "/reset", "/quit"):
            self.assertIn(name, self.said("/help\n"))

    def test_the_conversation_in_the_documents(self):
        """Compares with the document. With QUIRE_RECORD=1, records the document again."""
        if not SMOLLM2.exists():
            self.skipTest("QUIRE_SMOLLM2_DIR names no SmolLM2-135M-Instruct")
        before, told, after = re.split(r"(?<=<!-- recorded by tests/cli/chat_test.py -->\n```text\n)(.*?)(?=```\n)",
                                       DOCS.read_text(), maxsplit=1, flags=re.DOTALL)
        said = []
        schema = self.folder / "schema.json"
        schema.write_text(SCHEMA)
        tools = self.folder / "tools.json"
        tools.write_text(TOOLS)
        greedy = ("--temperature", "0")
        for args, lines in ((greedy, ("What is the capital of France?", "And of Norway?")),
                            ((*greedy, "--schema", schema), ("Who was the first man on the moon? Answer in JSON.",)),
                            ((*greedy, "--tools", tools, "--dialect", "hermes", "--tool-choice", "get_weather"),
                             ("What is the weather in Paris?",))):
            shown = "".join(f" {flag} {pathlib.Path(value).name}" for flag, value in zip(args[::2], args[1::2]))
            said.append(f"$ quire chat --model SmolLM2-135M-Instruct{shown}\n")
            for count in range(1, len(lines) + 1):
                result = command.run("chat", "--model", SMOLLM2, *args, "--max-new-tokens", "80",
                                     stdin="\n".join(lines[:count]) + "\n")
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                # The answers to all earlier lines are the same again, to the byte.
                known = "" if count == 1 else whole
                self.assertTrue(result.stdout.startswith(known))
                said.append(f"> {lines[count - 1]}\n{result.stdout[len(known):]}")
                whole = result.stdout
        recorded = "".join(said)
        if os.environ.get("QUIRE_RECORD"):
            DOCS.write_text(before + recorded + after)
        else:
            self.assertEqual(told, recorded)

    def terminal(self, *args):
        """Returns the process id and the terminal of an interactive `quire chat`."""
        pid, terminal = pty.fork()
        if pid == 0:
            line = command.command_line(["chat", "--template", self.template, *args])
            os.execve(line[0], line, command.environment())
        return pid, terminal

    def read_until(self, terminal, text):
        shown = b""
        deadline = time.monotonic() + 60
        while text not in shown and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.2)[0]:
                try:
                    shown += os.read(terminal, 1 << 12)
                except OSError:
                    break
        self.assertIn(text, shown)
        return shown

    def test_an_interrupt_stops_only_the_answer(self):
        for _ in range(5):  # an answer may end before the signal arrives
            pid, terminal = self.terminal("--temperature", "0", "--ignore-eos", "--max-new-tokens", "900")
            self.read_until(terminal, b"> ")
            os.write(terminal, PROMPT.encode() + b"\n")
            self.read_until(terminal, b"\n")
            self.read_until(terminal, b" ")
            os.write(terminal, b"\x03")
            self.read_until(terminal, b"> ")
            os.write(terminal, b"/stats\n")
            stats = self.read_until(terminal, b"> ")
            os.write(terminal, b"/quit\n")
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
            os.close(terminal)
            if b"cancelled" in stats:
                return
        self.fail("no answer was cancelled")

    def test_an_interrupt_at_the_prompt_clears_the_line(self):
        pid, terminal = self.terminal()
        self.read_until(terminal, b"> ")
        os.write(terminal, b"Onc\x03")
        self.read_until(terminal, b"> ")
        os.write(terminal, b"/stats\n")
        self.read_until(terminal, b"no answer yet")
        os.write(terminal, b"\x04")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        os.close(terminal)


if __name__ == "__main__":
    command.main()
