// Sources of constraints made into grammars.
#pragma once

#include <string_view>

#include "core/constrained/constraint.h"
#include "core/constrained/grammar.h"

namespace quire {

// See Constraint::compile for errors.
Grammar parse_source(ConstraintKind kind, std::string_view source, LanguageStore& languages,
                     const TokenVocabulary& vocabulary);

}  // namespace quire
