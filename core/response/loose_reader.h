// Values as programs write them, made into JSON while they come: the arguments of a call in Python, and JSON
// whose keys and strings stand in quotes of a dialect's own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/response/marks.h"

namespace quire {

// Tolerant: what is read gives JSON, whatever it is. A quote inside of a string that nobody escaped is part
// of the string where what follows it could not follow the string.
class LooseReader {
 public:
  enum class Begin {
    arguments,  // after the bracket of a call or an object: ends with the one that closes it
    value       // ends with the value
  };
  // An empty `quote`: those of Python.
  LooseReader(Begin begin, std::string_view quote);

  // How many bytes at the front of `text` are read; 0 where only what comes next decides, and once over.
  size_t advance(std::string_view text, MoreToCome more);
  // The JSON that is certain by now and was not taken yet.
  std::string take_json();
  bool over() const { return over_; }
  // False where there was what no JSON stands for: a word that is none of the known ones.
  bool is_sound() const { return sound_; }
  // What there is of a value that was cut off.
  void finish();

 private:
  enum class Frame : unsigned char { arguments, object, list, unknown, value };
  struct Level {
    Frame frame = Frame::value;
    size_t begin = 0;  // in json_, of the bracket
    bool at_key = false;
    bool key_open = false;   // a key without its value
    bool has_value = false;  // after the key; of the newest item
    size_t item_begin = 0;   // in json_, likewise
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
  bool wants_key() const { return levels_.back().at_key; }

  std::string_view quote_;
  std::string end_quote_;  // of the string that is being read; empty: none
  std::string json_;
  size_t num_taken_ = 0;
  std::string word_;
  std::vector<Level> levels_;
  bool over_ = false;
  bool sound_ = true;
};

}  // namespace quire
