// Name resolution: assigns a slot to every variable of a template by the rules of Jinja. The rules define
// which scopes a `set` changes, and the value of a name that is set later, in a branch, or outside.
#pragma once

#include "core/chat/syntax.h"

namespace quire::chat {

// Throws TemplateError (syntax) if a loop sets `loop`, and if a filter or test does not exist and is not
// inside a branch.
void resolve_names(Syntax& syntax);

}  // namespace quire::chat
