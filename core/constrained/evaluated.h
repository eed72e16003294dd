// What the keywords beside "unevaluatedProperties" and "unevaluatedItems" have looked at.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/constrained/language_store.h"
#include "core/constrained/schema_document.h"
#include "core/constrained/schema_shape.h"

namespace quire {

// Of values that meet all conditions: members with these keys and the first items, or all of them.
struct Evaluated {
  std::vector<Literal> conditions;
  std::vector<LanguageId> keys;
  uint32_t num_items = 0;
  bool all_keys = false;
  bool all_items = false;
};

// One for each way in which the branches of a schema can be met; a value that meets the schema meets the
// conditions of one of them at least. ErrorCode::unsupported, naming `keyword`, where what is evaluated
// depends on single members or items, or on too many branches.
std::vector<Evaluated> evaluated_by(SchemaId schema, std::string_view keyword, SchemaDocument& document,
                                    LanguageStore& languages);

}  // namespace quire
