// Fingerprint of everything but tokens and namespace that the content of a cache's pages depends on.
#pragma once

#include <string>

#include "core/base/file_system.h"
#include "core/models/model.h"
#include "core/models/transformer_executor.h"

namespace quire {

// Returns a text that is equal for two caches if their pages hold equal bits for equal tokens. It covers the
// version of the library, all bytes of the model's weights and configuration, the devices, and the page
// layout. Reads all files of the model, which must be the ones it was loaded from. Throws the errors of
// reading.
std::string model_fingerprint(const FileSystem& files, const Model& model,
                              const TransformerExecutorOptions& options);

}  // namespace quire
