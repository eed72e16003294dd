// Reads the structure of loosely written values. Their strings are in loose_strings.cpp.
#include "core/response/loose_reader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/white_space.h"
#include "core/response/json_number.h"
#include "core/response/json_span.h"

namespace quire {
namespace {

// Depth limit of System.Text.Json; other readers accept more.
constexpr size_t kMaxDepth = 64;

std::string json_word(std::string_view word) {
  if (word == "True" || word == "true") return "true";
  if (word == "False" || word == "false") return "false";
  if (word == "None" || word == "null") return "null";
  return json_number(word);
}

bool is_one_of(char byte, std::string_view bytes) {
  return bytes.find(byte) != std::string_view::npos;
}

}  // namespace

LooseReader::LooseReader(Begin begin, LooseSyntax syntax) : syntax_(std::move(syntax)), begin_(begin) {
  Level level;
  if (begin == Begin::arguments) {
    level.frame = Frame::arguments;
    level.at_key = true;
    json_ = "{";
  }
  levels_.push_back(level);
}

size_t LooseReader::advance(std::string_view text, MoreToCome more) {
  if (over_ || text.empty()) return 0;
  if (in_string()) return advance_in_string(text, more);
  const char byte = text.front();
  const bool may_quote = is_one_of(byte, "\"'") || (!syntax_.quote.empty() && byte == syntax_.quote.front());
  if (may_quote) return open_string(text, more);
  if (begin_ == Begin::member && levels_.size() == 1 && is_one_of(byte, ",]}")) {
    finish();
    return 0;
  }
  structure(byte);
  return 1;
}

void LooseReader::structure(char byte) {
  Level& level = levels_.back();
  const size_t num_items = level.num_items + (word_.empty() ? 0 : 1);
  const bool assigns =
      is_one_of(byte, ":=") && (level.at_key || (level.frame == Frame::unknown && num_items <= 1));
  if (assigns) {
    assign();
  } else if (is_one_of(byte, "[{(")) {
    end_word();
    begin_item();
    open(byte);
  } else if (is_one_of(byte, "]})")) {
    end_word();
    if (byte != ')' || !is_json() || levels_.back().frame == Frame::list) close();
  } else if (byte == ',') {
    end_word();
    complete_item();
    if (is_json() && !after_comma_) gap_ += byte;
    after_comma_ = true;
  } else if (!is_space(byte)) {
    word_ += byte;
  } else {
    if (!expects_key()) end_word();
    if (is_json()) gap_ += byte;
  }
}

// Writes what is between the newest item and the next text.
void LooseReader::separate(bool with_comma) {
  if (!is_json()) {
    if (with_comma) json_ += ", ";
  } else {
    if (with_comma && gap_.find(',') == std::string::npos) json_ += ',';
    for (const char byte : gap_) {
      if (byte != ',' || with_comma) json_ += byte;
    }
    gap_.clear();
  }
  after_comma_ = false;
}

void LooseReader::begin_item() {
  Level& level = levels_.back();
  if (level.frame == Frame::value) {
    sound_ = sound_ && level.num_items == 0;
    ++level.num_items;
    gap_.clear();
    return;
  }
  const bool is_list = level.frame == Frame::list || level.frame == Frame::unknown;
  if (!is_list && (level.key_open || level.has_value)) complete_item();  // the separator is missing
  separate((is_list || level.at_key) && level.num_items > 0);
  if (is_list || level.at_key) ++level.num_items;
  if (level.at_key && level.frame == Frame::arguments && is_python()) {  // a positional value
    json_ += fmt::format("\"{}\": ", level.num_items);
    level.at_key = false;
  }
  level.key_open = level.at_key;
  level.key_quoted = false;
  level.has_value = !level.at_key;
  level.item_begin = json_.size();
}

void LooseReader::open(char byte) {
  if (levels_.size() == kMaxDepth) {
    too_deep_ = over_ = true;
    sound_ = false;
    return;
  }
  Level level;
  level.begin = json_.size();
  level.frame = byte != '{' ? Frame::list : is_python() ? Frame::unknown : Frame::object;
  level.at_key = level.frame == Frame::object;
  json_ += byte == '{' ? '{' : '[';
  levels_.push_back(level);
}

void LooseReader::decide(Level& level, Frame frame) {
  level.frame = frame;
  level.at_key = frame == Frame::object;
  json_[level.begin] = frame == Frame::object ? '{' : '[';
}

void LooseReader::close() {
  Level& level = levels_.back();
  if (level.frame == Frame::value) {
    sound_ = false;
    over_ = true;
    return;
  }
  if (level.frame == Frame::unknown) decide(level, level.num_items == 0 ? Frame::object : Frame::list);
  complete_item();
  separate(false);
  json_ += level.frame == Frame::list ? ']' : '}';
  over_ = level.frame == Frame::arguments;
  if (over_) return;
  levels_.pop_back();
  over_ = levels_.back().frame == Frame::value;
}

// Completes a member of an object: a key without a value gets null.
void LooseReader::complete_item() {
  Level& level = levels_.back();
  if (level.frame != Frame::arguments && level.frame != Frame::object) return;
  if (level.key_open) {
    quote_key(level);
    json_ += ": null";
  } else if (!level.at_key && !level.has_value) {
    json_ += "null";
  }
  level.key_open = level.has_value = false;
  level.at_key = true;
}

void LooseReader::assign() {
  Level& level = levels_.back();
  if (!word_.empty()) {
    if (level.key_open) complete_item();
    separate(level.num_items > 0);
    ++level.num_items;
    json_ += '"';
    append_json_text(json_, word_);
    json_ += '"';
    word_.clear();
  } else if (level.frame == Frame::unknown ? level.num_items == 0 : !level.key_open) {
    separate(level.num_items > 0);
    ++level.num_items;
    json_ += "\"\"";
  } else {
    quote_key(level);
  }
  if (level.frame == Frame::unknown) decide(level, Frame::object);
  separate(false);
  json_ += is_json() ? ":" : ": ";
  level.at_key = level.key_open = level.has_value = false;
}

// Turns a key that is not a string into a string of its text.
void LooseReader::quote_key(const Level& level) {
  if (level.key_quoted) return;
  const std::string key = json_.substr(level.item_begin);
  json_.resize(level.item_begin);
  json_ += '"';
  append_json_text(json_, key);
  json_ += '"';
}

void LooseReader::end_word() {
  if (word_.empty()) return;
  begin_item();
  const std::string json = json_word(word_);
  if (json.empty()) {
    sound_ = false;
    json_ += '"';
    append_json_text(json_, word_);
    json_ += '"';
    levels_.back().key_quoted = true;
  } else {
    json_ += json;
  }
  word_.clear();
}

std::string LooseReader::take_json() {
  size_t certain = json_.size();
  for (const Level& level : levels_) {
    if (level.frame == Frame::unknown) certain = std::min(certain, level.begin);
    if (level.key_open && !level.key_quoted) certain = std::min(certain, level.item_begin);
  }
  std::string taken = json_.substr(0, certain);
  json_.erase(0, certain);
  for (Level& level : levels_) {
    level.begin -= std::min(level.begin, certain);
    level.item_begin -= std::min(level.item_begin, certain);
  }
  return taken;
}

bool LooseReader::lacks_only_brackets() const {
  if (too_deep_ || in_string()) return false;
  if (!word_.empty()) return !expects_key();
  const Level& level = levels_.back();
  if (after_comma_) return false;
  const bool is_list = level.frame == Frame::list || level.frame == Frame::unknown;
  return is_list || level.frame == Frame::value ? level.num_items > 0 : !level.at_key && level.has_value;
}

void LooseReader::finish() {
  if (!expects_key()) end_word();
  over_ = over_ || levels_.back().frame == Frame::value;
}

void LooseReader::close_all() {
  if (in_string()) close_string();
  finish();
  gap_.clear();  // the white space before brackets that are missing is not inside of them
  while (!over_) {
    end_word();
    close();
  }
}

}  // namespace quire
