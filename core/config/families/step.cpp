// Step-3.5 and 3.7: more heads in layers with a window, a gate for each head, a rotary embedding for each
// layer, and experts whose SwiGLU is clamped in some layers.
#include <cmath>

#include "core/base/error.h"
#include "core/config/families/deepseek.h"
#include "core/config/families/experts.h"

namespace quire::families {
namespace {

// Returns the number of heads of layers with a window. They may differ in nothing else.
int32_t sliding_heads(const ModelReader& reader) {
  const int32_t all = reader.heads().num_heads;
  const auto other = reader.fields().find("attention_other_setting");
  const auto nested = other ? other->find("num_attention_heads") : std::nullopt;
  const int32_t num =
      reader.int_or("num_sliding_attention_heads", nested ? nested->as_int(1, 1024) : int64_t{all}, 1, 1024);
  if (!other) return num;
  const auto require = [&](std::string_view name, int32_t value) {
    const auto field = other->find(name);
    if (!field || field->as_int(1, 1024) == value) return;
    throw Error(ErrorCode::unsupported, "{}: another number than in other layers, {}, is not supported",
                field->where(), value);
  };
  const auto type = other->find("attention_type");
  if (type && type->as_string() != "sliding_attention") {
    throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported; supported is sliding_attention",
                type->where(), printable(type->as_string(), 32));
  }
  require("num_attention_groups", reader.heads().num_kv_heads);
  require("head_dim", reader.heads().head_dim);
  return num;
}

void set_attention(ModelReader& reader) {
  const int32_t sliding = sliding_heads(reader);
  const float scalar = reader.number_or("query_pre_attn_scalar", reader.heads().head_dim, 1e-3, 1e6);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    AttentionPart& part = layer.attention();
    kernels::HeadShape heads = reader.heads();
    if (reader.layer_type(i) == LayerType::sliding) heads.num_heads = sliding;
    reader.set_heads(layer, i, heads);
    reader.norm_heads(layer, i, kernels::QkNorm::each_head);
    part.scale = 1.0f / std::sqrt(scalar);
    part.gate = OutputGatePart{reader.layer_matrix(i, "self_attn.g_proj", reader.hidden(), heads.num_heads)};
  });
}

// Reads the rotary embedding of each layer, if files list one for each. Only layers without a window have
// the scaling of `rope_scaling`.
void set_ropes(ModelReader& reader) {
  if (has_rope_by_layer_type(reader.fields())) return;
  const auto theta = reader.fields().find("rope_theta");
  const bool is_list = theta && theta->is_array();
  const std::vector<double> bases =
      is_list ? reader.layer_reals("rope_theta", 1.0, 1e12) : std::vector<double>();
  const std::vector<double> parts = reader.layer_reals("partial_rotary_factors", 1e-3, 1.0);
  reader.model().ropes.clear();
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    const auto at = static_cast<size_t>(i);
    const double base = is_list ? bases[at] : theta ? theta->as_number(1.0, 1e12) : 10000.0;
    RopeSpec rope;
    rope.config.theta = base;
    if (reader.layer_type(i) == LayerType::full)
      rope.config = read_rope_config(reader.fields(), {base, 1.0, reader.max_positions(), 0, is_list});
    if (!parts.empty()) rope.config.partial_factor = parts[at];
    reader.set_rope(layer, rope);
  });
}

// Returns whether a layer has experts: by mlp_layer_types, or by a list of numbers, which may be one string.
bool has_experts(const ModelReader& reader, int32_t layer) {
  const auto list = reader.fields().find("moe_layers_enum");
  if (!list || reader.fields().find("mlp_layer_types")) return is_sparse_layer(reader, layer, 3);
  if (list->is_array()) {
    for (const JsonView& entry : list->items())
      if (entry.as_int(0, 1 << 20) == layer) return true;
    return false;
  }
  const std::string numbers = "," + list->as_string() + ",";
  if (numbers.find_first_not_of("0123456789, ") != std::string::npos) {
    throw Error(ErrorCode::format, "{} must be numbers of layers with commas between them", list->where());
  }
  return numbers.find(fmt::format(",{},", layer)) != std::string::npos ||
         numbers.find(fmt::format(", {},", layer)) != std::string::npos;
}

// Returns the limit of each layer; 0: none. Entries of the list may be null.
std::vector<float> limits_of(const ModelReader& reader, std::string_view field) {
  std::vector<float> limits;
  for (const JsonView& entry : reader.layer_list(field))
    limits.push_back(entry.is_null() ? 0.0f : static_cast<float>(entry.as_number(0.0, 1e6)));
  limits.resize(static_cast<size_t>(reader.num_layers()));
  return limits;
}

// Returns the x > 0 with silu(x) = y > 0, by halving an interval: y < x < y + 1.
float inverse_silu(float y) {
  double low = double{y}, high = double{y} + 1.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2.0;
    (middle / (1.0 + std::exp(-middle)) < double{y} ? low : high) = middle;
  }
  return static_cast<float>(high);
}

// These families clamp silu(gate) instead of the gate. It is the same at the gate where silu has the limit,
// because silu grows from there on.
void clamp(MlpPart& part, float limit) {
  if (limit == 0.0f) return;
  clamp_swiglu(part, limit);
  part.c = inverse_silu(limit);
}

ExpertsPart step_experts(ModelReader& reader, int32_t layer) {
  ExpertsPart experts = routed(reader, layer, {"moe.gate", "moe."});
  experts.score = kernels::RouterScore::sigmoid;
  experts.normalised = true;
  experts.scale = reader.number_or("moe_router_scaling_factor", 1.0, 1e-6, 1e6);
  experts.choice_bias = {reader.key(layer, "moe.router_bias"), experts.num_experts};
  for (MatrixPart& matrix : experts.expert.gate_up) matrix.num_slabs = experts.num_experts;
  experts.expert.down.num_slabs = experts.num_experts;
  const int32_t shared =
      reader.fields().int_or({{"share_expert_dim", "share_expert_dims"}, 0, 1 << 20}, 1280);
  add_shared(reader, layer, "share_expert.", shared, experts);
  return experts;
}

// The shared expert and the dense layers have limits of their own.
void step(ModelReader& reader) {
  set_attention(reader);
  set_ropes(reader);
  const std::vector<float> limits = limits_of(reader, "swiglu_limits");
  const std::vector<float> shared_limits = limits_of(reader, "swiglu_limits_shared");
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (has_experts(reader, i)) ModelReader::set_experts(layer, step_experts(reader, i));
    const float limit = limits[static_cast<size_t>(i)], of_shared = shared_limits[static_cast<size_t>(i)];
    if (MlpPart* const dense = layer.dense()) clamp(*dense, of_shared);
    ExpertsPart* const experts = layer.experts();
    if (experts == nullptr) return;
    clamp(experts->expert, limit);
    if (experts->shared) clamp(*experts->shared, of_shared);
  });
}

}  // namespace

const ArchitectureSpec kStep = {.name = "Step3p7ForConditionalGeneration",
                                .model_type = "step3p5",
                                .norm_offset = 1.0f,
                                .qkv_bias = by_flag("attention_bias"),
                                .attention_output_bias = by_flag("attention_bias"),
                                .mlp_bias = by_flag("mlp_bias"),
                                .window = WindowRule::by_layer_type,
                                .window_pattern = 1,
                                .default_norm_epsilon = 1e-5,
                                .lists_ropes = true,
                                .default_max_positions = 128000,
                                .default_head_dim = 128,
                                .refine = step};

}  // namespace quire::families
