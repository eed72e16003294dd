// The pooling that an embedding model declares in the files of sentence-transformers: modules.json and the
// config.json of its pooling module.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/file_system.h"

namespace quire {

enum class DeclaredPooling : uint8_t { none, mean, last };

struct EmbeddingConfig {
  bool is_declared = false;  // there is a modules.json
  DeclaredPooling pooling = DeclaredPooling::none;
  // Description of a declared step that the engine does not support, such as "1_Pooling/config.json:
  // pooling_mode_cls_token"; empty: none.
  std::string unsupported;
};

// Reads the files of a model directory; without modules.json nothing is declared. Throws ErrorCode::format
// naming the file and the field.
EmbeddingConfig read_embedding_config(const FileSystem& files, const std::string& directory);

}  // namespace quire
