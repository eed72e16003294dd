// GPT-2 and its successors: GPT BigCode, GPT-NeoX, StarCoder 2 and gpt-oss.
#include "core/config/families/experts.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys gpt2_keys() {
  TensorKeys keys;
  keys.embedding = "transformer.wte";
  keys.layers = "transformer.h.";
  keys.attention_norm = "ln_1";
  keys.qkv = "attn.c_attn";
  keys.attention_output = "attn.c_proj";
  keys.mlp_norm = "ln_2";
  keys.up = "mlp.c_fc";
  keys.down = "mlp.c_proj";
  keys.final_norm = "transformer.ln_f";
  return keys;
}

// Removes the division of attention scores by sqrt(head_dim) if scale_attn_weights is false.
void scale_attention(ModelReader& reader) {
  if (reader.flag("scale_attn_weights", true)) return;
  reader.each_layer([](LayerSpec& layer, int32_t) { layer.attention().scale = 1.0f; });
}

// Its matrices are stored transposed, except in GGUF files.
void gpt2(ModelReader& reader) {
  reader.use_learned_positions("transformer.wpe");
  scale_attention(reader);
  const bool by_layer = reader.flag("scale_attn_by_inverse_layer_idx");
  const bool transposed = reader.flag("transposed_matrices", true);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (by_layer) layer.attention().scale /= static_cast<float>(i + 1);
    layer.attention().qkv.front().transposed = transposed;
    layer.attention().output.transposed = transposed;
    layer.dense()->gate_up.front().transposed = transposed;
    layer.dense()->down.transposed = transposed;
  });
}

// Multi-query attention (one KV head); otherwise q, k and v are interleaved per head.
void gpt_bigcode(ModelReader& reader) {
  reader.use_learned_positions("transformer.wpe");
  const bool is_shared = reader.flag("multi_query", true);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    kernels::HeadShape heads = reader.heads();
    heads.num_kv_heads = is_shared ? 1 : heads.num_heads;
    reader.set_heads(layer, i, heads);
    const int32_t dim = heads.head_dim;
    if (!is_shared && !reader.flag("separate_qkv"))
      layer.attention().qkv.front().order = order_of_blocks(heads.num_heads, {dim, dim, dim});
  });
  scale_attention(reader);
}

constexpr ArchitectureSpec kGpt2Row = {.name = "GPT2LMHeadModel",
                                       .model_type = "gpt2",
                                       .keys = gpt2_keys(),
                                       .norm = kernels::NormKind::layer,
                                       .gated_mlp = false,
                                       .default_intermediate_ratio = 4,
                                       .qkv_bias = kAlways,
                                       .attention_output_bias = kAlways,
                                       .mlp_bias = kAlways,
                                       .tied_by_default = true,
                                       .default_activation = "gelu_new",
                                       .default_norm_epsilon = 1e-5,
                                       .default_max_positions = 1024,
                                       .default_special_token = 50256,
                                       .refine = gpt2};

constexpr ArchitectureSpec gpt_bigcode_row() {
  ArchitectureSpec row = renamed(kGpt2Row, "GPTBigCodeForCausalLM", "gpt_bigcode");
  row.default_activation = "gelu_pytorch_tanh";
  row.refine = gpt_bigcode;
  return row;
}

constexpr TensorKeys neox_keys() {
  TensorKeys keys;
  keys.embedding = "gpt_neox.embed_in";
  keys.layers = "gpt_neox.layers.";
  keys.qkv = "attention.query_key_value";
  keys.attention_output = "attention.dense";
  keys.up = "mlp.dense_h_to_4h";
  keys.down = "mlp.dense_4h_to_h";
  keys.final_norm = "gpt_neox.final_layer_norm";
  keys.head = "embed_out";
  return keys;
}

