"""The command as a process: signals, closed pipes, full disks, terminals."""
import os
import pty
import select
import signal
import subprocess
import time

import command

LONG = ("generate", "--prompt", command.PROMPT, "--ignore-eos", "--max-new-tokens", "900")


def read_all(descriptor, process):
    """Returns the output on a terminal until the process ends."""
    shown = b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], 0.2)
        if ready:
            try:
                piece = os.read(descriptor, 1 << 16)
            except OSError:  # the other end is closed
                return shown
            shown += piece
        elif process.poll() is not None:
            return shown


class Process(command.CommandTest):
    def interrupt(self, sent, *args):
        process = command.start(*args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if args[0] == "generate":
            process.stdout.read(1)  # it generates now
        else:
            time.sleep(0.5)
        process.send_signal(sent)
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    def test_interrupt_ends_generation_cleanly(self):
        for sent, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(signal=sent):
                returncode, output, errors = self.interrupt(sent, *LONG)
                self.assertEqual(returncode, code, errors)
                self.assertTrue(output.endswith("\n"))

    def test_interrupt_ends_a_wait_for_input(self):
        for args in (["tokenize"], ["generate", "--prompt-file", "-"]):
            with self.subTest(args=args):
                process = command.start(*args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                time.sleep(1.0)
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(60), command.INTERRUPTED)
                for stream in (process.stdin, process.stdout, process.stderr):
                    stream.close()

    def test_closed_pipe_ends_quietly(self):
        process = command.start(*LONG, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(1)
        process.stdout.close()
        errors = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(60), command.READER_GONE)
        self.assertEqual(errors, b"")

    def test_full_disk(self):
        with open("/dev/full", "w") as full:
            process = command.start("tokenize", "a", stdout=full, stderr=subprocess.PIPE, text=True)
            _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, command.FAILED)
        self.assertRegex(errors, r"\Aquire: cannot write to standard output: [^\n]+\n\Z")

    def test_pipes_get_no_progress(self):
        result = self.succeed("generate", "--prompt", command.PROMPT, "--max-new-tokens", "8", "--jobs", "2",
                              "--seed", "0")
        for text in (result.stdout, result.stderr):
            self.assertNotIn("\x1b", text)
            self.assertNotIn("\r", text)

    def test_a_terminal_gets_progress_that_is_erased(self):
        master, terminal = pty.openpty()
        process = command.start("generate", "--prompt", command.PROMPT, "--max-new-tokens", "64", "--ignore-eos",
                                "--jobs", "4", stdout=subprocess.DEVNULL, stderr=terminal)
        os.close(terminal)
        shown = read_all(master, process).decode()
        os.close(master)
        self.assertEqual(process.wait(60), command.OK)
        self.assertIn("new tokens", shown)
        self.assertRegex(shown, r"\r\x1b\[K4 jobs: [^\x1b]*\Z")


if __name__ == "__main__":
    command.main()
