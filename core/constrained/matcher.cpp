#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/constrained/constraint.h"
#include "core/constrained/forced_cut.h"
#include "core/constrained/states_full.h"

namespace quire {
namespace {

constexpr size_t kMaxForcedBytes = 256;    // looked at in one call
constexpr size_t kBytesBeforeForced = 64;  // context for the tokenizer

bool is_dead(const Position& position) {
  return position.ways.empty() && !position.ends;
}

}  // namespace

template <typename Act>
auto Matcher::use_states(const Act& act) const {
  SharedStatesPool& pool = constraint_->pool_;
  std::shared_ptr<SharedStates> states = states_;
  for (int num_moves = 0;; ++num_moves) {
    bool is_new = false;
    if (num_moves > 0) {
      states = num_moves == 1 ? pool.current() : nullptr;
      is_new = states == nullptr || states == states_;
      if (is_new) states = constraint_->make_states();
    }
    try {
      const auto trim = gsl::finally([&] { pool.trim(*states); });
      const MutexLock lock(states->mutex);
      if (states->maker == nullptr) continue;
      const auto note = gsl::finally([&]() QUIRE_NO_THREAD_ANALYSIS { pool.note_use(states); });
      if (states != states_) {
        std::vector<Step> steps;
        read_again(states->maker->machine(), steps);
        if (is_new) states->maker->machine().check_limits();
        steps_.swap(steps);
        states_ = states;
      }
      return act(*states->maker);
    } catch (const StatesFull&) {
      if (is_new) throw;
    }
  }
}

Matcher::Matcher(const std::shared_ptr<const Constraint>& constraint)
    : constraint_(constraint), states_(constraint->pool_.current()), steps_(1) {
  if (states_ == nullptr) states_ = constraint->make_states();
  use_states([this](MaskMaker& maker) { steps_[0].position = maker.machine().start(); });
}

// Computes the positions of all steps in other states.
void Matcher::read_again(PushDown& machine, std::vector<Step>& steps) const {
  const std::string_view text = text_;
  steps.reserve(steps_.size());
  Position position = machine.start();
  size_t num_read = 0;
  for (const Step& step : steps_) {
    if (step.token >= 0) position = machine.after_token(position, step.token);
    if (step.token >= 0) num_read = step.text_bytes;
    while (num_read < step.text_bytes) {
      const auto byte = static_cast<uint8_t>(text[num_read]);
      position = machine.after(position, byte, text.substr(0, ++num_read));
    }
    steps.push_back({position, step.text_bytes, step.token, step.ended});
  }
}

void Matcher::mask(gsl::span<uint32_t> mask) const {
  Expects(mask.size() == constraint_->vocabulary().num_words());
  if (has_ended()) {
    std::fill(mask.begin(), mask.end(), 0);
    return;
  }
  use_states([&](MaskMaker& maker) { maker.fill_mask(steps_.back().position, text_, mask); });
}

std::string Matcher::exceeded_limit() const {
  if (has_ended()) return {};
  const bool is_cut =
      use_states([this](MaskMaker& maker) { return maker.is_cut_by_depth(steps_.back().position, text_); });
  if (!is_cut) return {};
  return fmt::format(
      "the text is nested max_depth = {} items deep, the limit of the constraint: let it nest less, or "
      "make the nested parts optional",
      JsonMachine::kMaxDepth);
}

// Leaves the text unchanged if it returns false or throws.
bool Matcher::advance(PushDown& machine, std::string_view bytes) {
  const auto cut_text = gsl::finally([this] { text_.resize(steps_.back().text_bytes); });
  const size_t num_before = text_.size();
  text_ += bytes;
  Position position = steps_.back().position;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto read = std::string_view(text_).substr(0, num_before + i + 1);
    position = machine.after(position, static_cast<uint8_t>(bytes[i]), read);
    if (is_dead(position)) return false;
  }
  steps_.push_back({std::move(position), text_.size()});
  return true;
}

