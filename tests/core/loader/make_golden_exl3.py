"""Cuts blocks of 128 x 128 weights, and the values that ExLlamaV3 1.6.5 gives them, out of the models of the
shared folder: the input of golden_formats_test. Usage: make_golden_exl3.py SHARED_MODELS exl3.safetensors"""

import json
import struct
import sys

MODELS = {
    "exl3_mul1_2_5": "story-3m-exl3-2.5bpw-mul1",
    "exl3_mul1_4": "story-3m-exl3-4.0bpw-mul1",
    "exl3_mcg_4": "story-15m-exl3-4.0bpw-mcg",
    "exl3_3inst_6": "story-3m-exl3-6.0bpw-3inst",
}
LAYER = "model.layers.1.mlp.down_proj"
BLOCK = 128  # order of the Hadamard matrix: blocks are independent of each other
WEIGHT_ROWS = 32


class File:
    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        length = struct.unpack("<Q", data[:8])[0]
        self.entries = json.loads(data[8 : 8 + length])
        self.data = data[8 + length :]

    def read(self, name):
        entry = self.entries[name]
        first, last = entry["data_offsets"]
        return self.data[first:last], entry["shape"]


def rows_of(data, row_bytes, first_row, num_rows, first_byte, num_bytes):
    """Returns the same bytes of some consecutive rows."""
    rows = range(first_row, first_row + num_rows)
    return b"".join(data[r * row_bytes + first_byte : r * row_bytes + first_byte + num_bytes] for r in rows)


def cut(model, golden, key):
    """Returns the tensors of a block: the first rows and the last columns of the layer."""
    trellis, (_, tile_columns, words) = model.read(LAYER + ".trellis")
    tiles = BLOCK // 16
    tile_row = tile_columns * words * 2
    last_tiles = (tile_columns - tiles) * words * 2
    yield key + ".trellis", "I16", [tiles, tiles, words], rows_of(trellis, tile_row, 0, tiles, last_tiles, tiles * words * 2)
    yield key + ".suh", "F16", [BLOCK], model.read(LAYER + ".suh")[0][: 2 * BLOCK]
    yield key + ".svh", "F16", [BLOCK], model.read(LAYER + ".svh")[0][-2 * BLOCK :]
    for codebook in ("mcg", "mul1"):
        if f"{LAYER}.{codebook}" in model.entries:
            yield f"{key}.{codebook}", "I32", [], model.read(f"{LAYER}.{codebook}")[0]
    for what, rows in (("rotated", BLOCK), ("weight", WEIGHT_ROWS)):
        values, (_, columns) = golden.read(f"{LAYER}.{what}")
        block = rows_of(values, columns * 2, 0, rows, (columns - BLOCK) * 2, BLOCK * 2)
        yield f"expected.{key}.{what}", "F16", [rows, BLOCK], block


def main(models, target):
    header, data = {}, b""
    for key, directory in MODELS.items():
        path = f"{models}/{directory}"
        for name, dtype, shape, values in cut(
            File(path + "/model.safetensors"), File(path + "/golden_exl3.safetensors"), key
        ):
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    main(*sys.argv[1:])
