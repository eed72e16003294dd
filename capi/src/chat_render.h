// From a conversation to the text of a prompt, by templates and what goes with them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/mutex.h"
#include "core/chat/template_set.h"

namespace quire::capi {

// What a rendering takes with it when it begins.
struct ChatSettings {
  std::string name;  // empty: by the input
  std::map<std::string, std::string> special_tokens;
  std::optional<chat::LocalTime> now;  // absent: that of the clock
};

struct ChatShare {
  std::shared_ptr<const chat::TemplateSet> templates;
  ChatSettings settings;
};

// With the special tokens that the templates came with.
ChatShare with_own_settings(std::shared_ptr<const chat::TemplateSet> templates);

// Whether arguments of tool calls that are a text are given to the template as that, or as what they say.
enum class CallArguments { as_given, parsed };

// `text`: a conversation with what else the template reads, as a JSON object.
chat::RenderedChat render_chat(const ChatShare& chat, std::string_view text, CallArguments arguments);

// The templates that a model's directory brings, compiled when the first conversation is rendered. Any
// thread.
class ModelChat {
 public:
  // Of a model without any.
  ModelChat() = default;
  // Reads the files; what is wrong with them is told by templates().
  ModelChat(const FileSystem& files, const std::string& directory);

  // ErrorCode::not_found, naming `path`, where there are none; ErrorCode::format where one is malformed.
  std::shared_ptr<const chat::TemplateSet> templates(const std::string& path);
  // Null in place of ErrorCode::not_found.
  std::shared_ptr<const chat::TemplateSet> find_templates(const std::string& path);

 private:
  Mutex mutex_;
  chat::ChatFiles files_ QUIRE_GUARDED_BY(mutex_);
  std::optional<Error> error_ QUIRE_GUARDED_BY(mutex_);
  std::shared_ptr<const chat::TemplateSet> templates_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::capi
