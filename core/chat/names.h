// Gives every variable of a template its place, by the rules of Jinja: which scopes a `set` changes, and what
// a name means that is set later, in a branch, or outside.
#pragma once

#include "core/chat/syntax.h"

namespace quire::chat {

// Throws TemplateError (syntax) for a loop that sets `loop`, and for filters and tests that do not exist
// where they would be used in any case.
void resolve_names(Syntax& syntax);

}  // namespace quire::chat
