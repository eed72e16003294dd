#include "core/chat/conversation.h"

#include <algorithm>

#include <gsl/gsl>

#include "core/base/error.h"
#include "core/chat/machine.h"
#include "core/chat/print.h"
#include "core/chat/unicode.h"

namespace quire::chat {
namespace {

Value content_text(Machine& machine, std::string_view text) {
  return machine.text(text, false);
}

class Converter {
 public:
  Converter(Machine& machine, const TemplateContext& context) : machine_(machine), context_(context) {}

  Value value(const JsonValue& json) {
    const Machine::Level level(machine_);
    if (json.is_null()) return Value::none().as_content();
    if (const bool* truth = json.as_bool()) return Value(*truth).as_content();
    if (const int64_t* number = json.as_int()) return Value(*number).as_content();
    if (const double* number = json.as_double()) return Value(*number).as_content();
    if (const std::string* text = json.as_string()) return content_text(machine_, *text);
    if (const JsonValue::Array* array = json.as_array()) return list(*array);
    return dict(*json.as_object());
  }

  Value messages(const JsonValue& json) {
    const JsonValue::Array* array = json.as_array();
    if (array == nullptr) return value(json);
    const size_t num_messages = std::min(array->size(), context_.max_messages);
    std::vector<Value> items;
    for (const JsonValue& each : gsl::span<const JsonValue>(*array).first(num_messages))
      items.push_back(each.as_object() != nullptr ? message(each) : value(each));
    return Value(machine_.make_list(std::move(items))).as_content();
  }

 private:
  Value list(const JsonValue::Array& array) {
    std::vector<Value> items;
    items.reserve(array.size());
    for (const JsonValue& each : array) items.push_back(value(each));
    return Value(machine_.make_list(std::move(items))).as_content();
  }

  Value dict(const JsonValue::Object& object) {
    Dict* dict = machine_.make<Dict>();
    for (const JsonMember& member : object)
      dict->set(machine_, content_text(machine_, member.key), value(member.value));
    return Value(dict).as_content();
  }

  static const JsonValue* reasoning_of(const JsonValue& message) {
    for (const std::string_view name : {"reasoning_content", "thinking"}) {
      const JsonValue* reasoning = message.find(name);
      if (reasoning != nullptr && !reasoning->is_null()) return reasoning;
    }
    return nullptr;
  }

  static bool has_calls(const JsonValue& message) {
    const JsonValue* calls = message.find("tool_calls");
    return calls != nullptr && calls->as_array() != nullptr && !calls->as_array()->empty();
  }

  Value message(const JsonValue& json) {
    Dict* dict = machine_.make<Dict>();
    const JsonValue* reasoning = reasoning_of(json);
    const auto set = [&](std::string_view key, Value member) {
      dict->set(machine_, content_text(machine_, key), std::move(member));
    };
    if (reasoning != nullptr) set("thinking", value(*reasoning));
    for (const JsonMember& member : *json.as_object()) {
      const bool is_kept = context_.keeps_null_call_content && member.key == "content" && has_calls(json);
      if (!member.value.is_null() || is_kept) set(member.key, value(member.value));
    }
    if (reasoning != nullptr) set("reasoning_content", value(*reasoning));
    return Value(dict).as_content();
  }

  Machine& machine_;
  const TemplateContext& context_;
};

bool is_control_key(std::string_view key) {
  return key == "continue_final_message";
}

[[noreturn]] void fail_continuation() {
  throw Error(ErrorCode::invalid_argument,
              "continue_final_message: the template does not write the last message unchanged; give a "
              "conversation that ends in a message with text")
      .at("messages");
}

}  // namespace

Dict* conversation_variables(Machine& machine, const JsonValue& input, const TemplateContext& context) {
  const JsonValue* messages = input.find("messages");
  if (messages == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "messages: missing; the input must be an object with a list of messages")
        .at("messages");
  }
  Converter converter(machine, context);
  Dict* variables = machine.make<Dict>();
  const auto set = [&](std::string_view name, Value value) {
    variables->set(machine, machine.text(name), std::move(value));
  };
  for (const auto& [name, text] : context.special_tokens) set(name, machine.text(text));
  set("tools", Value::none());
  set("documents", Value::none());
  set("add_generation_prompt", Value(false));
  for (const JsonMember& member : *input.as_object()) {
    if (is_control_key(member.key)) continue;
    set(member.key,
        member.key == "messages" ? converter.messages(member.value) : converter.value(member.value));
  }
  return variables;
}

std::string json_text(const JsonValue& value) {
  Machine machine(TemplateLimits{}, approximate_bytes(value));
  TextBuilder text;
  append_json(machine, text, Converter(machine, TemplateContext{}).value(value), JsonStyle{});
  return text.take().bytes();
}

size_t approximate_bytes(const JsonValue& value) {
  if (const std::string* text = value.as_string()) return text->size() + 2;
  size_t num_bytes = 8;
  if (const JsonValue::Array* array = value.as_array()) {
    for (const JsonValue& each : *array) num_bytes += approximate_bytes(each);
  } else if (const JsonValue::Object* object = value.as_object()) {
    for (const JsonMember& member : *object)
      num_bytes += member.key.size() + 4 + approximate_bytes(member.value);
  }
  return num_bytes;
}

bool continues_final_message(const JsonValue& input) {
  const JsonValue* wanted = input.find("continue_final_message");
  return wanted != nullptr && wanted->as_bool() != nullptr && *wanted->as_bool();
}

std::string mark_final_message(Machine& machine, const Dict& variables) {
  const Value* messages = variables.find(machine, "messages");
  const auto* list = messages == nullptr ? nullptr : messages->as<List>();
  auto* last = list == nullptr || list->items.empty() ? nullptr : list->items.back().as<Dict>();
  if (last == nullptr) fail_continuation();
  const Value* content = last->find(machine, "content");
  Dict* owner = last;
  std::string_view key = "content";
  if (const auto* parts = content == nullptr ? nullptr : content->as<List>()) {
    content = nullptr;
    for (auto part = parts->items.rbegin(); part != parts->items.rend() && content == nullptr; ++part) {
      owner = part->as<Dict>();
      content = owner == nullptr ? nullptr : owner->find(machine, "text");
    }
    key = "text";
  }
  if (content == nullptr || !content->is_text()) fail_continuation();
  const std::string message = content->text().bytes();
  TextBuilder marked;
  marked.append(content->text());
  marked.append(kContinuationMark, false);
  owner->set(machine, content_text(machine, key), machine.text(marked));
  return message;
}

Text cut_at_mark(const Text& rendered, const std::string& final_message) {
  const std::string_view bytes = rendered.bytes();
  std::string_view mark = kContinuationMark;
  mark.remove_suffix(trailing_space(mark));
  std::string_view message = final_message;
  message.remove_prefix(leading_space(message));
  message.remove_suffix(trailing_space(message));
  const size_t at = bytes.rfind(mark);
  if (bytes.find(message) == std::string_view::npos || at == std::string_view::npos) fail_continuation();
  size_t end = at;
  // If the template trims messages, it removed the space of the mark, and would also have removed the
  // trailing space of the message.
  if (bytes.substr(at, kContinuationMark.size()) != kContinuationMark)
    end -= trailing_space(bytes.substr(0, at));
  TextBuilder builder;
  builder.append(rendered, 0, end);
  return builder.take();
}

}  // namespace quire::chat
