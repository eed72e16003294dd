#include "core/engine/model/model_chat.h"

#include <utility>

namespace quire {

ModelChat::ModelChat(std::string tokenizer_config) {
  files_.tokenizer_config_json = std::move(tokenizer_config);
}

ModelChat::ModelChat(const FileSystem& files, const std::string& directory) {
  try {
    files_ = chat::read_chat_files(files, directory);
  } catch (const Error& error) {
    error_ = error;
  }
}

std::shared_ptr<const chat::TemplateSet> ModelChat::templates(const std::string& path) {
  const MutexLock lock(mutex_);
  if (error_) throw Error(*error_);
  if (templates_ == nullptr) {
    templates_ = chat::TemplateSet::load(files_, path);
    files_ = {};
  }
  return templates_;
}

std::shared_ptr<const chat::TemplateSet> ModelChat::find_templates(const std::string& path) {
  try {
    return templates(path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    return nullptr;
  }
}

}  // namespace quire
