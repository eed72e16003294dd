// strftime in the C locale, without a time zone.
#pragma once

#include <string>
#include <string_view>

#include "core/chat/limits.h"

namespace quire::chat {

std::string time_text(const LocalTime& time, std::string_view format);
// Parses "2025-07-26" or "2025-07-26T14:05:09"; a space may replace the T. Throws
// ErrorCode::invalid_argument, naming `what`.
LocalTime parse_time(std::string_view text, std::string_view what);

}  // namespace quire::chat
