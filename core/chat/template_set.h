// The named chat templates of a model, and the choice of one for a conversation.
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

// The files of a model directory about chat; a file that does not exist is empty.
struct ChatFiles {
  std::string tokenizer_config_json;
  std::string special_tokens_map_json;
  // chat_template.jinja as "default", and additional_chat_templates/NAME.jinja.
  std::vector<NamedTemplate> templates;
};

ChatFiles read_chat_files(const FileSystem& files, const std::string& directory);

// The compiled templates of a model. Immutable; safe to use from any thread.
class TemplateSet {
 public:
  // Compiles all templates. Template files take precedence over tokenizer_config.json. Throws
  // ErrorCode::not_found naming `where` if there is no template, and ErrorCode::format if a file is
  // malformed.
  static std::shared_ptr<const TemplateSet> load(const ChatFiles& files, const std::string& where);
  // Makes a set of one template, without special tokens.
  static std::shared_ptr<const TemplateSet> of_source(std::string_view source);

  // Returns the template with this name; throws ErrorCode::not_found listing the names if there is none. An
  // empty name chooses "tool_use" if the input has tools and that template exists, otherwise "default".
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
