#include "core/loader/load_linear.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/loader/block_tensors.h"
#include "core/loader/coded_tensors.h"
#include "core/loader/dense_tensors.h"
#include "core/loader/weight_formats.h"

namespace quire {
namespace {

// Suffixes of tensors that describe the quantization of activations and caches. They do not affect weights.
constexpr std::array<std::string_view, 11> kActivationSuffixes = {
    ".input_scale",      ".input_scale_ub",   ".input_global_scale",
    ".input_zero_point", ".activation_scale", ".output_scale",
    ".k_scale",          ".v_scale",          ".k_zero_point",
    ".v_zero_point",     ".qscale_act"};

std::string name_of_bias(const WeightDirectory& directory, const LinearRequest& request) {
  std::string name = request.key + ".bias";
  return request.part.num_experts > 0 && !directory.has(name) ? request.key + "_bias" : name;
}

// Reads the bias. It has as many values as stored outputs or, in a padded file, as columns; a part takes its
// own values. A bias of all zeros, which GPTQ exporters write for layers without one, counts as absent.
std::vector<float> load_bias(WeightReader& reader, const LinearRequest& request, int32_t padded_out) {
  const std::string name = name_of_bias(reader.directory(), request);
  const WeightDirectory::Entry* entry = reader.directory().find(name);
  if (!entry) {
    if (!request.needs_bias) return {};
    throw Error(ErrorCode::format, "{}: no file has the tensor \"{}\", which the configuration requires",
                reader.directory().path(), printable(name));
  }
  const bool padded = entry->tensor->shape == std::vector<int64_t>{padded_out};
  const std::vector<float> stored = reader.read_floats(
      name, padded ? std::vector<int64_t>{padded_out} : stored_shape(request, {request.num_stored()}));
  const auto first = static_cast<size_t>(output_range(request).first);
  std::vector<float> bias;
  for (size_t j = 0; j < static_cast<size_t>(request.num_out); ++j)
    bias.push_back(stored[first + j * static_cast<size_t>(request.part.step)]);
  const bool all_zero = std::all_of(bias.begin(), bias.end(), [](float value) { return value == 0.0f; });
  return all_zero ? std::vector<float>() : bias;
}

bool is_known(std::string_view suffix, const FormatRow& format) {
  const auto is = [suffix](std::string_view known) { return known == suffix; };
  return suffix == ".bias" || std::any_of(format.suffixes.begin(), format.suffixes.end(), is) ||
         std::any_of(kActivationSuffixes.begin(), kActivationSuffixes.end(), is);
}

// Rejects tensors that do not belong to the format (a rotation, a low-rank correction, a scale of inputs),
// because they would change the result of the matrix.
void reject_unknown_tensors(WeightReader& reader, const LinearRequest& request, const FormatRow& format) {
  const auto& entries = reader.directory().entries();
  const std::string prefix = request.key + ".";
  auto entry = std::lower_bound(
      entries.begin(), entries.end(), prefix,
      [](const WeightDirectory::Entry& e, const std::string& name) { return e.tensor->name < name; });
  for (; entry != entries.end() && entry->tensor->name.starts_with(prefix); ++entry) {
    const std::string_view suffix = std::string_view(entry->tensor->name).substr(request.key.size());
    if (suffix.find('.', 1) != std::string_view::npos) continue;  // belongs to a module within
    if (!is_known(suffix, format)) {
      throw Error(ErrorCode::unsupported, "{}: this tensor is not supported for a matrix in the format {}",
                  describe(*entry), format.name);
    }
    if (suffix != ".bias") reader.skip(entry->tensor->name);
  }
}

void require_agreement(const LinearRequest& request, const FormatRow& format,
                       const QuantizationConfig& quantization, const WeightDirectory& directory) {
  if (!quantization.ignored.contains(request.key)) return;
  throw Error(
      ErrorCode::format,
      "{}: \"{}\" is stored in the format {}, but config.json lists it among the modules that are not "
      "quantized",
      directory.path(), printable(request.key), format.name);
}

const FormatRow& format_of(const WeightDirectory& directory, const LinearRequest& request) {
  const FormatRow* format = find_format(LayerTensors(directory, request.key));
  if (format != nullptr) return *format;
  if (directory.has(request.key)) {
    const StoredType& type = *directory.at(request.key).tensor->type;
    if (type.has_blocks()) return *find_format_named("gguf");
    return *find_format_named(type.dtype == DType::f8_e4m3 ? "fp8" : "dense");
  }
  throw Error(ErrorCode::format, "{}: no file holds \"{}\" as {}", directory.path(), printable(request.key),
              names_of_codes());
}

// Sets the order of outputs whose rows the file has in an order of its own.
void order_outputs(const WeightDirectory& directory, const LinearRequest& request, LinearWeight& weight) {
  const WeightDirectory::Entry* entry = directory.find(request.key + ".weight");
  if (entry == nullptr || entry->tensor->row_order == nullptr) return;
  const std::vector<int32_t>& order = *entry->tensor->row_order;
  if (!request.is_whole() || order.size() != static_cast<size_t>(request.num_out))
    throw Error(ErrorCode::format, "{}: has {} rows, but the configuration needs {}", describe(*entry),
                order.size(), request.num_out);
  weight.column_order = order;
}

}  // namespace

bool has_linear(const WeightDirectory& directory, std::string_view key) {
  return find_format(LayerTensors(directory, key)) != nullptr || directory.has(key);
}

HostTensor load_table(WeightReader& reader, const std::string& name, int32_t rows, int32_t columns,
                      ReadBy by) {
  const WeightDirectory& directory = reader.directory();
  if (const auto* rings = directory.find(name + "_trellis"); rings != nullptr && !directory.has(name))
    throw Error(ErrorCode::unsupported,
                "{}: a table of codes is not supported; add \"{}\" of the model in F16", describe(*rings),
                printable(name));
  const WeightDirectory::Entry& stored = directory.at(name);
  if (stored.tensor->type->has_blocks()) return load_block_table(reader, stored, rows, columns, by);
  HostTensor table = reader.read_values(name, {rows, columns}, by);
  const DType dtype = table.dtype();
  if (dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32) return table;
  throw Error(ErrorCode::unsupported, "{}: the type {} of a table is not one of F16, BF16 and F32",
              describe(reader.directory().at(name)), dtype_name(dtype));
}

LinearWeight load_linear(WeightReader& reader, const LinearRequest& request,
                         const QuantizationConfig& quantization) {
  Expects(request.num_in > 0 && request.num_out > 0);
  const FormatRow& format = format_of(reader.directory(), request);
  const bool is_dense = format.load == load_dense;
  if (!is_dense) require_agreement(request, format, quantization, reader.directory());
  LinearWeight weight = format.load(reader, request, quantization);
  if (!is_dense) reject_unknown_tensors(reader, request, format);
  weight.bias = load_bias(reader, request, weight.padded_out);
  weight.prescale *= request.prescale;
  order_outputs(reader.directory(), request, weight);
  return weight;
}

}  // namespace quire