// q, k and v are interleaved per head, except in GGUF files. With use_parallel_residual both blocks read the
// input of the layer, each through its own norm.
void gpt_neox(ModelReader& reader) {
  const int32_t dim = reader.heads().head_dim;
  const ColumnOrder order = order_of_blocks(reader.heads().num_heads, {dim, dim, dim});
  const bool parallel = reader.flag("use_parallel_residual", true);
  reader.each_layer([&](LayerSpec& layer, int32_t) {
    layer.parallel = parallel;
    if (!reader.flag("separate_qkv")) layer.attention().qkv.front().order = order;
  });
}

constexpr TensorKeys starcoder2_keys() {
  TensorKeys keys;
  keys.up = "mlp.c_fc";
  keys.down = "mlp.c_proj";
  return keys;
}

// Columns of gate and up are interleaved. GGUF files have matrices of their own for each expert.
void gpt_oss(ModelReader& reader) {
  const int32_t width = reader.intermediate();
  const bool is_stacked = reader.flag("stacked_experts", true);
  const ColumnOrder order = order_of_blocks(width, {1, 1});
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    AttentionPart& attention = layer.attention();
    attention.has_sinks = true;
    attention.sinks = {reader.key(i, "self_attn.sinks"), attention.heads.num_heads};
    ExpertsPart experts = routed(reader, i, {"mlp.router", is_stacked ? "mlp.experts." : "mlp.experts.{}."});
    experts.router.bias = BiasRule::required;
    experts.score = kernels::RouterScore::softmax_of_chosen;
    MlpPart& expert = experts.expert;
    if (is_stacked) {
      expert = stacked_expert(reader, i, {"mlp.experts.gate_up_proj", "mlp.experts.down_proj", true},
                              experts.num_experts, width);
      expert.gate_up.front().order = order;
    }
    for (MatrixPart& matrix : expert.gate_up) matrix.bias = BiasRule::required;
    expert.down.bias = BiasRule::required;
    expert.activation = kernels::Activation::clamped_swish;
    expert.a = reader.number_or("swiglu_alpha", 1.702, 0.0, 1e3);
    expert.b = 1.0f;
    expert.limit = expert.c = reader.number_or("swiglu_limit", 7.0, 0.0, 1e6);
    ModelReader::set_experts(layer, std::move(experts));
  });
}

}  // namespace

const ArchitectureSpec kGpt2 = kGpt2Row;
const ArchitectureSpec kGptBigCode = gpt_bigcode_row();

const ArchitectureSpec kGptNeoX = {.name = "GPTNeoXForCausalLM",
                                   .model_type = "gpt_neox",
                                   .keys = neox_keys(),
                                   .norm = kernels::NormKind::layer,
                                   .gated_mlp = false,
                                   .qkv_bias = by_flag("attention_bias", true),
                                   .attention_output_bias = by_flag("attention_bias", true),
                                   .mlp_bias = kAlways,
                                   .default_activation = "gelu",
                                   .default_norm_epsilon = 1e-5,
                                   .default_partial_rotary = 0.25,
                                   .refine = gpt_neox};

const ArchitectureSpec kStarcoder2 = {.name = "Starcoder2ForCausalLM",
                                      .model_type = "starcoder2",
                                      .keys = starcoder2_keys(),
                                      .norm = kernels::NormKind::layer,
                                      .gated_mlp = false,
                                      .qkv_bias = by_flag("use_bias", true),
                                      .attention_output_bias = by_flag("use_bias", true),
                                      .mlp_bias = by_flag("use_bias", true),
                                      .window = WindowRule::every_layer,
                                      .tied_by_default = true,
                                      .default_activation = "gelu_pytorch_tanh",
                                      .default_norm_epsilon = 1e-5,
                                      .default_max_positions = 4096};

const ArchitectureSpec kGptOss = {.name = "GptOssForCausalLM",
                                  .model_type = "gpt_oss",
                                  .qkv_bias = by_flag("attention_bias", true),
                                  .attention_output_bias = by_flag("attention_bias", true),
                                  .window = WindowRule::by_layer_type,
                                  .default_norm_epsilon = 1e-5,
                                  .default_rope_theta = 150000.0,
                                  .default_max_positions = 131072,
                                  .default_sliding_window = 128,
                                  .default_head_dim = 64,
                                  .refine = gpt_oss};

}  // namespace quire::families
