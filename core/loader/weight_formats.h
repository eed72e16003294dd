// The table of weight formats: one row says everything in which a format differs from the others. How to add
// one: docs/contributing.md.
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
  std::string_view name;  // as inspection and synthetic models call it: "gptq"
  // Of its tensors beside the bias; the first has the codes. An empty one: none.
  std::array<std::string_view, 8> suffixes;
  // Whether a layer that has the first of these tensors is in this format.
  bool (*detect)(const LayerTensors& layer);
  // Checks all tensors of the layer. What is returned satisfies every statement of weight_source.h.
  LinearWeight (*load)(WeightReader& reader, const LinearRequest& request,
                       const QuantizationConfig& quantization);
  // [outputs, inputs], with the experts before them where it is a stack. From headers alone, which may be
  // wrong.
  std::vector<int64_t> (*describe)(const LayerTensors& layer);
  // A matrix of unit gain out of thin air.
  LinearWeight (*synthesize)(const SyntheticRequest& request, SyntheticValues& values);
};

// The last row is dense: floats as they are.
gsl::span<const FormatRow> weight_formats();

// nullptr where there is no such row.
const FormatRow* find_format_named(std::string_view name);
// ".q_weight, .qweight ... or .weight".
std::string names_of_codes();

// nullptr where no tensor of the layer belongs to a format. Throws ErrorCode::format where tensors of more
// than one do.
const FormatRow* find_format(const LayerTensors& layer);

// The quantized layer that a tensor belongs to.
struct TensorOwner {
  const FormatRow* format = nullptr;
  std::string key;
  bool has_codes = false;  // the tensor is the first of its format's
};
// Nothing for tensors that stand for themselves.
std::optional<TensorOwner> find_owner(const WeightDirectory& directory, std::string_view tensor);

}  // namespace quire
