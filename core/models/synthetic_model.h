// Synthetic models: real shapes with random weights, made in memory to measure speed and memory without a
// download. The text they generate has no meaning.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/models/model_source.h"

namespace quire {

// True if the path names a synthetic model ("synthetic:...") instead of a directory.
bool is_synthetic(std::string_view path);

struct SyntheticSpec {
  std::string shape;            // "llama-3.2-1b"; see synthetic_model.cpp
  int32_t num_layers = 0;       // 0: the number of layers of the shape
  std::string format = "exl2";  // name of a row in weight_formats.h
  double bits = 4.0;  // EXL2: average over the layers, mixed from neighbouring widths; EXL3: of all; 2 to 8
  int32_t head_bits = 6;  // EXL2, EXL3: bits of the head
  // Makes routers of experts prefer the first ones: their scores are exp(skew) times as large as the last's.
  double skew = 0.0;
  uint64_t seed = 1;
};

// Parses a path such as "synthetic:llama-3.1-8b,format=exl2,bits=4.0,head_bits=6". Throws
// ErrorCode::invalid_argument; the message names the unknown word and the valid ones.
SyntheticSpec parse_synthetic_spec(std::string_view path);

// Throws the errors of parse_synthetic_spec.
std::shared_ptr<ModelSource> open_synthetic_model(const std::string& path);

// Returns random weights of unit gain. Rows are in a random order, as in EXL2 files; matrices with the same
// input have the same order.
std::unique_ptr<WeightProvider> make_synthetic_weights(const SyntheticSpec& spec,
                                                       ReadScope scope = ReadScope::all);

}  // namespace quire
