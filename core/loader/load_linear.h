// One linear layer out of a directory, in whichever format its tensors are.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/loader/linear_weight.h"
#include "core/loader/weight_reader.h"

namespace quire {

// What the model expects of a layer.
struct LinearRequest {
  std::string key;  // without suffix, such as "model.layers.0.self_attn.q_proj"
  int32_t num_in = 0;
  int32_t num_out = 0;
  bool needs_bias = false;  // a missing bias is an error; one that is there is used either way
  float prescale = 1.0f;
  // GPTQ, from quantization_config.
  int32_t gptq_zero_offset = 1;  // 0 for checkpoint format "gptq_v2"
  int32_t gptq_group_size = 0;   // rows of a group; -1: one group for all; 0: not said
  // FP8, from quantization_config: outputs and inputs that share a scale; 0: not said.
  int32_t fp8_block_out = 0;
  int32_t fp8_block_in = 0;
};

// How the layer is stored, decided by its tensors alone: `.q_weight` is EXL2, `.qweight` GPTQ, `.weight`
// dense. Nothing where none of them is there; ErrorCode::format where more than one is.
std::optional<kernels::WeightFormat> find_weight_format(const WeightDirectory& directory,
                                                        std::string_view key);

// A table of embeddings [rows, columns], F16, BF16 or F32; without data where only the layout is read. Throws
// ErrorCode::format or ErrorCode::unsupported naming the file, the tensor and the reason.
HostTensor load_table(WeightReader& reader, const std::string& name, int32_t rows, int32_t columns);

// Reads and checks all tensors of the layer. What is returned satisfies every statement of
// kernels/interface/weight_source.h. Throws ErrorCode::format, ErrorCode::numeric or ErrorCode::unsupported
// naming the file, the tensor and the reason.
LinearWeight load_linear(WeightReader& reader, const LinearRequest& request);

}  // namespace quire
