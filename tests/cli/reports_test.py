"""quire inspect, diagnose and bench: numbers that add up."""
import json
import os
import tempfile
from xml.etree import ElementTree

import command

CONFIG = json.loads((command.EMBEDDED / "config.json").read_text())


class Inspect(command.CommandTest):
    def test_description_matches_the_config(self):
        result = self.json_of("inspect")
        self.assertEqual(result["architecture"], CONFIG["architectures"][0])
        self.assertEqual(result["num_layers"], CONFIG["num_hidden_layers"])
        self.assertEqual(result["hidden_size"], CONFIG["hidden_size"])
        self.assertEqual(result["vocab_size"], CONFIG["vocab_size"])
        self.assertEqual(result["num_kv_heads"], CONFIG["num_key_value_heads"])
        self.assertEqual(result["max_context"], CONFIG["max_position_embeddings"])

    def test_layers_are_the_sums_of_their_tensors(self):
        result = self.json_of("inspect")
        self.assertEqual([layer["layer"] for layer in result["layers"]], [None, *range(CONFIG["num_hidden_layers"])])
        for layer in result["layers"]:
            tensors = [t for t in result["tensors"] if t.get("layer") == layer["layer"]]
            self.assertEqual(layer["num_tensors"], len(tensors))
            self.assertEqual(layer["bytes"], sum(t["bytes"] for t in tensors))
        for layer in result["layers"][1:]:
            self.assertGreater(layer["bits_per_weight"], 3.0)
            self.assertLess(layer["bits_per_weight"], 6.0)

    def test_memory_grows_with_context_and_batch(self):
        def memory(*args):
            return self.json_of("inspect", "--summary", *args)["memory"]

        small, longer, more = memory("--context", 256), memory("--context", 1024), memory("--context", 256, "--batch", 4)
        self.assertEqual(small["total_bytes"], small["weight_bytes"] + small["cache_bytes"])
        self.assertLess(small["cache_bytes"], longer["cache_bytes"])
        self.assertLess(small["cache_bytes"], more["cache_bytes"])
        self.assertEqual(small["weight_bytes"], longer["weight_bytes"])

    @command.needs(command.SHARED / "golden/mtp/mimo")
    def test_draft_networks_are_named_and_counted(self):
        model = ("inspect", "--summary", "--context", 256, "--model", command.SHARED / "golden/mtp/mimo")
        heads, none = (self.json_of(*model, "--drafter", drafter)["memory"] for drafter in ("auto", "none"))
        self.assertEqual(heads["drafter"], "multi-token prediction of the checkpoint")
        self.assertGreater(heads["drafter_bytes"], 0)
        self.assertEqual(heads["weight_bytes"], none["weight_bytes"])
        self.assertGreater(heads["cache_bytes"], none["cache_bytes"])
        self.assertEqual(heads["total_bytes"], sum(heads[part] for part in ("weight_bytes", "drafter_bytes", "cache_bytes")))
        self.assertNotIn("drafter", none)
        self.assertEqual(none["drafter_bytes"], 0)
        self.assertIn(heads["drafter"], self.succeed(*model).stdout)

    def test_an_unknown_draft_network_is_refused(self):
        self.fail_with(2, ["--drafter", "eagle"], "inspect", "--drafter", "eagle")
        self.fail_with(3, ["multi-token prediction"], "inspect", "--drafter", "mtp")
        self.fail_with(3, ["multi-token prediction"], "plan", "--drafter", "mtp")

    def test_shards_are_named_and_counted(self):
        one, two = (self.json_of("inspect", "--summary", "--context", 256, "--shards", count) for count in (1, 2))
        self.assertEqual((one["num_shards"], two["num_shards"]), (1, 2))
        self.assertGreater(two["memory"]["cache_bytes"], one["memory"]["cache_bytes"])
        self.assertIn("the cache in 2 shards", self.succeed("inspect", "--summary", "--shards", 2).stdout)


