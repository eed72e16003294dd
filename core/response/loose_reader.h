// Converts loosely written values to JSON as they arrive: arguments of Python calls, and JSON with a
// dialect's own quotes around keys and strings.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/response/marks.h"

namespace quire {

// A tolerant reader: any input gives valid JSON. An unescaped quote inside a string is part of the string if
// the text after it could not follow a string.
class LooseReader {
 public:
  enum class Begin {
    arguments,  // after the opening bracket of a call or an object; ends with the closing bracket
    value       // one value; ends with it
  };
  // If `quote` is empty, Python's quotes are used.
  LooseReader(Begin begin, std::string_view quote);

  // Reads from the front of `text`; returns the number of bytes read. Returns 0 if more text is needed to
  // decide, and after the end.
  size_t advance(std::string_view text, MoreToCome more);
  // Returns the JSON that is final so far and was not returned before.
  std::string take_json();
  bool over() const { return over_; }
  // Returns false if the input had a part without a JSON equivalent, such as an unknown word.
  bool is_sound() const { return sound_; }
  // Completes a value that was cut off.
  void finish();

 private:
  enum class Frame : unsigned char { arguments, object, list, unknown, value };
  struct Level {
    Frame frame = Frame::value;
    size_t begin = 0;  // of the bracket, in json_
    bool at_key = false;
    bool key_open = false;   // the key has no value yet
    bool has_value = false;  // the newest item has a value after its key
    size_t item_begin = 0;   // in json_
    size_t num_items = 0;
  };

  size_t advance_in_string(std::string_view text, MoreToCome more);
  size_t advance_in_escape(std::string_view text, MoreToCome more);
  bool closes_string(std::string_view after, MoreToCome more, bool& wait) const;
  size_t open_string(std::string_view text, MoreToCome more);
  void structure(char byte);
  void begin_item();
  void open(char byte);
  void close();
  void complete_item();
  void assign();
  void end_word();
  void decide(Level& level, Frame frame);
  void quote_key(const Level& level);
  bool expects_key() const { return levels_.back().at_key; }

  std::string_view quote_;
  std::string end_quote_;  // ends the string being read; empty outside of strings
  std::string json_;
  size_t num_taken_ = 0;
  std::string word_;
  std::vector<Level> levels_;
  bool over_ = false;
  bool sound_ = true;
};

}  // namespace quire
