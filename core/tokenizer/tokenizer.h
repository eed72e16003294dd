// Text to token ids and back, as the files of a model say, id for id what the Hugging Face `tokenizers`
// library, SentencePiece or tiktoken yield.
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

// The contents of a model's tokenizer files. One of `tokenizer_json` and `model` must be there, of which the
// first counts; the others may be empty. The views are needed during load only.
struct TokenizerFiles {
  std::string_view tokenizer_json;
  std::string_view tokenizer_config_json;
  std::string_view special_tokens_map_json;
  std::string_view added_tokens_json;
  std::string_view model{};       // tokenizer.model of SentencePiece, or the ranks of tiktoken
  std::string_view model_name{};  // the name of that file
};

struct EncodeOptions {
  // The text of a special token is that token. Off for text from users: there it stays plain text. Ordinary
  // added tokens are found either way.
  bool parse_special = false;
  // Lets the file's post-processor add its special tokens, such as one that begins every text.
  bool add_special_tokens = true;
};

// A part of one text, with its own say on special tokens: a template's scaffolding or a user's words.
struct TextSpan {
  std::string_view text;
  bool parse_special = false;
};

// The work of one encode, which grows in proportion to the text. For tests and metrics.
struct EncodeWork {
  uint64_t num_merge_steps = 0;
  uint64_t num_regex_steps = 0;  // those above the free allowance of each match
};

struct EncodeResult {
  TokenIds ids;
  EncodeWork work;
};

// Immutable; any thread.
class Tokenizer {
 public:
  static constexpr size_t kMaxTextBytes = size_t{1} << 30;

  // ErrorCode::format where a file is malformed, ErrorCode::unsupported where it asks for something this
  // build cannot do; either names the file and the field.
  static std::shared_ptr<const Tokenizer> load(const TokenizerFiles& files);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // ErrorCode::encoding, with the byte offset, where the text is not UTF-8; ErrorCode::invalid_argument for
  // one longer than kMaxTextBytes; ErrorCode::unsupported where the file's patterns take too long on the
  // text.
  TokenIds encode(std::string_view text, const EncodeOptions& options = {}) const;
  // The spans as one text: tokens may reach over their borders, but a special token is found only where all
  // of it lies in neighbouring spans that parse special tokens. So is an ordinary added token that looks like
  // a marker, such as "<tool_call>": elsewhere it is text.
  TokenIds encode_spans(gsl::span<const TextSpan> spans, bool add_special_tokens) const;
  EncodeResult encode_counted(std::string_view text, const EncodeOptions& options) const;

  // Valid UTF-8: what is not becomes U+FFFD. Ids without a token add nothing. Detokenizer does the same bit
  // by bit.
  std::string decode(gsl::span<const TokenId> ids, bool skip_special) const;

  // The largest id and 1. Ids may have gaps.
  size_t vocab_size() const;
  bool contains(TokenId id) const;
  bool is_special(TokenId id) const;  // false for ids without a token
  // The bytes that a token adds to a text, and the token as the file spells it; empty for ids without a
  // token. Valid as long as the tokenizer.
  std::string_view token_bytes(TokenId id) const;
  std::string_view token_text(TokenId id) const;
  // The id of a token as the file spells it.
  std::optional<TokenId> find_token(std::string_view text) const;
  const TokenIds& special_ids() const;  // ascending

  // What tokenizer_config.json or special_tokens_map.json names; nothing where they do not, or name a token
  // that is not there.
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
