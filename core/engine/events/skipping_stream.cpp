#include "core/engine/events/skipping_stream.h"

#include <algorithm>
#include <string>
#include <utility>

namespace quire {
namespace {

class SkippingStream final : public TextStream {
 public:
  SkippingStream(std::unique_ptr<TextStream> stream, size_t num_bytes)
      : stream_(std::move(stream)), num_bytes_(num_bytes) {}

  void push(TokenId token, std::string& text) override {
    const size_t begin = text.size();
    stream_->push(token, text);
    skip(begin, text);
  }
  void finish(std::string& text) override {
    const size_t begin = text.size();
    stream_->finish(text);
    skip(begin, text);
  }
  std::unique_ptr<TextStream> clone() const override {
    return std::make_unique<SkippingStream>(stream_->clone(), num_bytes_);
  }
  bool is_silent() const override { return stream_->is_silent(); }

 private:
  void skip(size_t begin, std::string& text) {
    const size_t num_skipped = std::min(num_bytes_, text.size() - begin);
    text.erase(begin, num_skipped);
    num_bytes_ -= num_skipped;
  }

  std::unique_ptr<TextStream> stream_;
  size_t num_bytes_;  // bytes left to skip
};

}  // namespace

std::unique_ptr<TextStream> without_text_of(std::unique_ptr<TextStream> stream, TokenId token) {
  std::string text;
  stream->clone()->push(token, text);
  return std::make_unique<SkippingStream>(std::move(stream), text.size());
}

}  // namespace quire
