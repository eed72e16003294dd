// What the bytes of an answer are.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

struct ResponseEvent {
  enum class Kind : uint8_t {
    text = 1,  // the values of QUIRE_RESPONSE_*
    reasoning,
    call_begin,
    arguments,  // a piece of the JSON of a call's arguments
    call_end,
    markup  // marks, and the white space that belongs to them
  };
  Kind kind = Kind::text;
  uint32_t call_idx = 0;  // of call_begin, arguments and call_end, counted from 0
  std::string text;       // of text, reasoning and arguments
  std::string raw;   // the bytes of the answer that it covers; joined, those of all events are the answer
  std::string name;  // of call_begin and call_end
  std::string id;    // likewise, as far as known; empty: the dialect has none

  bool is_of_call() const {
    return kind == Kind::call_begin || kind == Kind::arguments || kind == Kind::call_end;
  }
};

}  // namespace quire
