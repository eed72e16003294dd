"""`quire stage`: a second process has layers of a model, and the text is that of one process."""
import contextlib
import pathlib
import re
import signal
import subprocess
import tempfile

import command

KEY = "0123456789abcdef0123456789abcdef"


class Stage(command.CommandTest):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.key = self.directory / "key"
        self.key.write_text(KEY + "\n", encoding="utf-8")

    @contextlib.contextmanager
    def stage(self, *args, models=command.EMBEDDED.parent):
        """Yields the process and the name of a stage."""
        process = command.start("stage", "--listen", "127.0.0.1:0", "--key-file", self.key, "--threads", "1",
                                "--models", models, *args, stderr=subprocess.PIPE, text=True)
        try:
            line = process.stderr.readline()
            address = re.search(r"listens at (\S+)", line)
            self.assertIsNotNone(address, line)
            yield process, "tcp://" + address.group(1)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def generate(self, *args):
        return command.run("generate", "--prompt", command.PROMPT, "--max-new-tokens", "24", "--temperature", "0", *args)

    def test_the_text_is_that_of_one_process(self):
        alone = self.generate("--device", "cpu")
        self.assertEqual(alone.returncode, command.OK, alone.stderr)
        with self.stage("--memory", "512M") as (_, name):
            for split in ("3,5", "0,8"):
                both = self.generate("--device", f"cpu,{name}", "--split", split, "--stage-key", self.key)
                self.assertEqual(both.returncode, command.OK, both.stderr)
                self.assertEqual(both.stdout, alone.stdout)
            plan = command.run("plan", "--device", f"cpu,{name}", "--split", "3,5", "--context", "2048",
                               "--stage-key", self.key)
            self.assertEqual(plan.returncode, command.OK, plan.stderr)
            self.assertIn(name, plan.stdout)

    def test_the_first_signal_ends_it(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.stage() as (process, _):
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=60), command.OK)

    def test_a_host_needs_the_key(self):
        other = self.directory / "other"
        other.write_text("another key that has 32 bytes or more", encoding="utf-8")
        with self.stage() as (_, name):
            self.fail_with(command.USAGE, ["another key"], "generate", "--prompt", "a", "--device", f"cpu,{name}",
                           "--stage-key", other)
            self.fail_with(command.USAGE, ["stage_key_file"], "generate", "--prompt", "a", "--device", f"cpu,{name}")
            self.fail_with(command.USAGE, ["such as cpu"], "generate", "--prompt", "a", "--device", name,
                           "--stage-key", self.key)

    def test_a_stage_needs_memory_and_files(self):
        with self.stage("--memory", "1M") as (_, name):
            self.fail_with(command.NO_MODEL, ["bytes"], "generate", "--prompt", "a", "--device", f"cpu,{name}",
                           "--split", "3,5", "--stage-key", self.key)
        with self.stage(models=self.directory) as (_, name):
            self.fail_with(command.NO_MODEL, ["no model"], "generate", "--prompt", "a", "--device", f"cpu,{name}",
                           "--split", "3,5", "--stage-key", self.key)

    def test_wrong_values_are_refused(self):
        self.fail_with(command.USAGE, ["HOST:PORT"], "stage", "--listen", "nowhere", "--key-file", self.key)
        self.fail_with(command.USAGE, ["--memory", "24G"], "stage", "--listen", "127.0.0.1:0", "--key-file", self.key,
                       "--memory", "much")
        self.fail_with(command.USAGE, ["--key-file"], "stage", "--listen", "127.0.0.1:0")
        self.key.write_text("short", encoding="utf-8")
        self.fail_with(command.USAGE, ["32"], "stage", "--listen", "127.0.0.1:0", "--key-file", self.key)

    def test_a_stage_that_is_killed_ends_the_host(self):
        with self.stage() as (process, name):
            host = command.start("generate", "--prompt", command.PROMPT, "--max-new-tokens", "2000", "--ignore-eos",
                                 "--device", f"cpu,{name}", "--split", "3,5", "--stage-key", self.key,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            host.stdout.read(1)
            process.kill()
            _, error = host.communicate(timeout=60)
        self.assertEqual(host.returncode, command.FAILED, error)
        self.assertIn(name, error)


if __name__ == "__main__":
    command.main()
