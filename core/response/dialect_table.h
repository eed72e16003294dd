// The table of known dialects.
#pragma once

#include <string_view>

#include <gsl/gsl>

#include "core/response/dialect.h"

namespace quire {

// Stands for the dialect of the model.
constexpr std::string_view kAutoDialect = "auto";

// Returns all dialects, in the order in which detect_dialect tries them.
gsl::span<const Dialect* const> all_dialects();
// Throws ErrorCode::not_found with the available names.
const Dialect& find_dialect(std::string_view name);
// Returns the dialect whose marks the source of a chat template contains; if there is none, the dialect
// without calls.
const Dialect& detect_dialect(std::string_view template_source);

}  // namespace quire
