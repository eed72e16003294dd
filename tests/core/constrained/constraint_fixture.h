// Vocabularies for tests of constraints, and checks of whole texts.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/constrained/constraint.h"
#include "tests/support/json_text.h"

namespace quire {

using testing::Json;

// Ids 0 to 255 are single bytes. Then come words that cross JSON lexemes, and last the special tokens <eos>
// and <think>.
std::shared_ptr<const TokenVocabulary> small_vocabulary();

std::shared_ptr<const Constraint> compile(ConstraintKind kind, std::string_view source);

// Returns whether the constraint accepts the whole text and allows it to end.
bool accepts(const std::shared_ptr<const Constraint>& constraint, std::string_view text);
// Same check token by token: takes the longest tokens of the vocabulary and tests each against its mask.
bool accepts_tokens(const std::shared_ptr<const Constraint>& constraint, std::string_view text);

// Prints a JSON value as other printers do: with ", " and ": ".
std::string spaced(const Json& value);

Json read_json_file(const std::string& path);

}  // namespace quire
