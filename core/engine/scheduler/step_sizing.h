// Sizes the prompt chunks of a step (chunked prefill) from the measured times of recent steps.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/clock.h"

namespace quire {

// Step times by number of tokens. Old measurements are forgotten: steps of the same size become slower as a
// prompt grows.
class StepTimes {
 public:
  void observe(int32_t num_tokens, Duration took) noexcept;
  // Returns the expected time: interpolated between two measured sizes, proportional beyond them; 0 if none
  // is known.
  Duration of(int32_t num_tokens) const noexcept;
  // Returns the expected time of a step of num_tokens tokens if one of base_tokens, which are fewer, takes
  // `base`: interpolated between the measured sizes above base_tokens, and beyond them by their slope. `base`
  // if none is known.
  Duration beyond(int32_t base_tokens, Duration base, int32_t num_tokens) const noexcept;
  // Returns whether steps of this size class were measured lately, or of any.
  bool knows(int32_t num_tokens) const noexcept;
  bool knows_any() const noexcept;
  // Returns the number of tokens of the largest size that is known, 0 if none is.
  int32_t largest_known() const noexcept;
  // Returns the largest number of tokens whose step takes at most `longest`; at most `limit`, and `limit` if
  // no time is known.
  int32_t tokens_within(Duration longest, int32_t limit) const noexcept;
  // Returns the number of tokens, at most tokens_within(longest, limit), that yields the most prompt tokens
  // per second. num_streams of the tokens belong to generating jobs. Devices compute in tiles: one token more
  // than a tile may take as long as a whole tile.
  int32_t quickest_within(Duration longest, int32_t limit, int32_t num_streams) const noexcept;

 private:
  // Two for each power of two, which is the last number of its size class.
  static constexpr int kNumSizes = 40;
  struct Size {
    double tokens = 0.0;  // mean of the measured steps; 0: none
    double seconds = 0.0;
    uint64_t seen = 0;  // number of the step that was measured last
  };

  bool is_known(const Size& size) const noexcept;

  std::array<Size, kNumSizes> sizes_;
  uint64_t num_steps_ = 0;
};

// Work that is available for a step.
struct StepDemand {
  int32_t num_streams = 0;  // generating jobs, which compute one token each
  int32_t num_prompts = 0;  // jobs without a first token that run or can be admitted
  int32_t num_breaks = 0;   // points in a step at which another cache may use the device
  bool has_neighbours = false;
  Duration neighbours_turn{0};  // usual turn of the fastest other cache on the device; 0: unknown
};

struct SizingOptions {
  // How many times longer a step with prompts may take than one of the generating jobs alone: latency that is
  // given up for throughput. 0: no limit.
  double stretch = 0.0;
  int32_t max_tokens = 1;
};

// Measures the steps of one engine and sizes the next one. Not thread-safe.
class StepSizing {
 public:
  explicit StepSizing(const SizingOptions& options) : options_(options) {}

  void observe(int32_t num_tokens, int32_t num_streams, Duration took) noexcept;
  // Returns the tokens of the next step, generating jobs included: 1 to max_tokens. Rules:
  // - With generating jobs, a step takes at most `stretch` times as long as a step of those alone.
  // - If more jobs wait for their first token than generate, prompts catch up until at most an eighth as many
  //   wait: a step may take kLongestCatchUp, which a reader hardly notices.
  // - With another cache on the device, the time between two breaks is limited so that steps of the fastest
  //   other cache are delayed to at most `stretch` times their own time.
  // - Otherwise at most a second, so that new jobs do not wait long.
  // - A step always has room for some prompt tokens.
  int32_t tokens(const StepDemand& demand) noexcept;
  // Returns the number of breaks after which a step of num_tokens tokens lets another cache use the device.
  int32_t breaks_of_a_piece(int32_t num_tokens, int32_t num_breaks) const noexcept;

 private:
  const SizingOptions options_;
  StepTimes all_;
  StepTimes generating_only_;  // steps without prompt tokens
  bool catches_up_ = false;
};

}  // namespace quire
