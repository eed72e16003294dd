"""quire pull under a hub that fails in every way, and the models that it has brought."""
import fcntl
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time

import command
from failing_hub import Hub, digest, git_sha1, sha256

PIECE = 16 << 20  # of a file; capi/hub/partial_file.h
LARGE = random.Random(1).randbytes(2 * PIECE + 12345)
SMALL = {"config.json": b"{}", "README.md": b"# x", "tokenizer.json": b'{"a": 1}', "model.safetensors": b"weights" * 999}


def story():
    return {file.name: file.read_bytes() for file in command.EMBEDDED.iterdir() if file.is_file()}


class PullTest(command.CommandTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.home = pathlib.Path(self.folder.name) / "home"
        self.hub = self.start_hub({"org/small": dict(SMALL), "org/large": {"model.gguf": LARGE}})

    def tearDown(self):
        self.check_blobs()
        self.folder.cleanup()

    def start_hub(self, repositories, **options):
        hub = Hub(repositories, **options)
        self.addCleanup(hub.close)
        return hub

    def environment(self, **changes):
        clean = {name: "" for name in os.environ if name.startswith(("HF_", "HUGGING", "TRANSFORMERS_"))}
        # A busy machine may let a connection wait for long.
        return {**clean, "HF_ENDPOINT": self.hub.endpoint, "HF_HOME": str(self.home), "NO_PROXY": "*",
                "HF_HUB_DOWNLOAD_TIMEOUT": "300", **changes}

    def pull(self, *args, **changes):
        return command.run("pull", *args, **self.environment(**changes))

    def pulled(self, *args, **changes):
        result = self.pull(*args, **changes)
        self.assertEqual(result.returncode, command.OK, result.stderr)
        return pathlib.Path(result.stdout.removesuffix("\n"))

    def refused(self, code, words, *args, **changes):
        result = self.pull(*args, "--quiet", **changes)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, r"\Aquire: [^\n]+\n\Z")
        for word in words:
            self.assertIn(word, result.stderr)
        return result

    def cache(self, repository="org/small"):
        return self.home / "hub" / ("models--" + repository.replace("/", "--"))

    def assert_absent(self, repository="org/small"):
        """Nothing of the model can be taken for complete."""
        self.assertFalse((self.cache(repository) / "snapshots").exists())
        self.assertFalse((self.cache(repository) / "refs").exists())

    def check_blobs(self):
        """Every finished content has the digest that is its name."""
        for blob in self.home.glob("hub/models--*/blobs/*"):
            if ".quire." not in blob.name:
                data = blob.read_bytes()
                self.assertIn(blob.name, (sha256(data), git_sha1(data)))