bool Matcher::accept(TokenId token) {
  if (has_ended()) return false;
  const TokenVocabulary& vocabulary = constraint_->vocabulary();
  if (token < 0 || static_cast<size_t>(token) >= vocabulary.size()) return false;
  const bool is_end =
      std::find(vocabulary.ends().begin(), vocabulary.ends().end(), token) != vocabulary.ends().end();
  return use_states([&](MaskMaker& maker) {
    const Position& here = steps_.back().position;
    if (is_end && here.ends) {
      steps_.push_back({here, text_.size(), -1, true});
      return true;
    }
    Position by_token = maker.machine().after_token(here, token);
    if (is_dead(by_token))
      return vocabulary.is_text(token) && advance(maker.machine(), vocabulary.bytes(token));
    const auto cut_text = gsl::finally([this] { text_.resize(steps_.back().text_bytes); });
    text_ += vocabulary.bytes(token);
    steps_.push_back({std::move(by_token), text_.size(), token});
    return true;
  });
}

bool Matcher::accept_text(std::string_view bytes) {
  if (has_ended()) return false;
  return use_states([&](MaskMaker& maker) { return advance(maker.machine(), bytes); });
}

void Matcher::rollback(size_t num_steps) {
  Expects(num_steps < steps_.size());
  steps_.resize(steps_.size() - num_steps);
  text_.resize(steps_.back().text_bytes);
}

Matcher::Forced Matcher::look_ahead(size_t max_bytes) const {
  if (has_ended()) return {};
  return use_states([&](MaskMaker& maker) {
    Forced forced;
    PushDown& machine = maker.machine();
    int byte = machine.only_byte(steps_.back().position);
    if (byte < 0) return forced;
    Position position = steps_.back().position;
    std::string text = text_;
    for (; byte >= 0 && forced.bytes.size() < max_bytes; byte = machine.only_byte(position)) {
      text.push_back(static_cast<char>(byte));
      Position next = machine.after(position, static_cast<uint8_t>(byte), text);
      if (is_dead(next)) break;
      forced.bytes.push_back(static_cast<char>(byte));
      position = std::move(next);
    }
    forced.next = machine.next_bytes(position);
    return forced;
  });
}

std::string Matcher::forced(size_t max_bytes) const {
  return look_ahead(max_bytes).bytes;
}

// Returns about the last `num_bytes` bytes of the text, beginning at a token boundary.
std::string_view Matcher::last_tokens(size_t num_bytes) const {
  size_t begin = text_.size();
  for (auto step = steps_.rbegin(); step != steps_.rend() && text_.size() - begin < num_bytes; ++step)
    begin = step->text_bytes;
  const auto is_inside = [this](size_t at) { return (static_cast<uint8_t>(text_[at]) & 0xC0U) == 0x80U; };
  while (begin < text_.size() && is_inside(begin)) ++begin;
  return std::string_view(text_).substr(begin);
}

namespace {

// Returns one sample character of each kind that tokenizers distinguish, from the bytes that may come.
std::vector<std::string> samples_of(const std::bitset<256>& bytes) {
  std::vector<std::string> samples;
  for (const auto& [first, last] : {std::pair{'a', 'z'}, {'A', 'Z'}, {'0', '9'}}) {
    const auto is_there = [&bytes](char byte) { return bytes[static_cast<uint8_t>(byte)]; };
    char byte = first;
    while (byte < last && !is_there(byte)) ++byte;
    if (is_there(byte)) samples.emplace_back(1, byte);
  }
  for (const char byte : std::string_view(" \n\"':,.}])_-/\\")) {
    if (bytes[static_cast<uint8_t>(byte)]) samples.emplace_back(1, byte);
  }
  if ((bytes >> 0xC2).any()) samples.emplace_back("\u00e9");
  return samples;
}

}  // namespace

void Matcher::force(size_t max_tokens, TokenIds& out) const {
  const Forced forced = look_ahead(kMaxForcedBytes);
  if (forced.bytes.empty()) return;
  if (const Tokenizer* const tokenizer = constraint_->vocabulary().tokenizer()) {
    const TokenIds tokens = split_as_tokenizer(*tokenizer, last_tokens(kBytesBeforeForced), forced.bytes,
                                               samples_of(forced.next));
    out.insert(out.end(), tokens.begin(),
               tokens.begin() + static_cast<ptrdiff_t>(std::min(max_tokens, tokens.size())));
    return;
  }
  std::string_view rest = forced.bytes;
  for (size_t n = 0; n < max_tokens && !rest.empty(); ++n) {
    const TokenVocabulary::Longest longest = constraint_->vocabulary().longest(rest);
    if (longest.token < 0 || longest.is_open) return;
    out.push_back(longest.token);
    rest.remove_prefix(longest.num_bytes);
  }
}

}  // namespace quire
