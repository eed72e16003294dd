// What a GGUF file of each family describes, compared with its directory: every number of the layers, and
// every element of the tensors by name.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "core/config/model_config.h"
#include "core/models/gguf_config.h"
#include "core/models/gguf_tensors.h"
#include "tests/core/models/gguf_conversion.h"
#include "tests/support/golden_families.h"
#include "tests/support/memory_file_system.h"

namespace quire::testing {
namespace {

std::string text_of(const kernels::NormSpec& norm) {
  return fmt::format("norm {} {} {}\n", static_cast<int>(norm.kind), norm.epsilon, norm.columns);
}

std::string text_of(const AttentionPart& part) {
  return fmt::format(
      "attention {} {} {} {} rope {} {} scale {} cap {} window {} norm {} {} {} sinks {} clip {} by {} {}\n",
      part.heads.num_heads, part.heads.num_kv_heads, part.heads.head_dim, part.qkv.size(),
      static_cast<int>(part.rope), part.rotary_dim, part.scale, part.softcap, part.sliding_window,
      static_cast<int>(part.qk_norm), part.qk_norm_epsilon, part.q_norm.count, part.has_sinks, part.clip,
      part.temperature_beta, part.temperature_floor);
}

std::string text_of(const MatrixPart& part) {
  return fmt::format("{} {} {} {}\n", part.num_in, part.num_out, part.bias == BiasRule::required,
                     part.prescale);
}

std::string text_of(const MlpPart& part) {
  return fmt::format("mlp {} {} {} {} {}\n", static_cast<int>(part.activation), part.gated, part.intermediate,
                     part.a, part.limit) +
         text_of(part.down);
}

std::string text_of(const ExpertsPart& part) {
  return fmt::format("experts {} {} {} groups {} {} {} normal {} {} scale {} {} shared {} {}\n",
                     part.num_experts, part.num_chosen, static_cast<int>(part.score), part.num_groups,
                     part.chosen_groups, part.group_by_two, part.normalised, part.least_sum, part.scale,
                     part.jitter, part.shared ? part.shared->intermediate : 0, part.shared_gate.has_value()) +
         text_of(part.expert);
}

// Angles of a layer's rotary embedding with few digits: factors of a file are rounded once more.
std::string text_of(const RopeSpec& rope) {
  std::string text = fmt::format("{:.5g}", rope.config.magnitude);
  for (const bool is_short : {false, true})
    for (const float angle : inverse_frequencies(rope.config, rope.rotary_dim, is_short))
      text += fmt::format(" {:.4g}", angle);
  return text + "\n";
}

std::string text_of(const ConvPart& conv) {
  return fmt::format("conv {} {} {} {}\n", conv.channels, conv.num_taps, conv.silu, !conv.bias.name.empty());
}

// Multipliers are not compared: files have them in the weights.
std::string text_of(const Mamba2Part& part) {
  return fmt::format("mamba 2 {} {} {} {} step {} {} norm {}\n", part.num_heads, part.head_dim,
                     part.num_groups, part.state_dim, part.least_step, part.largest_step,
                     static_cast<int>(part.norm)) +
         text_of(part.conv);
}

// Key heads are not compared: those of Qwen3.5 are repeated for each value head.
std::string text_of(const DeltaPart& part) {
  return fmt::format("delta {} {} {} by channel {} {} {} scale {} {} gate {} taps {}\n", part.num_value_heads,
                     part.key_dim, part.value_dim, part.decays_by_channel, static_cast<int>(part.decay_form),
                     part.decay_bound, part.beta_scale, part.query_scale, static_cast<int>(part.gate_form),
                     part.conv.num_taps) +
         text_of(part.norm) + text_of(part.out);
}

std::string text_of_state(const MixerSpec& mixer) {
  if (const auto* const delta = std::get_if<DeltaPart>(&mixer)) return text_of(*delta);
  if (const auto* const mamba = std::get_if<Mamba2Part>(&mixer)) return text_of(*mamba);
  if (const auto* const both = std::get_if<AttentionAndMambaPart>(&mixer)) return text_of(both->mamba);
  if (const auto* const mamba = std::get_if<Mamba1Part>(&mixer))
    return text_of(mamba->in) + text_of(mamba->select) + text_of(mamba->step) + text_of(mamba->conv) +
           fmt::format("norms {}\n", mamba->step_norm.has_value());
  if (const auto* const conv = std::get_if<ShortConvPart>(&mixer))
    return text_of(conv->in) + text_of(conv->conv);
  return std::string(mixer_name(mixer)) + "\n";
}

std::string text_of(const LayerSpec& layer, const ModelSpec& model) {
  std::string text = text_of(layer.attention_norm) + text_of(layer.feed_forward_norm);
  text += fmt::format("posts {} {} parallel {} {}\n", layer.attention_post_norm.has_value(),
                      layer.feed_forward_post_norm.has_value(), layer.parallel, layer.shares_norm);
  if (layer.dense() != nullptr) text += text_of(*layer.dense());
  if (layer.experts() != nullptr) text += text_of(*layer.experts());
  const AttentionPart* const attention = layer.find_attention();
  if (attention == nullptr || std::holds_alternative<AttentionAndMambaPart>(layer.mixer))
    text += text_of_state(layer.mixer);
  if (attention == nullptr) return text;
  text += text_of(*attention);
  for (const MatrixPart& part : attention->qkv) text += text_of(part);
  text += text_of(attention->output);
  return attention->rope_idx < 0 ? text
                                 : text + text_of(model.ropes[static_cast<size_t>(attention->rope_idx)]);
}

std::string text_of(const ModelConfig& config) {
  const ModelSpec& model = config.spec;
  std::string text = fmt::format(
      "{} {} {} {} embedding {} head {} {} {}\n", config.num_layers, model.hidden_size, model.vocab_size,
      config.max_positions, model.embedding.scale, model.head.scale, model.head.softcap, model.head.tied);
  for (const LayerSpec& layer : model.layers) text += text_of(layer, model);
  return text + text_of(model.head.norm);
}

class GgufSpecs : public ::testing::TestWithParam<GgufConversion> {
 protected:
  void SetUp() override {
    directory_ = read_stored_model(FamilyDirectory(GetParam().family).path());
    files_.write("m/model.gguf", gguf_of(directory_, GetParam()).build());
    model_.emplace(files_, "m/model.gguf");
  }

