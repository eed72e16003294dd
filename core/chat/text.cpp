#include "core/chat/text.h"

#include <algorithm>
#include <utility>

namespace quire::chat {
namespace {

bool begins_char(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

std::vector<OriginRun>::const_iterator run_at(const Text& text, size_t offset) {
  return std::upper_bound(text.runs().begin(), text.runs().end(), offset,
                          [](size_t at, const OriginRun& run) { return at < run.end; });
}

}  // namespace

size_t count_chars(std::string_view utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), begins_char));
}

Text::Text(std::string bytes, std::vector<OriginRun> runs)
    : bytes_(std::move(bytes)), runs_(std::move(runs)), num_chars_(count_chars(bytes_)) {}

size_t Text::byte_offset(size_t char_idx) const {
  if (is_ascii() || char_idx >= num_chars_) return std::min(char_idx, bytes_.size());
  size_t at = 0;
  for (size_t seen = 0; at < bytes_.size(); ++at) {
    if (begins_char(bytes_[at]) && seen++ == char_idx) break;
  }
  return at;
}

size_t Text::char_index(size_t byte_offset) const {
  return is_ascii() ? byte_offset : count_chars(std::string_view(bytes_).substr(0, byte_offset));
}

TextRef make_text(std::string_view bytes, bool from_template) {
  TextBuilder builder;
  builder.append(bytes, from_template);
  return std::make_shared<const Text>(builder.take());
}

void TextBuilder::extend(size_t end, bool from_template) {
  if (!runs_.empty() && runs_.back().from_template == from_template) {
    runs_.back().end = end;
  } else {
    runs_.push_back({end, from_template});
  }
}

void TextBuilder::append(std::string_view bytes, bool from_template) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  extend(bytes_.size(), from_template);
}

void TextBuilder::append(const Text& text, size_t begin, size_t end) {
  if (begin >= end) return;
  const size_t base = bytes_.size();
  bytes_.append(text.bytes(), begin, end - begin);
  for (auto run = run_at(text, begin); run != text.runs().end(); ++run) {
    extend(base + std::min(run->end, end) - begin, run->from_template);
    if (run->end >= end) break;
  }
}

void TextBuilder::append_changed(const Text& text, size_t begin, std::string_view bytes) {
  append(bytes, is_from_template(text, begin));
}

Text TextBuilder::take(bool is_markup) {
  Text text(std::exchange(bytes_, {}), std::exchange(runs_, {}));
  text.is_markup_ = is_markup;
  return text;
}

bool is_from_template(const Text& text, size_t offset) {
  const auto run = run_at(text, offset);
  return run != text.runs().end() && run->from_template;
}

}  // namespace quire::chat
