#include "core/tokenizer/decoder.h"

#include "core/base/error.h"

namespace quire {
namespace {

constexpr size_t kMaxTokenBytes = size_t{1} << 16;  // a decoder step can turn each byte into about 60
constexpr size_t kMaxBytes = size_t{256} << 20;

}  // namespace

StepDecoder::StepDecoder(const Vocabulary& vocabulary, Steps steps)
    : vocabulary_(vocabulary), steps_(std::move(steps)) {
  for (size_t idx = 0; idx < vocabulary.size(); ++idx) {
    places_.push_back(bytes_.size());
    const auto id = static_cast<TokenId>(idx);
    if (!vocabulary.contains(id)) continue;
    std::string token(vocabulary.decoded_text(id));
    for (const auto& step : steps_) {
      if (token.size() > kMaxTokenBytes || bytes_.size() > kMaxBytes) {
        throw Error(ErrorCode::unsupported, "the tokenizer's decoder expands token {} to too much text", id);
      }
      step->apply_inside(token);
    }
    bytes_ += token;
  }
  places_.push_back(bytes_.size());
}

// A sink that passes text to step `idx`, or to the output after the last step.
class StepDecoder::Link final : public TextSink {
 public:
  Link(const Steps& steps, size_t idx, DecodeState& state, std::string& out)
      : steps_(steps), idx_(idx), state_(state), out_(out) {}

  void text(std::string_view text) override {
    if (idx_ == steps_.size()) {
      out_.append(text);
      return;
    }
    Link next(steps_, idx_ + 1, state_, out_);
    steps_[idx_]->push(text, state_.steps[idx_], next);
  }

 private:
  const Steps& steps_;
  size_t idx_;
  DecodeState& state_;
  std::string& out_;
};

void StepDecoder::push(TokenId id, DecodeState& state, std::string& out) const {
  state.steps.resize(steps_.size());
  Link(steps_, 0, state, out).text(vocabulary_.decoded_text(id));
}

void StepDecoder::finish(DecodeState& state, std::string& out) const {
  state.steps.resize(steps_.size());
  for (size_t idx = 0; idx < steps_.size(); ++idx) {
    Link next(steps_, idx + 1, state, out);
    steps_[idx]->finish(state.steps[idx], next);
  }
}

size_t StepDecoder::num_held_bytes(const DecodeState& state) const {
  size_t num_bytes = 0;
  for (const DecodeStepState& step : state.steps) num_bytes += step.held.size() + step.utf8.num_held_bytes();
  return num_bytes;
}

std::string_view StepDecoder::bytes(TokenId id) const {
  const auto idx = static_cast<size_t>(id);
  return std::string_view(bytes_).substr(places_[idx], places_[idx + 1] - places_[idx]);
}

}  // namespace quire
