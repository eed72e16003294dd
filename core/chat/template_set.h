// The templates that a model brings, by name, and which of them a conversation takes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/file_system.h"
#include "core/base/json.h"
#include "core/chat/chat_template.h"

namespace quire::chat {

struct NamedTemplate {
  std::string name;
  std::string source;
};

// What a model directory says about chat; empty where there is no such file.
struct ChatFiles {
  std::string tokenizer_config_json;
  std::string special_tokens_map_json;
  // chat_template.jinja as "default", and additional_chat_templates/NAME.jinja.
  std::vector<NamedTemplate> templates;
};

ChatFiles read_chat_files(const FileSystem& files, const std::string& directory);

// Immutable; any thread.
class TemplateSet {
 public:
  // Files of their own come before what tokenizer_config.json has. Compiles all of them.
  // ErrorCode::not_found, naming `where`, if there is none; ErrorCode::format for a file that is malformed.
  static std::shared_ptr<const TemplateSet> load(const ChatFiles& files, const std::string& where);
  // One template, without special tokens.
  static std::shared_ptr<const TemplateSet> of_source(std::string_view source);

  // The one of that name; ErrorCode::not_found, with the names there are. No name: "tool_use" where the input
  // has tools and there is one, else "default".
  const ChatTemplate& choose(std::string_view name, const JsonValue& input) const;
  const ChatTemplate& find(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& special_tokens() const { return special_tokens_; }

 private:
  TemplateSet() = default;

  const ChatTemplate* find_or_null(std::string_view name) const;

  std::vector<std::pair<std::string, std::shared_ptr<const ChatTemplate>>> templates_;
  std::vector<std::pair<std::string, std::string>> special_tokens_;
};

}  // namespace quire::chat