class Layout(PullTest):
    def test_the_cache_has_the_layout_of_huggingface_hub(self):
        path = self.pulled("org/small")
        commit = self.hub.commit("org/small")
        self.assertEqual(path, self.cache() / "snapshots" / commit)
        self.assertEqual((self.cache() / "refs/main").read_bytes(), commit.encode())
        brought = {"config.json", "tokenizer.json", "model.safetensors"}
        self.assertEqual({file.name for file in path.iterdir()}, brought)
        for name in brought:
            self.assertEqual(os.readlink(path / name), f"../../blobs/{digest(name, SMALL[name])}")
            self.assertEqual((path / name).read_bytes(), SMALL[name])
        self.assertEqual({blob.name for blob in (self.cache() / "blobs").iterdir()},
                         {digest(name, SMALL[name]) for name in brought})
        self.assertFalse(self.hub.asked_for("README"))

    def test_what_is_there_is_not_brought_again(self):
        self.pulled("org/small")
        self.hub.requests.clear()
        result = json.loads(self.pull("org/small", "--json").stdout)
        self.assertEqual((result["num_files"], result["num_downloaded_files"]), (3, 0))
        self.assertEqual(len(self.hub.requests), 1)
        self.hub.repositories["org/small"]["config.json"] = b'{"new": 1}'
        result = json.loads(self.pull("org/small", "--json").stdout)
        self.assertEqual((result["num_downloaded_files"], result["downloaded_bytes"]), (1, 10))
        self.assertEqual((self.cache() / "refs/main").read_text(), self.hub.commit("org/small"))

    def test_lines_of_json_show_progress_and_the_result(self):
        result = self.pull("org/large", "--json-lines")
        self.assertEqual(result.stderr, "")
        *progress, last = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(last["downloaded_bytes"], len(LARGE))
        self.assertGreater(len(progress), 0)
        self.assertEqual({line["total"] for line in progress}, {len(LARGE)})
        arrived = [line["completed"] for line in progress]
        self.assertEqual(arrived, sorted(arrived))

    def test_revisions(self):
        path = self.pulled("org/small@v1")
        self.assertEqual((self.cache() / "refs/v1").read_text(), path.name)
        self.assertFalse((self.cache() / "refs/main").exists())
        self.assertEqual(self.pulled(f"org/small@{path.name}"), path)
        self.refused(command.FAILED, ["404", "org/small@other", "Invalid rev id"], "org/small@other")

    def test_quantizations_and_split_files(self):
        names = ["m-Q4_K_M.gguf", "Q8_0/m-Q8_0-00001-of-00002.gguf", "Q8_0/m-Q8_0-00002-of-00002.gguf"]
        self.hub.repositories["org/gguf"] = {name: name.encode() for name in names}
        self.assertEqual(self.pulled("org/gguf").name, names[0])
        self.assertEqual(len(self.hub.asked_for("resolve")), 1)
        path = self.pulled("org/gguf:q8_0")
        self.assertEqual(path.relative_to(path.parents[1]).as_posix(), names[1])
        self.assertEqual((path.parent / "m-Q8_0-00002-of-00002.gguf").read_bytes(), names[2].encode())
        self.refused(command.FAILED, ["Q5_0", "Q4_K_M", "Q8_0"], "org/gguf:Q5_0")

    def test_an_index_chooses_the_weights(self):
        index = json.dumps({"weight_map": {"a": "model-00001-of-00001.safetensors"}}).encode()
        self.hub.repositories["org/indexed"] = {"config.json": b"{}", "model-00001-of-00001.safetensors": b"1",
                                                "other.safetensors": b"2", "model.safetensors.index.json": index}
        path = self.pulled("org/indexed")
        self.assertTrue((path / "model-00001-of-00001.safetensors").exists())
        self.assertFalse((path / "other.safetensors").exists())

    def test_empty_and_equal_files(self):
        self.hub.repositories["org/empty"] = {"config.json": b"", "generation_config.json": b"", "a.safetensors": b"x"}
        path = self.pulled("org/empty")
        self.assertEqual((path / "config.json").read_bytes(), b"")
        self.assertEqual(os.readlink(path / "config.json"), os.readlink(path / "generation_config.json"))

    def test_lines_on_a_pipe_and_none_if_quiet(self):
        self.assertIn("model.safetensors  6.8 KiB", self.pull("org/small").stderr)
        self.assertEqual(self.pull("org/large", "--quiet").stderr, "")

    def test_names_that_are_none(self):
        for name in ("", "org/../x", "/etc/passwd", "org/a--b", "org/name:../x"):
            with self.subTest(name=name):
                self.refused(command.USAGE, [], name)
        self.assertEqual(self.hub.requests, [])

    def test_a_cache_that_huggingface_hub_reads(self):
        try:
            import huggingface_hub
        except ImportError:
            self.skipTest("huggingface_hub is absent")
        path = self.pulled("org/small")
        cache = self.home / "hub"
        self.assertEqual(huggingface_hub.snapshot_download("org/small", cache_dir=cache, local_files_only=True), str(path))
        scanned = huggingface_hub.scan_cache_dir(cache)
        self.assertEqual([repo.repo_id for repo in scanned.repos], ["org/small"])
        self.assertEqual(scanned.warnings, [])
        self.hub.repositories["org/theirs"] = dict(SMALL)
        theirs = huggingface_hub.snapshot_download("org/theirs", cache_dir=cache, endpoint=self.hub.endpoint)
        result = json.loads(self.pull("org/theirs", "--json").stdout)
        self.assertEqual((result["path"], result["num_downloaded_files"]), (theirs, 0))


