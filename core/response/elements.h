// Converts values written as nested elements (XML-like) to JSON.
#pragma once

#include <string>
#include <string_view>

#include "core/response/value_types.h"

namespace quire {

// Each element is OPEN name>...OPEN/name>, where OPEN ends with '<'. If the schema allows neither lists nor
// objects, the text is one plain value.
std::string json_of_elements(std::string_view text, std::string_view open, const SchemaInDocument& schema);

}  // namespace quire
