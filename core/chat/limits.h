// Limits of a chat template and of one rendering: plain data, no clock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::chat {

struct TemplateLimits {
  size_t max_source_bytes = size_t{1} << 20;
  uint32_t max_syntax_depth = 100;   // nesting of brackets and blocks
  uint32_t max_syntax_height = 200;  // nesting of expressions, such as the links of a chain
  // A rendering gets `max_...` plus the amount per byte of its input, because a long conversation needs more.
  uint64_t max_steps = 300'000;
  uint64_t steps_per_input_byte = 4;
  uint64_t max_memory_bytes = uint64_t{16} << 20;  // of all values made, including freed ones
  uint64_t memory_bytes_per_input_byte = 64;
  uint64_t max_text_bytes = uint64_t{2} << 20;  // of a single text, and of the rendered text
  uint64_t text_bytes_per_input_byte = 16;
  uint32_t max_depth = 300;  // nesting of statements, expressions, calls and values
};

// The time that strftime_now returns. Years 1 to 9999.
struct LocalTime {
  int32_t year = 1970;
  int32_t month = 1;  // 1 to 12
  int32_t day = 1;
  int32_t hour = 0;
  int32_t minute = 0;
  int32_t second = 0;
};

}  // namespace quire::chat
