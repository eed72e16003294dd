// config.json and generation_config.json as one description that the rest of the engine can rely on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_system.h"
#include "core/base/ids.h"
#include "core/config/architecture.h"
#include "core/config/model_spec.h"
#include "core/config/quantization_config.h"

namespace quire {

// What config.json says, expanded: the model layer by layer, and what the engine asks about it as a whole.
// Every number lies within the range that its field documents, and they fit each other: heads divide, rotary
// dimensions are even. Whether the tensors agree is for the loader to check.
struct ModelConfig {
  const ArchitectureSpec* architecture = nullptr;  // never nullptr once read
  int32_t num_layers = 0;                          // 1 to 1024
  int32_t hidden_size = 0;                         // 1 to 65536
  int32_t vocab_size = 0;                          // 1 to 4194304
  int32_t max_positions = 0;                       // tokens the model was made for
  kernels::HeadShape heads;                        // of most layers
  ModelSpec spec;

  TokenIds eos_ids;  // ends a generation; may be empty
  std::optional<TokenId> bos_id;
  std::optional<TokenId> pad_id;

  QuantizationConfig quantization;
};

// `generation_text` is empty where the directory has no generation_config.json; its token ids win over those
// of config.json. `directory` is for messages. Throws ErrorCode::format naming the field, or
// ErrorCode::unsupported naming what this build lacks. Nothing is allocated in proportion to a number before
// its range was checked.
ModelConfig parse_model_config(std::string_view config_text, std::string_view generation_text = {},
                               const std::string& directory = {});

// Both files of a model directory. Throws ErrorCode::not_found where config.json is missing.
ModelConfig read_model_config(const FileSystem& file_system, const std::string& directory);

}  // namespace quire
