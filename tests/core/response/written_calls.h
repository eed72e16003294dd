// Calls as a dialect writes them, for tests.
#pragma once

#include <string>

#include "core/response/dialect.h"

namespace quire {

// A call of a tool in two parts: the JSON of its arguments comes between them.
struct WrittenCall {
  std::string before;
  std::string after;
};

// Returns whether the first form of the dialect's calls has JSON arguments.
bool writes_json(const Dialect& dialect);
// Returns a call in the first form of a dialect with JSON arguments.
WrittenCall write_json_call(const Dialect& dialect, const std::string& name);
// Returns an argument with its marks, for a dialect with marks around each argument.
std::string write_parameter(const Dialect& dialect, const std::string& key, const std::string& value,
                            bool is_string);
// Returns the call around such arguments.
WrittenCall write_parameter_call(const Dialect& dialect, const std::string& name);

}  // namespace quire
