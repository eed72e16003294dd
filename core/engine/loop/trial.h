// Trial acceptance of tokens: sampler and constraint of a job as they would be after them.
#pragma once

#include "core/engine/jobs/job_record.h"

namespace quire {

// Accepts tokens in the sampler and the matcher, and rolls them back in its destructor. Allocates nothing:
// memory for the tokens of a job was reserved at submission.
class Trial {
 public:
  explicit Trial(JobRecord& job) : job_(job) {}
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial() {
    job_.sampler.rewind(static_cast<uint64_t>(num_tokens_));
    if (job_.matcher != nullptr && num_tokens_ > 0) job_.matcher->rollback(num_tokens_);
  }
  // `probability`: with which the token was drawn. Returns false and changes nothing if the constraint does
  // not allow the token.
  bool accept(TokenId token, float probability) {
    if (job_.matcher != nullptr && !job_.matcher->accept(token)) return false;
    job_.sampler.accept(token, probability);
    ++num_tokens_;
    return true;
  }
  int32_t num_tokens() const { return num_tokens_; }

 private:
  JobRecord& job_;
  int32_t num_tokens_ = 0;
};

}  // namespace quire
