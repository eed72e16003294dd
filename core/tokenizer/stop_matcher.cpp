#include "core/tokenizer/stop_matcher.h"

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace quire {

StopMatcher::StopMatcher(gsl::span<const std::string> stop_strings) {
  size_t num_bytes = 0;
  for (size_t i = 0; i < stop_strings.size(); ++i) {
    const std::string& text = stop_strings[i];
    if (text.empty()) throw Error(ErrorCode::invalid_argument, "stop string {} is empty", i).at("stop_texts");
    with_parameter("stop_texts", [&] { require_utf8(text, fmt::format("stop string {}", i)); });
    num_bytes += text.size();
  }
  if (num_bytes > kMaxTotalBytes) {
    throw Error(ErrorCode::invalid_argument, "the stop strings have {} bytes, more than {}", num_bytes,
                kMaxTotalBytes)
        .at("stop_texts");
  }
  if (!stop_strings.empty()) automaton_ = std::make_shared<const AhoCorasick>(stop_strings);
}

bool StopMatcher::push(std::string_view text, std::string& out) {
  if (stopped()) return true;
  if (!automaton_) {
    out.append(text);
    return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    state_ = automaton_->step(state_, static_cast<unsigned char>(text[i]));
    const int32_t match = automaton_->match(state_);
    if (match == AhoCorasick::kNone) continue;
    matched_ = static_cast<size_t>(match);
    held_.append(text.substr(0, i + 1));
    held_.resize(held_.size() - automaton_->length(match));
    finish(out);
    return true;
  }
  held_.append(text);
  const size_t num_free = held_.size() - automaton_->depth(state_);
  out.append(held_, 0, num_free);
  held_.erase(0, num_free);
  return false;
}

void StopMatcher::finish(std::string& out) {
  out.append(held_);
  held_.clear();
  state_ = 0;
}

}  // namespace quire
