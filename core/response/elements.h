// Values written as elements within elements, made into JSON.
#pragma once

#include <string>
#include <string_view>

#include "core/base/json.h"

namespace quire {

// `open` begins each element: OPEN name>...OPEN/name>, where OPEN ends with '<'. Where the schema (null: not
// known) allows neither lists nor objects, the text is a value as it stands.
std::string json_of_elements(std::string_view text, std::string_view open, const JsonValue* schema);

}  // namespace quire
