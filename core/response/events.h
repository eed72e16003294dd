// The events that the parts of an answer are read as: text, reasoning and tool calls.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

struct ResponseEvent {
  enum class Kind : uint8_t {
    text = 1,  // the values of QUIRE_RESPONSE_*
    reasoning,
    call_begin,
    arguments,  // a part of the JSON arguments of a call
    call_end,
    markup  // marks and the white space around them
  };
  Kind kind = Kind::text;
  uint32_t call_idx = 0;  // index from 0; for call_begin, arguments and call_end
  std::string text;       // for text, reasoning and arguments
  std::string raw;        // bytes of the answer that the event covers; all of them together are the answer
  std::string name;       // for call_begin and call_end
  std::string id;         // for call_begin and call_end, if known; empty if the dialect has no ids

  bool is_of_call() const {
    return kind == Kind::call_begin || kind == Kind::arguments || kind == Kind::call_end;
  }
};

}  // namespace quire
