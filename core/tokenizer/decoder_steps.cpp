#include "core/tokenizer/decoder_steps.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/byte_fallback.h"

namespace quire {
namespace {

std::string replaced(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  size_t copied = 0;
  for (size_t at = text.find(pattern); at != std::string_view::npos; at = text.find(pattern, copied)) {
    out.append(text.substr(copied, at - copied)).append(content);
    copied = at + pattern.size();
  }
  out.append(text.substr(copied));
  return out;
}

// Returns how many bytes at the end of `text` could begin `pattern`; fewer than its length.
size_t num_begun(std::string_view text, std::string_view pattern) {
  for (size_t length = std::min(text.size(), pattern.size() - 1); length > 0; --length) {
    if (text.ends_with(pattern.substr(0, length))) return length;
  }
  return 0;
}

// Removes the spaces before English punctuation and contractions.
std::string cleaned_up(std::string text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules = {
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [pattern, content] : kRules) {
    if (text.find(pattern) != std::string::npos) text = replaced(text, pattern, content);
  }
  return text;
}

void give(std::string_view text, TextSink& next) {
  if (!text.empty()) next.text(text);
}

}  // namespace

void ByteLevelStep::push(std::string_view text, DecodeStepState& state, TextSink& next) const {
  std::string token(text);
  apply_inside(token);
  std::string out;
  state.utf8.push(token, out);
  give(out, next);
}

void ByteLevelStep::finish(DecodeStepState& state, TextSink& next) const {
  std::string out;
  if (state.utf8.finish(out)) next.text(out);
}

void ByteLevelStep::apply_inside(std::string& token) const {
  if (auto bytes = spelled_bytes(token)) token = std::move(*bytes);
}

void ByteFallbackStep::push(std::string_view text, DecodeStepState& state, TextSink& next) const {
  const auto byte = fallback_byte(text);
  if (!byte) {
    finish(state, next);
    next.text(text);
    return;
  }
  std::string out;
  state.utf8.push_each(static_cast<char>(*byte), out);
  give(out, next);
}

void ByteFallbackStep::finish(DecodeStepState& state, TextSink& next) const {
  std::string out;
  if (state.utf8.finish_each(out)) next.text(out);
}

void ByteFallbackStep::apply_inside(std::string& token) const {
  if (const auto byte = fallback_byte(token)) token.assign(1, static_cast<char>(*byte));
}

void ReplaceStep::push(std::string_view text, DecodeStepState&, TextSink& next) const {
  std::string token(text);
  apply_inside(token);
  next.text(token);
}

void ReplaceStep::apply_inside(std::string& token) const {
  RegexScratch scratch(token.size());
  RegexMatches matches(pattern_, token, scratch);
  std::string out;
  size_t copied = 0;
  while (const auto match = matches.next()) {
    out.append(token, copied, match->begin - copied).append(content_);
    copied = match->end;
  }
  out.append(token, copied);
  token = std::move(out);
}

void LiteralReplaceStep::push(std::string_view text, DecodeStepState& state, TextSink& next) const {
  if (over_ == Over::token) return next.text(replaced(text, pattern_, content_));
  state.held.append(text);
  const std::string_view held = state.held;
  std::string out;
  size_t copied = 0;
  for (size_t at = held.find(pattern_); at != std::string_view::npos; at = held.find(pattern_, copied)) {
    out.append(held.substr(copied, at - copied)).append(content_);
    copied = at + pattern_.size();
  }
  const size_t num_free = held.size() - num_begun(held.substr(copied), pattern_);
  out.append(held.substr(copied, num_free - copied));
  give(out, next);
  state.held.erase(0, num_free);
}

void LiteralReplaceStep::finish(DecodeStepState& state, TextSink& next) const {
  give(state.held, next);
  state.held.clear();
}

void LiteralReplaceStep::apply_inside(std::string& token) const {
  token = replaced(token, pattern_, content_);
}

std::string_view StripStep::without_start(std::string_view text, size_t max_removed,
                                          size_t& num_removed) const {
  while (num_removed < max_removed && text.starts_with(options_.content)) {
    text.remove_prefix(options_.content.size());
    ++num_removed;
  }
  return text;
}

size_t StripStep::end_without_stop(std::string_view text) const {
  for (size_t i = 0; i < options_.stop && text.ends_with(options_.content); ++i) {
    text.remove_suffix(options_.content.size());
  }
  return text.size();
}

void StripStep::push(std::string_view text, DecodeStepState& state, TextSink& next) const {
  if (over_ == Over::text) return push_text(text, state, next);
  size_t num_removed = 0;
  text = without_start(text, options_.start, num_removed);
  next.text(text.substr(0, end_without_stop(text)));
}

// num_done counts the characters removed at the start; the start ends with the first other character.
void StripStep::push_text(std::string_view text, DecodeStepState& state, TextSink& next) const {
  if (!state.started) {
    text = without_start(text, options_.start, state.num_done);
    state.started = !text.empty();
  }
  state.held.append(text);
  const size_t num_free = end_without_stop(state.held);
  give(std::string_view(state.held).substr(0, num_free), next);
  state.held.erase(0, num_free);
}

// Drops the held text: it consists of the characters to remove at the end.
void StripStep::finish(DecodeStepState& state, TextSink&) const {
  state.held.clear();
}

void StripStep::apply_inside(std::string& token) const {
  if (over_ == Over::text) return;
  size_t num_removed = 0;
  const std::string_view rest = without_start(token, options_.start, num_removed);
  token = std::string(rest.substr(0, end_without_stop(rest)));
}

void MetaspaceStep::push(std::string_view text, DecodeStepState& state, TextSink& next) const {
  const bool drops = drops_first_ && !state.started;
  state.started = true;
  next.text(replaced(text, mark_, drops ? "" : " "));
}

void MetaspaceStep::apply_inside(std::string& token) const {
  token = replaced(token, mark_, " ");
}

void WordPieceStep::push(std::string_view text, DecodeStepState& state, TextSink& next) const {
  std::string token(text);
  if (state.started) {
    apply_inside(token);
  } else if (cleanup_) {
    token = cleaned_up(std::move(token));
  }
  state.started = true;
  next.text(token);
}

void WordPieceStep::apply_inside(std::string& token) const {
  if (token.starts_with(prefix_)) {
    token.erase(0, prefix_.size());
  } else {
    token.insert(0, 1, ' ');
  }
  if (cleanup_) token = cleaned_up(std::move(token));
}

void WordSuffixStep::push(std::string_view text, DecodeStepState& state, TextSink& next) const {
  if (state.started) next.text(replaced(state.held, suffix_, " "));
  state.held = text;
  state.started = true;
}

void WordSuffixStep::finish(DecodeStepState& state, TextSink& next) const {
  if (state.started) next.text(replaced(state.held, suffix_, ""));
  state.held.clear();
  state.started = false;
}

void WordSuffixStep::apply_inside(std::string& token) const {
  token = replaced(token, suffix_, " ");
}

void CtcStep::push(std::string_view text, DecodeStepState& state, TextSink& next) const {
  if (state.started && state.held == text) return;
  state.held = text;
  state.started = true;
  std::string token(text);
  apply_inside(token);
  give(token, next);
}

void CtcStep::apply_inside(std::string& token) const {
  token = replaced(token, options_.pad, "");
  if (options_.cleanup) token = replaced(cleaned_up(std::move(token)), options_.word_delimiter, " ");
}

}  // namespace quire
