// Compares the parts of a spec with the tensors of a file.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/config/model_spec.h"

namespace quire::testing {

using Shape = std::vector<int64_t>;

inline int64_t product(const Shape& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

inline std::string numbered(const std::string& name, int32_t number) {
  const size_t at = name.find("{}");
  return at == std::string::npos ? name : name.substr(0, at) + std::to_string(number) + name.substr(at + 2);
}

// Compares the parts of a spec with the tensors of a file, and notes which tensors they name.
class TensorWalk {
 public:
  // `rename` returns the name in the file of a tensor of the spec.
  explicit TensorWalk(
      std::map<std::string, Shape> stored,
      std::function<std::string(const std::string&)> rename = [](const std::string& name) { return name; })
      : stored_(std::move(stored)), rename_(std::move(rename)) {}

  // Returns the names of tensors that no part has named.
  std::set<std::string> unnamed() const {
    std::set<std::string> left;
    for (const auto& [name, shape] : stored_)
      if (named_.count(name) == 0) left.insert(name);
    return left;
  }

  // Checks the tensor of a matrix, or the tensors of num_tensors experts, whose names have their numbers.
  void matrix(const MatrixPart& part, int32_t num_tensors = 1) {
    const Shape one = part.transposed ? Shape{part.num_in, part.num_out} : Shape{part.num_out, part.num_in};
    Shape shape = one;
    if (part.num_slabs > 0) shape.insert(shape.begin(), part.num_slabs);
    if (part.order) {
      for (const int32_t output : *part.order) EXPECT_TRUE(output >= 0 && output < part.num_out) << part.key;
    }
    for (int32_t i = 0; i < (part.num_slabs > 0 ? 1 : num_tensors); ++i) {
      const std::string key = rename_(numbered(part.key, i));
      expect(stored_.count(key) > 0 ? key : key + ".weight", shape);
      if (part.bias == BiasRule::required) expect(key + ".bias", {part.num_out});
    }
  }
  void matrices(const MatrixParts& parts) {
    for (const MatrixPart& part : parts) matrix(part);
  }
  template <typename Part>
  void matrix(const std::optional<Part>& part) {
    if (part) matrix(*part);
  }

  void vector(const VectorPart& part) {
    if (part.name.empty()) return;
    const bool is_other = stored_.count(rename_(part.name)) == 0 && stored_.count(part.other_name) > 0;
    for (int32_t i = 0; i < part.num_tensors; ++i) {
      const std::string name = rename_(numbered(is_other ? part.other_name : part.name, i));
      if (part.may_be_absent && stored_.count(name) == 0) continue;
      ASSERT_EQ(stored_.count(name), 1U) << name;
      EXPECT_EQ(product(stored_[name]), part.count / part.num_tensors) << name;
      named_.insert(name);
    }
  }
  void norm(const NormPart& part) {
    vector(part.weight);
    vector(part.bias);
  }
  void norm(const std::optional<NormPart>& part) {
    if (part) norm(*part);
  }

  void low_rank(const std::optional<LowRankPart>& part) {
    if (!part) return;
    matrix(part->down);
    matrix(part->up);
  }
  void mlp(const MlpPart& part, int32_t num_tensors = 1) {
    for (const MatrixPart& gate_up : part.gate_up) matrix(gate_up, num_tensors);
    matrix(part.down, num_tensors);
    norm(part.sub_norm);
  }
  void conv(const ConvPart& part) {
    int64_t elements = 0;
    for (const VectorPart& weight : part.weights) {
      vector(weight);
      elements += weight.count;
      if (stored_.count(weight.name) > 0) {
        EXPECT_EQ(stored_[weight.name].back(), part.num_taps) << weight.name;
      }
    }
    EXPECT_EQ(elements, int64_t{part.channels} * part.num_taps);
    vector(part.bias);
  }

  void part(const MlpPart& dense) { mlp(dense); }
  void part(const ExpertsPart& experts) {
    matrix(experts.router);
    vector(experts.choice_bias);
    mlp(experts.expert, experts.num_experts);
    if (experts.narrow) matrices({experts.narrow->down, experts.narrow->up});
    if (experts.shared) mlp(*experts.shared);
    matrix(experts.shared_gate);
  }
  void part(const MlpAndExpertsPart&) { ADD_FAILURE() << "no family of these has it"; }
  void part(const EmptyPart&) {}
  void part(const AttentionPart& attention) {
    matrices(attention.qkv);
    matrix(attention.output);
    for (const LowRankPart& adapter : attention.adapters) low_rank(adapter);
    vector(attention.q_norm);
    vector(attention.k_norm);
    if (attention.gate) matrix(attention.gate->projection);
    if (attention.indexer) part(*attention.indexer);
    if (!attention.latent) return;
    matrix(attention.latent->query_down);
    norm(attention.latent->query_norm);
    matrix(attention.latent->query);
    matrix(attention.latent->latent);
    norm(attention.latent->latent_norm);
    matrix(attention.latent->expand);
  }
  void part(const IndexerPart& indexer) {
    for (const MatrixPart* part : {&indexer.query, &indexer.key, &indexer.weights}) matrix(*part);
    norm(indexer.key_norm);
    if (indexer.pool == 1) return;
    matrix(indexer.gate);
    vector(indexer.pool_bias);
  }
  void part(const RgLruPart& lru) {
    matrices(lru.in);
    conv(lru.conv);
    for (const MatrixPart* part : {&lru.step_gate, &lru.input_gate, &lru.out}) matrix(*part);
    for (const VectorPart* values : {&lru.step_bias, &lru.input_bias, &lru.decay}) vector(*values);
  }
  void part(const DeltaPart& delta) {
    matrices(delta.in);
    matrices(delta.rates);
    low_rank(delta.decay_path);
    low_rank(delta.gate_path);
    conv(delta.conv);
    vector(delta.a_log);
    vector(delta.dt_bias);
    norm(delta.norm);
    matrix(delta.out);
  }
  void part(const Mamba2Part& mamba) {
    matrices(mamba.in);
    conv(mamba.conv);
    for (const VectorPart* values : {&mamba.a_log, &mamba.dt_bias, &mamba.skip}) vector(*values);
    norm(mamba.gated_norm);
    matrix(mamba.out);
  }
  void part(const Mamba1Part& mamba) {
    for (const MatrixPart* part : {&mamba.in, &mamba.select, &mamba.step, &mamba.out}) matrix(*part);
    conv(mamba.conv);
    for (const auto* part : {&mamba.step_norm, &mamba.b_norm, &mamba.c_norm}) norm(*part);
    vector(mamba.a_log);
    vector(mamba.skip);
  }
  void part(const LightningPart& lightning) {
    matrices(lightning.in);
    norm(lightning.norm);
    matrix(lightning.out);
  }
  void part(const ShortConvPart& short_conv) {
    matrix(short_conv.in);
    conv(short_conv.conv);
    matrix(short_conv.out);
  }
  void part(const SharedBlockPart& block) {
    norm(block.norm);
    part(block.attention);
    norm(block.feed_forward_norm);
    mlp(block.mlp);
    low_rank(block.adapter);
    matrix(block.linear);
    part(block.mamba);
  }
  void part(const PairAttentionPart& pair) {
    norm(pair.embedding_norm);
    part(pair.attention);
  }
  void part(const AttentionAndMambaPart& both) {
    part(both.attention);
    part(both.mamba);
  }

  void connection(const ConnectionPart& part) {
    matrix(part.products);
    vector(part.scale);
    vector(part.base);
  }

  void layer(const LayerSpec& layer) {
    if (const auto* connections = std::get_if<ConnectionsPart>(&layer.streams)) {
      connection(connections->mixer);
      connection(connections->feed_forward);
    }
    std::visit([&](const auto& mixer) { part(mixer); }, layer.mixer);
    std::visit([&](const auto& feed_forward) { part(feed_forward); }, layer.feed_forward);
    norm(layer.attention_norm);
    norm(layer.attention_post_norm);
    norm(layer.feed_forward_norm);
    norm(layer.feed_forward_post_norm);
  }

  void features(const FeaturesPart& part) {
    norm(part.norm);
    matrix(part.reduction);
    matrix(part.projection);
    if (!part.projection) return;
    norm(part.embedding_norm);
    norm(part.state_norm);
  }

  void embedding(const ModelSpec& model) {
    MatrixPart table;
    table.key = model.embedding.key;
    table.num_in = model.hidden_size;
    table.num_out = model.embedding.num_rows > 0 ? model.embedding.num_rows : model.vocab_size;
    matrix(table);
  }

  void ends(const ModelSpec& model) {
    embedding(model);
    norm(model.head.norm);
    if (!model.head.tied || stored_.count(model.head.projection.key + ".weight") > 0)
      matrix(model.head.projection);
  }

 private:
  void expect(const std::string& name, const Shape& shape) {
    ASSERT_EQ(stored_.count(name), 1U) << name;
    EXPECT_EQ(stored_[name], shape) << name;
    named_.insert(name);
  }

  std::map<std::string, Shape> stored_;
  const std::function<std::string(const std::string&)> rename_;
  std::set<std::string> named_;
};

}  // namespace quire::testing
