#include "core/chat/text_operations.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "core/chat/compare.h"
#include "core/chat/print.h"

namespace quire::chat {
namespace {

bool has_char(std::string_view chars, std::string_view one) {
  for (size_t pos = chars.find(one); pos != std::string_view::npos; pos = chars.find(one, pos + 1)) {
    if ((static_cast<unsigned char>(chars[pos]) & 0xc0) != 0x80) return true;
  }
  return false;
}

// Returns whether a sigma is the last letter of a word, which has its own lower-case form.
bool is_final_sigma(std::string_view bytes, size_t pos, size_t length) {
  bool letter_before = false;
  for (size_t end = pos; end > 0;) {
    const size_t begin = char_start_before(bytes, end);
    const uint32_t c = decode_utf8(bytes, begin).code_point;
    end = begin;
    if (c == '\'' || c == '.' || c == ':' || c == 0xad) continue;
    letter_before = is_cased(c);
    break;
  }
  if (!letter_before) return false;
  for (size_t next = pos + length; next < bytes.size();) {
    const Utf8Char c = decode_utf8(bytes, next);
    next += c.length;
    if (c.code_point == '\'' || c.code_point == '.' || c.code_point == ':' || c.code_point == 0xad) continue;
    return !is_cased(c.code_point);
  }
  return true;
}

void append_in_case(TextBuilder& builder, const Text& text, size_t pos, const Utf8Char& next,
                    CaseChange change) {
  constexpr uint32_t kSigma = 0x3a3;
  const bool lowers = change == CaseChange::lower || change == CaseChange::swap;
  if (next.code_point == kSigma && lowers && is_final_sigma(text.bytes(), pos, next.length)) {
    builder.append_changed(text, pos, "\xcf\x82");
  } else {
    builder.append_changed(text, pos, change_case(next.code_point, change));
  }
}

bool begins_word_after(uint32_t c) {
  return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

}  // namespace

Value part_of(Machine& machine, const TextRef& text, size_t begin, size_t end) {
  if (begin == 0 && end >= text->bytes().size()) return Value(text);
  TextBuilder builder;
  builder.append(*text, begin, end);
  return machine.text(builder, text->is_markup());
}

Value stripped(Machine& machine, const TextRef& text, Sides sides, const Text* chars) {
  const std::string& bytes = text->bytes();
  size_t begin = 0;
  size_t end = bytes.size();
  const auto goes = [&](size_t pos) {
    machine.step();
    const Utf8Char next = decode_utf8(bytes, pos);
    if (chars == nullptr) return is_space(next.code_point);
    return has_char(chars->bytes(), std::string_view(bytes).substr(pos, next.length));
  };
  while (sides.begin && begin < end && goes(begin)) begin += decode_utf8(bytes, begin).length;
  while (sides.end && end > begin && goes(char_start_before(bytes, end))) end = char_start_before(bytes, end);
  return part_of(machine, text, begin, end);
}

Value replaced(Machine& machine, const Text& text, const Text& from, const Text& to, int64_t max_count) {
  const std::string& bytes = text.bytes();
  const std::string& wanted = from.bytes();
  machine.step_bytes(bytes.size());
  TextBuilder builder;
  size_t done = 0;
  size_t pos = 0;
  for (int64_t count = 0; max_count < 0 || count < max_count; ++count) {
    if (wanted.empty()) {
      if (pos > bytes.size()) break;
    } else {
      pos = bytes.find(wanted, pos);
      if (pos == std::string::npos) break;
    }
    machine.step();
    machine.check_text_bytes(builder.num_bytes());
    builder.append(text, done, pos);
    builder.append(to);
    done = pos + wanted.size();
    if (!wanted.empty()) {
      pos = done;
    } else {
      pos += pos < bytes.size() ? decode_utf8(bytes, pos).length : 1;
    }
  }
  builder.append(text, std::min(done, bytes.size()), bytes.size());
  return machine.text(builder, text.is_markup());
}

Value in_case(Machine& machine, const Text& text, CaseChange change) {
  const std::string& bytes = text.bytes();
  machine.step(bytes.size() / 8);
  TextBuilder builder;
  for (size_t pos = 0; pos < bytes.size();) {
    const Utf8Char next = decode_utf8(bytes, pos);
    append_in_case(builder, text, pos, next, change);
    pos += next.length;
  }
  return machine.text(builder, text.is_markup());
}

Value titled(Machine& machine, const Text& text, TitleWords words) {
  const std::string& bytes = text.bytes();
  machine.step(bytes.size() / 8);
  TextBuilder builder;
  bool begins = true;
  for (size_t pos = 0; pos < bytes.size();) {
    const Utf8Char next = decode_utf8(bytes, pos);
    if (words == TitleWords::letters) {
      append_in_case(builder, text, pos, next, begins ? CaseChange::title : CaseChange::lower);
      begins = !is_cased(next.code_point);
    } else {
      append_in_case(builder, text, pos, next, begins ? CaseChange::upper : CaseChange::lower);
      begins = begins_word_after(next.code_point);
    }
    pos += next.length;
  }
  return machine.text(builder, text.is_markup());
}

Value capitalized(Machine& machine, const Text& text) {
  const std::string& bytes = text.bytes();
  machine.step(bytes.size() / 8);
  TextBuilder builder;
  for (size_t pos = 0; pos < bytes.size();) {
    const Utf8Char next = decode_utf8(bytes, pos);
    append_in_case(builder, text, pos, next, pos == 0 ? CaseChange::title : CaseChange::lower);
    pos += next.length;
  }
  return machine.text(builder, text.is_markup());
}

std::vector<Value> lines_of(Machine& machine, const TextRef& text, bool keep_ends) {
  const std::string& bytes = text->bytes();
  std::vector<Value> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < bytes.size();) {
    const Utf8Char next = decode_utf8(bytes, pos);
    size_t end = pos + next.length;
    if (!is_line_end(next.code_point)) {
      pos = end;
      continue;
    }
    if (next.code_point == '\r' && end < bytes.size() && bytes[end] == '\n') ++end;
    lines.push_back(part_of(machine, text, begin, keep_ends ? end : pos));
    machine.step();
    begin = pos = end;
  }
  machine.step(bytes.size() / 16);
  if (begin < bytes.size()) lines.push_back(part_of(machine, text, begin, bytes.size()));
  return lines;
}

Value joined(Machine& machine, const Text& separator, const std::vector<Value>& texts) {
  TextBuilder builder;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].is_text()) machine.fail("join takes strings, not {}", type_name(texts[i]));
    machine.step();
    machine.check_text_bytes(builder.num_bytes() + separator.bytes().size());
    if (i > 0) builder.append(separator);
    builder.append(texts[i].text());
  }
  return machine.text(builder, separator.is_markup());
}

}  // namespace quire::chat
