// Table of weight and quantization formats: one row holds everything specific to a format. How to add one:
// docs/contributing.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "core/config/quantization_config.h"
#include "core/loader/layer_tensors.h"
#include "core/loader/load_linear.h"
#include "core/loader/synthetic_values.h"

namespace quire {

struct FormatRow {
  std::string_view name;  // used by inspection and synthetic models: "gptq"
  // Suffixes of its tensors except the bias; the first one has the codes. Unused entries are empty.
  std::array<std::string_view, 8> suffixes;
  // Returns whether a layer that has the first of these tensors is in this format.
  bool (*detect)(const LayerTensors& layer);
  // Checks all tensors of the layer and loads it. The result meets all requirements of weight_source.h.
  LinearWeight (*load)(WeightReader& reader, const LinearRequest& request,
                       const QuantizationConfig& quantization);
  // Returns [outputs, inputs], preceded by the number of experts for a stack. Uses headers only, so the
  // result may be wrong.
  std::vector<int64_t> (*describe)(const LayerTensors& layer);
  // Generates a matrix of unit gain.
  LinearWeight (*synthesize)(const SyntheticRequest& request, SyntheticValues& values);
};

// Returns all formats. The last row is dense: unquantized floats.
gsl::span<const FormatRow> weight_formats();

// Returns nullptr if there is no such format.
const FormatRow* find_format_named(std::string_view name);
// Returns ".q_weight, .qweight ... or .weight".
std::string names_of_codes();

// Returns nullptr if no tensor of the layer belongs to a format. Throws ErrorCode::format if tensors of more
// than one format are present.
const FormatRow* find_format(const LayerTensors& layer);

// Quantized layer that a tensor belongs to.
struct TensorOwner {
  const FormatRow* format = nullptr;
  std::string key;
  bool has_codes = false;  // true if the tensor has the first suffix of its format
};
// Returns nothing for tensors that are not part of a quantized layer.
std::optional<TensorOwner> find_owner(const WeightDirectory& directory, std::string_view tensor);

}  // namespace quire
