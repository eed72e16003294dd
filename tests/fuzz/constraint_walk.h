// Checks a fuzzed constraint: compiles it, and follows a text through it.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/constrained/constraint.h"

namespace quire::fuzz {

// Compiles `source` and draws up to eight tokens from its masks, the same for the same source. Aborts if a
// mask and the step after it disagree, or if a refusal has no message. Throws nothing.
void walk_constraint(ConstraintKind kind, std::string_view source) noexcept;

// Aborts unless the message of a refusal is one line of text.
void check_refusal(const Error& error);

// Calls `make`, which returns the source of a constraint in Lark notation, and walks through the result. An
// Error of `make` is checked like one of the compiler.
template <typename Make>
void walk_grammar(const Make& make) noexcept {
  std::string source;
  try {
    source = make();
  } catch (const Error& error) {
    check_refusal(error);
    return;
  }
  walk_constraint(ConstraintKind::lark, source);
}

}  // namespace quire::fuzz
