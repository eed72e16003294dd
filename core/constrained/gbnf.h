// Parser for GBNF, llama.cpp's grammar notation. Also reads xgrammar's dialect (EBNF), without lookahead and
// macros.
#pragma once

#include <string_view>

#include "core/constrained/grammar.h"
#include "core/constrained/token_trie.h"

namespace quire {

// The start rule is named "root". Special tokens: <name>, <[id]>, and !<...> for all other tokens.
Grammar parse_gbnf(std::string_view source, LanguageStore& languages, const TokenVocabulary& vocabulary);

}  // namespace quire
