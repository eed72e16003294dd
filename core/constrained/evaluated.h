// JSON Schema: which members and items count as evaluated for "unevaluatedProperties" and "unevaluatedItems".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/constrained/language_store.h"
#include "core/constrained/schema_document.h"
#include "core/constrained/schema_shape.h"

namespace quire {

// The evaluated members (those with these keys, or all) and leading items (or all) of values that satisfy all
// conditions.
struct Evaluated {
  std::vector<Literal> conditions;
  std::vector<LanguageId> keys;
  uint32_t num_items = 0;
  bool all_keys = false;
  bool all_items = false;
};

// Returns one case for each way to satisfy the branches of a schema; a valid value satisfies the conditions
// of at least one case. Throws ErrorCode::unsupported naming `keyword` if the evaluated members depend on
// single members or items, or if there are too many branches.
std::vector<Evaluated> evaluated_by(SchemaId schema, std::string_view keyword, SchemaDocument& document,
                                    LanguageStore& languages);

}  // namespace quire
