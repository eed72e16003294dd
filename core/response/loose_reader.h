// Converts loosely written values to JSON as they arrive: nearly JSON, arguments of Python calls, and JSON
// with a dialect's own quotes around keys and strings.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/response/marks.h"

namespace quire {

class TextAhead;

// Notation of the values that a LooseReader reads.
struct LooseSyntax {
  enum class Kind : unsigned char {
    json,    // JSON is returned byte for byte; what is nearly JSON is repaired
    python,  // values, and arguments with names
    quoted   // JSON with `quote` around strings; keys have no quotes
  };
  Kind kind = Kind::python;
  std::string_view quote = {};
  // Marks that end the call. One of them after a quote shows that the quote closes its string.
  std::vector<std::string_view> ends = {};
};

// A tolerant reader: any input gives valid JSON, except that bytes which are not UTF-8 are kept. An unescaped
// quote inside a string is part of the string if the text after it could not follow a string.
class LooseReader {
 public:
  enum class Begin : unsigned char {
    arguments,  // after the opening bracket of a call or an object; ends with the closing bracket
    value,      // one value; ends with it
    key,        // a key with quotes; ends with it
    member      // the value of a member; ends with it, or before the comma or bracket after it
  };
  LooseReader(Begin begin, LooseSyntax syntax);

  // Reads from the front of `text`; returns the number of bytes read. Returns 0 if more text is needed to
  // decide, and after the end.
  size_t advance(std::string_view text, MoreToCome more);
  // Returns the JSON that is final so far and was not returned before.
  std::string take_json();
  bool over() const { return over_; }
  bool in_string() const { return !end_quote_.empty(); }
  // Returns false if the input had a part without a JSON equivalent, such as an unknown word.
  bool is_sound() const { return sound_; }
  // Returns whether brackets are nested deeper than readers of JSON accept. Nothing is read after that.
  bool is_too_deep() const { return too_deep_; }
  // Returns whether closing brackets are all that is missing.
  bool lacks_only_brackets() const;
  // Completes a value that was cut off.
  void finish();
  // Closes all that is open.
  void close_all();

 private:
  enum class Frame : unsigned char { arguments, object, list, unknown, value };
  struct Level {
    Frame frame = Frame::value;
    size_t begin = 0;  // of the bracket, in json_
    bool at_key = false;
    bool key_open = false;    // the key has no value yet
    bool key_quoted = false;  // the key is a string
    bool has_value = false;   // the newest item has a value after its key
    size_t item_begin = 0;    // in json_
    size_t num_items = 0;
  };

  size_t advance_in_string(std::string_view text, MoreToCome more);
  bool closes_string(std::string_view after, MoreToCome more, bool& wait) const;
  bool may_follow(TextAhead& ahead, size_t pos) const;
  size_t open_string(std::string_view text, MoreToCome more);
  void close_string();
  void structure(char byte);
  void separate(bool with_comma);
  void begin_item();
  void open(char byte);
  void close();
  void complete_item();
  void assign();
  void end_word();
  void decide(Level& level, Frame frame);
  void quote_key(const Level& level);
  bool expects_key() const { return levels_.back().at_key; }
  bool is_json() const { return syntax_.kind == LooseSyntax::Kind::json; }
  bool is_python() const { return syntax_.kind == LooseSyntax::Kind::python; }

  LooseSyntax syntax_;
  Begin begin_;
  std::string end_quote_;  // ends the string being read; empty outside of strings
  std::string json_;
  std::string word_;
  std::string gap_;  // in JSON: white space and the comma after the newest item
  bool after_comma_ = false;
  std::vector<Level> levels_;
  bool over_ = false;
  bool sound_ = true;
  bool too_deep_ = false;
};

}  // namespace quire
