#include "tests/core/layers/part_fixture.h"

#include <ostream>

#include "core/loader/synthetic_values.h"
#include "core/loader/weight_formats.h"

namespace quire::testing {
namespace {

constexpr int32_t kHeads = 4, kHeadDim = 16, kInner = 96;

MatrixPart matrix(const std::string& key, int32_t num_in, int32_t num_out) {
  MatrixPart part;
  part.key = key;
  part.num_in = num_in;
  part.num_out = num_out;
  return part;
}

NormPart norm(const std::string& name, int32_t columns = kHidden) {
  NormPart part;
  part.columns = columns;
  part.weight = {name + ".weight", columns};
  return part;
}

AttentionPart attention() {
  AttentionPart part;
  part.heads = {kHeads, kHeads, kHeadDim, 0};
  part.rope_idx = 0;
  part.rotary_dim = kHeadDim;
  for (const char* key : {"q", "k", "v"}) part.qkv.push_back(matrix(key, kHidden, kHeads * kHeadDim));
  part.output = matrix("o", kHeads * kHeadDim, kHidden);
  return part;
}

MlpPart mlp(const std::string& key) {
  MlpPart part;
  part.intermediate = kInner;
  part.gate_up = {matrix(key + "gate", kHidden, kInner), matrix(key + "up", kHidden, kInner)};
  part.down = matrix(key + "down", kInner, kHidden);
  return part;
}

ExpertsPart experts() {
  ExpertsPart part;
  part.num_experts = 4;
  part.num_chosen = 2;
  part.router = matrix("router", kHidden, 4);
  part.expert = mlp("experts.{}.");
  return part;
}

ModelSpec model_of(MixerSpec mixer, FeedForwardSpec feed_forward) {
  ModelSpec model;
  model.hidden_size = kHidden;
  model.vocab_size = 160;
  model.ropes.emplace_back().rotary_dim = kHeadDim;
  model.kvs.push_back({kHeads, kHeadDim, kHeadDim});
  LayerSpec& layer = model.layers.emplace_back();
  layer.attention_norm = norm("attention_norm");
  layer.feed_forward_norm = norm("feed_forward_norm");
  layer.mixer = std::move(mixer);
  layer.feed_forward = std::move(feed_forward);
  return model;
}

AttentionPart latent_attention() {
  AttentionPart part = attention();
  part.qkv.clear();
  part.selects_keys = true;
  part.rotary_dim = 8;
  LatentPart& latent = part.latent.emplace();
  latent.query_down = matrix("q_a", kHidden, 32);
  latent.query_norm = norm("q_a_norm", 32);
  latent.query = matrix("q_b", 32, kHeads * kHeadDim);
  latent.latent = matrix("kv_a", kHidden, 24);
  latent.shared_key_dim = 8;
  latent.latent_norm = norm("kv_a_norm", 16);
  latent.expand = matrix("kv_b", 16, kHeads * (kHeadDim - 8 + kHeadDim));
  IndexerPart& indexer = part.indexer.emplace();
  indexer.num_heads = 2;
  indexer.head_dim = 8;
  indexer.query = matrix("index_q", 32, 16);
  indexer.key = matrix("index_k", kHidden, 8);
  indexer.key_norm = norm("index_k_norm", 8);
  indexer.weights = matrix("index_w", kHidden, 2);
  return part;
}

// Returns latent attention without RoPE, whose keys are selected by pools.
AttentionPart pooled_attention() {
  AttentionPart part = latent_attention();
  part.rope_idx = -1;
  part.rotary_dim = 0;
  part.indexer->pool = 4;
  part.indexer->gate = matrix("index_gate", kHidden, 8);
  part.indexer->pool_bias = {"index_bias", 4 * 8};
  return part;
}

AttentionPart expert_attention() {
  AttentionPart part = attention();
  part.qkv = {matrix("kv", kHidden, 2 * kHeads * kHeadDim)};
  part.output = {};
  HeadExpertsPart& heads = part.head_experts.emplace();
  heads.num_experts = 4;
  heads.num_chosen = 2;
  heads.router = matrix("router", kHidden, 4);
  heads.query = matrix("experts.{}.q", kHidden, kHeads * kHeadDim / 2);
  heads.output = matrix("experts.{}.o", kHeads * kHeadDim / 2, kHidden);
  heads.output_bias = {"bias", kHidden};
  return part;
}

AttentionPart differential_attention() {
  AttentionPart part = attention();
  DifferentialPart& difference = part.differential.emplace();
  difference.query_1 = difference.key_1 = difference.query_2 = difference.key_2 = {"lambda", kHeadDim};
  return part;
}

AttentionPart gated_attention() {
  AttentionPart part = attention();
  part.gate = OutputGatePart{matrix("o_gate", kHidden, kHeads * kHeadDim)};
  return part;
}

// Returns a model whose attention has a gate for each head and a norm after it.
ModelSpec model_with_gated_heads() {
  AttentionPart part = attention();
  part.gate = OutputGatePart{matrix("o_gate", kHidden, kHeads), true};
  ModelSpec model = model_of(part, mlp(""));
  model.layers.front().attention_post_norm = norm("post_norm");
  return model;
}

// Returns a model whose queries and gates of heads are outputs of one matrix.
ModelSpec model_with_sigmoid_heads() {
  AttentionPart part = attention();
  part.gate = OutputGatePart{matrix("o_gate", kHidden, 2 * kHeads)};
  part.gate->projection.order =
      std::make_shared<const std::vector<int32_t>>(std::vector<int32_t>{1, 3, 5, 7});
  return model_of(part, mlp(""));
}

// Returns attention with slopes and with layer norms of heads, whose parameters lie in a tensor for each
// head.
AttentionPart sloped_attention() {
  AttentionPart part = attention();
  part.has_slopes = true;
  part.slopes = {0.5f, 0.25f, 0.125f, 0.0625f};
  part.qk_norm = kernels::QkNorm::each_head;
  part.qk_norm_kind = kernels::NormKind::layer;
  part.qk_weight_per_head = true;
  for (VectorPart* vector : {&part.q_norm, &part.k_norm, &part.q_norm_bias, &part.k_norm_bias}) {
    *vector = {"norms.{}", kHeads * kHeadDim};
    vector->num_tensors = kHeads;
  }
  return part;
}

// Returns a model whose norms come after the residual sums.
ModelSpec model_with_sum_norms() {
  ModelSpec model = model_of(attention(), mlp(""));
  LayerSpec& layer = model.layers.front();
  layer.attention_post_norm = layer.attention_norm;
  layer.feed_forward_post_norm = layer.feed_forward_norm;
  layer.attention_post_norm->of_sum = layer.feed_forward_post_norm->of_sum = true;
  for (NormPart* part : {&layer.attention_norm, &layer.feed_forward_norm}) {
    *part = {};
    part->kind = kernels::NormKind::none;
    part->columns = kHidden;
  }
  return model;
}

ExpertsPart experts_with_all() {
  ExpertsPart part = experts();
  part.router_norm = norm("router_norm");
  part.choice_bias = {"choice_bias", 4};
  part.expert_scale = {"expert_scale", 4};
  part.shared = mlp("shared.");
  part.shared_gate = matrix("shared_gate", kHidden, 1);
  part.output_bias = {"output_bias", kHidden};
  return part;
}

// Returns a model whose layer has the parts of Gemma 3n around its blocks.
ModelSpec model_with_streams() {
  ModelSpec model = model_of(attention(), mlp(""));
  model.num_streams = 2;
  LayerSpec& layer = model.layers.front();
  layer.attention_post_norm = norm("post_norm");
  layer.streams = StreamsPart{matrix("streams.router", kHidden, 2),
                              norm("streams.norm"),
                              matrix("prediction", 2, 4),
                              matrix("correction", 2, 2),
                              {"scale", kHidden}};
  layer.laurel = LaurelPart{matrix("left", kHidden, 16), matrix("right", 16, kHidden), norm("laurel.norm")};
  LayerInputPart& input = layer.layer_input.emplace();
  input.gate = matrix("input.gate", kHidden, 16);
  input.projection = matrix("input.projection", 16, kHidden);
  input.norm = norm("input.norm");
  return model;
}

ConnectionPart connection(const std::string& name) {
  ConnectionPart part;
  part.num_streams = 3;
  part.columns = kHidden;
  part.iterations = 2;
  const int32_t outputs = connection_products(part);
  part.products = matrix(name + ".fn", 3 * kHidden, outputs);
  part.norm.columns = 3 * kHidden;
  part.scale = {name + ".scale", 3};
  part.base = {name + ".base", outputs};
  return part;
}

// Returns a model with hyper-connections around its blocks.
ModelSpec model_with_connections() {
  ModelSpec model = model_of(attention(), mlp(""));
  model.num_streams = 3;
  model.connects_streams = true;
  model.layers.front().streams = ConnectionsPart{connection("mixer"), connection("feed_forward")};
  return model;
}

ExpertsPart narrow_experts() {
  constexpr int32_t kWidth = 48;
  ExpertsPart part = experts();
  part.shared = mlp("shared.");
  part.narrow = NarrowPart{matrix("narrow_down", kHidden, kWidth), matrix("narrow_up", kWidth, kHidden)};
  for (MatrixPart& gate_up : part.expert.gate_up) gate_up.num_in = kWidth;
  part.expert.down.num_out = kWidth;
  return part;
}

// Returns a model whose blocks are added to the normalised rows.
ModelSpec model_with_normed_residuals() {
  ModelSpec model = model_of(attention(), mlp(""));
  model.layers.front().attention_norm.stream_scale = 3.5f;
  model.layers.front().feed_forward_norm.stream_scale = 1.0f;
  return model;
}

// Returns a model whose layer has a mixer alone, or a feed-forward part alone.
ModelSpec model_of_one_part(MixerSpec mixer, FeedForwardSpec feed_forward) {
  ModelSpec model = model_of(std::move(mixer), std::move(feed_forward));
  LayerSpec& layer = model.layers.front();
  const bool has_mixer = !std::holds_alternative<EmptyPart>(layer.mixer);
  NormPart& unused = has_mixer ? layer.feed_forward_norm : layer.attention_norm;
  unused = {};
  unused.kind = kernels::NormKind::none;
  unused.columns = kHidden;
  return model;
}

ConvPart convolution(int32_t channels) {
  ConvPart part;
  part.channels = channels;
  part.num_taps = 4;
  part.weights = {{"conv", channels * part.num_taps}};
  return part;
}

// Returns GDN: two value heads for each key head, and gates beside q, k and v.
DeltaPart delta_rule() {
  DeltaPart part;
  part.num_key_heads = 2;
  part.num_value_heads = kHeads;
  part.key_dim = part.value_dim = kHeadDim;
  part.query_scale = 0.25f;
  const int32_t keys = key_columns(part), values = value_columns(part);
  part.in = {matrix("qkv", kHidden, 2 * keys + values), matrix("z", kHidden, values)};
  part.rates = {matrix("b", kHidden, kHeads), matrix("a", kHidden, kHeads)};
  part.conv = convolution(2 * keys + values);
  part.a_log = {"a_log", kHeads};
  part.dt_bias = {"dt_bias", kHeads};
  part.norm = norm("norm", kHeadDim);
  part.out = matrix("out", values, kHidden);
  return part;
}

// Returns KDA: decays for each channel, which come by two matrices, as the gates do.
DeltaPart channel_delta_rule() {
  DeltaPart part = delta_rule();
  part.num_key_heads = kHeads;
  part.decays_by_channel = true;
  part.gate_form = kernels::StateGate::sigmoid;
  const int32_t columns = key_columns(part);
  part.in = {matrix("q", kHidden, columns), matrix("k", kHidden, columns), matrix("v", kHidden, columns)};
  part.rates = {matrix("b", kHidden, kHeads)};
  part.decay_path = LowRankPart{matrix("f_a", kHidden, 16), matrix("f_b", 16, columns)};
  part.gate_path = LowRankPart{matrix("g_a", kHidden, 16), matrix("g_b", 16, columns)};
  part.conv = convolution(3 * columns);
  part.dt_bias = {"dt_bias", columns};
  part.out = matrix("out", columns, kHidden);
  return part;
}

Mamba2Part mamba2() {
  Mamba2Part part;
  part.num_heads = kHeads;
  part.head_dim = kHeadDim;
  part.num_groups = 2;
  part.state_dim = 8;
  part.in = {matrix("in", kHidden, inner_columns(part) + conv_columns(part) + kHeads)};
  part.conv = convolution(conv_columns(part));
  part.conv.bias = {"conv.bias", conv_columns(part)};
  part.a_log = part.dt_bias = part.skip = {"heads", kHeads};
  part.gated_norm = norm("norm", inner_columns(part) / part.num_groups);
  part.gated_norm->weight.count = inner_columns(part);
  part.out = matrix("out", inner_columns(part), kHidden);
  return part;
}

Mamba1Part mamba1() {
  Mamba1Part part;
  part.channels = kInner;
  part.state_dim = 8;
  part.step_rank = 5;
  part.in = matrix("in", kHidden, 2 * kInner);
  part.conv = convolution(kInner);
  part.select = matrix("x", kInner, part.step_rank + 2 * part.state_dim);
  part.step_norm = norm("step_norm", part.step_rank);
  part.b_norm = norm("b_norm", part.state_dim);
  part.step = matrix("dt", part.step_rank, kInner);
  part.a_log = {"a_log", kInner * part.state_dim};
  part.skip = {"skip", kInner};
  part.out = matrix("out", kInner, kHidden);
  return part;
}

RgLruPart rg_lru() {
  constexpr int32_t kBlocks = 4, kWidth = kInner / kBlocks;
  RgLruPart part;
  part.channels = kInner;
  part.num_blocks = kBlocks;
  part.in = {matrix("x", kHidden, kInner), matrix("y", kHidden, kInner)};
  part.conv = convolution(kInner);
  part.conv.silu = false;
  part.step_gate = matrix("gates.{}.step", kWidth, kWidth);
  part.input_gate = matrix("gates.{}.input", kWidth, kWidth);
  part.step_bias = part.input_bias = part.decay = {"vector", kInner};
  part.out = matrix("out", kInner, kHidden);
  return part;
}

LightningPart lightning() {
  LightningPart part;
  part.num_heads = kHeads;
  part.head_dim = kHeadDim;
  const int32_t columns = kHeads * kHeadDim;
  part.in = {matrix("qkv", kHidden, 3 * columns), matrix("gate", kHidden, columns)};
  part.slopes = {0.5f, 0.25f, 0.125f, 0.0625f};
  part.norm = norm("norm", columns);
  part.out = matrix("out", columns, kHidden);
  return part;
}

ShortConvPart short_conv() {
  ShortConvPart part;
  part.in = matrix("in", kHidden, 3 * kHidden);
  part.conv = convolution(kHidden);
  part.conv.silu = false;
  part.out = matrix("out", kHidden, kHidden);
  return part;
}

AttentionPart adapted_attention() {
  AttentionPart part = attention();
  for (const char* key : {"adapters.q.", "adapters.k.", "adapters.v."}) {
    part.adapters.push_back(
        {matrix(std::string(key) + "0", kHidden, 16), matrix(std::string(key) + "1", 16, kHeads * kHeadDim)});
  }
  return part;
}

// Returns a model in which a block of attention and an MLP precedes Mamba-2.
ModelSpec model_with_shared_block() {
  SharedBlockPart part;
  part.norm = norm("block.norm", 2 * kHidden);
  part.attention = attention();
  for (MatrixPart& matrix : part.attention.qkv) matrix.num_in = 2 * kHidden;
  part.feed_forward_norm = norm("block.feed_forward_norm");
  part.mlp = mlp("");
  part.mlp.gate_up = {matrix("gate_up", kHidden, 2 * kInner)};
  part.adapter = {matrix("adapter.0", kHidden, 16), matrix("adapter.1", 16, 2 * kInner)};
  part.linear = matrix("linear", kHidden, kHidden);
  part.mamba = mamba2();
  ModelSpec model = model_of_one_part(part, EmptyPart());
  model.keeps_embedding = true;
  return model;
}

MlpPart ungated_mlp() {
  MlpPart part = mlp("");
  part.gated = false;
  part.activation = kernels::Activation::relu_squared;
  part.gate_up.pop_back();
  part.sub_norm = norm("sub_norm", kInner);
  return part;
}

}  // namespace

void PrintTo(const PartCase& part, std::ostream* out) {
  *out << part.name;
}

std::vector<PartCase> part_cases() {
  const MlpAndExpertsPart both = {mlp(""), experts(), norm("a"), norm("b"), norm("c")};
  return {
      {"plain", model_of(attention(), mlp("")), ""},
      {"ungated", model_of(attention(), ungated_mlp()),
       "norms within a block, the activation of the feed-forward part"},
      {"latent", model_of(latent_attention(), mlp("")), "latent attention, a selection of keys"},
      {"pooled_keys", model_of(pooled_attention(), mlp("")), "latent attention, a selection of keys"},
      {"head_experts", model_of(expert_attention(), mlp("")), "experts of attention heads"},
      {"slopes", model_of(sloped_attention(), mlp("")),
       "norms over all query or key heads, scores that fall with the distance of keys (ALiBi)"},
      {"sum_norms", model_with_sum_norms(), "norms without weights, norms after a block"},
      {"differential", model_of(differential_attention(), mlp("")), "differential attention"},
      {"gated", model_of(gated_attention(), mlp("")), ""},
      {"gated_heads", model_with_gated_heads(), "norms after a block"},
      {"gates_of_heads_by_sigmoid", model_with_sigmoid_heads(), ""},
      {"normed_residuals", model_with_normed_residuals(), ""},
      {"delta_rule", model_of(delta_rule(), mlp("")), "the gated delta rule"},
      {"channel_delta_rule", model_of(channel_delta_rule(), mlp("")), "the gated delta rule"},
      {"mamba2", model_of(mamba2(), mlp("")), "state space layers (Mamba-2)"},
      {"mamba1", model_of(mamba1(), mlp("")), "selective scans (Mamba), convolutions over tokens"},
      {"rg_lru", model_of(rg_lru(), mlp("")), "selective scans (Mamba), convolutions over tokens"},
      {"lightning", model_of(lightning(), mlp("")), "lightning attention"},
      {"short_conv", model_of(short_conv(), mlp("")), "convolutions over tokens"},
      {"attention_and_mamba", model_of(AttentionAndMambaPart{attention(), mamba2()}, mlp("")),
       "state space layers (Mamba-2)"},
      {"adapted_attention", model_of(adapted_attention(), mlp("")), ""},
      {"shared_block", model_with_shared_block(), "state space layers (Mamba-2)"},
      {"mixer_alone", model_of_one_part(attention(), EmptyPart()), ""},
      {"feed_forward_alone", model_of_one_part(EmptyPart(), mlp("")), ""},
      {"narrow_experts", model_of(attention(), narrow_experts()), "experts"},
      {"experts", model_of(attention(), experts_with_all()), "experts"},
      {"mlp_and_experts", model_of(attention(), both), "experts"},
      {"connections", model_with_connections(), "several residual streams or embeddings of layers"},
      {"streams", model_with_streams(),
       "norms after a block, several residual streams or embeddings of layers"},
  };
}

LinearWeight SyntheticTestWeights::linear(const LinearRequest& request) {
  requests_.push_back(request);
  SyntheticValues values(1, request.key, true);
  return find_format_named("dense")->synthesize({request.key, request.num_in, request.num_out, 16.0}, values);
}

std::vector<float> SyntheticTestWeights::vector(const std::string&, int32_t count) {
  return std::vector<float>(static_cast<size_t>(count), 1.0f);
}

HostTensor SyntheticTestWeights::table(const std::string& name, int32_t rows, int32_t columns) {
  return SyntheticValues(1, name, true).normal_halves(rows, columns, 1.0f, name);
}

}  // namespace quire::testing
