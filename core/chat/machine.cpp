#include "core/chat/machine.h"

namespace quire::chat {
namespace {

ErrorCode code_of(TemplateFault fault) {
  switch (fault) {
    case TemplateFault::syntax:
      return ErrorCode::format;
    case TemplateFault::limit:
      return ErrorCode::capacity;
    case TemplateFault::raised:
    case TemplateFault::failed:
      break;
  }
  return ErrorCode::invalid_argument;
}

// Maximum length of a message that a template passes to raise_exception.
constexpr size_t kMaxMessageBytes = 4096;

}  // namespace

TemplateError::TemplateError(TemplateFault fault, const Position& position, std::string text)
    : Error(code_of(fault), "chat template, line {}, column {}: {}", position.line, position.column,
            printable(text, kMaxMessageBytes)),
      fault_(fault),
      position_(position),
      text_(std::move(text)) {}

Machine::Machine(const TemplateLimits& limits, size_t input_bytes)
    : limits_(limits),
      max_steps_(limits.max_steps + limits.steps_per_input_byte * input_bytes),
      steps_left_(static_cast<int64_t>(max_steps_)),
      max_text_bytes_(limits.max_text_bytes + limits.text_bytes_per_input_byte * input_bytes),
      bytes_left_(limits.max_memory_bytes + limits.memory_bytes_per_input_byte * input_bytes) {}

Machine::~Machine() = default;

void Machine::take_bytes(size_t num_bytes) {
  if (num_bytes > bytes_left_) fail_limit("memory");
  bytes_left_ -= num_bytes;
  step_bytes(num_bytes);
}

List* Machine::make_list(std::vector<Value> items, bool is_tuple) {
  take_bytes(items.size() * sizeof(Value));
  return make<List>(std::move(items), is_tuple);
}

Value Machine::text(TextBuilder& builder, bool is_markup) {
  check_text_bytes(builder.num_bytes());
  step(2);
  take_bytes(builder.num_bytes() + sizeof(Text));
  return Value(std::make_shared<const Text>(builder.take(is_markup)));
}

Value Machine::text(std::string_view bytes, bool from_template) {
  TextBuilder builder;
  builder.append(bytes, from_template);
  return text(builder);
}

void Machine::check_text_bytes(uint64_t num_bytes) const {
  if (num_bytes > max_text_bytes_) fail_limit("text bytes");
}

void Machine::check_output_bytes(uint64_t num_bytes) const {
  if (num_bytes > max_text_bytes_) fail_limit("output bytes");
}

void Machine::fail_limit(std::string_view name) const {
  throw TemplateError(TemplateFault::limit, position_,
                      fmt::format("the rendering needs more {} than its limit", name));
}

void Machine::fail_depth() {
  --depth_;
  fail_limit("depth");
}

void Machine::fail_undefined(const Value& value) const {
  const std::string name = value.text_ref() ? printable(value.text().bytes()) : "value";
  switch (value.absence()) {
    case Absence::variable:
      fail("'{}' is undefined", name);
    case Absence::attribute:
      fail("the value has no attribute '{}'", name);
    case Absence::item:
      fail("the value has no such item");
    case Absence::parameter:
      fail("parameter '{}' was not provided", name);
    case Absence::forbidden:
      break;
  }
  fail("access to '{}' is not allowed", name);
}

}  // namespace quire::chat
