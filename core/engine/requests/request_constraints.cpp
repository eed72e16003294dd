#include "core/engine/requests/request_constraints.h"

#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/engine/model/compiled_constraint.h"
#include "core/engine/model/healing_constraint.h"
#include "core/engine/requests/answer_reader.h"

namespace quire {
namespace {

std::shared_ptr<const Constraint> in_form(const LoadedModel& model,
                                          const std::shared_ptr<const Constraint>& constraint,
                                          const JsonForm& form) {
  if (constraint->form() == form) return constraint;
  return model.constraints->get(*model.model, constraint->kind(), constraint->source(), form);
}

}  // namespace

std::shared_ptr<const TokenConstraint> make_constraint(const LoadedModel& model,
                                                       const ConstraintChoice& choice, const JsonForm& form,
                                                       const ResponseParser* reader) {
  if (choice.constraint == nullptr) return nullptr;
  if (!model.constraints->suit(*model.model, *choice.constraint)) {
    throw Error(ErrorCode::invalid_argument,
                "constraint: it was compiled for the vocabulary of {}, which differs from that of {}; "
                "compile it with this model",
                printable(choice.model_path, 4096), printable(model.model->path(), 4096))
        .at("constraint");
  }
  if (choice.rules == nullptr || reader == nullptr || reader->reasoning() == ReasoningStart::closed) {
    return std::make_shared<CompiledConstraint>(
        replace_parameter("constraint", [&] { return in_form(model, choice.constraint, form); }));
  }
  ResponseRules rules = *choice.rules;
  rules.reasoning = reader->reasoning();
  return replace_parameter(
      "constraint", [&] { return std::make_shared<CompiledConstraint>(compile_rules(model, rules, form)); });
}

void heal_prompt(const LoadedModel& model, JobRequest& job) {
  if (job.constraint != nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "heal_prompt: cannot be combined with a constraint or a reasoning_budget; unset one of them")
        .at("heal_prompt");
  }
  if (job.prompt.size() < 2) return;
  const std::shared_ptr<const TokenVocabulary> vocabulary = model.constraints->vocabulary(*model.model);
  const TokenId last = job.prompt.back();
  if (!vocabulary->is_text(last)) return;
  job.constraint = std::make_shared<HealingConstraint>(vocabulary, std::string(vocabulary->bytes(last)));
  job.healed_token = last;
  job.prompt.pop_back();
}

}  // namespace quire
