// Decoders: turn token ids back into text, one token at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/tokenizer/decoder_steps.h"
#include "core/tokenizer/lossy_utf8.h"
#include "core/tokenizer/vocabulary.h"

namespace quire {

// State of decoding one sequence. A copy continues from the same position.
struct DecodeState {
  LossyUtf8 utf8;
  bool started = false;
  std::vector<DecodeStepState> steps;  // of a StepDecoder; set by its first token
};

// A decoder, immutable and safe to use from any thread with a separate state. Ids must be in the vocabulary.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Appends the text that `id` completes, in whole code points.
  virtual void push(TokenId id, DecodeState& state, std::string& out) const = 0;
  // Appends the held text, because no more tokens come.
  virtual void finish(DecodeState&, std::string&) const {}
  // Returns the number of bytes that wait for more tokens.
  virtual size_t num_held_bytes(const DecodeState&) const { return 0; }
  // Returns the bytes that `id` adds to a text, before they are made valid UTF-8.
  virtual std::string_view bytes(TokenId id) const = 0;
};

// Decoder of byte-level BPE, whose tokens spell bytes.
class ByteLevelDecoder final : public Decoder {
 public:
  explicit ByteLevelDecoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  void push(TokenId id, DecodeState& state, std::string& out) const override {
    state.utf8.push(vocabulary_.decoded_bytes(id), out);
  }
  void finish(DecodeState& state, std::string& out) const override { state.utf8.finish(out); }
  size_t num_held_bytes(const DecodeState& state) const override { return state.utf8.num_held_bytes(); }
  std::string_view bytes(TokenId id) const override { return vocabulary_.decoded_bytes(id); }

 private:
  const Vocabulary& vocabulary_;
};

// The decoder of files without one: tokens as they are spelled, with spaces between them.
class SpacedDecoder final : public Decoder {
 public:
  explicit SpacedDecoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  void push(TokenId id, DecodeState& state, std::string& out) const override {
    if (state.started) out.push_back(' ');
    state.started = true;
    out.append(vocabulary_.decoded_text(id));
  }
  std::string_view bytes(TokenId id) const override { return vocabulary_.decoded_text(id); }

 private:
  const Vocabulary& vocabulary_;
};

// A sequence of decoder steps.
class StepDecoder final : public Decoder {
 public:
  using Steps = std::vector<std::unique_ptr<DecoderStep>>;
  StepDecoder(const Vocabulary& vocabulary, Steps steps);
  void push(TokenId id, DecodeState& state, std::string& out) const override;
  void finish(DecodeState& state, std::string& out) const override;
  size_t num_held_bytes(const DecodeState& state) const override;
  std::string_view bytes(TokenId id) const override;

 private:
  class Link;

  const Vocabulary& vocabulary_;
  Steps steps_;
  std::string bytes_;           // of all tokens
  std::vector<size_t> places_;  // start of each id's bytes; one more entry than there are ids
};

}  // namespace quire
