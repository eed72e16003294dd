// Which dialect answers are written in.
#pragma once

#include <memory>

#include "capi/src/chat_render.h"
#include "capi/src/model_object.h"
#include "core/constrained/constraint.h"
#include "core/response/dialect.h"
#include "core/response/response_grammar.h"
#include "core/tokenizer/tokenizer.h"

namespace quire::capi {

// The constraint that an answer by these rules keeps to. The same rules for a model are compiled once.
std::shared_ptr<const Constraint> compile_rules(const ModelShare& model, const ResponseRules& rules);

// What the template for tools tells; where that says nothing, or there is no template, what the special
// tokens of the vocabulary tell. Either may be null.
const Dialect& detect_dialect(const ChatShare* chat, const Tokenizer* tokenizer);
// Of a model with its own template.
const Dialect& dialect_of(const ModelShare& model);

}  // namespace quire::capi
