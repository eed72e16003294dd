// Bamba and Falcon-H1: Mamba 2 instead of attention, or beside it.
#include <array>

#include "core/base/error.h"
#include "core/config/families/mamba.h"

namespace quire::families {
namespace {

constexpr std::string_view kMambaPrefix = "mamba.";

// Returns whether a list of layers has this one.
bool lists_layer(const ModelReader& reader, std::string_view field, int32_t layer) {
  const auto list = reader.fields().find(field);
  if (!list) return false;
  if (!list->is_array()) throw Error(ErrorCode::format, "{} must be a list of layers", list->where());
  for (const JsonView& entry : list->items())
    if (entry.as_int(0, reader.num_layers() - 1) == layer) return true;
  return false;
}

LayerType type_of_bamba_layer(const ModelReader& reader, int32_t layer) {
  return lists_layer(reader, "attn_layer_indices", layer) ? LayerType::full : LayerType::recurrent;
}

LayerType full(const ModelReader&, int32_t) {
  return LayerType::full;
}

// Half of each head turns, whatever partial_rotary_factor is.
void bamba(ModelReader& reader) {
  RopeSpec rope;
  rope.config = read_rope_config(reader.fields(), {10000.0, 0.5, reader.max_positions(), 0});
  rope.config.partial_factor = 0.5;
  reader.model().ropes.clear();
  reader.each_attention([&](LayerSpec& layer, int32_t) { reader.set_rope(layer, rope); });
  reader.each_recurrent([&](LayerSpec& layer, int32_t i) {
    layer.mixer = mamba2_part(reader, i, std::string(kMambaPrefix), {}, {.head_dim = 0}, InnerSize::expanded);
  });
}

float multiplier(const ModelReader& reader, std::string_view field) {
  return reader.number_or(field, 1.0, -1e6, 1e6);
}

// Reads a list of multipliers; all are one if it is absent.
template <size_t N>
std::array<float, N> multipliers(const ModelReader& reader, std::string_view field) {
  std::array<float, N> out;
  out.fill(1.0f);
  const auto list = reader.fields().find(field);
  if (!list) return out;
  if (!list->is_array() || list->elements().size() != N)
    throw Error(ErrorCode::format, "{} must be a list of {} numbers", list->where(), N);
  const std::vector<JsonView> entries = list->items();
  for (size_t i = 0; i < N; ++i) out[i] = static_cast<float>(entries[i].as_number(-1e6, 1e6));
  return out;
}

// A multiplier of a block's input does not apply to the bias of its first matrix.
void require_no_bias(const ModelReader& reader, std::string_view flag, std::string_view multiplier_field) {
  if (!reader.flag(flag) || multiplier(reader, multiplier_field) == 1.0f) return;
  throw Error(ErrorCode::unsupported, "{}.{}: a bias beside {} is not supported", reader.fields().where(),
              flag, multiplier_field);
}

// Divides the input matrix into one part for each section of its outputs, each with its own multiplier.
void multiply_sections(const ModelReader& reader, Mamba2Part& part) {
  const std::array<float, 5> factors = multipliers<5>(reader, "ssm_multipliers");
  const float of_input = multiplier(reader, "ssm_in_multiplier");
  const int32_t channels = inner_columns(part);
  const int32_t group_columns = part.num_groups * part.state_dim;
  const std::vector<int32_t> sections = {channels, channels, group_columns, group_columns, part.num_heads};
  const MatrixPart whole = part.in.front();
  part.in.clear();
  for (size_t i = 0; i < sections.size(); ++i) {
    MatrixPart section = whole;
    section.order = order_of_part(1, sections, i);
    section.prescale = factors[i] * of_input;
    part.in.push_back(std::move(section));
  }
}

Mamba2Part falcon_mamba2(const ModelReader& reader, int32_t layer) {
  Mamba2Part part =
      mamba2_part(reader, layer, std::string(kMambaPrefix), {}, {.head_dim = 0}, InnerSize::by_field);
  if (!reader.flag("mamba_rms_norm")) {
    part.norm = kernels::GatedNorm::none;
    part.gated_norm.reset();
  } else if (reader.flag("mamba_norm_before_gate", true)) {
    part.norm = kernels::GatedNorm::before_gate;
  }
  multiply_sections(reader, part);
  part.out.bias = reader.bias(by_flag("projectors_bias"));
  part.out.prescale = multiplier(reader, "ssm_out_multiplier");
  return part;
}

void multiply_attention(const ModelReader& reader, AttentionPart& part) {
  for (MatrixPart& matrix : part.qkv) matrix.prescale = multiplier(reader, "attention_in_multiplier");
  part.qkv[1].prescale *= multiplier(reader, "key_multiplier");
  part.output.prescale = multiplier(reader, "attention_out_multiplier");
}

void falcon_h1(ModelReader& reader) {
  require_no_bias(reader, "attention_bias", "attention_in_multiplier");
  require_no_bias(reader, "mamba_proj_bias", "ssm_in_multiplier");
  reader.model().embedding.scale = multiplier(reader, "embedding_multiplier");
  reader.model().head.scale = multiplier(reader, "lm_head_multiplier");
  const std::array<float, 2> of_mlp = multipliers<2>(reader, "mlp_multipliers");
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    multiply_attention(reader, layer.attention());
    layer.dense()->gate_up.front().prescale = of_mlp[0];
    layer.dense()->down.prescale = of_mlp[1];
    layer.mixer = AttentionAndMambaPart{std::move(layer.attention()), falcon_mamba2(reader, i)};
  });
}

constexpr ArchitectureSpec kBambaRow = {.name = "BambaForCausalLM",
                                        .model_type = "bamba",
                                        .keys = keys_beside_mamba(),
                                        .type_of_layer = type_of_bamba_layer,
                                        .qkv_bias = by_flag("attention_bias"),
                                        .attention_output_bias = by_flag("attention_bias"),
                                        .mlp_bias = by_flag("mlp_bias"),
                                        .default_norm_epsilon = 1e-5,
                                        .default_partial_rotary = 0.5,
                                        .default_max_positions = 262144,
                                        .refine = bamba};

constexpr ArchitectureSpec falcon_h1_row() {
  ArchitectureSpec row = renamed(kBambaRow, "FalconH1ForCausalLM", "falcon_h1");
  row.type_of_layer = full;
  row.default_partial_rotary = 1.0;
  row.default_max_positions = 8192;
  row.refine = falcon_h1;
  return row;
}

}  // namespace

const ArchitectureSpec kBamba = kBambaRow;
const ArchitectureSpec kFalconH1 = falcon_h1_row();

}  // namespace quire::families
