// Scores of a text in windows, and the wait for them.
#include "core/engine/requests/scoring.h"

#include <cmath>
#include <vector>

#include "tests/core/engine/requests/request_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/job_tokens.h"

namespace quire::testing {
namespace {

class Scoring : public EngineRequestTest {
 protected:
  std::vector<float> score(const TokenIds& tokens, size_t window_tokens) {
    JobRequest one = request;
    one.prompt = tokens;
    std::vector<float> out(tokens.size());
    score_windows({*engine, one, kPatience}, window_tokens, out);
    return out;
  }
  TokenIds window(size_t start, size_t size) const {
    const auto first = request.prompt.begin() + static_cast<ptrdiff_t>(start);
    return {first, first + static_cast<ptrdiff_t>(std::min(size, request.prompt.size() - start))};
  }

  const JobRequest request = build(greedy(
      "Once upon a time there was a little girl. She had a big red ball, and she played with it all day "
      "long. Then it was dark, and she went home to her mother.",
      1));
};

TEST_F(Scoring, WindowsAreScoredByThemselves) {
  const std::vector<float> scores = score(request.prompt, 5);
  for (size_t start = 0; start < scores.size(); start += 5) {
    const std::vector<float> alone = score(window(start, 5), 5);
    EXPECT_TRUE(std::isnan(scores[start])) << start;
    for (size_t i = 1; i < alone.size(); ++i) EXPECT_EQ(scores[start + i], alone[i]) << start + i;
  }
}

TEST_F(Scoring, ScoresAreTheLogarithmsOfTheSoftmax) {
  const std::vector<float> scores = score(request.prompt, request.prompt.size());
  const auto vocab = static_cast<size_t>(engine->num_tokens());
  score_logits({*engine, request, kPatience}, [&](gsl::span<const float> logits) {
    ASSERT_EQ(logits.size(), scores.size() * vocab);
    for (size_t i = 1; i < scores.size(); ++i) {
      const auto row = logits.subspan((i - 1) * vocab, vocab);
      double sum = 0.0;
      for (const float logit : row) sum += std::exp(double{logit});
      EXPECT_NEAR(scores[i], row[static_cast<size_t>(request.prompt[i])] - std::log(sum), 1e-4) << i;
    }
  });
}

TEST_F(Scoring, EndsWithItsWait) {
  std::vector<float> out(request.prompt.size());
  expect_error(ErrorCode::timeout, {"timeout"}, [&] {
    score_windows({*engine, request, Duration{0}}, out.size(), out);
  });
  const auto cancel = std::make_shared<CancelSwitch>();
  cancel->trigger();
  expect_error(ErrorCode::cancelled, {"cancelled"}, [&] {
    score_windows({*engine, request, Wait{kPatience, cancel}}, 5, out);
  });
}

TEST_F(Scoring, PassesOnTheErrorOfAJob) {
  JobRequest bad = request;
  bad.prompt.back() = engine->num_tokens();
  std::vector<float> out(bad.prompt.size());
  expect_error(ErrorCode::invalid_argument, {"prompt"}, [&] {
    score_windows({*engine, bad, kPatience}, 5, out);
  });
}

}  // namespace
}  // namespace quire::testing
