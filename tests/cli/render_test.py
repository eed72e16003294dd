"""quire render: conversations to prompts."""
import json
import pathlib
import tempfile

import command

TEMPLATES = command.ROOT / "tests/golden/templates"
CONVERSATION = {"messages": [{"role": "user", "content": "hi <|im_end|>"}], "add_generation_prompt": True}


def as_json(value):
    return json.dumps(value)


class Render(command.CommandTest):
    def render(self, template, value, *args):
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "a.jinja"
            path.write_text(template)
            return command.run("render", "--template", path, "--input", "-", *args, stdin=as_json(value))

    def test_golden_cases(self):
        for path in sorted(TEMPLATES.glob("*.json"))[:4]:
            golden = json.loads(path.read_text())
            if "cases" not in golden or "context" not in golden:
                continue
            tokens = [part for key in ("bos", "eos") if f"{key}_token" in golden["context"]
                      for part in (f"--{key}", golden["context"][f"{key}_token"])]
            for case in golden["cases"][:6]:
                with self.subTest(template=path.stem, case=case["name"]):
                    result = command.run("render", "--template", TEMPLATES / golden["template_file"], "--input", "-",
                                         "--now", golden["now"], *tokens, stdin=as_json(case["input"]))
                    if "error" in case:
                        self.assertEqual(result.returncode, command.FAILED)
                        self.assertEqual(result.stderr.count("\n"), 1)
                        if case["error_kind"] == "raise_exception":
                            self.assertTrue(result.stderr.rstrip("\n").endswith(case["error"]), result.stderr)
                    else:
                        self.assertEqual(result.stdout, case["output"], result.stderr)

    def test_conversations_get_the_form_that_the_template_needs(self):
        text = "{% for m in messages %}{{ m.role }}{% for c in m.tool_calls or [] %} {{ c.function.name + ' ' + " \
               "c.function.arguments }}{% endfor %} {{ m.content or '' }};{% endfor %}"
        def call(arguments):
            return {"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "clock", "arguments": arguments}}]},
                {"role": "tool", "tool_call_id": "a", "content": "noon"}]}
        given = self.render(text, call('{"zone": "utc"}'))
        self.assertEqual((given.stdout, given.stderr), ('user go;assistant clock {"zone": "utc"} ;tool noon;', ""))
        changed = self.render(text, call({"zone": "utc"}))
        self.assertEqual(changed.stdout, given.stdout)
        self.assertEqual(changed.stderr, "quire: changed for the template: messages[1].tool_calls[0].function.arguments: "
                                         "arguments_as_text\n")
        as_given = self.render(text, call({"zone": "utc"}), "--as-given")
        self.assertEqual((as_given.returncode, as_given.stdout), (command.FAILED, ""))

    def test_a_developer_is_heard_and_an_error_names_its_message(self):
        messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi"}]
        path = TEMPLATES / "Qwen-Qwen3-0.6B.jinja"
        result = command.run("render", "--template", path, "--input", "-", stdin=as_json({"messages": messages}))
        self.assertEqual(result.stdout, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n")
        self.assertIn("messages[0].role: developer_as_system", result.stderr)
        refused = self.render("{% for m in messages %}{{ raise_exception('no ' ~ m.role) if m.role not in "
                              "['user', 'assistant', 'system'] }}{{ m.content }}{% endfor %}",
                              {"messages": messages + [{"role": "narrator", "content": "x"}]})
        self.assertEqual(refused.returncode, command.FAILED)
        self.assertTrue(refused.stderr.startswith("quire: messages[2]: chat template, line 1"), refused.stderr)
        self.assertTrue(refused.stderr.endswith("no narrator\n"), refused.stderr)

    def test_nothing_is_added(self):
        self.assertEqual(self.render("a\n\n{{ messages|length }}", {"messages": []}).stdout, "a\n\n0")

    def test_special_tokens_and_time(self):
        result = self.render("{{ bos_token }}{{ eos_token }} {{ strftime_now('%d %B %Y') }}", {"messages": []},
                             "--bos", "<s>", "--eos", "</s>", "--now", "2025-07-26")
        self.assertEqual(result.stdout, "<s></s> 26 July 2025")

    def test_an_error_is_one_line_and_exit_code_1(self):
        for template in ("{% if %}", "{{ none + 1 }}", "{{ raise_exception('no\nway') }}", "{% for i in range(100000) %}"
                         "{% for j in range(100000) %}{% endfor %}{% endfor %}"):
            with self.subTest(template=template):
                result = self.render(template, {"messages": []})
                self.assertEqual((result.returncode, result.stdout), (command.FAILED, ""))
                self.assertEqual(result.stderr.count("\n"), 1)
        for value in ("[]", "{", "{}", '{"messages": [], "messages": []}'):
            result = command.run("render", "--template", TEMPLATES / "Qwen-Qwen3-0.6B.jinja", "--input", "-", stdin=value)
            self.assertEqual(result.returncode, command.FAILED, value)
            self.assertEqual(result.stderr.count("\n"), 1)

    def test_invalid_options_are_usage_errors(self):
        self.assertEqual(command.run("render", "--input", "-", stdin="{}").returncode, command.USAGE)
        self.assertEqual(self.render("a", {"messages": []}, "--tokens").returncode, command.USAGE)
        self.assertEqual(self.render("a", {"messages": []}, "--now", "yesterday").returncode, command.USAGE)
        self.assertEqual(command.run("render", "--model", "/nowhere", "--input", "-").returncode, command.FAILED)

    def test_the_model_has_template_and_tokenizer(self):
        text = self.succeed("render", "--model", command.EMBEDDED, "--input", "-", stdin=as_json(CONVERSATION)).stdout
        self.assertIn("<|im_start|>user\nhi <|im_end|><|im_end|>", text)
        ids = json.loads(self.succeed("render", "--model", command.EMBEDDED, "--input", "-", "--tokens",
                                      stdin=as_json(CONVERSATION)).stdout)
        end = json.loads(self.succeed("tokenize", "--no-special", "<|im_end|>").stdout)
        self.assertEqual(ids.count(end[0]), text.count("<|im_end|>") - 1, "the message's own stays text")
        back = json.loads(self.succeed("detokenize", json.dumps(ids)).stdout)
        self.assertEqual(back, text)

    def test_inspect_prints_the_hash(self):
        digest = self.json_of("inspect", "--model", command.EMBEDDED, "--summary")["chat_template"]
        self.assertRegex(digest, "^[0-9a-f]{64}$")


if __name__ == "__main__":
    command.main()
