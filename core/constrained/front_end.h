// Parses the sources of constraints (JSON Schema, regular expressions, GBNF, Lark) into grammars.
#pragma once

#include <string_view>

#include "core/constrained/constraint.h"
#include "core/constrained/grammar.h"

namespace quire {

// Throws the errors documented at Constraint::compile.
Grammar parse_source(ConstraintKind kind, std::string_view source, LanguageStore& languages,
                     const TokenVocabulary& vocabulary);

}  // namespace quire
