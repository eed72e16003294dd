// Reads the strings of loosely written values: where they end, and their escapes.
#include "core/base/ascii.h"
#include "core/base/white_space.h"
#include "core/response/escapes.h"
#include "core/response/json_span.h"
#include "core/response/loose_reader.h"

namespace quire {
namespace {

constexpr size_t kMaxKeyBytes = 64;    // look-ahead after a quote
constexpr size_t kMaxSpaceBytes = 64;  // look-ahead over white space

bool is_word(char byte) {
  return is_ascii_letter_or_digit(byte) || byte == '_';
}

bool is_quote(char byte) {
  return byte == '"' || byte == '\'';
}

}  // namespace

// The text after a quote, of which more may come.
class TextAhead {
 public:
  TextAhead(std::string_view text, MoreToCome more) : text_(text), more_(more) {}

  // Returns 0 at the end of the text.
  char at(size_t pos) {
    if (pos < text_.size()) return text_[pos];
    needs_more_ = needs_more_ || more_ == MoreToCome::yes;
    return '\0';
  }
  // Returns the position after white space; stops after some bytes.
  size_t skip_space(size_t pos) {
    const size_t end = pos + kMaxSpaceBytes;
    while (pos < end && is_space(at(pos))) ++pos;
    return pos;
  }
  size_t skip_word(size_t pos) {
    const size_t end = pos + kMaxKeyBytes;
    while (pos < end && is_word(at(pos))) ++pos;
    return pos;
  }
  // Returns the position after a key and its quotes; `pos` if there is none.
  size_t skip_quoted_key(size_t pos) {
    const char quote = at(pos);
    size_t end = pos + 1;
    while (end - pos <= kMaxKeyBytes && at(end) != quote && at(end) != '\n' && at(end) != '\0') ++end;
    return at(end) == quote && end > pos + 1 ? end + 1 : pos;
  }
  bool has_any(size_t pos, const std::vector<std::string_view>& marks) {
    const std::string_view rest = pos < text_.size() ? text_.substr(pos) : std::string_view();
    for (const std::string_view mark : marks) {
      if (rest.substr(0, mark.size()) == mark) return true;
      if (!rest.empty() && mark.substr(0, rest.size()) == rest) needs_more_ |= more_ == MoreToCome::yes;
    }
    return false;
  }
  bool needs_more() const { return needs_more_; }

