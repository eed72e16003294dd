// Python string formatting: the % operator and str.format.
#pragma once

#include "core/chat/objects.h"

namespace quire::chat {

// Evaluates `format` % `values`; values is a tuple, a dict or one value.
Value format_percent(Machine& machine, const Value& format, const Value& values);
// Evaluates format.format(*arguments, **arguments); fields look up attributes and items as a template does.
Value format_braces(Machine& machine, const Value& format, const Arguments& arguments);

}  // namespace quire::chat
