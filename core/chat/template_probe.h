// Finds out which form of a conversation a template needs, by rendering small conversations.
#pragma once

#include "core/chat/adaptation.h"
#include "core/chat/limits.h"
#include "core/chat/syntax.h"

namespace quire::chat {

// Each question of a table (template_questions.h) is a conversation with marks. If the template renders it
// with all marks, it needs no adaptation. Otherwise the first choice of adaptations that helps is taken; if
// none does, the conversation stays as it is, and the template's own error is reported when it is rendered.
// All renderings together have as many steps as a few renderings of a request; questions for which none are
// left need no adaptation.
Adaptations probe_template(const Syntax& syntax, const TemplateLimits& limits);

}  // namespace quire::chat
