// The dialects that are known.
#pragma once

#include <string_view>

#include <gsl/gsl>

#include "core/response/dialect.h"

namespace quire {

// Not the name of one: that of the model's own.
constexpr std::string_view kAutoDialect = "auto";

// In the order in which templates are compared with them.
gsl::span<const Dialect* const> all_dialects();
// ErrorCode::not_found, with the names there are.
const Dialect& find_dialect(std::string_view name);
// The dialect whose marks the source of a chat template has; the one without calls where it has none.
const Dialect& detect_dialect(std::string_view template_source);

}  // namespace quire
