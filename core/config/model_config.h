// Reads config.json and generation_config.json into one validated description of the model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_system.h"
#include "core/base/ids.h"
#include "core/config/architecture.h"
#include "core/config/embedding_config.h"
#include "core/config/generation_rules.h"
#include "core/config/model_spec.h"
#include "core/config/quantization_config.h"

namespace quire {

// Declarations about the use of a model.
struct UsageRules {
  GenerationRules generation;
  EmbeddingConfig embedding;  // set by add_embedding_config
};

// The configuration of a model, expanded layer by layer. All numbers are within their documented ranges and
// consistent: head counts divide evenly and rotary dimensions are even. The loader checks the tensors against
// it.
struct ModelConfig {
  const ArchitectureSpec* architecture = nullptr;  // never nullptr after reading
  int32_t num_layers = 0;                          // 1 to 1024
  int32_t hidden_size = 0;                         // 1 to 65536
  int32_t vocab_size = 0;                          // 1 to 4194304
  int32_t max_positions = 0;                       // context length in tokens that the model was trained for
  kernels::HeadShape heads;                        // of the first layer with attention; 0: none
  ModelSpec spec;

  TokenIds eos_ids;  // tokens that end a generation; may be empty
  std::optional<TokenId> bos_id;
  std::optional<TokenId> pad_id;

  UsageRules usage;

  QuantizationConfig quantization;
};

// `generation_text` is empty if there is no generation_config.json; its token ids take precedence over those
// of config.json. `directory` is used in messages. Throws ErrorCode::format naming the field, or
// ErrorCode::unsupported naming the missing feature. Checks the range of every number before it allocates
// memory in proportion to it.
ModelConfig parse_model_config(std::string_view config_text, std::string_view generation_text = {},
                               const std::string& directory = {});

// Does the same for params.json of a directory in Mistral's own layout.
ModelConfig parse_mistral_params(std::string_view params_text, std::string_view generation_text = {},
                                 const std::string& directory = {});

// Does the same for the configuration of a GGUF file, in the words of config.json. `file` is used in
// messages.
ModelConfig parse_gguf_config(std::string_view config_text, std::string_view generation_text,
                              const std::string& file);

// Reads what sentence-transformers adds to a model directory.
void add_embedding_config(const FileSystem& file_system, const std::string& directory, ModelConfig& config);

// Reads all these files of a model directory. Throws ErrorCode::not_found if config.json is missing.
ModelConfig read_model_config(const FileSystem& file_system, const std::string& directory);

}  // namespace quire
