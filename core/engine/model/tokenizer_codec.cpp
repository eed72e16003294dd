#include "core/engine/model/tokenizer_codec.h"

#include "core/tokenizer/detokenizer.h"

namespace quire {
namespace {

class DetokenizerStream final : public TextStream {
 public:
  DetokenizerStream(std::shared_ptr<const Tokenizer> tokenizer, bool emit_special)
      : tokenizer_(std::move(tokenizer)), detokenizer_(*tokenizer_, !emit_special) {}

  void push(TokenId token, std::string& text) override { detokenizer_.push(token, text); }
  void finish(std::string& text) override { detokenizer_.finish(text); }
  std::unique_ptr<TextStream> clone() const override { return std::make_unique<DetokenizerStream>(*this); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  Detokenizer detokenizer_;
};

class SilentStream final : public TextStream {
 public:
  bool is_silent() const override { return true; }
  void push(TokenId, std::string&) override {}
  void finish(std::string&) override {}
  std::unique_ptr<TextStream> clone() const override { return std::make_unique<SilentStream>(); }
};

}  // namespace

std::unique_ptr<TextStream> TokenizerCodec::open(bool emit_special) const {
  if (!tokenizer_) return std::make_unique<SilentStream>();
  return std::make_unique<DetokenizerStream>(tokenizer_, emit_special);
}

}  // namespace quire
