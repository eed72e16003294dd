// Models of the families with random weights: experts in EXL2, which a card multiplies, all other matrices in
// f16.
#pragma once

#include <memory>
#include <string>

#include "core/models/synthetic_model.h"
#include "tests/core/models/host_experts_rig.h"
#include "tests/support/golden_families.h"

namespace quire::testing {

inline std::unique_ptr<WeightProvider> weights_of(std::string_view format, uint64_t seed, ReadScope scope) {
  SyntheticSpec spec;
  spec.format = format;
  spec.seed = seed;
  return make_synthetic_weights(spec, scope);
}

class Exl2Experts final : public WeightProvider {
 public:
  Exl2Experts(uint64_t seed, ReadScope scope)
      : experts_(weights_of("exl2", seed, scope)), others_(weights_of("dense", seed, scope)) {}

  bool is_concurrent() const override { return true; }
  bool has_linear(const std::string&) const override { return true; }
  bool has_tensor(const std::string&) const override { return true; }
  LinearWeight linear(const LinearRequest& request) override {
    LinearRequest own = request;
    own.key += "." + std::to_string(request.part.expert);
    const bool is_expert = request.key.find("experts") != std::string::npos && request.num_in % 32 == 0 &&
                           request.num_out % 32 == 0;
    LinearWeight weight = (is_expert ? experts_ : others_)->linear(own);
    if (request.needs_bias) weight.bias.assign(static_cast<size_t>(request.num_out), 0.125f);
    return weight;
  }
  std::vector<float> vector(const std::string& name, int32_t count) override {
    return others_->vector(name, count);
  }
  HostTensor table(const std::string& name, int32_t rows, int32_t columns) override {
    return others_->table(name, rows, columns);
  }

 private:
  const std::unique_ptr<WeightProvider> experts_;
  const std::unique_ptr<WeightProvider> others_;
};

// The configuration of a family with such weights.
class Exl2ExpertsSource final : public ModelSource {
 public:
  explicit Exl2ExpertsSource(const std::string& family, uint64_t seed = 1)
      : ModelSource(family), text_(golden_family_config(family)), seed_(seed) {}

  const std::string& generation_config() override { return none_; }
  bool has_tokenizer() override { return false; }
  TokenizerTexts tokenizer() override { return {}; }
  std::string chat_template() override { return {}; }
  std::string tokenizer_config() override { return {}; }
  std::unique_ptr<WeightProvider> weights(ReadScope scope, const LoadMonitor&) override {
    return std::make_unique<Exl2Experts>(seed_, scope);
  }
  StoredTensors tensors() override { return {}; }

 private:
  ModelConfig read_config() override { return parse_model_config(text_, {}, path()); }
  Sha256 read_identity() override { return sha256(path()); }

  const std::string text_;
  const uint64_t seed_;
  const std::string none_;
};

// Loads a family with the experts of the given layers on the host.
inline std::shared_ptr<const Model> load_exl2_experts(const std::string& family, const CardAndHost& rig,
                                                      const std::vector<int32_t>& layers, uint64_t seed = 1) {
  ModelOptions options;
  options.source = std::make_shared<Exl2ExpertsSource>(family, seed);
  options.devices = {rig.card(), rig.host()};
  options.placement = experts_apart(options.source->config().num_layers, layers);
  return Model::load(options);
}

}  // namespace quire::testing
