// Values and words as a grammar's source has them.
#pragma once

#include <string>
#include <string_view>

#include "core/base/json.h"

namespace quire {

// As it was parsed, in one line.
std::string json_text(const JsonValue& value);
// In quotes.
std::string lark_text(std::string_view text);
// A pattern between slashes, whose own slashes are escaped.
std::string lark_pattern(std::string_view pattern);
// A pattern that is the text alone.
std::string pattern_of_text(std::string_view text);

}  // namespace quire
