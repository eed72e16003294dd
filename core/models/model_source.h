// Source of a model: a directory, a GGUF file, a bare tokenizer file, or a synthetic model. Opened once for a
// load or a plan.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file_system.h"
#include "core/base/sha256.h"
#include "core/config/model_config.h"
#include "core/loader/weight_provider.h"
#include "core/loader/weight_reader.h"
#include "core/models/tensor_description.h"
#include "core/tokenizer/tokenizer.h"

namespace quire {

// Contents of the tokenizer's files. The text of a file that does not exist is empty.
struct TokenizerTexts {
  std::string tokenizer_json;
  std::string tokenizer_config_json;
  std::string special_tokens_map_json;
  std::string added_tokens_json;
  std::string model;  // SentencePiece, tiktoken or tekken file, if there is no tokenizer.json
  std::string model_name;

  TokenizerFiles files() const {
    return {tokenizer_json, tokenizer_config_json, special_tokens_map_json, added_tokens_json, model,
            model_name};
  }
};

// Tensors of the weight files, according to the headers of the files.
struct StoredTensors {
  std::vector<TensorDescription> list;
  double bits_per_weight = 0.0;  // average over all tensors
  uint64_t size_bytes = 0;
};

// A configuration in the words of config.json.
struct ConfigText {
  std::string text;
  std::string where;  // for messages
};

// Source of a model. It opens each file at most once, so a plan and the load after it read the same files.
// For one thread at a time. Only the result of weights() borrows from the source; other results are
// independent of it. Errors name the file at fault.
class ModelSource {
 public:
  explicit ModelSource(std::string path) : path_(std::move(path)) {}
  ModelSource(const ModelSource&) = delete;
  ModelSource& operator=(const ModelSource&) = delete;
  virtual ~ModelSource() = default;

  const std::string& path() const { return path_; }
  // Throws ErrorCode::unsupported if the source has only a tokenizer.
  const ModelConfig& config();
  // Returns generation_config.json; empty if there is none.
  virtual const std::string& generation_config() = 0;
  virtual bool has_tokenizer() = 0;
  // Throws ErrorCode::not_found if a directory has no tokenizer, ErrorCode::unsupported for a synthetic
  // model.
  virtual TokenizerTexts tokenizer() = 0;
  // Returns the file of the chat template; empty if there is none. Older models have the template in
  // tokenizer_config.json.
  virtual std::string chat_template() = 0;
  // Returns tokenizer_config.json; empty if there is none.
  virtual std::string tokenizer_config() = 0;
  virtual std::unique_ptr<WeightProvider> weights(ReadScope scope, const LoadMonitor& monitor) = 0;
  // Returns the configuration of a model whose files may have modules for multi-token prediction; nothing for
  // other sources.
  virtual std::optional<ConfigText> module_config() { return std::nullopt; }
  // Returns the tensors in the files; empty for a synthetic model.
  virtual StoredTensors tensors() = 0;
  // Returns what distinguishes the model from others (model_identity.h), for processes that share it. Throws
  // ErrorCode::unsupported if the source has only a tokenizer.
  const Sha256& identity();

 private:
  virtual ModelConfig read_config() = 0;
  virtual Sha256 read_identity() = 0;

  const std::string path_;
  std::optional<ModelConfig> config_;
  std::optional<Sha256> identity_;
};

// Opens a directory, a GGUF file, a bare tokenizer.json, *.model, *.tiktoken or tekken.json file, or
// "synthetic:..." (synthetic_model.h). Throws ErrorCode::not_found or ErrorCode::unsupported for any other
// path; the message describes what was found and what can be loaded.
std::shared_ptr<ModelSource> open_model_source(const FileSystem& files, const std::string& path);

}  // namespace quire
