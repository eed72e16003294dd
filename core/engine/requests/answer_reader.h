// Parsing of answers: the dialect they are written in, the parser, and the limit for reasoning.
#pragma once

#include <memory>
#include <string_view>

#include "core/constrained/constraint.h"
#include "core/engine/model/model_loader.h"
#include "core/engine/requests/conversation_renderer.h"
#include "core/engine/requests/request_spec.h"
#include "core/response/dialect.h"
#include "core/response/response_grammar.h"
#include "core/response/response_parser.h"
#include "core/tokenizer/tokenizer.h"

namespace quire {

// Detects the dialect from the template that renders tools. If that has no marks, or there is no template,
// detects it from the special tokens of the vocabulary. Either argument may be null.
const Dialect& detect_dialect(const ChatTemplates* chat, const Tokenizer* tokenizer);
// Detects the dialect of a model from its own template and tokenizer.
const Dialect& dialect_of(const LoadedModel& model);

// Compiles the grammar of an answer. Rules that were compiled before come from the model's cache.
std::shared_ptr<const Constraint> compile_rules(const LoadedModel& model, const ResponseRules& rules,
                                                const JsonForm& form);

// Throws ErrorCode::invalid_argument naming a setting that needs a dialect.
void refuse_unread(const ResponseSettings& response);

// Returns the parser of the request's answers, in its state after the prompt. `words`: text of the prompt.
std::shared_ptr<const ResponseParser> make_reader(const RequestSpec& spec, const LoadedModel& model,
                                                  std::string_view words);

// Wraps a ReasoningBudget of `max_tokens` around the constraint of the job. Does nothing for a negative limit
// or a dialect without reasoning.
void limit_reasoning(const LoadedModel& model, int32_t max_tokens, JobRequest& job);

}  // namespace quire
