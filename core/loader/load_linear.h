// Loads one linear layer from a directory, whatever format its tensors have.
#pragma once

#include <string>
#include <string_view>

#include "core/config/quantization_config.h"
#include "core/loader/linear_weight.h"
#include "core/loader/weight_reader.h"

namespace quire {

// Outputs of a stored matrix that belong to a layer: all of them, a slice of a fused matrix (q, k and v in
// one), every second one of an interleaved pair (gate and up), or those of one expert of a stack.
struct LinearPart {
  int32_t num_stored = 0;   // outputs of the stored matrix; 0: as many as the layer's
  int32_t first = 0;        // index of the stored output that is the layer's first
  int32_t step = 1;         // distance from each output of the layer to the next
  int32_t num_experts = 0;  // matrices in the stack; 0: no stack
  int32_t expert = 0;
  bool input_major = false;  // floats stored as [inputs, outputs]
};

// Properties of a layer that the model expects.
struct LinearRequest {
  std::string key;  // without suffix, such as "model.layers.0.self_attn.q_proj" or "...mlp.experts.down_proj"
  int32_t num_in = 0;
  int32_t num_out = 0;
  bool needs_bias = false;  // a missing bias is an error; an existing one is used in any case
  float prescale = 1.0f;
  LinearPart part;
  ReadBy read_by = ReadBy::host;  // reader of codes or floats that a device takes unchanged

  int32_t num_stored() const { return part.num_stored == 0 ? num_out : part.num_stored; }
  bool is_whole() const {
    return num_stored() == num_out && part.first == 0 && part.step == 1 && part.num_experts == 0;
  }
};

// Returns whether there is such a layer, in any format; decided by its tensors alone (weight_formats.h).
// Throws ErrorCode::format if it has tensors of more than one format.
bool has_linear(const WeightDirectory& directory, std::string_view key);

// Reads an embedding table [rows, columns], F16, BF16, F32 or blocks; without data if only the layout is
// read. Throws
// ErrorCode::format or ErrorCode::unsupported naming the file, the tensor and the reason.
HostTensor load_table(WeightReader& reader, const std::string& name, int32_t rows, int32_t columns,
                      ReadBy by = ReadBy::host);

// Reads and checks all tensors of the layer. The result meets all requirements of
// kernels/interface/weight_source.h. Throws ErrorCode::format, ErrorCode::numeric or ErrorCode::unsupported
// naming the file, the tensor and the reason.
LinearWeight load_linear(WeightReader& reader, const LinearRequest& request,
                         const QuantizationConfig& quantization = {});

}  // namespace quire
