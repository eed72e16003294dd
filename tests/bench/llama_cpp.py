#!/usr/bin/env python3
"""Compares Quire and llama.cpp in turns in one run: prefill and decode of one GGUF file with random weights.

    python3 tests/bench/llama_cpp.py --quire build/release/bin/quire --peer .../llama-batched-bench --work /tmp/peer

The source of llama.cpp is in the Python package llama-cpp-python (`pip download --no-binary :all: llama-cpp-python`);
`llama-batched-bench` is a separate target of its build. This script writes its model with the package gguf, which is next
to that source. QUIRE_CPU_ISA=avx2 compares with a build of llama.cpp without AVX-512. Prints a table, or JSON with --json:
medians over the rounds, with the lowest and highest values."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

# Shapes of `quire bench --synthetic`: layers, width, inner width, heads, KV heads, head size, vocabulary
# size.
SHAPES = {"llama-3.2-1b": (16, 2048, 8192, 32, 8, 64, 128256), "llama-3.1-8b": (32, 4096, 14336, 32, 8, 128, 128256)}
TIED = {"llama-3.2-1b"}
# Weights, bytes, positions of f16 scales, value of the scales.
BLOCKS = {"Q4_0": (32, 18, (0,), 0.002), "Q4_K": (256, 144, (0, 2), 1e-4), "Q6_K": (256, 210, (208,), 1e-5)}


def random_blocks(numpy, generator, rows, columns, kind):
    """Returns random codes with scales that keep the numbers of a step small."""
    weights, size, scales, scale = BLOCKS[kind]
    blocks = generator.integers(0, 256, (rows, columns // weights, size), dtype=numpy.uint8)
    for at in scales:
        blocks[:, :, at:at + 2] = numpy.frombuffer(numpy.float16(scale).tobytes(), dtype=numpy.uint8)
    return blocks.reshape(rows, -1)


def write_model(path, name, blocks):
    """Writes the shape in blocks of one type with its head in Q6_K, like llama.cpp's own quantization. Without a tokenizer."""
    import gguf
    import numpy
    layers, width, inner, heads, kv_heads, size, words = SHAPES[name]
    generator = numpy.random.default_rng(7)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(131072)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(words)
    writer.add_tokenizer_model("no_vocab")

    def add(tensor, rows, columns, kind=blocks):
        writer.add_tensor(tensor, random_blocks(numpy, generator, rows, columns, kind), raw_dtype=gguf.GGMLQuantizationType[kind])

    def add_norm(tensor):
        writer.add_tensor(tensor, numpy.ones(width, dtype=numpy.float32))

    add("token_embd.weight", words, width, "Q6_K" if name in TIED else blocks)
    for layer in range(layers):
        block = f"blk.{layer}."
        add_norm(block + "attn_norm.weight")
        add(block + "attn_q.weight", heads * size, width)
        add(block + "attn_k.weight", kv_heads * size, width)
        add(block + "attn_v.weight", kv_heads * size, width)
        add(block + "attn_output.weight", width, heads * size)
        add_norm(block + "ffn_norm.weight")
        add(block + "ffn_gate.weight", inner, width)
        add(block + "ffn_up.weight", inner, width)
        add(block + "ffn_down.weight", width, inner)
    add_norm("output_norm.weight")
    if name not in TIED:
        add("output.weight", words, width, "Q6_K")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}: {done.stderr[-400:]}")
    return done.stdout


def of_peer(program, model, given):
    """Returns speeds by number of jobs: (prefill, decode) in tokens/s."""
    room = max(given.batch) * (given.prompt_tokens + given.new_tokens) + 512
    out = run([program, "-m", model, "-c", str(room), "-b", "2048", "-ub", "512", "-npp", str(given.prompt_tokens), "-ntg",
               str(given.new_tokens), "-npl", ",".join(map(str, given.batch)), "-t", str(given.threads), "-tb", str(given.threads),
               "-ngl", str(given.gpu_layers), "-fa", "on", "--output-format", "jsonl"])
    lines = [json.loads(line) for line in re.findall(r"^\{.*\}$", out, re.M)]
    return {line["pl"]: (line["speed_pp"], line["speed_tg"]) for line in lines}


def of_quire(program, model, given, arguments):
    out = run([program, "bench", "--json", "--model", model, "--device", given.device, "--batch", ",".join(map(str, given.batch)),
               "--prompt-tokens", str(given.prompt_tokens), "--new-tokens", str(given.new_tokens),
               *(["--threads", str(given.threads)] if given.device == "cpu" else []), *arguments])
    results = json.loads(out)["results"]
    return {r["batch"]: (r["prefill_tokens_per_second"], r["decode_tokens_per_second"]) for r in results}


def measure(given):
    """Measures every program once per round, so that other load on the machine affects all alike."""
    model = os.path.join(given.work, f"{given.shape}-{given.blocks}.gguf")
    if not os.path.exists(model):
        os.makedirs(given.work, exist_ok=True)
        write_model(model, given.shape, given.blocks)
    ways = {"llama.cpp": lambda: of_peer(given.peer, model, given), "Quire": lambda: of_quire(given.quire, model, given, [])}
    if given.device == "cpu":
        ways["Quire, 8-bit activations"] = lambda: of_quire(given.quire, model, given, ["--activation-dtype", "i8"])
    found = {way: [] for way in ways}
    for turn in range(given.rounds):
        for way, speeds in ways.items():
            found[way].append(speeds())
            print(f"round {turn + 1} of {given.rounds}: {way}", file=sys.stderr)
    return found


def summary(found, batches):
    """Yields rows of (measurement, jobs, program, median, lowest, highest, ratio to llama.cpp)."""
    for what, which in (("prefill", 0), ("decode", 1)):
        for batch in batches:
            base = statistics.median(speeds[batch][which] for speeds in found["llama.cpp"])
            for way, rounds in found.items():
                values = [speeds[batch][which] for speeds in rounds]
                median = statistics.median(values)
                yield what, batch, way, median, min(values), max(values), median / base


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quire", required=True)
    parser.add_argument("--peer", required=True, help="llama-batched-bench")
    parser.add_argument("--work", default="/tmp/quire-peer", help="where the peer's model is written and kept")
    parser.add_argument("--shape", choices=SHAPES, default="llama-3.2-1b")
    parser.add_argument("--blocks", choices=["Q4_0", "Q4_K"], default="Q4_0")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--gpu-layers", type=int, default=0, help="of the peer: 99 for all of them")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8])
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = list(summary(measure(given), given.batch))
    if given.json:
        names = ("what", "jobs", "way", "median", "lowest", "highest", "ratio")
        print(json.dumps([dict(zip(names, row)) for row in rows]))
        return
    print(f"{'tokens/s':10}{'jobs':>5}  {'way':26}{'median':>9}{'lowest':>9}{'highest':>9}{'ratio':>8}")
    for what, jobs, way, median, low, high, ratio in rows:
        print(f"{what:10}{jobs:>5}  {way:26}{median:>9.1f}{low:>9.1f}{high:>9.1f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
