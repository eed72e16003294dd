// Oracle: the expected output of a job, computed by running it alone, token by token, with the same sampler.
#pragma once

#include <string>
#include <vector>

#include "core/engine/jobs/job_request.h"
#include "core/sampling/sampler.h"

namespace quire::testing {

// Tokens that cause faults; -1: none.
struct SpecialTokens {
  TokenId poison = -1;        // a sequence with this token has NaN in every later row
  TokenId faulty_token = -1;  // the device fails whenever it computes this token
  TokenId broken = -1;        // decoding this token to text throws
  ErrorCode faulty_token_code = ErrorCode::out_of_memory;
};

// Expected end of a job that is not disturbed.
struct Expectation {
  TokenIds tokens;  // new tokens up to the end
  std::vector<float> log_probs;
  std::string text;  // of the tokens, without the stop string
  FinishReason reason = FinishReason::unfinished;
  // With FinishReason::failed: any of these. Otherwise errors that only a rewind reveals: if forced tokens
  // end the job, a faulty token before them is not computed until the job is rewound.
  std::vector<ErrorCode> errors;

  bool may_fail_with(ErrorCode code) const;
};

class Oracle {
 public:
  Oracle(int32_t vocab_size, int32_t max_seq_len, TokenIds end_tokens, SpecialTokens special);

  // Returns the expected output. For a fork, `held_text` is text that was held back because it may begin a
  // stop string, and num_said is the number of tokens at the end of the prompt that its constraint has
  // already accepted.
  Expectation expect(const JobRequest& request, std::string held_text = {}, int32_t num_said = 0);
  // Returns the end of `text` that may begin a stop string.
  static std::string deferred(const std::string& text, const std::vector<std::string>& stops);
  // Returns the log-probabilities of the prompt.
  std::vector<float> scores(const TokenIds& prompt) const;

  const SpecialTokens& special() const { return special_; }

 private:
  // Computes the logits after `tokens`, mixed with those after `guide` if it is not empty.
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