class Plan(command.CommandTest):
    def test_kinds_add_up_on_each_device(self):
        plan = self.json_of("plan", "--device", "cpu,cpu", "--split", "3,5", "--context", 512)
        self.assertEqual([device["num_layers"] for device in plan["devices"]], [3, 5])
        self.assertEqual([layer["device"] for layer in plan["layers"]], [0] * 3 + [1] * 5)
        kinds = ("embedding_bytes", "layer_bytes", "head_bytes", "drafter_bytes", "kv_bytes", "workspace_bytes")
        for part in (plan, *plan["devices"]):
            self.assertEqual(part["total_bytes"], sum(part[kind] for kind in kinds))
        for kind in (*kinds, "total_bytes"):
            self.assertEqual(plan[kind], sum(device[kind] for device in plan["devices"]))

    def test_a_model_without_a_draft_network_has_none(self):
        for drafter in ("auto", "none", "ngram"):
            self.assertEqual(self.json_of("plan", "--context", 256, "--drafter", drafter)["drafter_bytes"], 0)
        self.assertRegex(self.succeed("plan", "--context", 256).stdout, r"(?m)^drafter +0")
        self.fail_with(2, ["--drafter"], "plan", "--drafter", "eagle")

    @command.needs(command.SHARED / "golden/mtp/mimo")
    def test_the_heads_of_a_checkpoint_take_memory(self):
        heads, none = (self.json_of("plan", "--model", command.SHARED / "golden/mtp/mimo", "--context", 256, "--drafter", drafter)
                       for drafter in ("mtp", "none"))
        self.assertGreater(heads["drafter_bytes"], 0)
        self.assertEqual((heads["drafter"], none["drafter"]), ("multi-token prediction of the checkpoint", ""))
        self.assertEqual(none["drafter_bytes"], 0)
        self.assertGreater(heads["kv_bytes"], none["kv_bytes"])
        self.assertEqual(heads["state_bytes"], 0, "its pages belong to the cache groups")

    def test_host_experts_are_counted(self):
        shape = ("plan", "--model", "synthetic:qwen3-30b-a3b,bits=4.0,layers=3", "--context", 256)
        plan = self.json_of(*shape, "--host-experts", "all", "--read-rate", "50")
        (device,) = plan["devices"]  # layers of the CPU compute there as before
        self.assertEqual(device["num_host_experts"], 0)
        self.assertEqual([layer["experts_device"] for layer in plan["layers"]], [0] * 3)
        self.assertAlmostEqual(plan["expected_tokens_per_second"], 50e9 / device["step_bytes"], places=3)
        of_layers = device["step_bytes"] - device["head_bytes"]
        self.assertLess(of_layers, device["layer_bytes"] / 4, "a token reads 8 of 128 experts")
        self.assertNotIn("expected_tokens_per_second", self.json_of(*shape))
        self.assertRegex(self.succeed(*shape, "--read-rate", "50").stdout, r"at most [0-9.]+ tokens per second")
        self.fail_with(2, ["--read-rate", "1 devices"], *shape, "--read-rate", "50,900")
        self.fail_with(2, ["--read-rate"], *shape, "--read-rate", "0")
        self.fail_with(3, ["has no experts"], "plan", "--host-experts", "2")
        self.fail_with(2, ["host_experts"], "plan", "--host-experts", "most")
        kept = self.json_of(*shape, "--host-experts", "all", "--card-experts", "1M")
        self.assertEqual(kept["total_bytes"], plan["total_bytes"], "there is no card to keep experts")
        self.fail_with(2, ["--card-experts"], "plan", "--card-experts", "some")

    def test_a_split_by_bytes_assigns_layers(self):
        plan = self.json_of("plan", "--device", "cpu,cpu", "--split", "1G,1G", "--context", 512)
        self.assertEqual([device["num_layers"] for device in plan["devices"]], [0, 8])
        self.fail_with(3, ["needs", "at most 1048576 may be used"], "plan", "--context", 512, "--device", "cpu,cpu",
                       "--split", "1M,1M")
        self.fail_with(2, ["split"], "plan", "--device", "cpu,cpu", "--split", "1G,4")

    def test_shards_together_have_the_pages_of_one(self):
        one, two = (self.json_of("plan", "--context", 256, "--shards", count) for count in (1, 2))
        self.assertEqual((one["num_shards"], two["num_shards"]), (1, 2))
        self.assertEqual(two["kv_bytes"], one["kv_bytes"])
        self.assertGreaterEqual(two["layer_bytes"], one["layer_bytes"])
        self.assertIn("of 2 shards", self.succeed("plan", "--context", 256, "--shards", 2).stdout)
        self.assertEqual(one["ways"], [])
        both = ("plan", "--context", 256, "--device", "cpu,cpu", "--split", "3,5")
        ways = self.json_of(*both)["ways"]
        self.assertEqual([way["num_shards"] for way in ways], [1, 2])
        self.assertEqual(ways[0]["device_bytes"], [device["total_bytes"] for device in self.json_of(*both)["devices"]])
        self.assertIn("layers", self.succeed(*both).stdout)
        self.fail_with(2, ["shards"], "plan", "--shards", 65)

    def test_pages_grow_with_context_and_batch(self):
        plan = self.json_of("plan", "--context", 256)
        self.assertEqual([group["window"] for group in plan["cache_groups"]], [0])
        self.assertEqual(sum(group["bytes"] for group in plan["cache_groups"]), plan["kv_bytes"])
        self.assertIn("whole context", self.succeed("plan", "--context", 256).stdout)

        def kv_bytes(*args):
            return self.json_of("plan", *args)["kv_bytes"]

        small = kv_bytes("--context", 256)
        self.assertEqual(kv_bytes("--context", 512), 2 * small)
        self.assertEqual(kv_bytes("--context", 256, "--batch", 4), 4 * small)
        self.assertLess(kv_bytes("--context", 256, "--kv-format", "q4"), small)

    def test_an_invalid_split_is_named(self):
        self.fail_with(2, ["split"], "plan", "--device", "cpu,cpu", "--split", "3,6")
        self.fail_with(2, ["reserve"], "plan", "--reserve", "much")

    def test_text(self):
        text = self.succeed("inspect").stdout
        for word in (CONFIG["architectures"][0], "model.layers.0.self_attn.q_proj", "bits/weight", "total"):
            self.assertIn(word, text)
        self.assertNotIn("q_proj", self.succeed("inspect", "--summary").stdout)

    def test_a_model_without_a_tokenizer(self):
        result = self.json_of("inspect", "--summary", "--model", "synthetic:llama-3.2-1b,format=exl2,bits=4.0")
        self.assertNotIn("tokenizer_size", result)
        self.assertEqual(result["num_layers"], 16)

    def test_reads_no_weights(self):
        weights = bytearray((command.EMBEDDED / "output.safetensors").read_bytes())
        weights[-1000:] = b"\xff" * 1000
        with command.broken_model(lambda d: command.replace(d / "output.safetensors", bytes(weights))) as directory:
            self.succeed("inspect", "--model", directory)


