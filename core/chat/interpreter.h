// Interpreter: renders a chat template by walking its syntax tree.
#pragma once

#include <utility>
#include <vector>

#include "core/chat/machine.h"
#include "core/chat/syntax.h"

namespace quire::chat {

// A part of the rendered text, in characters.
struct CharRange {
  size_t begin = 0;
  size_t end = 0;
};

struct RenderedText {
  Text text;
  std::vector<CharRange> generated;  // the contents of generation blocks
};

// Renders the template. `inputs` are the variables that the template sees in addition to the global
// functions.
RenderedText interpret(Machine& machine, const Syntax& syntax, const Dict& inputs);

}  // namespace quire::chat
