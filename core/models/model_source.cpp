#include "core/models/model_source.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/loader/gguf_file.h"
#include "core/loader/tensor_names.h"
#include "core/loader/weight_directory.h"
#include "core/loader/weight_summary.h"
#include "core/models/foreign_path.h"
#include "core/models/gguf_source.h"
#include "core/models/model_identity.h"
#include "core/models/synthetic_model.h"
#include "core/tokenizer/gpt2_files.h"

namespace quire {
namespace {

// Limits of file sizes. Tokenizers in use are smaller than the first one.
constexpr uint64_t kMaxTokenizerBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxConfigBytes = uint64_t{4} << 20;
constexpr uint64_t kMaxTemplateBytes = uint64_t{4} << 20;

constexpr const char* kTokenizerJson = "tokenizer.json";
constexpr const char* kConfigJson = "config.json";
constexpr const char* kParamsJson = "params.json";

// True if the name is that of a SentencePiece or tiktoken file.
bool is_tokenizer_model(std::string_view name) {
  return name.ends_with(".model") || name.ends_with(".tiktoken");
}
// True for the names of Mistral's tokenizers: "tekken.json" or "tekken_240911.json", and
// "tokenizer.model.v3".
bool is_tekken(std::string_view name) {
  return name.starts_with("tekken") && name.ends_with(".json");
}
bool is_versioned_sentencepiece(std::string_view name) {
  return name.find(".model.v") != std::string_view::npos;
}
std::string_view last_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

class DirectorySource final : public ModelSource {
 public:
  DirectorySource(const FileSystem& files, const std::string& path) : ModelSource(path), files_(files) {}

  const std::string& generation_config() override {
    if (!generation_config_)
      generation_config_ = read_optional_file("generation_config.json", kMaxConfigBytes);
    return *generation_config_;
  }

  bool has_tokenizer() override {
    return holds(kTokenizerJson) || !tokenizer_model_name().empty() || holds_gpt2_files();
  }

  TokenizerTexts tokenizer() override {
    TokenizerTexts texts;
    const std::string model = holds(kTokenizerJson) ? std::string() : tokenizer_model_name();
    if (model.empty() && !holds(kTokenizerJson) && holds_gpt2_files()) {
      texts.tokenizer_json =
          tokenizer_json_of_gpt2_files(files_.read_text(path_of("vocab.json"), kMaxTokenizerBytes),
                                       files_.read_text(path_of("merges.txt"), kMaxTokenizerBytes));
    } else if (model.empty()) {
      texts.tokenizer_json = files_.read_text(path_of(kTokenizerJson), kMaxTokenizerBytes);
    } else {
      texts.model = files_.read_text(path_of(model), kMaxTokenizerBytes);
      texts.model_name = model;
    }
    texts.tokenizer_config_json = tokenizer_config();
    texts.special_tokens_map_json = read_optional_file("special_tokens_map.json", kMaxTokenizerBytes);
    texts.added_tokens_json = read_optional_file("added_tokens.json", kMaxTokenizerBytes);
    return texts;
  }

  std::string chat_template() override {
    return read_optional_file("chat_template.jinja", kMaxTemplateBytes);
  }
  std::string tokenizer_config() override {
    return read_optional_file("tokenizer_config.json", kMaxTokenizerBytes);
  }

  std::unique_ptr<WeightProvider> weights(ReadScope scope, const LoadMonitor& monitor) override {
    return std::make_unique<StoredWeights>(tensor_names(), config().quantization, monitor, scope);
  }

