// JSON that a test builds, modifies, and passes as text to the code under test.
#pragma once

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/json.h"

namespace quire::testing {

using Json = nlohmann::ordered_json;

// Returns the value as the code under test parses it from a file.
inline JsonValue parsed(const Json& json) {
  return parse_json(json.dump(), "test");
}

// Formats JSON like Python's json.dumps.
inline std::string as_python_prints(const Json& value) {
  if (!value.is_structured()) return value.dump(-1, ' ', true);
  std::string out;
  for (const auto& [key, member] : value.items()) {
    out += out.empty() ? "" : ", ";
    if (value.is_object()) out += Json(key).dump(-1, ' ', true) + ": ";
    out += as_python_prints(member);
  }
  return value.is_object() ? "{" + out + "}" : "[" + out + "]";
}

}  // namespace quire::testing
