// Normalizes a grammar before it runs: regular parts become lexemes, and direct left recursion is removed.
#pragma once

#include "core/constrained/grammar.h"

namespace quire {

// Rules that match no text are kept; paths into them end there. Throws ErrorCode::unsupported for indirect
// left recursion.
void normalize_grammar(Grammar& grammar, LanguageStore& languages);

}  // namespace quire
