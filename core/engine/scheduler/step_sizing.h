// How many tokens a step may have, by what steps took lately.
// Sizes the prompt chunks of a step (chunked prefill).
#pragma once

#include <array>
#include <cstdint>

#include "core/base/clock.h"

namespace quire {

// Times of steps by the number of their tokens. What was not seen for a while is forgotten: a prompt that
// grows long makes its steps slower.
class StepTimes {
 public:
  void observe(int32_t num_tokens, Duration took) noexcept;
  // Between two sizes that are known in a straight line, beyond them in proportion; 0 where nothing is known.
  Duration of(int32_t num_tokens) const noexcept;
  // The largest number of tokens that take no longer; at most the limit, and the limit where nothing is
  // known.
  int32_t tokens_within(Duration longest, int32_t limit) const noexcept;
  // The number of tokens, no more than that, whose share beside those of streams is computed fastest. Devices
  // compute in tiles: a token more than a tile holds may take as long as a tile.
  int32_t quickest_within(Duration longest, int32_t limit, int32_t num_streams) const noexcept;

 private:
  static constexpr int kNumSizes = 40;  // two to each power of two, which is the last of its size
  struct Size {
    double tokens = 0.0;  // mean of what was seen; 0: nothing
    double seconds = 0.0;
    uint64_t seen = 0;  // the last time, in steps
  };

  bool is_known(const Size& size) const noexcept;

  std::array<Size, kNumSizes> sizes_;
  uint64_t num_steps_ = 0;
};

// What a step would be made for.
struct StepDemand {
  int32_t num_streams = 0;  // jobs that generate: they get a token each
  int32_t num_prompts = 0;  // jobs that wait for their first token and have or get a place
  int32_t num_breaks = 0;   // places in a step at which another cache may go first
  bool has_neighbours = false;
  Duration neighbours_turn{0};  // the usual one of the quickest cache beside this one; 0: not known
};

struct SizingOptions {
  // How many times longer than a step of the streams alone one may be that also computes prompts: the rhythm
  // that is given up for throughput. 0: any.
  double stretch = 0.0;
  int32_t max_tokens = 1;
};

// Learns from the steps of one cache, and sizes the next. One thread at a time.
class StepSizing {
 public:
  explicit StepSizing(const SizingOptions& options) : options_(options) {}

  void observe(int32_t num_tokens, int32_t num_streams, Duration took) noexcept;
  // Tokens of the next step, those of the streams among them: 1 to max_tokens. Rules:
  // - Beside streams a step takes at most `stretch` times what their own takes.
  // - Where more jobs wait for their first token than generate, prompts catch up until no more than an eighth
  //   as many wait: a step may take kLongestCatchUp, which a reader hardly sees.
  // - Beside another cache it takes so little between two breaks that the quickest one's steps come no later
  //   than `stretch` times its own.
  // - Alone at most a second, so that what comes does not wait long.
  // - Some prompt tokens are always in it.
  int32_t tokens(const StepDemand& demand) noexcept;
  // After how many of its breaks a step of so many tokens has taken long enough for another cache to go
  // first.
  int32_t breaks_of_a_piece(int32_t num_tokens, int32_t num_breaks) const noexcept;

 private:
  const SizingOptions options_;
  StepTimes all_;
  StepTimes of_streams_;  // of steps without a prompt
  bool catches_up_ = false;
};

}  // namespace quire
