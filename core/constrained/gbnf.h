// llama.cpp's grammar notation. Also read: xgrammar's dialect of it, without lookahead and macros.
#pragma once

#include <string_view>

#include "core/constrained/grammar.h"
#include "core/constrained/token_trie.h"

namespace quire {

// The root is the rule named so. Tokens: <name>, <[id]>, and !<...> for all others.
Grammar parse_gbnf(std::string_view source, LanguageStore& languages, const TokenVocabulary& vocabulary);

}  // namespace quire