class Use(PullTest):
    def test_a_pulled_model_answers_as_its_directory(self):
        self.hub.repositories["org/story"] = story()
        self.pulled("org/story")
        args = ("generate", "--prompt", command.PROMPT, "--max-new-tokens", 8, "--temperature", 0, "--quiet")
        expected = self.succeed(*args, "--model", command.EMBEDDED).stdout
        for changes in ({}, {"HF_HUB_OFFLINE": "1"}):
            self.assertEqual(self.succeed(*args, "--model", "org/story", **self.environment(**changes)).stdout, expected)
        self.assertEqual(self.succeed(*args, **self.environment(QUIRE_MODEL="org/story")).stdout, expected)

    def test_a_model_that_is_not_there(self):
        self.fail_with(command.NO_MODEL, ["org/none", "quire pull org/none", str(self.home)], "inspect", "--model", "org/none",
                       **self.environment())

    def test_models_are_listed_with_the_planners_answer(self):
        self.hub.repositories["org/story"] = story()
        for name in ("org/story", "org/small"):
            self.pulled(name)
        listed = {model["model"]: model for model in self.json_of("models", **self.environment())["models"]}
        self.assertEqual(set(listed), {"org/story", "org/small"})
        self.assertTrue(listed["org/story"]["runs"])
        self.assertGreater(listed["org/story"]["needed_bytes"], 0)
        self.assertEqual(listed["org/small"]["bytes"], sum(len(SMALL[name]) for name in SMALL if name != "README.md"))
        self.assertFalse(listed["org/small"]["runs"])
        self.assertIn("config.json", listed["org/small"]["reason"])
        self.assertRegex(self.succeed("models", **self.environment()).stdout, r"(?m)^org/story +.*yes$")

    def test_an_empty_cache(self):
        self.assertEqual(self.json_of("models", **self.environment())["models"], [])
        self.assertIn("quire pull", self.succeed("models", **self.environment()).stderr)


