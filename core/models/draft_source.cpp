#include "core/models/draft_source.h"

#include <optional>

#include "core/base/error.h"
#include "core/config/config_fields.h"
#include "core/loader/tensor_names.h"
#include "core/models/token_map.h"

namespace quire {
namespace {

// Weights whose files have other names for some of the tensors.
class RenamedWeights final : public WeightProvider {
 public:
  RenamedWeights(std::unique_ptr<WeightProvider> weights, const std::vector<NamePrefix>& prefixes)
      : weights_(std::move(weights)), prefixes_(prefixes) {}

  bool is_concurrent() const override { return weights_->is_concurrent(); }
  std::string stored_name(const std::string& name) const override {
    return weights_->stored_name(name_in_files(prefixes_, name));
  }
  std::vector<MatrixSlice> slices_of(const std::string& key) const override {
    return weights_->slices_of(name_in_files(prefixes_, key));
  }
  bool has_linear(const std::string& key) const override { return weights_->has_linear(key); }
  bool has_tensor(const std::string& name) const override { return weights_->has_tensor(name); }
  LinearWeight linear(const LinearRequest& request) override { return weights_->linear(request); }
  std::vector<float> vector(const std::string& name, int32_t count) override {
    return weights_->vector(name, count);
  }
  HostTensor table(const std::string& name, int32_t rows, int32_t columns) override {
    return weights_->table(name, rows, columns);
  }
  void finish() override { weights_->finish(); }

 private:
  const std::unique_ptr<WeightProvider> weights_;
  const std::vector<NamePrefix> prefixes_;
};

TensorNames names_of(const DraftSource& draft) {
  return {*draft.files, draft.config.network.architecture->keys};
}

// Returns the text of a directory's config.json; nothing if `path` is not a directory with one.
std::optional<std::string> find_config(const FileSystem& files, const std::string& path) {
  const std::string config = path_in(path, "config.json");
  if (!files.is_directory(path) || !files.is_file(config)) return std::nullopt;
  return files.read_text(config, kConfigLimits.max_bytes);
}

// Requires the matrix at the beginning of a module, which checkpoints of other programs may have left out.
void require_module(const DraftSource& draft) {
  const auto weights = draft.weights(ReadScope::layout, {});
  const std::string& key = draft.config.network.spec.embedding.features->projection->key;
  if (weights->has_linear(weights->stored_name(key))) return;
  throw Error(ErrorCode::unsupported,
              "{}: no file holds the tensor \"{}.weight\", with which a module for multi-token prediction "
              "begins; choose another drafter, or a checkpoint that has the module",
              draft.source->path(), key);
}

DraftSource open_module(std::shared_ptr<ModelSource> target) {
  const auto config = target->module_config();
  if (!config) {
    throw Error(ErrorCode::unsupported,
                "{}: a module for multi-token prediction is read only from a directory with config.json, or "
                "from a GGUF file of DeepSeek or GLM-4.5; choose another drafter, or load the model from its "
                "directory",
                target->path());
  }
  DraftSource draft;
  draft.config = parse_mtp_network(config->text, target->config(), config->where);
  draft.source = std::move(target);
  require_module(draft);
  return draft;
}

DraftSource open_eagle3(const FileSystem& files, const std::string& path, std::string_view config_text,
                        const ModelConfig& target) {
  DraftSource draft;
  draft.config = parse_draft_network(config_text, target, path);
  draft.files = std::make_shared<const WeightDirectory>(WeightDirectory::open(files, path));
  const TensorNames names = names_of(draft);
  const auto has = [&](const std::string& name) { return has_linear(*draft.files, names.stored(name)); };
  fit_to_tensors(has, target, path, draft.config);
  if (!draft.config.token_map.empty()) {
    draft.token_of = read_token_map(*draft.files, names.stored(draft.config.token_map),
                                    draft.config.network.vocab_size, target.vocab_size);
  }
  return draft;
}

DraftSource open_model(const FileSystem& files, const std::string& path) {
  DraftSource draft;
  draft.source = open_model_source(files, path);
  draft.config = as_draft_model(draft.source->config(), path);
  return draft;
}

}  // namespace

std::unique_ptr<WeightProvider> DraftSource::weights(ReadScope scope, const LoadMonitor& monitor) const {
  std::unique_ptr<WeightProvider> stored =
      files ? std::make_unique<StoredWeights>(names_of(*this), config.network.quantization, monitor, scope)
            : source->weights(scope, monitor);
  if (config.prefixes.empty()) return stored;
  return std::make_unique<RenamedWeights>(std::move(stored), config.prefixes);
}

std::string DraftSource::name() const {
  switch (config.kind) {
    case DraftNetworkKind::mtp:
      return "multi-token prediction of the checkpoint";
    case DraftNetworkKind::eagle3:
      return "EAGLE-3 network " + path;
    case DraftNetworkKind::model:
      break;
  }
  return "draft model " + path;
}

namespace {

DraftSource open_any(const FileSystem& files, const std::string& drafter,
                     std::shared_ptr<ModelSource> target) {
  if (drafter == kMtpDrafter) return open_module(std::move(target));
  const auto text = find_config(files, drafter);
  if (text && is_eagle3_config(*text, drafter)) return open_eagle3(files, drafter, *text, target->config());
  return open_model(files, drafter);
}

}  // namespace

DraftSource open_draft_source(const FileSystem& files, const std::string& drafter,
                              std::shared_ptr<ModelSource> target) {
  DraftSource source = open_any(files, drafter, std::move(target));
  source.path = drafter;
  return source;
}

}  // namespace quire
