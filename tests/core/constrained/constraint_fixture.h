// Vocabularies for tests of constraints, and what a constraint says of a whole text.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/constrained/constraint.h"
#include "tests/support/json_text.h"

namespace quire {

using testing::Json;

// Ids 0 to 255 are single bytes; then come words that cross the borders of JSON's lexemes, and last the
// special tokens <eos> and <think>.
std::shared_ptr<const TokenVocabulary> small_vocabulary();

std::shared_ptr<const Constraint> compile(ConstraintKind kind, std::string_view source);

// Whether all of the text is let through and may end there.
bool accepts(const std::shared_ptr<const Constraint>& constraint, std::string_view text);
// The same token by token: the longest tokens of the vocabulary first, each looked up in its mask.
bool accepts_tokens(const std::shared_ptr<const Constraint>& constraint, std::string_view text);

// A JSON value as other printers leave it: ", " and ": ".
std::string spaced(const Json& value);

Json read_json_file(const std::string& path);

}  // namespace quire
