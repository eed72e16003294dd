// What every grammar goes through before it runs: its regular parts become lexemes, and rules that begin with
// themselves are turned around.
#pragma once

#include "core/constrained/grammar.h"

namespace quire {

// Rules that no text meets are left as they are: ways into them end. ErrorCode::unsupported where a rule
// begins with itself other than directly.
void shape_grammar(Grammar& grammar, LanguageStore& languages);

}  // namespace quire