  // Returns whether the elements of a tensor differ in the file, except for the order of those of kv_b_proj.
  bool is_converted(const std::string& name) const {
    if (GetParam().convert == nullptr || name.ends_with("kv_b_proj.weight")) return false;
    const StoredTensor& tensor = *std::find_if(directory_.tensors.begin(), directory_.tensors.end(),
                                               [&](const StoredTensor& one) { return one.name == name; });
    return !GetParam().convert(directory_.config, parts_of_name(name).rest, tensor).empty();
  }

  StoredModel directory_;
  MemoryFileSystem files_;
  std::optional<GgufModel> model_;
};

TEST_P(GgufSpecs, NumbersAreThoseOfTheDirectory) {
  if (GetParam().family == "falcon_h1") GTEST_SKIP() << "its file has the multipliers in the weights";
  const std::string config = gguf_config(*model_, gguf_family_of(*model_));
  const ModelConfig found = parse_gguf_config(config, gguf_generation_config(*model_), "m/model.gguf");
  EXPECT_EQ(text_of(found), text_of(parse_model_config(directory_.config.dump()))) << config;
  EXPECT_EQ(found.eos_ids, TokenIds{2});
}

// Returns the elements of a tensor as the loader orders them.
std::string ordered_bytes(const WeightDirectory::Entry& entry) {
  const TensorInfo& tensor = *entry.tensor;
  std::string bytes(tensor.size_bytes, '\0');
  entry.file->read_at(tensor.offset_bytes,
                      gsl::as_writable_bytes(gsl::span<char>(bytes.data(), bytes.size())));
  if (tensor.row_order == nullptr) return bytes;
  const size_t row_bytes = bytes.size() / tensor.row_order->size();
  std::string ordered;
  for (const int32_t row : *tensor.row_order)
    ordered += bytes.substr(static_cast<size_t>(row) * row_bytes, row_bytes);
  return ordered;
}

// Returns BF16 numbers widened to F32.
std::string widened(const std::string& halves) {
  std::string wide;
  for (size_t i = 0; i < halves.size(); i += 2) wide += std::string(2, '\0') + halves.substr(i, 2);
  return wide;
}

std::string plus(std::string floats, float added) {
  for (size_t i = 0; added != 0.0f && i < floats.size(); i += sizeof(float)) {
    float value = 0.0f;
    std::memcpy(&value, floats.data() + i, sizeof(value));
    value += added;
    std::memcpy(floats.data() + i, &value, sizeof(value));
  }
  return floats;
}

TEST_P(GgufSpecs, TensorsAreThoseOfTheDirectory) {
  const WeightDirectory found = gguf_tensors(*model_, gguf_family_of(*model_));
  size_t compared = 0;
  for (const StoredTensor& tensor : directory_.tensors) {
    if (tensor.name.find("mlp.experts.gate_up_proj") != std::string::npos)
      continue;  // in parts of each expert
    if (GetParam().family == "gpt_oss" && tensor.name.find("mlp.experts.") != std::string::npos) continue;
    if (is_converted(tensor.name)) continue;  // the logits prove these
    SCOPED_TRACE(tensor.name);
    const WeightDirectory::Entry* const entry = found.find(tensor.name);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->tensor->shape, tensor.shape);
    const bool is_wide = entry->tensor->type->name == "F32" && tensor.dtype == "BF16";
    EXPECT_EQ(ordered_bytes(*entry),
              plus(is_wide ? widened(tensor.bytes) : tensor.bytes, entry->tensor->added));
    ++compared;
  }
  EXPECT_GT(compared, 6U);
}

std::string family_name(const ::testing::TestParamInfo<GgufConversion>& conversion) {
  return conversion.param.family;
}

INSTANTIATE_TEST_SUITE_P(Golden, GgufSpecs, ::testing::ValuesIn(gguf_conversions()), family_name);

}  // namespace
}  // namespace quire::testing