 private:
  std::string_view text_;
  MoreToCome more_;
  bool needs_more_ = false;
};

namespace {

bool ends_or_spaces(char byte) {
  return byte == '\0' || is_space(byte);
}

// Returns whether the next member of an object, or its end, follows at `pos`, which is after a comma.
bool member_follows(TextAhead& ahead, size_t pos) {
  pos = ahead.skip_space(pos);
  const char next = ahead.at(pos);
  if (ends_or_spaces(next) || is_quote(next) || next == '}') return true;
  const size_t end = ahead.skip_word(pos);
  return end > pos && ahead.at(ahead.skip_space(end)) == ':';
}

// Returns whether the text at `pos` can follow the string of a member in JSON. The comma may be missing.
bool may_follow_member(TextAhead& ahead, size_t pos) {
  const char next = ahead.at(pos);
  if (next == '}') return true;
  if (next == ',') return member_follows(ahead, pos + 1);
  if (!is_quote(next)) return false;
  const size_t end = ahead.skip_quoted_key(pos);
  return end > pos && ahead.at(ahead.skip_space(end)) == ':';
}

// Returns whether the text at `pos` can follow a string that is an argument of a Python call.
bool may_follow_argument(TextAhead& ahead, size_t pos) {
  const char next = ahead.at(pos);
  if (next == ')') {
    const char second = ahead.at(pos + 1);
    return second == '\0' || std::string_view("],;<` \n\r\t").find(second) != std::string_view::npos;
  }
  if (next != ',') return false;
  const size_t key = ahead.skip_space(pos + 1);
  const size_t key_end = ahead.skip_word(key);
  const char after = ahead.at(ahead.skip_space(key_end));
  return after == '=' || after == '\0' || (after == ')' && key_end == key);
}

}  // namespace

size_t LooseReader::open_string(std::string_view text, MoreToCome more) {
  std::string_view quote = text.substr(0, 1);
  if (!syntax_.quote.empty() && text.front() == syntax_.quote.front()) {
    const bool may_go_on = syntax_.quote.substr(0, text.size()) == text;
    if (more == MoreToCome::yes && text.size() < syntax_.quote.size() && may_go_on) return 0;
    if (text.substr(0, syntax_.quote.size()) == syntax_.quote) quote = syntax_.quote;
  } else if (text.substr(1, 1) == quote) {
    if (text.size() == 2 && more == MoreToCome::yes) return 0;
    if (text.substr(2, 1) == quote) quote = text.substr(0, 3);
  } else if (text.size() == 1 && more == MoreToCome::yes) {
    return 0;
  }
  if (is_python() && word_.size() == 1)
    word_.clear();  // drop the prefix letter of r'...' and similar strings
  end_word();
  begin_item();
  levels_.back().key_quoted = true;
  json_ += '"';
  end_quote_ = quote;
  return quote.size();
}

size_t LooseReader::advance_in_string(std::string_view text, MoreToCome more) {
  if (text.front() == '\\' && end_quote_ != syntax_.quote) {
    const bool json_rules = is_json() && end_quote_ == "\"";
    return take_escape(text, json_rules ? EscapeRules::json : EscapeRules::python, more, json_);
  }
  const std::string_view quote = end_quote_;
  if (more == MoreToCome::yes && text.size() < quote.size() && quote.substr(0, text.size()) == text) return 0;
  bool closes = text.substr(0, quote.size()) == quote;
  if (closes && (quote.size() == 1 || quote == syntax_.quote)) {
    bool wait = false;
    closes = closes_string(text.substr(quote.size()), more, wait);
    if (wait) return 0;
  }
  if (!closes) {
    append_json_text(json_, text.substr(0, 1));
    return 1;
  }
  const size_t size = quote.size();
  close_string();
  return size;
}

void LooseReader::close_string() {
  json_ += '"';
  end_quote_.clear();
  over_ = levels_.back().frame == Frame::value;
}

bool LooseReader::may_follow(TextAhead& ahead, size_t pos) const {
  const Level& level = levels_.back();
  const char next = ahead.at(pos);
  const auto is_any_of = [next](std::string_view bytes) {
    return bytes.find(next) != std::string_view::npos;
  };
  const bool is_member = is_json() && !level.at_key;
  switch (level.frame) {
    case Frame::value:
      if (begin_ == Begin::key) return next == ':';
      return begin_ == Begin::member && may_follow_member(ahead, pos);
    case Frame::list:
    case Frame::unknown:
      return is_any_of(is_json() ? ",]}" : ",]}):");
    case Frame::object:
      if (is_member) return may_follow_member(ahead, pos);
      return is_any_of(level.at_key ? ":" : ",}");
    case Frame::arguments:
      break;
  }
  if (is_member) return may_follow_member(ahead, pos);
  if (level.at_key) return is_any_of(is_json() ? ":,}" : ":=,)");
  return is_python() ? may_follow_argument(ahead, pos) : is_any_of(",}");
}

// The end of the text, long white space and the end of the call also end a string.
bool LooseReader::closes_string(std::string_view after, MoreToCome more, bool& wait) const {
  TextAhead ahead(after, more);
  const size_t pos = ahead.skip_space(0);
  const bool closes =
      ends_or_spaces(ahead.at(pos)) || ahead.has_any(pos, syntax_.ends) || may_follow(ahead, pos);
  wait = ahead.needs_more();
  return closes;
}

}  // namespace quire
