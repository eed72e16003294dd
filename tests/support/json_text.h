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

}  // namespace quire::testing
