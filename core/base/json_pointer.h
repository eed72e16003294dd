// JSON pointers (RFC 6901) in the fragments of references, such as "#/properties/a".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace quire {

// Decodes the %XX of a URI.
std::string percent_decoded(std::string_view text);
// Returns the parts of a pointer without %XX.
std::vector<std::string> pointer_parts(std::string_view pointer);
// Returns the member or the item that a part of a pointer names; null if there is none.
const JsonValue* step_into(const JsonValue& value, const std::string& part);
// Returns the value that a reference names: "#" or "#" and a pointer. Null for any other reference and if
// there is no value.
const JsonValue* find_at(const JsonValue& document, std::string_view reference);
// Spells a key as a part of a reference.
std::string pointer_part(std::string_view key);

}  // namespace quire
