// Chat templates in the directory of a model.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/base/file_system.h"
#include "core/base/mutex.h"
#include "core/chat/template_set.h"

namespace quire {

// Compiles the templates when the first conversation is rendered. Thread-safe.
class ModelChat {
 public:
  // Creates the chat of a model without templates.
  ModelChat() = default;
  // Creates the chat of a model that has its templates in tokenizer_config.json alone, given as text.
  explicit ModelChat(std::string tokenizer_config);
  // Reads the files. Stores an error for templates() to throw, so that a bad template does not fail a load.
  ModelChat(const FileSystem& files, const std::string& directory);

  // Throws ErrorCode::not_found naming `path` if there are none, ErrorCode::format if one is malformed.
  std::shared_ptr<const chat::TemplateSet> templates(const std::string& path);
  // Returns null instead of ErrorCode::not_found.
  std::shared_ptr<const chat::TemplateSet> find_templates(const std::string& path);

 private:
  Mutex mutex_;
  chat::ChatFiles files_ QUIRE_GUARDED_BY(mutex_);
  std::optional<Error> error_ QUIRE_GUARDED_BY(mutex_);
  std::shared_ptr<const chat::TemplateSet> templates_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
