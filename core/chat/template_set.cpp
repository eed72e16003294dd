#include "core/chat/template_set.h"

#include <algorithm>

#include "core/base/error.h"

namespace quire::chat {
namespace {

constexpr uint64_t kMaxTemplateBytes = uint64_t{4} << 20;
constexpr uint64_t kMaxConfigBytes = uint64_t{64} << 20;
constexpr std::string_view kDefault = "default";
constexpr std::string_view kToolUse = "tool_use";
constexpr std::string_view kSuffix = ".jinja";

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Reads the templates of tokenizer_config.json: a single template, or a list of named templates.
std::vector<NamedTemplate> templates_of_config(const JsonView& config) {
  std::vector<NamedTemplate> templates;
  const std::optional<JsonView> value = config.find("chat_template");
  if (!value) return templates;
  if (!value->is_array()) {
    templates.push_back({std::string(kDefault), value->as_string()});
    return templates;
  }
  for (const JsonView& item : value->items()) {
    templates.push_back({item.at("name").as_string(), item.at("template").as_string()});
  }
  return templates;
}

// Returns the text of a special token, which is a string or an object with a `content`.
const std::string* token_text(const JsonValue& value) {
  if (value.as_string() != nullptr) return value.as_string();
  const JsonValue* content = value.find("content");
  return content == nullptr ? nullptr : content->as_string();
}

using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

void add_special_tokens(const JsonValue& file, SpecialTokens& tokens) {
  if (file.as_object() == nullptr) return;
  for (const JsonMember& member : *file.as_object()) {
    const std::string* text = token_text(member.value);
    const auto is_known = [&](const auto& known) { return known.first == member.key; };
    if (text == nullptr || !ends_with(member.key, "_token")) continue;
    if (std::none_of(tokens.begin(), tokens.end(), is_known)) tokens.emplace_back(member.key, *text);
  }
}

}  // namespace

ChatFiles read_chat_files(const FileSystem& files, const std::string& directory) {
  const std::vector<std::string> names = files.list(directory);
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto read = [&](const std::string& name, uint64_t max_bytes) {
    return has(name) ? files.read_text(directory + "/" + name, max_bytes) : std::string();
  };
  ChatFiles chat;
  chat.tokenizer_config_json = read("tokenizer_config.json", kMaxConfigBytes);
  chat.special_tokens_map_json = read("special_tokens_map.json", kMaxConfigBytes);
  std::string source = read("chat_template.jinja", kMaxTemplateBytes);
  if (!source.empty()) chat.templates.push_back({std::string(kDefault), std::move(source)});
  const std::string more = directory + "/additional_chat_templates";
  if (!has("additional_chat_templates") || !files.is_directory(more)) return chat;
  for (const std::string& name : files.list(more)) {
    if (!ends_with(name, kSuffix)) continue;
    chat.templates.push_back({name.substr(0, name.size() - kSuffix.size()),
                              files.read_text(more + "/" + name, kMaxTemplateBytes)});
  }
  return chat;
}

std::shared_ptr<const TemplateSet> TemplateSet::load(const ChatFiles& files, const std::string& where) {
  auto set = std::shared_ptr<TemplateSet>(new TemplateSet);
  std::vector<NamedTemplate> templates = files.templates;
  if (!files.tokenizer_config_json.empty()) {
    const JsonValue config = parse_json(files.tokenizer_config_json, "tokenizer_config.json");
    if (templates.empty()) templates = templates_of_config(JsonView(config, "tokenizer_config.json"));
    add_special_tokens(config, set->special_tokens_);
  }
  if (!files.special_tokens_map_json.empty()) {
    add_special_tokens(parse_json(files.special_tokens_map_json, "special_tokens_map.json"),
                       set->special_tokens_);
  }
  if (templates.empty()) {
    throw Error(ErrorCode::not_found,
                "{}: no chat template in chat_template.jinja or tokenizer_config.json; pass one",
                printable(where, 4096));
  }
  for (const NamedTemplate& each : templates) {
    set->templates_.emplace_back(each.name, ChatTemplate::compile(each.source));
  }
  return set;
}

std::shared_ptr<const TemplateSet> TemplateSet::of_source(std::string_view source) {
  auto set = std::shared_ptr<TemplateSet>(new TemplateSet);
  set->templates_.emplace_back(kDefault, ChatTemplate::compile(source));
  return set;
}

const ChatTemplate* TemplateSet::find_or_null(std::string_view name) const {
  const auto found = std::find_if(templates_.begin(), templates_.end(),
                                  [&](const auto& each) { return each.first == name; });
  return found == templates_.end() ? nullptr : found->second.get();
}

const ChatTemplate& TemplateSet::find(std::string_view name) const {
  if (const ChatTemplate* found = find_or_null(name)) return *found;
  std::string names;
  for (const auto& [known, chat] : templates_) names += (names.empty() ? "" : ", ") + printable(known);
  throw Error(ErrorCode::not_found, "chat template \"{}\": there is no template of that name; available: {}",
              printable(name), names);
}

const ChatTemplate& TemplateSet::choose(std::string_view name, const JsonValue& input) const {
  if (!name.empty()) return find(name);
  const JsonValue* tools = input.find("tools");
  const ChatTemplate* for_tools = tools != nullptr && !tools->is_null() ? find_or_null(kToolUse) : nullptr;
  if (for_tools != nullptr) return *for_tools;
  return templates_.size() == 1 ? *templates_.front().second : find(kDefault);
}

}  // namespace quire::chat
