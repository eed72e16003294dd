#!/usr/bin/env python3
"""Writes a model directory of a real shape with random EXL2 weights, to measure loading from files.
The model generates meaningless text and has no tokenizer.
  make_exl2.py DIRECTORY [llama-3.2-1b|llama-3.1-8b]"""
import json
import pathlib
import random
import struct
import sys

SHAPES = {
    "llama-3.2-1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
                     "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64},
    "llama-3.1-8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                     "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128},
}
VOCABULARY = 128256
GROUP_ROWS = 128
NOISE = random.Random(1).randbytes(64 << 20)


def noise(size, offset):
    """Returns bytes that differ from tensor to tensor, quickly made from one block."""
    start = offset * 4099 % (len(NOISE) // 2)
    block = NOISE[start:] + NOISE[:start]
    return (block * (size // len(block) + 1))[:size]


class Writer:
    def __init__(self):
        self.header, self.pieces, self.size = {}, [], 0

    def add(self, name, dtype, shape, make):
        width = {"I32": 4, "I16": 2, "F16": 2}[dtype]
        size = width
        for extent in shape:
            size *= extent
        self.header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [self.size, self.size + size]}
        self.pieces.append((size, make))
        self.size += size

    def write(self, path):
        header = json.dumps(self.header).encode()
        header += b" " * (-len(header) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            for place, (size, make) in enumerate(self.pieces):
                file.write(make(size, place))


def order(rows, seed):
    rows = list(range(rows))
    random.Random(seed).shuffle(rows)
    return struct.pack(f"<{len(rows)}i", *rows)


def add_matrix(writer, key, rows, columns, widths, seed):
    groups, packed = [], 0
    for bits in widths:
        groups += [bits, packed - 65536 if packed > 32767 else packed]
        packed += GROUP_ROWS * bits // 32
    writer.add(key + ".q_weight", "I32", [packed, columns], noise)
    writer.add(key + ".q_scale", "I32", [len(widths), columns // 8], noise)
    scale = struct.pack("<e", 1.0 / rows ** 0.5)
    writer.add(key + ".q_scale_max", "F16", [len(widths)], lambda size, _: scale * (size // 2))
    writer.add(key + ".q_groups", "I16", [len(groups)], lambda *_: struct.pack(f"<{len(groups)}h", *groups))
    writer.add(key + ".q_invperm", "I32", [rows], lambda *_: order(rows, seed))


def widths_of(rows):
    """Returns the bits of each group: a tenth of the groups 5, a tenth 3, the others 4."""
    count = rows // GROUP_ROWS
    tenth = count // 10
    return [5] * tenth + [4] * (count - 2 * tenth) + [3] * tenth


def halves(value):
    half = struct.pack("<e", value)
    return lambda size, _: half * (size // 2)


def make(directory, name):
    shape = SHAPES[name]
    hidden, wide = shape["hidden_size"], shape["intermediate_size"]
    heads, kv = shape["num_attention_heads"] * shape["head_dim"], shape["num_key_value_heads"] * shape["head_dim"]
    writer = Writer()
    writer.add("model.embed_tokens.weight", "F16", [VOCABULARY, hidden], halves(0.01))
    for layer in range(shape["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            writer.add(f"{prefix}{norm}.weight", "F16", [hidden], halves(1.0))
        for key, rows, columns in (("self_attn.q_proj", hidden, heads), ("self_attn.k_proj", hidden, kv),
                                   ("self_attn.v_proj", hidden, kv), ("self_attn.o_proj", heads, hidden),
                                   ("mlp.gate_proj", hidden, wide), ("mlp.up_proj", hidden, wide),
                                   ("mlp.down_proj", wide, hidden)):
            add_matrix(writer, prefix + key, rows, columns, widths_of(rows), f"{layer} {key.split('.')[0]} {rows}")
    writer.add("model.norm.weight", "F16", [hidden], halves(1.0))
    add_matrix(writer, "lm_head", hidden, VOCABULARY, [6] * (hidden // GROUP_ROWS), "head")
    directory.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY,
              "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 500000.0,
              "tie_word_embeddings": False, "bos_token_id": 128000, "eos_token_id": 128001,
              "quantization_config": {"quant_method": "exl2", "version": "0.2.4", "bits": 4.0, "head_bits": 6}, **shape}
    (directory / "config.json").write_text(json.dumps(config, indent=1))
    writer.write(directory / "output.safetensors")
    print(f"{name}: {writer.size} bytes in {directory}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    make(pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "llama-3.1-8b")
