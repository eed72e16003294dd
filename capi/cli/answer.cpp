#include "capi/cli/answer.h"

namespace quire::cli {
namespace {

constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";

}  // namespace

void Answer::see(const Event& event) {
  const std::string raw = text_of(quire_event_text, event);
  const std::string text = text_of(quire_event_response_text, event);
  raw_ += raw;
  switch (call(quire_event_response_kind, event)) {
    case QUIRE_RESPONSE_TEXT:
      text_ += text;
      return show(text);
    case QUIRE_RESPONSE_REASONING:
      return show_reasoning(text);
    case QUIRE_RESPONSE_CALL_BEGIN:
      return begin_call(event);
    case QUIRE_RESPONSE_ARGUMENTS:
      calls_.back().arguments += text;
      return;
    case QUIRE_RESPONSE_CALL_END:
      calls_.back().id = text_of(quire_event_call_id, event);
      return show_call();
    default:
      // White space at the ends of an answer.
      if (reasoning_.empty() && calls_.empty() && raw.find_first_not_of(" \t\r\n") == std::string::npos)
        show(raw);
  }
}

void Answer::show(const std::string& text) {
  if (text.empty()) return;
  if (is_dim_ || !calls_.empty()) begin_line();
  undim();
  print(text);
  in_line_ = text.back() != '\n';
}

void Answer::show_reasoning(const std::string& text) {
  reasoning_ += text;
  if (!dims_ || text.empty()) return;
  if (!is_dim_) {
    begin_line();
    print(kDim);
  }
  is_dim_ = true;
  print(text);
  in_line_ = text.back() != '\n';
}

void Answer::begin_call(const Event& event) {
  show_call();  // a call without an end
  calls_.push_back({text_of(quire_event_call_id, event), text_of(quire_event_call_name, event), ""});
  in_call_ = true;
}

// Shows the call as a whole, on one line, since the model may write its arguments over many lines. Arguments
// that were cut off are shown as a string.
void Answer::show_call() {
  if (!in_call_) return;
  in_call_ = false;
  begin_line();
  undim();
  const Call& one = calls_.back();
  const Json arguments = Json::parse(one.arguments, nullptr, false);
  print(to_json_line(
      {{"name", one.name}, {"arguments", arguments.is_discarded() ? Json(one.arguments) : arguments}}));
  in_line_ = true;
}

void Answer::begin_line() {
  if (in_line_) print("\n");
  in_line_ = false;
}

void Answer::undim() {
  if (is_dim_) print(kPlain);
  is_dim_ = false;
}

void Answer::end() {
  show_call();
  undim();
  print("\n");
}

Json Answer::message() const {
  Json message = {{"role", "assistant"}, {"content", calls_.empty() && reasoning_.empty() ? raw_ : text_}};
  if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
  for (const Call& one : calls_) {
    const std::string id = one.id.empty() ? "call_" + std::to_string(&one - calls_.data()) : one.id;
    message["tool_calls"].push_back(
        {{"id", id}, {"type", "function"}, {"function", {{"name", one.name}, {"arguments", one.arguments}}}});
  }
  return message;
}

}  // namespace quire::cli
