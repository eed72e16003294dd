// The kernels of one instruction set, as the other headers define them with its vectors. Included last.
#pragma once

namespace quire::kernels {
namespace {

using BlockProduct = decltype(QuantKernels::block_panels);

template <int kBytes>
constexpr QuantKernels quant_kernels(BlockProduct block_panels) {
  constexpr int kStored = kStoredBytes<kBytes>;
  return {kQuantRows<kStored>, quantize_row<kBytes>, quant_panels<kStored>, block_panels};
}

// `blocks` and `blocks_i8` multiply activations of two bytes and of one.
constexpr IsaKernels list_kernels(const char* name, BlockProduct blocks, BlockProduct blocks_i8,
                                  TrellisProduct trellis) {
  return {
      name,
      kQuantPanels,
      quant_kernels<2>(blocks),
      quant_kernels<1>(blocks_i8),
      dense_panels,
      trellis,
      embed_row,
      norm_row,
      activate,
      scale_logits,
      append_token,
      attention_begin,
      attention_segment,
      attention_merge,
      attention_finish,
      {convolve, run_head, scan_block, gate_group},
      read_once,
      dot_rounds,
  };
}

}  // namespace
}  // namespace quire::kernels
