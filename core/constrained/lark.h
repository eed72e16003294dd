// Parser for Lark grammars, in the dialect of llguidance and xgrammar.
#pragma once

#include <string_view>

#include "core/constrained/grammar.h"
#include "core/constrained/token_trie.h"

namespace quire {

// The start rule is named "start". Supports %ignore, %regex with substrings, %json, %import of Lark's common
// terminals, and %grammar {"gbnf": TEXT} or {"lark": TEXT}, a whole other grammar. Other statements are
// ErrorCode::unsupported, which names them.
Grammar parse_lark(std::string_view source, LanguageStore& languages, const TokenVocabulary& vocabulary);

}  // namespace quire
