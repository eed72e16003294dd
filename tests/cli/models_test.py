"""Models that cannot be loaded: one line, exit code 3, an empty standard output."""
import os

import command


class Models(command.CommandTest):
    def refuse(self, change, *words):
        with command.broken_model(change) as directory:
            for args in (["generate", "--prompt", "a"], ["inspect"]):
                with self.subTest(args=args):
                    self.fail_with(command.NO_MODEL, words, *args, "--model", directory)

    def test_wrong_path(self):
        self.fail_with(command.NO_MODEL, ["nowhere/model"], "generate", "--prompt", "a", "--model", "nowhere/model")
        self.fail_with(command.NO_MODEL, ["nowhere/model"], "tokenize", "a", "--model", "nowhere/model")
        self.fail_with(command.NO_MODEL, ["nowhere/model"], "generate", "--prompt", "a", QUIRE_MODEL="nowhere/model")

    def test_a_file_instead_of_a_directory(self):
        self.fail_with(command.NO_MODEL, ["config.json"], "inspect", "--model", command.EMBEDDED / "config.json")

    def test_truncated_shard(self):
        weights = (command.EMBEDDED / "output.safetensors").read_bytes()
        for length in (0, 4, 8, 1000, len(weights) // 2, len(weights) - 1):
            with self.subTest(length=length):
                self.refuse(lambda d: command.replace(d / "output.safetensors", weights[:length]),
                            "output.safetensors")

    def test_no_weights(self):
        self.refuse(lambda d: (d / "output.safetensors").unlink(), "safetensors")

    def test_unknown_architecture(self):
        self.refuse(lambda d: command.edit_json(d / "config.json", architectures=["PerceiverForever"]),
                    "PerceiverForever")

    def test_malformed_config(self):
        self.refuse(lambda d: command.replace(d / "config.json", b'{"architectures": ['), "config.json")
        self.refuse(lambda d: command.edit_json(d / "config.json", hidden_size=-5), "config.json", "hidden_size")
        self.refuse(lambda d: (d / "config.json").unlink(), "config.json")

    def test_malformed_tokenizer(self):
        self.refuse(lambda d: command.replace(d / "tokenizer.json", b"{}"), "tokenizer.json")

    def test_special_files_are_refused_as_input(self):
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            for make in (os.mkfifo, os.mkdir):
                with self.subTest(name=name, make=make.__name__):
                    def change(directory):
                        (directory / name).unlink(missing_ok=True)
                        make(directory / name)
                    self.refuse(change, name, "regular file")

    def test_line_breaks_in_names_stay_out_of_the_message(self):
        self.fail_with(command.NO_MODEL, [], "inspect", "--model", "no\nsuch\nmodel")

    def test_model_from_the_environment(self):
        with_flag = self.json_of("inspect", "--summary", "--model", command.EMBEDDED)
        from_environment = self.json_of("inspect", "--summary", QUIRE_MODEL=str(command.EMBEDDED))
        self.assertEqual(with_flag, from_environment)

    def test_embedded_model_is_found(self):
        self.assertIn("story-15m-exl2-4.0bpw", self.json_of("inspect", "--summary")["model"])


if __name__ == "__main__":
    command.main()
