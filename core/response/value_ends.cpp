// Finds the ends of arguments that have a mark each. Values may contain marks: a mark counts only if the text
// after it is what the model writes next.
#include <algorithm>

#include "core/base/ascii.h"
#include "core/base/white_space.h"
#include "core/response/response_parser.h"

namespace quire {
namespace {

constexpr size_t kMaxSpaceBytes = 256;  // between two marks
constexpr size_t kMaxKeyBytes = 256;

bool is_name_byte(char byte) {
  return is_ascii_letter_or_digit(byte) || std::string_view("_-.").find(byte) != std::string_view::npos;
}

// Returns whether both texts are the same as far as the shorter one goes.
bool agree(std::string_view one, std::string_view other) {
  const size_t size = std::min(one.size(), other.size());
  return one.substr(0, size) == other.substr(0, size);
}

std::string_view without_space(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
}

}  // namespace

// Returns whether a mark that was found in a value has its meaning there. Text without an end is not waited
// for: long white space also shows that the value is over.
ResponseParser::Answer ResponseParser::closes_value(const Set::Found& found) const {
  if (found.meaning == Meaning::verbatim) return Answer::yes;
  if (found.meaning == Meaning::parameter) return Answer::no;
  const std::string_view all = pending().substr(found.size);
  const std::string_view after = without_space(all);
  if (found.meaning == Meaning::verbatim_end) {
    const std::string_view end = std::string_view(*marks_.end_line).substr(1);
    if (!agree(after, end)) return Answer::no;
    return after.size() < end.size() && input_.more == MoreToCome::yes ? Answer::wait : Answer::yes;
  }
  if (value_.depth > 0) return Answer::no;
  if (all.size() - after.size() > kMaxSpaceBytes) return Answer::yes;
  if (after.empty()) return input_.more == MoreToCome::yes ? Answer::wait : Answer::yes;
  const Set::Found next = marks_.call.find(after, input_.more);
  if (next.wait) return Answer::wait;
  if (next.meaning != Meaning::parameter)
    return next.size > 0 || marks_.call.is_cut(after) ? Answer::yes : Answer::no;
  // A closing mark of an element begins like an argument.
  const std::string_view key = after.substr(next.size);
  if (key.empty() && input_.more == MoreToCome::yes) return Answer::wait;
  return key.substr(0, 1) == "/" ? Answer::no : Answer::yes;
}

// Returns whether a value without a closing mark is over: the next argument or the end of the call follows.
// `num_bytes` gets the length of the line end before that, which is not part of the value.
ResponseParser::Answer ResponseParser::breaks_value(size_t& num_bytes) const {
  if (value_.is_verbatim || parameter().elements) return Answer::no;
  const bool on_new_line = front() == '\n';
  num_bytes = on_new_line ? 1 : 0;
  const std::string_view text = pending().substr(num_bytes);
  if (text.empty()) return input_.more == MoreToCome::yes ? Answer::wait : Answer::no;
  const bool may_begin = on_new_line || !parameter().lines || !value_.has_bytes;
  const Answer begins = may_begin ? begins_parameter(text) : Answer::no;
  return begins == Answer::no ? ends_call(text) : begins;
}

ResponseParser::Answer ResponseParser::begins_parameter(std::string_view text) const {
  const std::string_view begin = parameter().begin;
  const std::string_view key_end = parameter().key_end;
  const Answer open = input_.more == MoreToCome::yes ? Answer::wait : Answer::no;
  if (!agree(text, begin)) return Answer::no;
  if (text.size() < begin.size()) return open;
  text.remove_prefix(begin.size());
  const size_t end = std::min({text.find('\n'), text.find('<'), text.find(key_end.front())});
  const std::string_view key = trimmed(text.substr(0, end));
  if (key.size() > kMaxKeyBytes) return Answer::no;
  if (end == std::string_view::npos) return open;
  text.remove_prefix(end);
  if (!agree(text, key_end)) return Answer::no;
  if (text.size() < key_end.size()) return open;
  return may_be_parameter(key) ? Answer::yes : Answer::no;
}

// Returns whether the call may have an argument with this name that it does not have yet.
bool ResponseParser::may_be_parameter(std::string_view key) const {
  const auto is_key = [key](const std::string& given) { return given == key; };
  if (key == value_.key || std::any_of(call_.keys.begin(), call_.keys.end(), is_key)) return false;
  const ToolSet::Tool* tool = tools_.find(call_.name);
  const JsonValue* properties = tool == nullptr ? nullptr : tool->parameters.find("properties");
  if (properties != nullptr) return properties->find(key) != nullptr;
  return !key.empty() && std::all_of(key.begin(), key.end(), is_name_byte);
}

// Returns whether the call ends here and text without a call follows, or another call.
ResponseParser::Answer ResponseParser::ends_call(std::string_view text) const {
  const auto ends = [](const Set::Found& mark) {
    return mark.size > 0 && (mark.meaning == Meaning::stop || mark.meaning == Meaning::section_closes);
  };
  Set::Found found = marks_.call.find(text, input_.more);
  for (int num_marks = 0; ends(found) && num_marks < 2; ++num_marks) {
    const std::string_view after = without_space(text.substr(found.size));
    if (text.size() - found.size - after.size() > kMaxSpaceBytes) return Answer::no;
    if (after.empty()) return input_.more == MoreToCome::yes ? Answer::wait : Answer::yes;
    const Set::Found next = marks_.call.find(after, input_.more);
    if (next.wait) return Answer::wait;
    if (next.size > 0 && !ends(next) && next.meaning != Meaning::parameter) return Answer::yes;
    if (next.meaning == Meaning::stop) return Answer::no;
    text = after;
    found = next;
  }
  return found.wait ? Answer::wait : Answer::no;
}

}  // namespace quire
