// Parser of chat templates: tokens to a syntax tree.
#pragma once

#include <string_view>

#include "core/chat/limits.h"
#include "core/chat/syntax.h"

namespace quire::chat {

// Throws TemplateError (syntax). Variables have no slots yet; resolve_names assigns them.
Syntax parse_template(std::string_view source, const TemplateLimits& limits);

}  // namespace quire::chat
