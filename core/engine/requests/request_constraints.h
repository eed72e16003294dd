// Constraints on the new tokens of a request: a compiled constraint, or the healing of its prompt.
#pragma once

#include <memory>

#include "core/engine/jobs/job_request.h"
#include "core/engine/model/model_loader.h"
#include "core/engine/requests/request_spec.h"
#include "core/response/response_parser.h"
#include "core/step/token_matcher.h"

namespace quire {

// Returns the constraint of a request, with JSON in the given form, or null if it has none. If its rules do
// not fix how reasoning begins, that is decided by `reader`, which may be null. Throws
// ErrorCode::invalid_argument if the constraint is for another vocabulary.
std::shared_ptr<const TokenConstraint> make_constraint(const LoadedModel& model,
                                                       const ConstraintChoice& choice, const JsonForm& form,
                                                       const ResponseParser* reader);

// Removes the last token from the prompt and constrains the new tokens to begin with its text. Does nothing
// if the token has no text or is the only one. Throws ErrorCode::invalid_argument if the job has a
// constraint.
void heal_prompt(const LoadedModel& model, JobRequest& job);

}  // namespace quire
