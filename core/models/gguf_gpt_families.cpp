// GGUF architectures of GPT-2 and its successors, whose classes have q, k and v in one matrix.
#include <array>

#include "core/models/gguf_family_rows.h"

namespace quire {
namespace {

constexpr auto kGpt2Parts = std::to_array<GgufPart>({{"position_embd", "transformer.wpe"}});
constexpr auto kBloomParts =
    std::to_array<GgufPart>({{"token_embd_norm", "transformer.word_embeddings_layernorm"}});
constexpr auto kFalcon40bParts =
    std::to_array<GgufPart>({{"attn_norm", "ln_mlp"}, {"attn_norm_2", "ln_attn"}});

// Files have matrices as [outputs, inputs].
void gpt2(const GgufModel&, JsonObject& config) {
  config.add("transposed_matrices", false);
}

void starcoder(const GgufModel& model, JsonObject& config) {
  config.add("multi_query", model.same_in_layers("attention.head_count_kv").value_or(0) == 1);
  config.add("separate_qkv", true);
}

// The outputs for q, k and v lie below each other, not in turn for each head.
void separate_qkv(const GgufModel&, JsonObject& config) {
  config.add("separate_qkv", true);
}

void gpt_neox(const GgufModel& model, JsonObject& config) {
  config.add("separate_qkv", true);
  config.add("use_parallel_residual", model.flag("use_parallel_residual").value_or(true));
}

void mpt(const GgufModel& model, JsonObject& config) {
  if (const auto clip = model.number("attention.clamp_kqv"); clip && *clip > 0.0)
    config.add("clip_qkv", *clip);
  const double bias = model.number("attention.max_alibi_bias").value_or(8.0);
  config.add("alibi", bias > 0.0);
  if (bias > 0.0) config.add("alibi_bias_max", bias);
}

// With a second norm before the blocks there are several KV heads.
bool has_second_norm(const GgufModel& model) {
  return model.has("blk.0.attn_norm_2.weight");
}
void falcon_40b(const GgufModel&, JsonObject& config) {
  config.add("separate_qkv", true);
  config.add("new_decoder_architecture", true);
}
void falcon(const GgufModel&, JsonObject& config) {
  config.add("separate_qkv", true);
  config.add("new_decoder_architecture", false);
}

constexpr auto kGptRows = std::to_array<GgufFamily>({
    {.architecture = "gpt2", .class_name = "GPT2LMHeadModel", .parts = kGpt2Parts, .configure = gpt2},
    {.architecture = "starcoder",
     .class_name = "GPTBigCodeForCausalLM",
     .parts = kGpt2Parts,
     .configure = starcoder},
    {.architecture = "gptneox", .class_name = "GPTNeoXForCausalLM", .configure = gpt_neox},
    {.architecture = "bloom",
     .class_name = "BloomForCausalLM",
     .parts = kBloomParts,
     .configure = separate_qkv},
    {.architecture = "mpt", .class_name = "MptForCausalLM", .configure = mpt},
    {.architecture = "falcon",
     .class_name = "FalconForCausalLM",
     .parts = kFalcon40bParts,
     .configure = falcon_40b,
     .matches = has_second_norm},
    {.architecture = "falcon", .class_name = "FalconForCausalLM", .configure = falcon},
});

}  // namespace

gsl::span<const GgufFamily> gpt_gguf_families() {
  return kGptRows;
}

}  // namespace quire
