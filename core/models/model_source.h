// Where a model comes from: a directory, a bare tokenizer file, or thin air. Opened once for a load or a
// plan.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file_system.h"
#include "core/config/model_config.h"
#include "core/loader/weight_provider.h"
#include "core/loader/weight_reader.h"
#include "core/models/tensor_description.h"
#include "core/tokenizer/tokenizer.h"

namespace quire {

// The contents of the tokenizer's files; empty where there is no such file.
struct TokenizerTexts {
  std::string tokenizer_json;
  std::string tokenizer_config_json;
  std::string special_tokens_map_json;
  std::string added_tokens_json;
  std::string model;  // where there is no tokenizer.json
  std::string model_name;

  TokenizerFiles files() const {
    return {tokenizer_json, tokenizer_config_json, special_tokens_map_json, added_tokens_json, model,
            model_name};
  }
};

// What lies in the files, from their headers.
struct StoredTensors {
  std::vector<TensorDescription> list;
  double bits_per_weight = 0.0;  // over all tensors
  uint64_t size_bytes = 0;
};

// Each file is opened at most once, whatever is asked and however often: a plan and the load after it are of
// the same files. One thread at a time; what is given does not depend on the source any more, but for the
// weights, which borrow it. All throw what is wrong with a file, naming it.
class ModelSource {
 public:
  explicit ModelSource(std::string path) : path_(std::move(path)) {}
  ModelSource(const ModelSource&) = delete;
  ModelSource& operator=(const ModelSource&) = delete;
  virtual ~ModelSource() = default;

  const std::string& path() const { return path_; }
  // Throws ErrorCode::unsupported where there is a tokenizer alone.
  const ModelConfig& config();
  // generation_config.json; empty where there is none.
  virtual const std::string& generation_config() = 0;
  virtual bool has_tokenizer() = 0;
  // Throws ErrorCode::not_found where there is none.
  virtual TokenizerTexts tokenizer() = 0;
  // The file of its own that newer models have; empty where there is none: then tokenizer_config.json may
  // hold it.
  virtual std::string chat_template() = 0;
  virtual std::unique_ptr<WeightProvider> weights(ReadScope scope, const LoadMonitor& monitor) = 0;
  // Empty for a model that no file holds.
  virtual StoredTensors tensors() = 0;

 private:
  virtual ModelConfig read_config() = 0;

  const std::string path_;
  std::optional<ModelConfig> config_;
};

// A directory, a bare tokenizer.json, *.model or *.tiktoken, or "synthetic:..." (synthetic_model.h). Throws
// ErrorCode::not_found or ErrorCode::unsupported for anything else, saying what it is and what would load.
std::shared_ptr<ModelSource> open_model_source(const FileSystem& files, const std::string& path);

}  // namespace quire
