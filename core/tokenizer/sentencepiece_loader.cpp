#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/tokenizer/bpe.h"
#include "core/tokenizer/cut_merges.h"
#include "core/tokenizer/sentencepiece_file.h"
#include "core/tokenizer/sentencepiece_normalizer.h"
#include "core/tokenizer/tokenizer_assembly.h"
#include "core/tokenizer/unigram.h"

namespace quire {
namespace {

using PieceType = SentencePieceFile::PieceType;

constexpr std::string_view kSpace = "\xe2\x96\x81";
constexpr size_t kMaxLeadingSpaces = 1024;

// Returns whether text is encoded as such pieces; other pieces do not stand for text.
bool is_text(const SentencePieceFile::Piece& piece) {
  return piece.type == PieceType::normal || piece.type == PieceType::user_defined;
}

std::vector<Vocabulary::Entry> entries_of(const SentencePieceFile& file) {
  std::vector<Vocabulary::Entry> entries;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    entries.push_back({static_cast<TokenId>(entries.size()), piece.text, true});
  }
  return entries;
}

// Returns the added tokens of the other files and the control pieces, which are found where special tokens
// are allowed. All are matched in the raw text: normalized, each would begin with a space.
std::vector<AddedToken> added_tokens_of(const SentencePieceFile& file, const TokenizerJson& json,
                                        const std::vector<Vocabulary::Entry>& entries) {
  std::vector<AddedToken> added = load_added_tokens(json, entries);
  std::vector<bool> known(file.pieces.size());
  for (AddedToken& token : added) {
    token.normalized = false;
    if (static_cast<size_t>(token.id) < known.size()) known[static_cast<size_t>(token.id)] = true;
  }
  for (size_t idx = 0; idx < file.pieces.size(); ++idx) {
    const SentencePieceFile::Piece& piece = file.pieces[idx];
    const bool special = piece.type == PieceType::control || piece.type == PieceType::unknown;
    if (!special || known[idx]) continue;
    AddedToken token;
    token.text = piece.text;
    token.id = static_cast<TokenId>(idx);
    token.special = true;
    added.push_back(std::move(token));
  }
  return added;
}

std::string unknown_piece(const SentencePieceFile& file, const std::string& where) {
  for (const auto& piece : file.pieces) {
    if (piece.type == PieceType::unknown) return piece.text;
  }
  throw Error(ErrorCode::format, "{}: the model has no unknown piece", where);
}

std::unique_ptr<Normalizer> make_normalizer(const SentencePieceFile& file, const std::string& where) {
  SentencePieceNormalizer::Options options;
  options.map = Charsmap(file.charsmap, where + ": precompiled_charsmap");
  for (size_t idx = 0; idx < file.pieces.size(); ++idx) {
    const auto& piece = file.pieces[idx];
    if (piece.type == PieceType::user_defined) options.kept.insert(piece.text, static_cast<int32_t>(idx));
  }
  options.add_dummy_prefix = file.add_dummy_prefix;
  options.remove_extra_whitespaces = file.remove_extra_whitespaces;
  options.escape_whitespaces = file.escape_whitespaces;
  return std::make_unique<SentencePieceNormalizer>(std::move(options));
}

// Returns the merges: the best score first, equal scores from the left.
MergeTable merges_of(const SentencePieceFile& file, const Vocabulary& vocabulary) {
  std::vector<float> scores;
  for (const auto& piece : file.pieces) {
    if (is_text(piece)) scores.push_back(piece.score);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<RankedToken> tokens;
  for (size_t idx = 0; idx < file.pieces.size(); ++idx) {
    if (!is_text(file.pieces[idx])) continue;
    const auto place =
        std::lower_bound(scores.begin(), scores.end(), file.pieces[idx].score, std::greater<>());
    tokens.push_back({static_cast<TokenId>(idx), static_cast<uint32_t>(place - scores.begin())});
  }
  return find_all_merges(vocabulary, tokens);
}

std::unique_ptr<SubwordModel> make_bpe(const SentencePieceFile& file, const Vocabulary& vocabulary,
                                       const std::string& where) {
  BpeSpeller::Options options;
  options.byte_fallback = file.byte_fallback;
  options.fuse_unknown = true;
  options.unknown = unknown_piece(file, where);
  Bpe::Parts parts;
  parts.merges = merges_of(file, vocabulary);
  parts.speller = BpeSpeller(vocabulary, std::move(options), where);
  return std::make_unique<Bpe>(vocabulary, std::move(parts));
}

// Gives user-defined pieces a score so high that they are always used.
std::vector<double> scores_of(const SentencePieceFile& file) {
  float most = std::numeric_limits<float>::min();
  for (const auto& piece : file.pieces) {
    if (piece.type == PieceType::normal) most = std::max(most, piece.score);
  }
  std::vector<double> scores;
  for (const auto& piece : file.pieces) {
    double score = -std::numeric_limits<double>::infinity();
    if (piece.type == PieceType::normal) score = static_cast<double>(piece.score);
    if (piece.type == PieceType::user_defined) {
      score = static_cast<double>(static_cast<float>(piece.text.size()) * most) - 0.1;
    }
    scores.push_back(score);
  }
  return scores;
}

std::unique_ptr<SubwordModel> make_unigram(const SentencePieceFile& file, const Vocabulary& vocabulary,
                                           const std::string& where) {
  Unigram::Parts parts;
  parts.scores = scores_of(file);
  parts.single_precision = true;
  parts.unknown = vocabulary.find(unknown_piece(file, where));
  parts.byte_fallback = file.byte_fallback;
  parts.where = where;
  return std::make_unique<Unigram>(vocabulary, std::move(parts));
}

std::unique_ptr<Decoder> make_decoder(const SentencePieceFile& file, const Vocabulary& vocabulary) {
  StepDecoder::Steps steps;
  size_t num_leading = 0;
  if (file.add_dummy_prefix) num_leading = 1;
  if (file.remove_extra_whitespaces) num_leading = kMaxLeadingSpaces;
  steps.push_back(std::make_unique<StripStep>(StripStep::Options{std::string(kSpace), num_leading, 0},
                                              StripStep::Over::text));
  steps.push_back(
      std::make_unique<LiteralReplaceStep>(std::string(kSpace), " ", LiteralReplaceStep::Over::token));
  steps.push_back(std::make_unique<ByteFallbackStep>());
  return std::make_unique<StepDecoder>(vocabulary, std::move(steps));
}

// The model itself does not define BOS and EOS; the tokenizer class decides, and most classes with BOS add
// it.
PostProcessor make_post_processor(const TokenizerJson& json, const TokenizerParts& parts) {
  const std::string type = json.config ? json.config->string_or("tokenizer_class", "") : "";
  const bool ends = type.starts_with("T5") || type.starts_with("MT5");
  return around_text(json, {.adds_bos = !ends, .adds_eos = ends}, parts.named);
}

std::optional<TokenId> piece_id(int32_t id, const Vocabulary& vocabulary) {
  return vocabulary.contains(id) ? std::optional<TokenId>(id) : std::nullopt;
}

}  // namespace

std::unique_ptr<const TokenizerParts> load_sentencepiece_parts(const TokenizerFiles& files) {
  const std::string where(files.model_name);
  const SentencePieceFile file = read_sentencepiece_file(files.model, where);
  const ParsedTokenizerFiles parsed(files);
  const TokenizerJson json = parsed.views();

  auto parts = std::make_unique<TokenizerParts>();
  std::vector<Vocabulary::Entry> entries = entries_of(file);
  const std::vector<AddedToken> added = added_tokens_of(file, json, entries);
  parts->vocabulary = make_vocabulary(std::move(entries), added, where);
  parts->normalizer = make_normalizer(file, where);
  parts->model = file.algorithm == SentencePieceFile::Algorithm::bpe
                     ? make_bpe(file, parts->vocabulary, where)
                     : make_unigram(file, parts->vocabulary, where);
  finish_parts(json, added, *parts);
  for (size_t idx = 0; idx < file.pieces.size(); ++idx) {
    const auto id = static_cast<TokenId>(idx);
    if (file.pieces[idx].type == PieceType::unknown) {
      parts->vocabulary.set_decoded_text(id, file.unknown_surface);
      if (!parts->named.unk) parts->named.unk = id;
    }
    if (file.pieces[idx].type != PieceType::user_defined) continue;
    AddedToken token;
    token.text = file.pieces[idx].text;
    token.id = id;
    parts->normalized_tokens.add(token, token.text);
  }
  if (!parts->named.bos) parts->named.bos = piece_id(file.bos_id, parts->vocabulary);
  if (!parts->named.eos) parts->named.eos = piece_id(file.eos_id, parts->vocabulary);
  if (!parts->named.pad) parts->named.pad = piece_id(file.pad_id, parts->vocabulary);
  parts->decoder = make_decoder(file, parts->vocabulary);
  parts->post_processor = make_post_processor(json, *parts);
  return parts;
}

}  // namespace quire
