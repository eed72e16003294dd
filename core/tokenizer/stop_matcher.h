// Looks for stop strings in text as it is generated, and lets out only what cannot be part of one.
// Stop strings are also called stop sequences.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "core/tokenizer/aho_corasick.h"

namespace quire {

// The match that ends first wins, whatever the order of the list and however the text is cut; of several that
// end together, the longest. Held back is the longest end of the text that begins a stop string: at most the
// longest stop string's bytes less one. A value: copies go on from the same place and share the automaton.
// One thread at a time.
class StopMatcher {
 public:
  static constexpr size_t kMaxTotalBytes = size_t{1} << 20;

  // Nothing to stop at: all text passes.
  StopMatcher() = default;
  // ErrorCode::invalid_argument for an empty stop string or too many bytes of them, ErrorCode::encoding for
  // one that is not UTF-8.
  explicit StopMatcher(gsl::span<const std::string> stop_strings);

  // Appends to `out` what may be let out now that `text` has come. True once a stop string is complete: what
  // comes after its beginning is dropped, and nothing more is let out.
  bool push(std::string_view text, std::string& out);
  // No more text comes: lets out what is held.
  void finish(std::string& out);

  bool stopped() const { return matched_.has_value(); }
  // The stop string that was found, by its place in the list.
  std::optional<size_t> matched() const { return matched_; }
  size_t num_held_bytes() const { return held_.size(); }

 private:
  std::shared_ptr<const AhoCorasick> automaton_;  // null where there is nothing to stop at
  int32_t state_ = 0;
  std::string held_;  // the last depth(state_) bytes
  std::optional<size_t> matched_;
};

}  // namespace quire
