"""quire parse: raw output to typed events."""
import json
import pathlib
import tempfile

import command

GOLDEN = command.ROOT / "tests/golden/responses"
CALL = '<think>hm</think>Yes.<tool_call>{"name": "go", "arguments": {"a": 1}}</tool_call>'


def events(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


class Parse(command.CommandTest):
    def test_a_line_for_each_event(self):
        result = command.run("parse", "--dialect", "hermes", stdin=CALL)
        self.assertEqual(events(result), [
            {"type": "reasoning", "text": "hm"}, {"type": "text", "text": "Yes."},
            {"type": "call_begin", "index": 0, "name": "go", "id": None},
            {"type": "arguments", "index": 0, "text": '{"a": 1}'},
            {"type": "call_end", "index": 0, "name": "go", "id": None}])

    def test_raw_bytes_joined_are_the_input(self):
        result = command.run("parse", "--dialect", "hermes", "--raw", stdin=CALL)
        self.assertEqual("".join(event["raw"] for event in events(result)), CALL)

    def test_golden_calls_are_joined_by_a_script(self):
        golden = json.loads((GOLDEN / "roundtrip.json").read_text())
        with tempfile.TemporaryDirectory() as name:
            tools = pathlib.Path(name) / "tools.json"
            tools.write_text(json.dumps(golden["tools"]))
            for family in golden["sets"][::4]:
                case = next(case for case in family["cases"] if "tool_calls" in case["expect"])
                result = command.run("parse", "--dialect", family["dialect"], "--tools", tools, stdin=case["output"])
                calls = {}
                for event in events(result):
                    if event["type"] == "call_begin":
                        calls[event["index"]] = {"name": event["name"], "arguments": ""}
                    elif event["type"] == "arguments":
                        calls[event["index"]]["arguments"] += event["text"]
                found = [{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in calls.values()]
                self.assertEqual(found, case["expect"]["tool_calls"], family["template"])

    def test_the_dialect_follows_from_the_template(self):
        with tempfile.TemporaryDirectory() as name:
            source = (command.ROOT / "tests/golden/templates/Qwen-Qwen3-0.6B.jinja").read_text()
            (pathlib.Path(name) / "chat_template.jinja").write_text(source)
            result = command.run("parse", "--dialect", "auto", "--model", name, "--reasoning-open", stdin="a</think>b")
            self.assertEqual(events(result), [{"type": "reasoning", "text": "a"}, {"type": "text", "text": "b"}])

    def test_an_error_is_one_line(self):
        for arguments, code in ((("--dialect", "none"), command.FAILED), (("--dialect", "auto"), command.USAGE),
                                (("--dialect", "hermes", "--tools", "/no/file"), command.FAILED)):
            result = command.run("parse", *arguments, stdin="")
            self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)


if __name__ == "__main__":
    command.main()
