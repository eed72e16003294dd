#include "core/loader/weight_formats.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/loader/awq_tensors.h"
#include "core/loader/bitnet_tensors.h"
#include "core/loader/block_tensors.h"
#include "core/loader/dense_tensors.h"
#include "core/loader/exl2_tensors.h"
#include "core/loader/exl3_tensors.h"
#include "core/loader/fp4_tensors.h"
#include "core/loader/fp8_tensors.h"
#include "core/loader/gptq_tensors.h"
#include "core/loader/packed_tensors.h"

namespace quire {
namespace {

bool always(const LayerTensors&) {
  return true;
}

constexpr std::array<FormatRow, 12> kFormats = {{
    {"gguf", {".weight", ".scale"}, has_blocks, load_blocks, describe_dense, synthesize_blocks},
    {"exl2",
     {".q_weight", ".q_scale", ".q_scale_max", ".q_groups", ".q_invperm", ".q_perm", ".q_group_map"},
     always,
     load_exl2,
     describe_exl2,
     synthesize_exl2},
    {"exl3",
     {".trellis", ".suh", ".svh", ".su", ".sv", ".mcg", ".mul1"},
     always,
     load_exl3,
     describe_exl3,
     synthesize_exl3},
    {"gptq",
     {".qweight", ".qzeros", ".scales", ".g_idx"},
     is_gptq,
     load_gptq,
     describe_gptq,
     synthesize_gptq},
    {"awq", {".qweight", ".qzeros", ".scales"}, is_awq, load_awq, describe_awq, nullptr},
    {"packed",
     {".weight_packed", ".weight_scale", ".weight_zero_point", ".weight_shape", ".weight_g_idx"},
     is_packed,
     load_packed,
     describe_packed,
     nullptr},
    {"mxfp4", {".weight_packed", ".weight_scale"}, is_mxfp4, load_mxfp4, describe_mxfp4, synthesize_mxfp4},
    {"mxfp4", {"_blocks", "_scales"}, is_mxfp4_stack, load_mxfp4_stack, describe_mxfp4_stack, nullptr},
    {"nvfp4",
     {".weight_packed", ".weight_scale", ".weight_global_scale"},
     is_nvfp4,
     load_nvfp4,
     describe_mxfp4,
     nullptr},
    {"nvfp4",
     {".weight", ".weight_scale", ".weight_scale_2"},
     is_modelopt_nvfp4,
     load_modelopt_nvfp4,
     describe_modelopt_nvfp4,
     nullptr},
    {"bitnet", {".weight", ".weight_scale"}, is_bitnet, load_bitnet, describe_bitnet, nullptr},
    {"fp8",
     {".weight", ".weight_scale", ".weight_scale_inv", ".qscale_weight"},
     is_fp8,
     load_fp8,
     describe_dense,
     synthesize_fp8},
}};
constexpr FormatRow kDense = {"dense", {".weight"}, always, load_dense, describe_dense, synthesize_dense};

// Returns all rows. Dense is last, because it is detected if no other format is.
const std::array<FormatRow, kFormats.size() + 1>& all_formats() {
  static constexpr auto kAll = [] {
    std::array<FormatRow, kFormats.size() + 1> all{};
    std::copy(kFormats.begin(), kFormats.end(), all.begin());
    all.back() = kDense;
    return all;
  }();
  return kAll;
}

bool holds(const FormatRow& format, const LayerTensors& layer) {
  return layer.has(format.suffixes[0]) && format.detect(layer);
}

}  // namespace

gsl::span<const FormatRow> weight_formats() {
  return all_formats();
}

const FormatRow* find_format_named(std::string_view name) {
  const auto rows = weight_formats();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const FormatRow& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

std::string names_of_codes() {
  std::string names;
  for (const FormatRow& row : kFormats) {
    const std::string name(row.suffixes[0]);
    if (name != ".weight" && names.find(name + ",") == std::string::npos) names += name + ", ";
  }
  return names.substr(0, names.size() - 2) + " or .weight";
}

const FormatRow* find_format(const LayerTensors& layer) {
  const FormatRow* found = nullptr;
  for (const FormatRow& row : weight_formats()) {
    if (!holds(row, layer)) continue;
    if (found == nullptr) {
      found = &row;
    } else if (found->suffixes[0] != row.suffixes[0]) {
      throw Error(ErrorCode::format, "{}: the files have both \"{}{}\" and \"{}{}\"; remove one of them",
                  layer.directory().path(), printable(layer.key()), found->suffixes[0],
                  printable(layer.key()), row.suffixes[0]);
    }
  }
  return found;
}

std::optional<TensorOwner> find_owner(const WeightDirectory& directory, std::string_view tensor) {
  for (const FormatRow& row : kFormats) {
    for (const std::string_view suffix : row.suffixes) {
      if (suffix.empty() || !tensor.ends_with(suffix)) continue;
      const LayerTensors layer(directory, tensor.substr(0, tensor.size() - suffix.size()));
      if (holds(row, layer)) return TensorOwner{&row, layer.key(), suffix == row.suffixes[0]};
    }
  }
  return std::nullopt;
}

}  // namespace quire
