// Mamba, FalconMamba and Mamba 2: models whose layers are one mixer.
#include "core/config/families/mamba.h"

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/config/families/delta.h"

namespace quire::families {
namespace {

constexpr MambaFields kOwnFields = {.num_heads = "num_heads",
                                    .head_dim = "head_dim",
                                    .num_groups = "n_groups",
                                    .state_dim = "state_size",
                                    .num_taps = "conv_kernel",
                                    .expand = "expand",
                                    .projection_bias = "use_bias",
                                    .conv_bias = "use_conv_bias"};

int32_t expanded(const ModelReader& reader, const MambaFields& fields) {
  const int64_t columns = int64_t{reader.hidden()} * reader.int_or(fields.expand, 2, 1, 64);
  return static_cast<int32_t>(columns);
}

// Reads a number, or nothing if it is "auto".
std::optional<int32_t> number_or_auto(const ModelReader& reader, std::string_view field, int32_t max) {
  const auto value = reader.fields().find(field);
  if (value && value->raw().as_string() != nullptr && value->as_string() == "auto") return std::nullopt;
  return value ? std::optional(static_cast<int32_t>(value->as_int(1, max))) : std::nullopt;
}

// Reads a bound of the time step: a number, which may be infinite in any of the spellings of published files.
float step_bound(const JsonView& value) {
  constexpr double kNone = std::numeric_limits<float>::max();
  const JsonView number = value.is_object() ? value.at("__float__") : value;
  if (const std::string* const word = number.raw().as_string(); word != nullptr && *word == "Infinity")
    return std::numeric_limits<float>::infinity();
  if (const double* const real = number.raw().as_double(); real != nullptr && *real > kNone)
    return std::numeric_limits<float>::infinity();
  return static_cast<float>(number.as_number(0.0, kNone));
}

void read_step_limit(const ModelReader& reader, Mamba2Part& part) {
  const auto limit = reader.fields().find(FieldNames{"time_step_limit", "mamba_dt_limit"});
  if (!limit) return;
  if (!limit->is_array() || limit->elements().size() != 2)
    throw Error(ErrorCode::format, "{} must be a list of two numbers", limit->where());
  part.least_step = step_bound(limit->items()[0]);
  part.largest_step = step_bound(limit->items()[1]);
  if (part.least_step > part.largest_step)
    throw Error(ErrorCode::format, "{}: the first number is larger than the second", limit->where());
}

// Number of channels of a mixer, and the fields that it follows from.
struct Channels {
  int32_t number = 0;
  std::string fields;
};

Channels read_channels(const ModelReader& reader, const MambaFields& fields, InnerSize inner) {
  if (inner == InnerSize::by_field && !reader.fields().is_null("mamba_d_ssm")) {
    const int32_t number = reader.int_or("mamba_d_ssm", 1024, 1, 1 << 20);
    return {number, fmt::format("mamba_d_ssm {}", number)};
  }
  const int32_t number = expanded(reader, fields);
  return {number, fmt::format("{} {} times hidden_size {}", fields.expand, number / reader.hidden(),
                              reader.hidden())};
}

void read_sizes(const ModelReader& reader, const MambaFields& fields, const MambaDefaults& defaults,
                InnerSize inner, Mamba2Part& part) {
  const Channels channels = read_channels(reader, fields, inner);
  part.num_heads = reader.int_or(fields.num_heads, defaults.num_heads, 1, 4096);
  const bool has_field = reader.fields().find(fields.head_dim).has_value();
  const std::optional<int32_t> stored = number_or_auto(reader, fields.head_dim, 1024);
  const bool follows = has_field || defaults.head_dim == 0;
  part.head_dim = stored.value_or(follows ? channels.number / part.num_heads : defaults.head_dim);
  part.num_groups = reader.int_or(fields.num_groups, defaults.num_groups, 1, 1024);
  part.state_dim = reader.int_or(fields.state_dim, defaults.state_dim, 1, 1024);
  if (inner != InnerSize::by_heads && int64_t{part.num_heads} * part.head_dim != channels.number) {
    throw Error(ErrorCode::format, "{}.{}: {} times {} {} is not {}", reader.fields().where(),
                fields.num_heads, part.num_heads, fields.head_dim, part.head_dim, channels.fields);
  }
  if (part.num_heads % part.num_groups != 0) {
    throw Error(ErrorCode::format, "{}.{}: {} does not divide {} {}", reader.fields().where(),
                fields.num_groups, part.num_groups, fields.num_heads, part.num_heads);
  }
}

ConvPart mamba_conv(const ModelReader& reader, int32_t layer, const std::string& prefix,
                    const MambaFields& fields, int32_t channels) {
  const std::string name = prefix + "conv1d";
  ConvPart conv = delta_conv(reader, layer, {name}, {channels}, reader.int_or(fields.num_taps, 4, 2, 64));
  if (reader.flag(fields.conv_bias, true)) conv.bias = {reader.key(layer, name) + ".bias", channels};
  return conv;
}

void mamba1(ModelReader& reader, SelectionNorms norms) {
  reader.each_recurrent([&](LayerSpec& layer, int32_t i) {
    layer.mixer = mamba1_part(reader, i, "mixer.", kOwnFields, "time_step_rank", norms);
    reader.drop_feed_forward(layer);
  });
}

void mamba(ModelReader& reader) {
  mamba1(reader, SelectionNorms::none);
}

void falcon_mamba(ModelReader& reader) {
  mamba1(reader, SelectionNorms::without_weights);
}

void mamba2(ModelReader& reader) {
  reader.each_recurrent([&](LayerSpec& layer, int32_t i) {
    layer.mixer = mamba2_part(reader, i, "mixer.", kOwnFields,
                              {.num_heads = 128, .head_dim = 64, .num_groups = 8, .state_dim = 128},
                              InnerSize::expanded);
    reader.drop_feed_forward(layer);
  });
}

LayerType recurrent(const ModelReader&, int32_t) {
  return LayerType::recurrent;
}

constexpr TensorKeys mamba_keys() {
  TensorKeys keys;
  keys.embedding = "backbone.embeddings";
  keys.layers = "backbone.layers.";
  keys.attention_norm = "norm";
  keys.final_norm = "backbone.norm_f";
  return keys;
}

// A state has no limit of length, so files without one allow a million tokens.
constexpr ArchitectureSpec kMambaRow = {.name = "MambaForCausalLM",
                                        .model_type = "mamba",
                                        .keys = mamba_keys(),
                                        .has_dense_mlp = false,
                                        .has_attention = false,
                                        .type_of_layer = recurrent,
                                        .tied_by_default = true,
                                        .default_norm_epsilon = 1e-5,
                                        .default_max_positions = 1 << 20,
                                        .refine = mamba};

constexpr ArchitectureSpec falcon_mamba_row() {
  ArchitectureSpec row = renamed(kMambaRow, "FalconMambaForCausalLM", "falcon_mamba");
  row.refine = falcon_mamba;
  return row;
}

constexpr ArchitectureSpec mamba2_row() {
  ArchitectureSpec row = renamed(kMambaRow, "Mamba2ForCausalLM", "mamba2");
  row.tied_by_default = false;
  row.refine = mamba2;
  return row;
}

}  // namespace

Mamba2Part mamba2_part(const ModelReader& reader, int32_t layer, const std::string& prefix,
                       const MambaFields& fields, const MambaDefaults& defaults, InnerSize inner) {
  require_silu(reader, "mamba_hidden_act");
  Mamba2Part part;
  read_sizes(reader, fields, defaults, inner, part);
  read_step_limit(reader, part);
  const int32_t channels = inner_columns(part);
  const BiasRule bias = reader.bias(by_flag(fields.projection_bias));
  part.in = {reader.layer_matrix(layer, prefix + "in_proj", reader.hidden(),
                                 channels + conv_columns(part) + part.num_heads, bias)};
  part.out = reader.layer_matrix(layer, prefix + "out_proj", channels, reader.hidden(), bias);
  part.conv = mamba_conv(reader, layer, prefix, fields, conv_columns(part));
  part.a_log = {reader.key(layer, prefix + "A_log"), part.num_heads};
  part.dt_bias = {reader.key(layer, prefix + "dt_bias"), part.num_heads};
  part.skip = {reader.key(layer, prefix + "D"), part.num_heads};
  part.gated_norm =
      ModelReader::bare_norm(kernels::NormKind::rms, reader.epsilon(), channels / part.num_groups);
  part.gated_norm->weight = {reader.key(layer, prefix + "norm.weight"), channels};
  return part;
}

Mamba1Part mamba1_part(const ModelReader& reader, int32_t layer, const std::string& prefix,
                       const MambaFields& fields, std::string_view rank, SelectionNorms norms) {
  require_silu(reader, "hidden_act");
  Mamba1Part part;
  part.channels = expanded(reader, fields);
  part.state_dim = reader.int_or(fields.state_dim, 16, 1, 1024);
  part.step_rank = number_or_auto(reader, rank, 65536).value_or((reader.hidden() + 15) / 16);
  const BiasRule bias = reader.bias(by_flag(fields.projection_bias));
  const int32_t selected = part.step_rank + 2 * part.state_dim;
  part.in = reader.layer_matrix(layer, prefix + "in_proj", reader.hidden(), 2 * part.channels, bias);
  part.conv = mamba_conv(reader, layer, prefix, fields, part.channels);
  part.select = reader.layer_matrix(layer, prefix + "x_proj", part.channels, selected);
  part.step =
      reader.layer_matrix(layer, prefix + "dt_proj", part.step_rank, part.channels, BiasRule::required);
  part.a_log = {reader.key(layer, prefix + "A_log"), part.channels * part.state_dim};
  part.skip = {reader.key(layer, prefix + "D"), part.channels};
  part.out = reader.layer_matrix(layer, prefix + "out_proj", part.channels, reader.hidden(), bias);
  if (norms == SelectionNorms::none) return part;
  const bool has_weights = norms == SelectionNorms::weighted;
  const float epsilon = has_weights ? reader.epsilon() : reader.number_or("mixer_rms_eps", 1e-6, 1e-12, 0.1);
  const auto norm = [&](std::string_view name, int32_t columns) {
    NormPart made = ModelReader::bare_norm(kernels::NormKind::rms, epsilon, columns);
    if (has_weights) made.weight = {reader.key(layer, prefix + std::string(name)) + ".weight", columns};
    return made;
  };
  part.step_norm = norm("dt_layernorm", part.step_rank);
  part.b_norm = norm("b_layernorm", part.state_dim);
  part.c_norm = norm("c_layernorm", part.state_dim);
  return part;
}

const ArchitectureSpec kMamba = kMambaRow;
const ArchitectureSpec kFalconMamba = falcon_mamba_row();
const ArchitectureSpec kMamba2 = mamba2_row();

}  // namespace quire::families