class Diagnose(command.CommandTest):
    def test_json(self):
        text = json.dumps(self.json_of("diagnose"))
        self.assertIn("cpu", text.lower())

    def test_shows_the_devices_and_no_live_handles(self):
        report = self.json_of("diagnose")
        self.assertIn(f" {len(os.sched_getaffinity(0))} threads", report["devices"][0]["detail"])
        self.assertEqual(set(report["live_handles"].values()), {0})

    def test_text(self):
        result = self.succeed("diagnose")
        self.assertIn("cpu", result.stdout.lower())
        self.assertIn("live handles: none", result.stdout)
        self.assertEqual(result.stderr, "")


class Bench(command.CommandTest):
    ARGS = ("bench", "--batch", "1,2", "--prompt-tokens", "32", "--new-tokens", "16")

    def test_json(self):
        result = self.json_of(*self.ARGS)
        self.assertEqual([row["batch"] for row in result["results"]], [1, 2])
        self.assertGreater(result["weight_bytes"], 1 << 20)
        for row in result["results"]:
            self.assertGreater(row["prefill_tokens_per_second"], 0)
            self.assertGreater(row["decode_tokens_per_second"], 0)
            self.assertGreater(row["cache_bytes"], 0)

    def test_a_model_without_a_tokenizer_is_measured(self):
        result = self.json_of("bench", "--synthetic", "llama-3.2-1b", "--layers", "1", "--bits", "2", "--head-bits", "2",
                              "--batch", "1", "--prompt-tokens", "4", "--new-tokens", "2")
        self.assertGreater(result["results"][0]["decode_tokens_per_second"], 0)

    def test_pages_have_the_named_format(self):
        sizes = {name: self.json_of("bench", "--batch", "1", "--prompt-tokens", "8", "--new-tokens", "4", "--kv-format", name)
                 for name in ("f16", "q8")}
        self.assertEqual([result["kv_format"] for result in sizes.values()], ["f16", "q8"])
        self.assertLess(sizes["q8"]["results"][0]["cache_bytes"], sizes["f16"]["results"][0]["cache_bytes"])

    def test_shards_are_named(self):
        result = self.json_of("bench", "--shards", 2, "--batch", "1", "--prompt-tokens", "8", "--new-tokens", "4")
        self.assertEqual(result["num_shards"], 2)
        self.assertGreater(result["results"][0]["decode_tokens_per_second"], 0)

    def test_shares_agree_with_the_other_columns(self):
        result = self.json_of(*self.ARGS)
        self.assertLess(result["step_bytes"], result["weight_bytes"])
        weights = sum(t["shape"][0] * t["shape"][1] for t in self.json_of("inspect")["tensors"]
                      if "layer" in t and len(t["shape"]) == 2)
        self.assertEqual(result["token_ops"], 2 * weights)
        self.assertEqual(result["logit_ops"], 2 * CONFIG["hidden_size"] * CONFIG["vocab_size"])
        for row in result["results"]:
            self.assertEqual(row["step_bytes"], result["step_bytes"])
            steps = {"reads": result["read_bytes_per_second"] / row["step_bytes"],
                     "arithmetic": result["ops_per_second"] / (result["token_ops"] + result["logit_ops"]) / row["batch"]}
            self.assertEqual(row["decode_limit"], min(steps, key=steps.get))
            reached = row["decode_tokens_per_second"] / row["batch"]
            self.assertAlmostEqual(row["decode_share_of_limit"], reached / min(steps.values()), places=6)
            self.assertAlmostEqual(row["prefill_share_of_limit"],
                                   row["prefill_tokens_per_second"] * result["token_ops"] / result["ops_per_second"],
                                   places=6)

    def test_a_batch_reads_the_experts_of_all_its_jobs(self):
        result = self.json_of("bench", "--synthetic", "qwen3-30b-a3b", "--layers", "1", "--bits", "2", "--head-bits", "2",
                              "--batch", "1,8", "--prompt-tokens", "4", "--new-tokens", "2")
        one, eight = (row["step_bytes"] for row in result["results"])
        self.assertEqual(one, result["step_bytes"])
        # 8 of 128 experts for one token, 51.6 of them on average for eight.
        self.assertGreater(eight, 1.3 * one)
        self.assertLess(eight, result["weight_bytes"])

    def test_a_device_named_twice_counts_once(self):
        result = self.json_of("bench", "--device", "cpu,cpu", "--split", "3,5", "--batch", "1", "--prompt-tokens", "8",
                              "--new-tokens", "4")
        self.assertGreater(result["read_bytes_per_second"], 0)

    WORKLOAD = ("bench", "--workload", "chat", "--jobs", "5", "--max-batch", "4", "--cache-tokens", "16384")

    def test_a_workload_measures_client_latency(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "curve.svg")
            result = self.json_of(*self.WORKLOAD, "--rate", "50,0", "--first-token-limit", "1e9", "--token-limit", "1e9",
                                  "--svg", picture)
            svg = ElementTree.parse(picture).getroot()
        self.assertEqual([row["jobs_per_second_offered"] for row in result["results"]], [50, 0])
        for row in result["results"]:
            self.assertAlmostEqual(row["good_jobs_per_second"], row["jobs_per_second"])
            self.assertAlmostEqual(row["jobs_per_second"], 5 / row["seconds"])
            self.assertAlmostEqual(row["tokens_per_second"], row["new_tokens"] / row["seconds"])
            self.assertLess(row["cached_tokens"], row["prompt_tokens"])
            for times in (row["first_token_ms"], row["between_tokens_ms"]):
                self.assertLessEqual(0, times["p50"])
                self.assertLessEqual(times["p50"], times["p90"])
                self.assertLessEqual(times["p90"], times["p99"])
        # The same jobs at each rate, and one point for each in the picture.
        self.assertEqual(result["results"][0]["new_tokens"], result["results"][1]["new_tokens"])
        self.assertEqual(len(svg.findall("{http://www.w3.org/2000/svg}circle")), 2)

    def test_no_job_of_a_workload_meets_a_limit_of_zero(self):
        result = self.json_of(*self.WORKLOAD, "--first-token-limit", "0")
        self.assertEqual(result["results"][0]["good_jobs_per_second"], 0)

    def test_text_is_aligned(self):
        lines = self.succeed(*self.ARGS).stdout.splitlines()
        table = lines[lines.index("") + 1:]
        self.assertEqual(len(table), 3)
        self.assertEqual(len({len(line) for line in table}), 1)


if __name__ == "__main__":
    command.main()
