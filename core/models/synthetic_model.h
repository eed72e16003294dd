// Models of true shapes with random weights, made in memory: speed and memory can be measured without a
// download. What they generate has no meaning.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/models/model_source.h"

namespace quire {

// Whether the path names a synthetic model ("synthetic:...") instead of a directory.
bool is_synthetic(std::string_view path);

struct SyntheticSpec {
  std::string shape;            // "llama-3.2-1b", "llama-3.1-8b", "llama-3.1-70b" or "qwen3-30b-a3b"
  int32_t num_layers = 0;       // 0: as many as the shape has
  std::string format = "exl2";  // a row of weight_formats.h
  double bits = 4.0;            // EXL2: average of the layers, mixed of neighbouring widths; 2 to 8
  int32_t head_bits = 6;        // EXL2
  uint64_t seed = 1;
};

// "synthetic:llama-3.1-8b,format=exl2,bits=4.0,head_bits=6". Throws ErrorCode::invalid_argument naming the
// word that is not understood and what there is.
SyntheticSpec parse_synthetic_spec(std::string_view path);

// Throws what parse_synthetic_spec throws.
std::shared_ptr<ModelSource> open_synthetic_model(const std::string& path);

// Random weights of unit gain, rows in a random order as EXL2 files have them; matrices that share their
// input share the order.
std::unique_ptr<WeightProvider> make_synthetic_weights(const SyntheticSpec& spec,
                                                       ReadScope scope = ReadScope::all);

}  // namespace quire