  std::optional<ConfigText> module_config() override {
    if (!holds(kConfigJson)) return std::nullopt;
    const std::string path = path_of(kConfigJson);
    return ConfigText{files_.read_text(path, kMaxConfigBytes), path};
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
  Sha256 read_identity() override { return identity_of(config_text(), directory()); }
  std::string config_text() {
    return files_.read_text(path_of(has_mistral_layout() ? kParamsJson : kConfigJson), kMaxConfigBytes);
  }
  ModelConfig read_config() override {
    const bool is_mistral = has_mistral_layout();
    if (!is_mistral && !holds(kConfigJson)) refuse_foreign_directory(files_, path());
    const std::string text = config_text();
    ModelConfig config = is_mistral ? parse_mistral_params(text, generation_config(), path())
                                    : parse_model_config(text, generation_config(), path());
    add_embedding_config(files_, path(), config);
    return config;
  }

  std::string path_of(std::string_view name) const { return path() + "/" + std::string(name); }

  // Returns the text of a file; empty if it does not exist. An entry that is not a regular file, such as a
  // FIFO or a directory, causes an error of the file system.
  std::string read_optional_file(std::string_view name, uint64_t max_bytes) {
    return holds(name) ? files_.read_text(path_of(name), max_bytes) : std::string();
  }

  const std::vector<std::string>& names() {
    if (names_.empty()) names_ = files_.list(path());
    return names_;
  }
  bool holds(std::string_view name) {
    return std::find(names().begin(), names().end(), name) != names().end();
  }
  bool holds_gpt2_files() { return holds("vocab.json") && holds("merges.txt"); }
  // Returns the file that may be a tokenizer model; empty if there is none.
  std::string tokenizer_model_name() {
    for (const auto& is_kind : {is_tekken, is_tokenizer_model, is_versioned_sentencepiece}) {
      const auto it = std::find_if(names().begin(), names().end(), is_kind);
      if (it != names().end()) return *it;
    }
    return {};
  }
  bool has_mistral_layout() { return is_mistral_layout(names()); }
  TensorNames tensor_names() {
    return {directory(), config().architecture->keys,
            has_mistral_layout() ? NamesOf::mistral : NamesOf::transformers};
  }

  const WeightDirectory& directory() {
    if (!directory_) directory_.emplace(WeightDirectory::open(files_, path()));
    return *directory_;
  }

  const FileSystem& files_;
  std::vector<std::string> names_;
  std::optional<std::string> generation_config_;
  std::optional<WeightDirectory> directory_;
};

class TokenizerFileSource final : public ModelSource {
 public:
  TokenizerFileSource(const FileSystem& files, const std::string& path) : ModelSource(path), files_(files) {}

  const std::string& generation_config() override { return none_; }
  bool has_tokenizer() override { return true; }
  TokenizerTexts tokenizer() override {
    TokenizerTexts texts;
    const std::string_view name = last_name(path());
    const bool is_model = is_tekken(name) || is_tokenizer_model(name) || is_versioned_sentencepiece(name);
    std::string& text = is_model ? texts.model : texts.tokenizer_json;
    text = files_.read_text(path(), kMaxTokenizerBytes);
    texts.model_name = name;
    return texts;
  }
  std::string chat_template() override { return {}; }
  std::string tokenizer_config() override { return {}; }
  std::unique_ptr<WeightProvider> weights(ReadScope, const LoadMonitor&) override { refuse(); }
  StoredTensors tensors() override { refuse(); }

 private:
  Sha256 read_identity() override { refuse(); }
  ModelConfig read_config() override { refuse(); }
  [[noreturn]] void refuse() const { refuse_foreign_file(files_, path()); }

  const FileSystem& files_;
  const std::string none_;
};

}  // namespace

const ModelConfig& ModelSource::config() {
  if (!config_) config_ = read_config();
  return *config_;
}

const Sha256& ModelSource::identity() {
  if (!identity_) identity_ = read_identity();
  return *identity_;
}

std::shared_ptr<ModelSource> open_model_source(const FileSystem& files, const std::string& path) {
  if (is_synthetic(path)) return open_synthetic_model(path);
  if (files.is_directory(path)) return std::make_shared<DirectorySource>(files, path);
  if (is_gguf_file(files, path)) return open_gguf_model(files, path);
  if (is_tokenizer_file(files, path)) return std::make_shared<TokenizerFileSource>(files, path);
  refuse_foreign_file(files, path);
}

}  // namespace quire
