// Runs a syntax tree over values.
#pragma once

#include <utility>
#include <vector>

#include "core/chat/machine.h"
#include "core/chat/syntax.h"

namespace quire::chat {

// A part of what was rendered, by characters.
struct CharRange {
  size_t begin = 0;
  size_t end = 0;
};

struct RenderedText {
  Text text;
  std::vector<CharRange> generated;  // what stands in generation blocks
};

// `inputs`: the variables that the template sees beside the functions that all have.
RenderedText interpret(Machine& machine, const Syntax& syntax, const Dict& inputs);

}  // namespace quire::chat
