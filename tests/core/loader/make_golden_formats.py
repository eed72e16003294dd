#!/usr/bin/env python3
"""Makes formats.safetensors: small matrices in the formats of other projects, each with the weights computed by the
reference implementation. Run once, with torch, compressed-tensors, transformers and safetensors installed:

    python make.py AUTOAWQ_SOURCE OUT

AUTOAWQ_SOURCE is an unpacked source archive of AutoAWQ, whose packing functions are used."""
import importlib.util
import sys

import torch
from safetensors.torch import save_file

torch.manual_seed(20261122)
OUT = {}
N, K = 24, 64


def keep(name, tensors, expected):
    for suffix, tensor in tensors.items():
        OUT[name + suffix] = tensor.contiguous()
    OUT["expected." + name] = expected.to(torch.float32).contiguous()


def packed(name, bits, group, symmetric, dtype=torch.bfloat16):
    from compressed_tensors.compressors import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme, QuantizationStrategy
    strategy = QuantizationStrategy.CHANNEL if group is None else QuantizationStrategy.GROUP
    args = QuantizationArgs(num_bits=bits, symmetric=symmetric, strategy=strategy, group_size=group)
    groups = 1 if group is None else K // group
    weight = (torch.randn(N, K) * 0.1).to(dtype)
    spread = weight.float().view(N, groups, -1)
    low, high = spread.amin(-1), spread.amax(-1)
    top = 2 ** (bits - 1)
    if symmetric:
        scale, zero = (torch.maximum(high, -low) / (top - 0.5)).to(dtype), None
    else:
        scale = ((high - low) / (2 * top - 1)).to(dtype)
        zero = torch.clamp(torch.round(-low / scale.float()) - top, -top, top - 1).to(torch.int8)
    state = {"weight": weight, "weight_scale": scale}
    if zero is not None:
        state["weight_zero_point"] = zero
    compress(name, PackedQuantizationCompressor, state, QuantizationScheme(targets=["Linear"], weights=args))


def compress(name, compressor, state, scheme):
    compressed = compressor.compress(dict(state), scheme)
    restored = compressor.decompress(dict(compressed), scheme)
    keep(name, {"." + key: value for key, value in compressed.items() if value is not None}, restored["weight"])


def fp4(name, compressor_name, group, state_of):
    import compressed_tensors.compressors as compressors
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.quant_args import QuantizationStrategy, QuantizationType
    compressor = getattr(compressors, compressor_name)
    strategy = QuantizationStrategy.TENSOR_GROUP if group == 16 else QuantizationStrategy.GROUP
    args = QuantizationArgs(num_bits=4, type=QuantizationType.FLOAT, symmetric=True, strategy=strategy,
                            group_size=group)
    if group == 32:
        args = args.model_copy(update={"scale_dtype": torch.uint8})
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    compress(name, compressor, state_of(), scheme)


def nvfp4_state():
    weight = (torch.randn(N, K) * 0.1).to(torch.bfloat16)
    amax = weight.float().view(N, K // 16, 16).abs().amax(-1)
    global_scale = torch.tensor([448.0 * 6.0 / weight.float().abs().max().item()], dtype=torch.float32)
    scale = (global_scale * amax / 6.0).to(torch.float8_e4m3fn).to(torch.float32)
    return {"weight": weight, "weight_scale": scale, "weight_global_scale": global_scale}


def mxfp4_state():
    weight = (torch.randn(N, K) * 0.1).to(torch.bfloat16)
    amax = weight.float().view(N, K // 32, 32).abs().amax(-1)
    exponent = torch.floor(torch.log2(amax)) - 2
    return {"weight": weight, "weight_scale": torch.exp2(exponent).to(torch.bfloat16)}


def gpt_oss(name):
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    experts, rows = 2, 16
    blocks = torch.randint(0, 256, (experts, rows, K // 32, 16), dtype=torch.uint8)
    scales = torch.randint(115, 130, (experts, rows, K // 32), dtype=torch.uint8)
    expected = convert_moe_packed_tensors(blocks.clone(), scales.clone(), dtype=torch.bfloat16)
    keep(name, {"_blocks": blocks, "_scales": scales}, expected)  # [experts, K, rows]


def awq(name, source, group):
    spec = importlib.util.spec_from_file_location("packing_utils", source + "/awq/utils/packing_utils.py")
    packing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(packing)
    words = torch.randint(-2**31, 2**31, (K, N // 8), dtype=torch.int64).to(torch.int32)
    zeros = torch.randint(-2**31, 2**31, (K // group, N // 8), dtype=torch.int64).to(torch.int32)
    scales = (torch.rand(K // group, N) * 0.02 + 0.001).to(torch.float16)
    expected = packing.dequantize_gemm(words, zeros, scales, 4, group)
    keep(name, {".qweight": words, ".qzeros": zeros, ".scales": scales}, expected)  # [K, N]


def bitnet(name, linear_class):
    from transformers.integrations.bitnet import pack_weights, unpack_weights
    random = torch.Generator().manual_seed(20261124)
    ternary = torch.randint(-1, 2, (N, K), generator=random, dtype=torch.int8)
    scale = (torch.rand(1, generator=random) * 3 + 0.5).to(torch.bfloat16)
    packed = pack_weights(ternary.clone())
    unpacked = unpack_weights(packed, dtype=torch.float32)
    expected = unpacked * scale.float() if linear_class == "autobitlinear" else unpacked / scale.float()
    keep(name, {".weight": packed, ".weight_scale": scale}, expected)


def main():
    packed("packed4_group", 4, 32, True)
    packed("packed4_zero", 4, 32, False)
    packed("packed8_channel", 8, None, True)
    packed("packed8_zero", 8, 32, False, dtype=torch.float16)
    fp4("nvfp4", "NVFP4PackedCompressor", 16, nvfp4_state)
    fp4("mxfp4", "MXFP4PackedCompressor", 32, mxfp4_state)
    gpt_oss("gptoss")
    awq("awq", sys.argv[1], 32)
    bitnet("bitnet_auto", "autobitlinear")
    bitnet("bitnet_plain", "bitlinear")
    for name, tensor in sorted(OUT.items()):
        print(name, tuple(tensor.shape), tensor.dtype)
    save_file(OUT, sys.argv[2])


if __name__ == "__main__":
    main()
