// What a job must say: found by running it alone, token by token, through the same sampler.
#pragma once

#include <string>
#include <vector>

#include "core/engine/jobs/job_request.h"
#include "core/sampling/sampler.h"

namespace quire::testing {

// Tokens with which something goes wrong; -1 is none.
struct SpecialTokens {
  TokenId poison = -1;  // a sequence that holds it has NaN in every row behind it
  TokenId curse = -1;   // the device fails whenever it computes it
  TokenId broken = -1;  // its text cannot be made
  ErrorCode curse_code = ErrorCode::out_of_memory;
};

// How a job ends where nothing comes between.
struct Expectation {
  TokenIds tokens;  // new ones, as far as it gets
  std::vector<float> log_probs;
  std::string text;  // of the tokens, less the stop cut
  FinishReason reason = FinishReason::unfinished;
  // With FinishReason::failed: any of these. Else what a rewind brings to light: a token that can not be
  // computed, where the tokens forced after it brought the job to its end.
  std::vector<ErrorCode> errors;

  bool may_fail_with(ErrorCode code) const;
};

class Oracle {
 public:
  Oracle(int32_t vocab_size, int32_t max_seq_len, TokenIds end_tokens, SpecialTokens special);

  // What a fork takes over: text that was held back because it may begin a stop string, and the tokens at the
  // end of the prompt that its constraint knows.
  Expectation expect(const JobRequest& request, std::string held_text = {}, int32_t num_said = 0);
  // The end of `text` that may begin a stop string.
  static std::string held_back(const std::string& text, const std::vector<std::string>& stops);
  // Log-probabilities of the prompt.
  std::vector<float> scores(const TokenIds& prompt) const;

  const SpecialTokens& special() const { return special_; }

 private:
  // After `tokens`, mixed with those after `guide` where that is not empty.
  void compute_logits(const TokenIds& tokens, const TokenIds& guide, float scale,
                      std::vector<float>& logits) const;
  void generate(const JobRequest& request, int32_t num_said, Expectation& expected);
  bool ends_by_force(const JobRequest& request, const TokenIds& stops, TokenMatcher* matcher,
                     Expectation& expected) const;
  bool take(const JobRequest& request, const TokenIds& stops, const SampledToken& sampled,
            Expectation& expected) const;
  void fail(Expectation& expected, std::vector<ErrorCode> codes) const;

  int32_t vocab_size_;
  int32_t max_seq_len_;
  TokenIds end_tokens_;
  SpecialTokens special_;
  Sampler sampler_;
};

}  // namespace quire::testing
