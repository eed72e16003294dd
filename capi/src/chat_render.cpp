#include "capi/src/chat_render.h"

#include <ctime>
#include <utility>

#include "core/base/error.h"

namespace quire::capi {
namespace {

constexpr size_t kMaxInputBytes = size_t{64} << 20;

chat::LocalTime clock_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return {parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec};
}

}  // namespace

ChatShare with_own_settings(std::shared_ptr<const chat::TemplateSet> templates) {
  ChatShare chat;
  for (const auto& [name, text] : templates->special_tokens())
    chat.settings.special_tokens.emplace(name, text);
  chat.templates = std::move(templates);
  return chat;
}

chat::RenderedChat render_chat(const ChatShare& chat, std::string_view text, CallArguments arguments) {
  const JsonValue input = parse_json(text, "input", {.max_bytes = kMaxInputBytes});
  chat::TemplateContext context;
  context.special_tokens.assign(chat.settings.special_tokens.begin(), chat.settings.special_tokens.end());
  context.now = chat.settings.now ? *chat.settings.now : clock_time();
  context.parse_call_arguments = arguments == CallArguments::parsed;
  return chat.templates->choose(chat.settings.name, input).render(input, context);
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

}  // namespace quire::capi
