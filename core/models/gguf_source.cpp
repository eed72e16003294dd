#include "core/models/gguf_source.h"

#include "core/loader/tensor_names.h"
#include "core/loader/weight_summary.h"
#include "core/models/gguf_config.h"
#include "core/models/gguf_tensors.h"
#include "core/models/gguf_tokenizer.h"
#include "core/models/model_identity.h"

namespace quire {
namespace {

// Presents the file as the directory that it was made from: configuration, tokenizer and tensors by the same
// names.
class GgufSource final : public ModelSource {
 public:
  GgufSource(const FileSystem& files, const std::string& path) : ModelSource(path), model_(files, path) {}

  const std::string& generation_config() override {
    if (generation_config_.empty()) generation_config_ = gguf_generation_config(model_);
    return generation_config_;
  }
  bool has_tokenizer() override { return has_gguf_tokenizer(model_.metadata()); }
  TokenizerTexts tokenizer() override { return gguf_tokenizer(model_.metadata()); }
  std::string chat_template() override { return {}; }
  std::string tokenizer_config() override {
    return has_tokenizer() ? gguf_tokenizer_config(model_.metadata()) : std::string();
  }

  std::unique_ptr<WeightProvider> weights(ReadScope scope, const LoadMonitor& monitor) override {
    return std::make_unique<StoredWeights>(tensor_names(), config().quantization, monitor, scope);
  }

  std::optional<ConfigText> module_config() override {
    const GgufFamily& family = gguf_family_of(model_);
    if (!family.has_module) return std::nullopt;
    return ConfigText{gguf_config(model_, family), path()};
  }

  StoredTensors tensors() override {
    const std::string layers = tensor_names().layers();
    StoredTensors out;
    out.list = describe_tensors(directory(), layers);
    out.bits_per_weight = summarize_weights(directory(), layers).total.bits_per_weight();
    out.size_bytes = directory().total_bytes();
    return out;
  }

 private:
  Sha256 read_identity() override {
    return identity_of(gguf_config(model_, gguf_family_of(model_)), directory());
  }
  ModelConfig read_config() override {
    return parse_gguf_config(gguf_config(model_, gguf_family_of(model_)), generation_config(), path());
  }
  TensorNames tensor_names() { return {directory(), config().architecture->keys}; }
  const WeightDirectory& directory() {
    if (!directory_) directory_.emplace(gguf_tensors(model_, gguf_family_of(model_)));
    return *directory_;
  }

  const GgufModel model_;
  std::string generation_config_;
  std::optional<WeightDirectory> directory_;
};

}  // namespace

std::shared_ptr<ModelSource> open_gguf_model(const FileSystem& files, const std::string& path) {
  return std::make_shared<GgufSource>(files, path);
}

}  // namespace quire
