// What the numbers of a cache's pages depend on besides tokens and namespace.
#pragma once

#include <string>

#include "core/base/file_system.h"
#include "core/models/model.h"
#include "core/models/transformer_executor.h"

namespace quire {

// Equal where the pages of two caches hold equal bits for equal tokens: the version of the library, every
// byte of the model's weights and configuration, who computes them, and how pages are laid out. Reads all
// files of the model, which must be those that it was loaded from. Throws what reading throws.
std::string model_fingerprint(const FileSystem& files, const Model& model,
                              const TransformerExecutorOptions& options);

}  // namespace quire
