// JSON that a test puts together, bends, and gives to the code under test as text.
#pragma once

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/json.h"

namespace quire::testing {

using Json = nlohmann::ordered_json;

// What the code under test reads in place of a file.
inline JsonValue parsed(const Json& json) {
  return parse_json(json.dump(), "test");
}

// As Python's json.dumps does.
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
