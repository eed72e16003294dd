// Lark's notation in the dialect that llguidance and xgrammar read.
#pragma once

#include <string_view>

#include "core/constrained/grammar.h"
#include "core/constrained/token_trie.h"

namespace quire {

// The root is the rule "start". %ignore, %regex of substring, %json and %import of Lark's common terminals
// are read, and %grammar {"gbnf": TEXT} or {"lark": TEXT}, another grammar as a whole; other statements are
// ErrorCode::unsupported, named.
Grammar parse_lark(std::string_view source, LanguageStore& languages, const TokenVocabulary& vocabulary);

}  // namespace quire