class Transfers(PullTest):
    def test_pieces_come_over_several_connections(self):
        self.assertEqual(self.pulled("org/large").read_bytes(), LARGE)
        ranges = sorted(headers["Range"] for _, headers in self.hub.asked_for("resolve"))
        self.assertEqual(ranges, sorted(f"bytes={at}-{min(at + PIECE, len(LARGE)) - 1}" for at in range(0, len(LARGE), PIECE)))

    def test_cut_connections_continue_where_they_were_cut(self):
        self.hub.fail(self.hub.cut(1 << 20), "model.gguf", times=3)
        self.assertEqual(self.pulled("org/large").read_bytes(), LARGE)
        self.assertEqual(self.hub.bytes_sent - len(json.dumps(self.hub.list_files("org/large"))), len(LARGE))

    def test_a_hub_that_always_cuts_is_given_up(self):
        self.hub.fail(self.hub.cut(10), "model.safetensors", times=99)
        self.refused(command.FAILED, ["org/small/model.safetensors", "broke", "3 attempts"], "org/small", "--retries", "2")
        self.assert_absent()

    def test_a_hub_without_ranges(self):
        self.hub.fail(self.hub.without_ranges(), "model.gguf", times=99)
        self.assertEqual(self.pulled("org/large").read_bytes(), LARGE)

    def test_a_hub_without_ranges_that_cuts(self):
        self.hub.fail(self.hub.without_ranges(PIECE + 5), "model.gguf", times=4)
        self.hub.fail(self.hub.without_ranges(), "model.gguf", times=99)
        self.assertEqual(self.pulled("org/large").read_bytes(), LARGE)

    def test_a_hub_that_changes_its_mind_about_ranges(self):
        self.hub.fail(self.hub.slow(0.3), "model.gguf", times=1)
        self.hub.fail(self.hub.without_ranges(), "model.gguf", times=1)
        self.assertEqual(self.pulled("org/large").read_bytes(), LARGE)

    def test_a_connection_that_stalls_is_replaced(self):
        self.hub.fail(self.hub.stall(100), "model.safetensors")
        self.pulled("org/small", HF_HUB_DOWNLOAD_TIMEOUT="1")

    def test_a_slow_hub_is_waited_for(self):
        self.hub.fail(self.hub.slow(0.5), "", times=4)
        self.pulled("org/small")

    def test_server_errors_pass(self):
        for code in (500, 502, 503, 504, 408, 429):
            self.hub.fail(self.hub.status(code), "model.safetensors" if code % 2 else "api/models")
        self.pulled("org/small", "--retries", "6")

    def test_the_hub_demands_a_pause(self):
        self.hub.fail(self.hub.status(429, Retry_After="1"), "model.safetensors")
        begin = time.monotonic()
        self.pulled("org/small")
        self.assertGreaterEqual(time.monotonic() - begin, 1.0)
        self.assertEqual(len(self.hub.asked_for("model.safetensors")), 2)

    def test_a_long_pause_is_an_error(self):
        self.hub.fail(self.hub.status(429, Retry_After="5000"), "model.safetensors")
        self.refused(command.FAILED, ["429", "5000 seconds"], "org/small")
        self.assert_absent()

    def test_an_interrupted_download_continues(self):
        stall = self.hub.stall(PIECE // 2)  # the first piece stalls, the others complete
        self.hub.fail(lambda handler: handler.headers["Range"].startswith("bytes=0-") and stall(handler), "model.gguf", times=3)
        process = command.start("pull", "org/large", "--quiet", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=command.environment(**self.environment()))
        journal = self.cache("org/large") / "blobs" / (sha256(LARGE) + ".quire.pieces")
        while not journal.exists() or journal.read_text().count("\n") < 3:
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (command.INTERRUPTED, b""))
        self.assertIn(b"continues", error)
        self.assert_absent("org/large")
        self.hub.faults.clear()
        self.hub.requests.clear()
        self.assertEqual(self.pulled("org/large").read_bytes(), LARGE)
        self.assertEqual(len(self.hub.asked_for("model.gguf")), 1)

    def test_damaged_pieces_of_an_earlier_download_are_replaced(self):
        blobs = self.cache("org/large") / "blobs"
        blobs.mkdir(parents=True)
        (blobs / (sha256(LARGE) + ".quire.incomplete")).write_bytes(bytes(len(LARGE)))
        (blobs / (sha256(LARGE) + ".quire.pieces")).write_text(f"quire pieces {len(LARGE)} {PIECE}\n0\n1\n")
        self.assertEqual(self.pulled("org/large").read_bytes(), LARGE)

    def test_damage_in_the_cache(self):
        blob = (self.pulled("org/small") / "model.safetensors").resolve()
        data = blob.read_bytes()
        blob.write_bytes(data[:-1])
        self.pulled("org/small")
        self.assertEqual(blob.read_bytes(), data)
        blob.write_bytes(data[:-1] + b"?")
        self.assertIn("damaged", self.pull("org/small", "--verify").stderr)
        self.assertEqual(blob.read_bytes(), data)

    def test_two_commands_at_the_same_time(self):
        both = [command.start("pull", "org/large", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=command.environment(**self.environment())) for _ in range(2)]
        paths = {process.communicate(timeout=120)[0].decode().strip() for process in both}
        self.assertEqual([process.returncode for process in both], [0, 0])
        self.assertEqual(len(paths), 1)
        self.assertEqual(pathlib.Path(paths.pop()).read_bytes(), LARGE)

    def test_the_lock_of_another_program_is_respected(self):
        locks = self.home / "hub/.locks/models--org--small"
        locks.mkdir(parents=True)
        with open(locks / (sha256(SMALL["model.safetensors"]) + ".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            process = command.start("pull", "org/small", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    env=command.environment(**self.environment()))
            self.assertIn("waiting for another download", process.stderr.readline())
            self.assertFalse(self.hub.asked_for("model.safetensors"))
            fcntl.flock(lock, fcntl.LOCK_UN)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)


class Refusals(PullTest):
    def test_contents_that_differ_from_the_list(self):
        flip = lambda data: data[:-1] + bytes([data[-1] ^ 1])
        cases = {"another byte": (self.hub.changed(flip), ["digest"]),
                 "too short": (self.hub.changed(lambda data: data[:-1]), ["other bytes"]),
                 "too long": (self.hub.changed(lambda data: data + b"x"), ["other bytes"]),
                 "empty": (self.hub.changed(lambda data: b""), ["other bytes"]),
                 "a page in place of the file": (self.hub.changed(lambda data: b"<html>log in</html>"), ["other bytes"])}
        for name, (fault, words) in cases.items():
            with self.subTest(name=name):
                self.hub.faults.clear()
                self.hub.fail(fault, "model.safetensors", times=99)
                self.refused(command.FAILED, ["org/small/model.safetensors", *words], "org/small", "--retries", "1")
                self.assert_absent()
                self.check_blobs()
        self.hub.faults.clear()
        self.pulled("org/small")

    def test_pieces_that_differ_from_the_list(self):
        cases = {"a shifted range": (self.hub.other_range(1), "other bytes"),
                 "another size": (self.hub.changed(lambda data: data + b"x"), "other bytes"),
                 "another byte": (self.hub.changed(lambda data: data[:PIECE] + b"?" + data[PIECE + 1:]), "digest")}
        for name, (fault, words) in cases.items():
            with self.subTest(name=name):
                self.hub.faults.clear()
                self.hub.fail(fault, "model.gguf", times=99)
                self.refused(command.FAILED, [words], "org/large", "--retries", "1")
                self.assert_absent("org/large")
                self.check_blobs()
        self.hub.faults.clear()
        self.assertEqual(self.pulled("org/large").read_bytes(), LARGE)

    def test_refusals_of_the_hub(self):
        self.refused(command.FAILED, ["org/none", "401", "HF_TOKEN", "Repository not found"], "org/none")
        for code, words in ((401, "HF_TOKEN"), (403, "terms"), (404, "404"), (410, "410"), (418, "418")):
            with self.subTest(code=code):
                self.hub.faults.clear()
                self.hub.requests.clear()
                self.hub.fail(self.hub.status(code, X_Error_Message="because \x1b[31m"), "model.safetensors", times=9)
                error = self.refused(command.FAILED, ["model.safetensors", words, "because"], "org/small").stderr
                self.assertNotIn("\x1b", error)
                self.assertEqual(len(self.hub.asked_for("model.safetensors")), 1)
        self.assert_absent()

    def test_lists_of_files_that_are_hostile(self):
        good = self.hub.list_files("org/small")
        entry = good["siblings"][0]
        lists = [b"", b"[]", b"{", b"[" * 1000000, b'{"sha":' * 100000, b"\xff" * 100, json.dumps({**good, "sha": "../x"}).encode(),
                 json.dumps({**good, "siblings": good["siblings"] * 2}).encode()]
        for name in ("../../x", "/etc/passwd", "a/../../../x", "a\x00b", "a\nb", "..", ""):
            lists.append(json.dumps({**good, "siblings": [*good["siblings"], {**entry, "rfilename": name}]}).encode())
        for listing in lists:
            with self.subTest(listing=listing[-150:]):
                self.hub.listing = listing
                self.refused(command.FAILED, ["org/small"], "org/small")
                self.assert_absent()
        self.assertFalse(self.hub.asked_for("resolve"))
        self.assertEqual(sorted(path.name for path in pathlib.Path(self.folder.name).iterdir()), [])

    def test_a_list_without_an_end(self):
        def endless(handler):
            handler.send_response(200)
            handler.end_headers()
            handler.close_connection = True
            for _ in range(100):
                handler.wfile.write(b" " * (1 << 20))
            return True
        self.hub.fail(endless, "api/models")
        self.refused(command.FAILED, ["64 MiB"], "org/small")

    def test_a_full_disk_is_noticed_before_the_download(self):
        listing = self.hub.list_files("org/small")
        for file in listing["siblings"]:
            if "lfs" in file:
                file["size"] = 1 << 50
        self.hub.listing = json.dumps(listing).encode()
        self.refused(command.FAILED, ["are free", "HF_HOME"], "org/small")
        self.assertFalse(self.hub.asked_for("resolve"))

    def test_offline_makes_no_request(self):
        self.refused(command.NO_MODEL, ["org/small"], "org/small", HF_HUB_OFFLINE="1")
        self.assertEqual(self.hub.requests, [])
        path = self.pulled("org/small")
        self.hub.requests.clear()
        self.assertEqual(self.pulled("org/small", HF_HUB_OFFLINE="1"), path)
        self.assertEqual(self.hub.requests, [])

    def test_wrong_environment(self):
        for name, value in (("HF_ENDPOINT", "hub.example"), ("HF_ENDPOINT", "file:///etc"), ("HF_TOKEN", "a\nHost: evil"),
                            ("HF_HUB_DOWNLOAD_TIMEOUT", "soon")):
            with self.subTest(name=name, value=value):
                self.refused(command.USAGE, [name], "org/small", **{name: value})
        self.assertEqual(self.hub.requests, [])

    def test_no_hub(self):
        self.refused(command.FAILED, ["org/small", "broke"], "org/small", "--retries", "1", HF_ENDPOINT="http://127.0.0.1:1")

    def test_a_machine_without_libcurl(self):
        libraries = pathlib.Path(self.folder.name)
        for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
            (libraries / name).write_bytes(b"")
        self.refused(command.FAILED, ["libcurl4"], "org/small", LD_LIBRARY_PATH=str(libraries))
        self.succeed("diagnose", LD_LIBRARY_PATH=str(libraries))


class Redirects(PullTest):
    def start_other(self):
        """Returns another host with the same files, as hubs have for large ones."""
        return self.start_hub(self.hub.repositories)

    def test_the_token_goes_to_the_hub_alone(self):
        other = self.start_other()
        self.hub.fail(self.hub.redirect(other.endpoint), "model.gguf", times=99)
        self.assertEqual(self.pulled("org/large", HF_TOKEN="hf_secret").read_bytes(), LARGE)
        for path, headers in self.hub.requests:
            self.assertEqual(headers.get("Authorization"), "Bearer hf_secret", path)
        self.assertTrue(other.requests)
        for path, headers in other.requests:
            self.assertNotIn("Authorization", headers, path)

    def test_the_token_of_the_file(self):
        self.home.mkdir()
        (self.home / "token").write_text("hf_file\n")
        self.pulled("org/small")
        self.assertEqual({headers.get("Authorization") for _, headers in self.hub.requests}, {"Bearer hf_file"})
        self.hub.requests.clear()
        self.pulled("org/large", HF_HUB_DISABLE_IMPLICIT_TOKEN="1")
        self.assertEqual({headers.get("Authorization") for _, headers in self.hub.requests}, {None})

    def test_an_address_that_expires_is_renewed(self):
        other = self.start_other()
        self.hub.fail(self.hub.redirect(other.endpoint), "model.gguf", times=99)
        calls = []

        def expire(handler):
            calls.append(handler.path)
            return len(calls) == 2 and other.status(403)(handler)
        other.fail(expire, "model.gguf", times=99)
        self.assertEqual(self.pulled("org/large", "--connections", "1").read_bytes(), LARGE)

    def test_redirects_of_the_same_host_are_followed(self):
        def renamed(handler):
            if "org/old" not in handler.path:
                return False
            handler.send(307, headers=[("Location", handler.path.replace("org/old", "org/small"))])
            return True
        self.hub.fail(renamed, "", times=99)
        self.pulled("org/old")

    def test_redirects_that_are_refused(self):
        cases = {"a circle": (self.hub.redirect(""), "redirects more than"),
                 "a file of this machine": (lambda h: h.send(302, headers=[("Location", "file:///etc/passwd")]) or True, "not http"),
                 "another protocol": (lambda h: h.send(302, headers=[("Location", "gopher://x/")]) or True, "not http"),
                 "a user in the address": (lambda h: h.send(302, headers=[("Location", "http://a:b@127.0.0.1:1/")]) or True, "not http"),
                 "no address": (lambda h: h.send(302) or True, "302")}
        for name, (fault, words) in cases.items():
            with self.subTest(name=name):
                self.hub.faults.clear()
                self.hub.fail(fault, "model.safetensors", times=99)
                self.refused(command.FAILED, [words], "org/small", "--retries", "1")
                self.assert_absent()


if __name__ == "__main__":
    command.main()
