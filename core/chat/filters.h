// The tables of template filters, one for each kind of value.
#pragma once

#include <string_view>

#include "core/chat/objects.h"

namespace quire::chat {

Builtin find_text_filter(std::string_view name);
Builtin find_number_filter(std::string_view name);
Builtin find_sequence_filter(std::string_view name);

}  // namespace quire::chat
