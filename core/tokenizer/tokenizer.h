// The tokenizer: text to token ids and back, with the same ids as the Hugging Face `tokenizers` library,
// SentencePiece, tiktoken or mistral-common for the files of a model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

class Decoder;
struct TokenizerParts;

// The contents of a model's tokenizer files. Either `tokenizer_json` or `model` is required; if both are
// given, the first one is used. The other files may be empty. The views are only used during load.
struct TokenizerFiles {
  std::string_view tokenizer_json;
  std::string_view tokenizer_config_json;
  std::string_view special_tokens_map_json;
  std::string_view added_tokens_json;
  std::string_view model{};       // SentencePiece's tokenizer.model, tiktoken ranks or tekken.json
  std::string_view model_name{};  // file name of `model`
};

struct EncodeOptions {
  // Recognizes special tokens in the text. Leave it off for user text, in which their spelling is plain text.
  // Ordinary added tokens are recognized either way.
  bool parse_special = false;
  // Adds the special tokens of the post-processor, such as BOS.
  bool add_special_tokens = true;
};

// A part of a text with its own rule for special tokens, such as template text or user text.
struct TextSpan {
  std::string_view text;
  bool parse_special = false;
};

// The work of one encode call, proportional to the text. For tests and metrics.
struct EncodeWork {
  uint64_t num_merge_steps = 0;
  uint64_t num_regex_steps = 0;  // only steps above the free allowance of each match
};

struct EncodeResult {
  TokenIds ids;
  EncodeWork work;
};

// A loaded tokenizer, immutable and safe to use from any thread.
class Tokenizer {
 public:
  static constexpr size_t kMaxTextBytes = size_t{1} << 30;

  // Throws ErrorCode::format if a file is malformed, and ErrorCode::unsupported if it needs something that
  // this build does not support; both name the file and the field.
  static std::shared_ptr<const Tokenizer> load(const TokenizerFiles& files);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Throws ErrorCode::encoding with the byte offset if the text is not UTF-8, ErrorCode::invalid_argument if
  // it is longer than kMaxTextBytes, and ErrorCode::unsupported if the patterns of the file take too long on
  // the text.
  TokenIds encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Encodes the spans as one text; tokens may cross span borders. A special token is recognized only if it is
  // entirely in adjacent spans that parse special tokens. The same holds for an ordinary added token that
  // looks like a marker, such as "<tool_call>".
  TokenIds encode_spans(gsl::span<const TextSpan> spans, bool add_special_tokens) const;
  EncodeResult encode_counted(std::string_view text, const EncodeOptions& options) const;

  // Returns valid UTF-8; invalid bytes become U+FFFD. Ids without a token add nothing. Detokenizer does the
  // same incrementally.
  std::string decode(gsl::span<const TokenId> ids, bool skip_special) const;

  // Returns the largest id plus 1. Ids may have gaps.
  size_t vocab_size() const;
  bool contains(TokenId id) const;
  bool is_special(TokenId id) const;  // false for ids without a token
  // Return the bytes that a token adds to a text, and the token as the file spells it; empty for ids without
  // a token. Valid as long as the tokenizer.
  std::string_view token_bytes(TokenId id) const;
  std::string_view token_text(TokenId id) const;
  // Returns the id of a token as the file spells it.
  std::optional<TokenId> find_token(std::string_view text) const;
  const TokenIds& special_ids() const;  // sorted

  // Return the token named in tokenizer_config.json or special_tokens_map.json; nothing if none is named or
  // it does not exist.
  std::optional<TokenId> bos_id() const;
  std::optional<TokenId> eos_id() const;
  std::optional<TokenId> pad_id() const;
  std::optional<TokenId> unk_id() const;

 private:
  friend class Detokenizer;
  explicit Tokenizer(std::unique_ptr<const TokenizerParts> parts);

  const Decoder& decoder() const;

  std::unique_ptr<const TokenizerParts> parts_;
};

}  // namespace quire
