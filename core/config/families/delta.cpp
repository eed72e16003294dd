#include "core/config/families/delta.h"

#include <cmath>

#include "core/base/error.h"

namespace quire::families {
namespace {

// Sets what all mixers of the delta rule have. `norm_key` is the tensor of the norm without ".weight".
void finish(const ModelReader& reader, int32_t layer, const std::string& prefix, const std::string& norm_key,
            DeltaPart& part) {
  part.query_scale = 1.0f / std::sqrt(static_cast<float>(part.key_dim));
  part.a_log = {reader.key(layer, prefix + "A_log"), part.num_value_heads};
  part.dt_bias = {reader.key(layer, prefix + "dt_bias"), decay_columns(part)};
  // The weights are stored as they are, also in families whose other norms have them minus one.
  part.norm = ModelReader::bare_norm(kernels::NormKind::rms, reader.epsilon(), part.value_dim);
  part.norm.weight = {reader.key(layer, prefix + norm_key + ".weight"), part.value_dim};
}

// Gives each value head a key head of its own, for files in which value head h uses key head h %
// num_key_heads (GGUF). The mixer has no form for that: its value heads of a key head are adjacent.
void repeat_keys(DeltaPart& part) {
  const int32_t key_heads = part.num_key_heads, keys = key_columns(part);
  if (key_heads == part.num_value_heads) return;
  auto columns = std::make_shared<std::vector<int32_t>>();
  for (int32_t first = 0; first < 2 * keys; first += keys)
    for (int32_t head = 0; head < part.num_value_heads; ++head)
      for (int32_t i = 0; i < part.key_dim; ++i)
        columns->push_back(first + head % key_heads * part.key_dim + i);
  for (int32_t i = 0; i < value_columns(part); ++i) columns->push_back(2 * keys + i);
  auto taps = std::make_shared<std::vector<int32_t>>();
  for (const int32_t column : *columns)
    for (int32_t tap = 0; tap < part.conv.num_taps; ++tap) taps->push_back(column * part.conv.num_taps + tap);
  part.num_key_heads = part.num_value_heads;
  part.conv.channels = static_cast<int32_t>(columns->size());
  part.conv.weights.front().order = std::move(taps);
  part.in.front().order = std::move(columns);
}

// Reads `output_gate_type`: the gate of the result.
kernels::StateGate gate_form(const ModelReader& reader) {
  const auto form = reader.fields().find("output_gate_type");
  if (!form) return kernels::StateGate::silu;
  const std::string word = form->as_string();
  if (word == "silu" || word == "swish") return kernels::StateGate::silu;
  if (word == "sigmoid") return kernels::StateGate::sigmoid;
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported; supported are silu, swish and sigmoid",
              form->where(), printable(word, 32));
}

}  // namespace

void require_silu(const ModelReader& reader, std::string_view field) {
  const std::string word = reader.fields().string_or({field}, "silu");
  if (word == "silu" || word == "swish") return;
  throw Error(ErrorCode::unsupported,
              "{}.{}: \"{}\" is not supported in layers with a state; supported is silu",
              reader.fields().where(), field, printable(word, 32));
}

ConvPart delta_conv(const ModelReader& reader, int32_t layer, const std::vector<std::string>& names,
                    const std::vector<int32_t>& channels, int32_t num_taps) {
  ConvPart conv;
  conv.num_taps = num_taps;
  for (size_t i = 0; i < names.size(); ++i) {
    conv.channels += channels[i];
    conv.weights.push_back({reader.key(layer, names[i]) + ".weight", channels[i] * num_taps});
  }
  return conv;
}

kernels::DeltaSpec gdn_sizes(const ModelReader& reader, const kernels::DeltaSpec& defaults) {
  kernels::DeltaSpec sizes;
  sizes.num_key_heads = reader.int_or("linear_num_key_heads", defaults.num_key_heads, 1, 1024);
  sizes.num_value_heads = reader.int_or("linear_num_value_heads", defaults.num_value_heads, 1, 1024);
  sizes.key_dim = reader.int_or("linear_key_head_dim", defaults.key_dim, 1, 1024);
  sizes.value_dim = reader.int_or("linear_value_head_dim", defaults.value_dim, 1, 1024);
  if (sizes.num_value_heads % sizes.num_key_heads != 0) {
    throw Error(ErrorCode::format, "{}.linear_num_key_heads: {} does not divide linear_num_value_heads {}",
                reader.fields().where(), sizes.num_key_heads, sizes.num_value_heads);
  }
  return sizes;
}

int32_t delta_taps(const ModelReader& reader) {
  return reader.int_or("linear_conv_kernel_dim", 4, 2, 64);
}

