#include "core/tokenizer/tokenizer.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/tokenizer/detokenizer.h"
#include "core/tokenizer/encode_scratch.h"
#include "core/tokenizer/tokenizer_parts.h"

namespace quire {
namespace {

// The encoding of one text: raw added tokens, normalizer, normalized added tokens, pre-tokenizer, model.
class Encoding final : private AddedTokenMatcher::Sink, private PieceSink {
 public:
  Encoding(const TokenizerParts& parts, const SpecialRanges& special, size_t num_text_bytes)
      : parts_(parts),
        allowed_(special.ranges),
        restrict_markers_(special.restrict_markers),
        scratch_(num_text_bytes) {}

  EncodeResult run(std::string_view text) {
    parts_.raw_tokens.split(text, {allowed_, restrict_markers_}, *this);
    return {std::move(ids_),
            {scratch_.bpe.num_steps + scratch_.unigram.num_steps, scratch_.regex.num_steps()}};
  }

 private:
  // Receiver of the texts between the added tokens of normalized text.
  class NormalizedSink final : public AddedTokenMatcher::Sink {
   public:
    NormalizedSink(Encoding& encoding, bool allow_special, bool begins_text)
        : encoding_(encoding), allow_special_(allow_special), begins_text_(begins_text) {}
    void text(std::string_view segment, size_t offset) override {
      encoding_.split({segment, begins_text_ && offset == 0}, allow_special_);
    }
    void token(TokenId id) override { encoding_.ids_.push_back(id); }

   private:
    Encoding& encoding_;
    bool allow_special_;
    bool begins_text_;
  };

  void token(TokenId id) override { ids_.push_back(id); }

  void text(std::string_view segment, size_t offset) override {
    const TextRange range{offset, offset + segment.size()};
    std::string normalized;
    bool moved = false;  // positions in the segment differ from those in the text
    if (parts_.normalizer) {
      normalized = parts_.normalizer->normalize(segment, scratch_);
      moved = normalized != segment;
      if (moved) segment = normalized;
    }
    const std::vector<TextRange> allowed = allowed_in(range, segment.size(), moved);
    NormalizedSink sink(*this, is_inside(range, allowed_), offset == 0);
    parts_.normalized_tokens.split(segment, {allowed, restrict_markers_}, sink);
  }

  // Returns the ranges of the segment that allow special tokens. Text that the normalizer changed is either
  // allowed entirely or not at all, so that normalization never turns a user's text into a special token.
  std::vector<TextRange> allowed_in(const TextRange& range, size_t num_bytes, bool moved) const {
    if (is_inside(range, allowed_)) return {{0, num_bytes}};
    std::vector<TextRange> inside;
    if (moved) return inside;
    auto it = std::upper_bound(allowed_.begin(), allowed_.end(), range.begin,
                               [](size_t begin, const TextRange& allowed) { return begin < allowed.end; });
    for (; it != allowed_.end() && it->begin < range.end; ++it) {
      const size_t begin = std::max(it->begin, range.begin);
      inside.push_back({begin - range.begin, std::min(it->end, range.end) - range.begin});
    }
    return inside;
  }

  void split(const TextPiece& segment, bool allow_special) {
    allow_special_ = allow_special;
    if (parts_.pre_tokenizer) {
      parts_.pre_tokenizer->split(segment, scratch_, *this);
    } else {
      piece(segment);
    }
  }

  void piece(const TextPiece& piece) override {
    parts_.model->encode(piece.text, allow_special_, scratch_, ids_);
  }

  const TokenizerParts& parts_;
  gsl::span<const TextRange> allowed_;
  bool restrict_markers_;
  EncodeScratch scratch_;
  bool allow_special_ = false;
  TokenIds ids_;
};

EncodeResult encode_text(const TokenizerParts& parts, std::string_view text, const SpecialRanges& special,
                         bool add_special_tokens) {
  if (text.size() > Tokenizer::kMaxTextBytes) {
    throw Error(ErrorCode::invalid_argument, "text has {} bytes, more than the limit of {}", text.size(),
                Tokenizer::kMaxTextBytes);
  }
  require_utf8(text, "text");
  EncodeResult result = Encoding(parts, special, text.size()).run(text);
  if (add_special_tokens) result.ids = parts.post_processor.apply(std::move(result.ids));
  return result;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::load(const TokenizerFiles& files) {
  return std::shared_ptr<const Tokenizer>(new Tokenizer(load_tokenizer_parts(files)));
}

TokenIds Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return encode_counted(text, options).ids;
}

EncodeResult Tokenizer::encode_counted(std::string_view text, const EncodeOptions& options) const {
  std::vector<TextRange> allowed;
  if (options.parse_special) allowed.push_back({0, text.size()});
  return encode_text(*parts_, text, {allowed, false}, options.add_special_tokens);
}

TokenIds Tokenizer::encode_spans(gsl::span<const TextSpan> spans, bool add_special_tokens) const {
  std::string text;
  std::vector<TextRange> allowed;
  for (const TextSpan& span : spans) {
    const TextRange range{text.size(), text.size() + span.text.size()};
    text.append(span.text);
    if (!span.parse_special) continue;
    if (!allowed.empty() && allowed.back().end == range.begin) {
      allowed.back().end = range.end;
    } else {
      allowed.push_back(range);
    }
  }
  return encode_text(*parts_, text, {allowed, true}, add_special_tokens).ids;
}

std::string Tokenizer::decode(gsl::span<const TokenId> ids, bool skip_special) const {
  Detokenizer detokenizer(*this, skip_special);
  std::string text;
  for (const TokenId id : ids) detokenizer.push(id, text);
  detokenizer.finish(text);
  return text;
}

size_t Tokenizer::vocab_size() const {
  return parts_->vocabulary.size();
}
bool Tokenizer::contains(TokenId id) const {
  return parts_->vocabulary.contains(id);
}
bool Tokenizer::is_special(TokenId id) const {
  return contains(id) && parts_->vocabulary.is_special(id);
}
std::string_view Tokenizer::token_bytes(TokenId id) const {
  return contains(id) ? parts_->decoder->bytes(id) : std::string_view{};
}
std::string_view Tokenizer::token_text(TokenId id) const {
  return contains(id) ? parts_->vocabulary.text(id) : std::string_view{};
}
std::optional<TokenId> Tokenizer::find_token(std::string_view text) const {
  return parts_->vocabulary.find(text);
}
const TokenIds& Tokenizer::special_ids() const {
  return parts_->special_ids;
}
std::optional<TokenId> Tokenizer::bos_id() const {
  return parts_->named.bos;
}
std::optional<TokenId> Tokenizer::eos_id() const {
  return parts_->named.eos;
}
std::optional<TokenId> Tokenizer::pad_id() const {
  return parts_->named.pad;
}
std::optional<TokenId> Tokenizer::unk_id() const {
  return parts_->named.unk;
}
const Decoder& Tokenizer::decoder() const {
  return *parts_->decoder;
}

}  // namespace quire
