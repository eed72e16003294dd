#include "core/engine/model/draft_scoring.h"

#include "core/base/deadline.h"
#include "core/base/error.h"

namespace quire {
namespace {

// A wait that goes on over several steps.
class WaitInSteps {
 public:
  WaitInSteps(const Clock& clock, const Wait& wait)
      : clock_(clock), wait_(wait), deadline_(deadline_after(clock.now(), wait.timeout)) {}

  Wait rest() const { return {deadline_ - clock_.now(), wait_.cancel}; }
  // Throws if the wait has ended.
  void check() const {
    if (wait_.cancelled()) throw Error(ErrorCode::cancelled, "the draft logits were cancelled");
    if (clock_.now() >= deadline_)
      throw Error(ErrorCode::timeout, "the draft logits were not ready in time; give them a longer timeout");
  }

 private:
  const Clock& clock_;
  const Wait& wait_;
  const TimePoint deadline_;
};

}  // namespace

DraftScoresShape draft_scores_shape(const Model& model, gsl::span<const TokenId> tokens) {
  const std::shared_ptr<const Transformer> transformer = model.transformer();
  const auto context = static_cast<size_t>(model.config().max_positions);
  if (transformer->drafter != nullptr && tokens.size() > context)
    throw Error(ErrorCode::invalid_argument,
                "tokens: {} are given, but the context of the model is {}; give fewer", tokens.size(),
                context)
        .at("tokens");
  return draft_scores_shape(*transformer, tokens);
}

DraftScores score_drafter(const Runtime& runtime, const ResidentModel& of, gsl::span<const TokenId> tokens,
                          const Wait& wait) {
  draft_scores_shape(*of.model(), tokens);
  const WaitInSteps steps(runtime.clock(), wait);
  for (;;) {  // the weights may leave between a wake and the guard
    steps.check();
    of.residency().wake(steps.rest());
    const ResidencyGuard stay(of.shared_residency());
    if (stay.holds()) return score_drafter(of.model()->weights(), tokens, [&steps] { steps.check(); });
  }
}

}  // namespace quire