DeltaPart gdn_part(const ModelReader& reader, int32_t layer, bool is_interleaved) {
  require_silu(reader, "hidden_act");
  const std::string prefix = "linear_attn.";
  DeltaPart part;
  static_cast<kernels::DeltaSpec&>(part) =
      gdn_sizes(reader, {.num_key_heads = 16, .num_value_heads = 32, .key_dim = 128, .value_dim = 128});
  part.gate_form = gate_form(reader);
  const int32_t keys = key_columns(part);
  const int32_t values = value_columns(part);
  const int32_t heads = part.num_value_heads;
  const auto matrix = [&](std::string_view name, int32_t columns) {
    return reader.layer_matrix(layer, prefix + std::string(name), reader.hidden(), columns);
  };
  if (is_interleaved) {
    const int32_t group = heads / part.num_key_heads;
    const int32_t group_values = group * part.value_dim;
    // GGUF files have queries, keys and values in order, and the gate apart.
    if (reader.flag("separate_qkv")) {
      part.in = {matrix("in_proj_qkv", 2 * keys + values), matrix("in_proj_z", values)};
    } else {
      part.in = {matrix("in_proj_qkvz", 2 * keys + 2 * values)};
      part.in.front().order =
          order_of_blocks(part.num_key_heads, {part.key_dim, part.key_dim, group_values, group_values});
    }
    part.rates = {matrix("in_proj_ba", 2 * heads)};
    part.rates.front().order = order_of_blocks(part.num_key_heads, {group, group});
  } else {
    part.in = {matrix("in_proj_qkv", 2 * keys + values), matrix("in_proj_z", values)};
    part.rates = {matrix("in_proj_b", heads), matrix("in_proj_a", heads)};
  }
  part.conv = delta_conv(reader, layer, {"linear_attn.conv1d"}, {2 * keys + values}, delta_taps(reader));
  part.out = reader.layer_matrix(layer, prefix + "out_proj", values, reader.hidden());
  finish(reader, layer, prefix, "norm", part);
  if (reader.flag("linear_keys_alternate")) repeat_keys(part);
  return part;
}

DeltaPart separate_gdn_part(const ModelReader& reader, int32_t layer, const kernels::DeltaSpec& sizes) {
  require_silu(reader, "hidden_act");
  const std::string prefix = "linear_attn.";
  DeltaPart part;
  static_cast<kernels::DeltaSpec&>(part) = sizes;
  const int32_t keys = key_columns(part);
  const int32_t values = value_columns(part);
  const auto matrix = [&](std::string_view name, int32_t columns) {
    return reader.layer_matrix(layer, prefix + std::string(name), reader.hidden(), columns);
  };
  part.in = {matrix("q_proj", keys), matrix("k_proj", keys), matrix("v_proj", values),
             matrix("g_proj", values)};
  part.rates = {matrix("b_proj", part.num_value_heads), matrix("a_proj", part.num_value_heads)};
  part.conv = delta_conv(reader, layer, {prefix + "q_conv1d", prefix + "k_conv1d", prefix + "v_conv1d"},
                         {keys, keys, values}, delta_taps(reader));
  part.out = reader.layer_matrix(layer, prefix + "o_proj", values, reader.hidden());
  finish(reader, layer, prefix, "o_norm", part);
  return part;
}

std::optional<JsonView> linear_attn_config(const ModelReader& reader) {
  return reader.fields().find("linear_attn_config");
}

KdaSizes kda_sizes(const ModelReader& reader, const KdaSizes& defaults) {
  const auto object = linear_attn_config(reader);
  const auto read = [&](std::string_view inner, std::string_view outer, int32_t fallback, int64_t max) {
    const auto value = object ? object->find(inner) : std::nullopt;
    return value ? static_cast<int32_t>(value->as_int(1, max)) : reader.int_or(outer, fallback, 1, max);
  };
  return {read("num_heads", "linear_num_heads", defaults.num_heads, 1024),
          read("head_dim", "linear_head_dim", defaults.head_dim, 1024),
          read("short_conv_kernel_size", "linear_conv_kernel_dim", defaults.num_taps, 64)};
}

DeltaPart kda_part(const ModelReader& reader, int32_t layer, const DeltaKeys& keys, const KdaSizes& sizes) {
  require_silu(reader, "hidden_act");
  DeltaPart part;
  part.num_key_heads = part.num_value_heads = sizes.num_heads;
  part.key_dim = part.value_dim = sizes.head_dim;
  part.decays_by_channel = true;
  part.gate_form = kernels::StateGate::sigmoid;
  const int32_t columns = sizes.num_heads * sizes.head_dim;
  const auto matrix = [&](std::string_view name, int32_t num_in, int32_t num_out) {
    return reader.layer_matrix(layer, keys.prefix + std::string(name), num_in, num_out);
  };
  const int32_t hidden = reader.hidden();
  part.in = {matrix("q_proj", hidden, columns), matrix("k_proj", hidden, columns),
             matrix("v_proj", hidden, columns)};
  part.rates = {matrix("b_proj", hidden, sizes.num_heads)};
  if (keys.is_low_rank) {
    part.decay_path =
        LowRankPart{matrix("f_a_proj", hidden, sizes.head_dim), matrix("f_b_proj", sizes.head_dim, columns)};
    part.gate_path =
        LowRankPart{matrix("g_a_proj", hidden, sizes.head_dim), matrix("g_b_proj", sizes.head_dim, columns)};
  } else {
    part.in.push_back(matrix("g_proj", hidden, columns));
    part.rates.push_back(matrix("f_proj", hidden, columns));
  }
  part.conv = delta_conv(reader, layer,
                         {keys.prefix + "q_conv1d", keys.prefix + "k_conv1d", keys.prefix + "v_conv1d"},
                         {columns, columns, columns}, sizes.num_taps);
  part.out = matrix(keys.out, columns, hidden);
  finish(reader, layer, keys.prefix, "o_norm", part);
  return part;
}

}  // namespace quire::families
