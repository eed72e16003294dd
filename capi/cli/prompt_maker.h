// Random numbers and prompts for benchmarks, the same in every run.
#pragma once

#include <cstdint>
#include <vector>

#include "capi/cli/failure.h"
#include "capi/cli/session.h"

namespace quire::cli {

// Generator of Steele, Lea, Flood: "Fast splittable pseudorandom number generators" (2014).
class SplitMix {
 public:
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
  }
  // Returns a number in [0, 1).
  double next_unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_ = 0;
};

// Generator of random prompts, which no cached prefix matches.
class PromptMaker {
 public:
  explicit PromptMaker(quire_model* model) {
    const int32_t known = tokenizer_size(model);
    const int32_t size = known > 0 ? known : call(quire_model_vocab_size, model);
    for (int32_t token = 0; token < size; ++token) {
      if (known == 0 || call(quire_model_is_special, model, token) == 0) ordinary_.push_back(token);
    }
    if (ordinary_.empty()) throw Failure(kExitFailed, "bench: the model has no ordinary tokens");
  }

  std::vector<int32_t> make(int32_t num_tokens) {
    std::vector<int32_t> prompt;
    prompt.reserve(static_cast<size_t>(num_tokens));
    for (int32_t idx = 0; idx < num_tokens; ++idx)
      prompt.push_back(ordinary_[random_.next() % ordinary_.size()]);
    return prompt;
  }

 private:
  std::vector<int32_t> ordinary_;
  SplitMix random_;
};

}  // namespace quire::cli
