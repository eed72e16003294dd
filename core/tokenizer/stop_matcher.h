// Finds stop strings (stop sequences) in generated text, and outputs only text that cannot be part of one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "core/tokenizer/aho_corasick.h"

namespace quire {

// The match that ends first wins, regardless of the order of the list and of how the text is split; of
// several that end together, the longest. Holds back the longest suffix of the text that begins a stop
// string: at most one byte less than the longest stop string. A value: copies continue from the same state
// and share the automaton. One thread at a time.
class StopMatcher {
 public:
  static constexpr size_t kMaxTotalBytes = size_t{1} << 20;

  // Without stop strings, all text passes.
  StopMatcher() = default;
  // Throws ErrorCode::invalid_argument for an empty stop string or too many bytes in total, and
  // ErrorCode::encoding for one that is not UTF-8.
  explicit StopMatcher(gsl::span<const std::string> stop_strings);

  // Reads `text` and appends to `out` all text that is certain. Returns true once a stop string is complete:
  // the text from its beginning on is dropped, and nothing more is output.
  bool push(std::string_view text, std::string& out);
  // Ends the text: outputs the held text.
  void finish(std::string& out);

  bool stopped() const { return matched_.has_value(); }
  // Returns the index of the stop string that was found.
  std::optional<size_t> matched() const { return matched_; }
  size_t num_held_bytes() const { return held_.size(); }

 private:
  std::shared_ptr<const AhoCorasick> automaton_;  // null if there are no stop strings
  int32_t state_ = 0;
  std::string held_;  // the last depth(state_) bytes
  std::optional<size_t> matched_;
};

}  // namespace quire
