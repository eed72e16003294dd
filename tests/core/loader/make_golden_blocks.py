#!/usr/bin/env python3
"""Makes gguf_blocks.bin of the golden types of another program (../shared/golden/gguf/README.md).

Per block type: its name in 8 bytes, the numbers of blocks and of weights (u32), the blocks, and the f32 values that ggml
gives them. Half of the blocks are quantized weights of story-3m, half are random: any code, any finite scale.

    make_golden_blocks.py SHARED/golden/gguf gguf_blocks.bin
"""

import json
import struct
import sys

SHAPES = {"Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34), "Q2_K": (256, 84),
          "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210), "IQ1_S": (256, 50),
          "IQ1_M": (256, 56), "IQ2_XXS": (256, 66), "IQ2_XS": (256, 74), "IQ2_S": (256, 82), "IQ3_XXS": (256, 98),
          "IQ3_S": (256, 110), "IQ4_NL": (32, 18), "IQ4_XS": (256, 136), "TQ1_0": (256, 54), "TQ2_0": (256, 66),
          "MXFP4": (32, 17), "NVFP4": (64, 36), "Q1_0": (128, 18), "Q2_0": (64, 18)}
VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Header:
    """Reads the names and places of the tensors of a GGUF file."""

    def __init__(self, data):
        self.data, self.at = data, 8
        num_tensors, num_values = self.take("QQ")
        for _ in range(num_values):
            self.text()
            self.value(self.take("I")[0])
        self.tensors = [self.tensor() for _ in range(num_tensors)]
        self.start = (self.at + 31) // 32 * 32

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def text(self):
        (length,) = self.take("Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            of, count = self.take("IQ")
            for _ in range(count):
                self.value(of)
        else:
            self.at += VALUE_BYTES[kind]

    def tensor(self):
        name = self.text()
        self.take("%dQ" % self.take("I")[0])
        _, offset = self.take("IQ")
        return name, offset


def main():
    folder, target = sys.argv[1:]
    with open(folder + "/types.gguf", "rb") as file:
        data = file.read()
    with open(folder + "/types.safetensors", "rb") as file:
        values = file.read()
    (length,) = struct.unpack_from("<Q", values)
    places = json.loads(values[8:8 + length])
    header = Header(data)
    offsets = {name: header.start + offset for name, offset in header.tensors}
    with open(target, "wb") as out:
        for kind, (weights, size) in SHAPES.items():
            blocks, floats = b"", b""
            for name in ("real." + kind, "random." + kind):
                count = 1024 // weights
                first = places[name]["data_offsets"][0] + 8 + length
                blocks += data[offsets[name]:offsets[name] + count * size]
                floats += values[first:first + 4 * 1024]
            out.write(struct.pack("<8sII", kind.encode(), 2048 // weights, 2048) + blocks + floats)


main()
