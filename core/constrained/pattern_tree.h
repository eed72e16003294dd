// Syntax tree of a pattern.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/constrained/char_set.h"
#include "core/constrained/pattern.h"

namespace quire {

struct PatternNode {
  enum class Kind { chars, sequence, choice, repeat, lookahead, start, end };
  Kind kind = Kind::sequence;
  CharSet set;
  std::vector<PatternNode> parts;
  uint32_t min = 0;
  uint32_t max = 0;
  bool negative = false;  // of a lookahead
};

// Reads a pattern. Throws an Error with ErrorCode::format if it is malformed, unsupported if it uses a
// feature that is not, and capacity if it exceeds a limit.
PatternNode read_pattern(std::string_view text, const PatternOptions& options);

}  // namespace quire
