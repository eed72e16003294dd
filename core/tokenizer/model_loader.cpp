#include "core/tokenizer/model_loader.h"

#include <cmath>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/tokenizer/bpe.h"
#include "core/tokenizer/component_json.h"
#include "core/tokenizer/unigram.h"
#include "core/tokenizer/word_models.h"

namespace quire {
namespace {

constexpr int64_t kMaxWordChars = int64_t{1} << 30;

// Reads a merge: "a b", or ["a", "b"] if tokens may contain spaces.
std::pair<std::string, std::string> read_merge(const JsonView& merges, size_t idx, bool as_pairs) {
  const JsonValue& item = merges.elements()[idx];
  const auto fail = [&](std::string_view expected) {
    throw Error(ErrorCode::format, "{}[{}] must be {}", merges.where(), idx, expected);
  };
  if (as_pairs) {
    const JsonValue::Array* const pair = item.as_array();
    if (pair == nullptr || pair->size() != 2 || pair->front().as_string() == nullptr ||
        pair->back().as_string() == nullptr) {
      fail("a pair of strings, like the first merge");
    }
    return {*pair->front().as_string(), *pair->back().as_string()};
  }
  if (item.as_string() == nullptr) fail("a string of two tokens, like the first merge");
  const std::string& text = *item.as_string();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    fail("two tokens with one space between");
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

// Loads the merges. `prefix` marks tokens that continue a word; the result of a merge has it only once.
MergeTable load_merges(const JsonView& merges, std::string_view prefix, const Vocabulary& vocabulary) {
  const size_t num_merges = merges.elements().size();
  MergeTable table(num_merges);
  const bool as_pairs = num_merges > 0 && merges.elements().front().as_array() != nullptr;
  const auto require = [&](const std::string& text, size_t idx) {
    const auto id = vocabulary.find(text);
    if (!id || !vocabulary.in_model(*id)) {
      throw Error(ErrorCode::format, "{}[{}]: the token \"{}\" is not in the vocabulary", merges.where(), idx,
                  printable(text));
    }
    return *id;
  };
  for (size_t i = 0; i < num_merges; ++i) {
    const auto [left, right] = read_merge(merges, i, as_pairs);
    if (right.size() < prefix.size()) {
      throw Error(ErrorCode::format, "{}[{}]: \"{}\" is shorter than the prefix \"{}\"", merges.where(), i,
                  printable(right), printable(prefix));
    }
    const TokenId result = require(left + right.substr(prefix.size()), i);
    table.insert(require(left, i), require(right, i), {static_cast<uint32_t>(i), result});
  }
  return table;
}

std::unique_ptr<SubwordModel> load_bpe(const JsonView& model, bool byte_level, const Vocabulary& vocabulary) {
  refuse_unknown_keys(
      model, {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
              "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (model.number_or("dropout", 0.0, 0.0, 1.0) != 0.0) {
    throw Error(ErrorCode::unsupported, "{}.dropout: encoding at random is not supported", model.where());
  }
  BpeSpeller::Options options;
  options.alphabet = byte_level ? BpeSpeller::Alphabet::bytes : BpeSpeller::Alphabet::characters;
  options.byte_fallback = model.bool_or("byte_fallback", false);
  options.fuse_unknown = model.bool_or("fuse_unk", false);
  options.unknown = model.string_or("unk_token", "");
  options.continuing_prefix = model.string_or("continuing_subword_prefix", "");
  options.end_of_word_suffix = model.string_or("end_of_word_suffix", "");
  Bpe::Parts parts;
  parts.merges = load_merges(model.at("merges"), options.continuing_prefix, vocabulary);
  parts.speller = BpeSpeller(vocabulary, std::move(options), model.where() + ".unk_token");
  parts.ignore_merges = model.bool_or("ignore_merges", false);
  return std::make_unique<Bpe>(vocabulary, std::move(parts));
}

// Returns the second element of each pair of "vocab"; its form was checked when the tokens were loaded.
std::vector<double> load_scores(const JsonView& vocab) {
  std::vector<double> scores;
  for (const JsonValue& item : vocab.elements()) {
    const JsonValue& score = item.as_array()->back();
    if (const int64_t* const whole = score.as_int()) {
      scores.push_back(static_cast<double>(*whole));
    } else if (const double* const number = score.as_double(); number != nullptr && std::isfinite(*number)) {
      scores.push_back(*number);
    } else {
      throw Error(ErrorCode::format, "{}[{}][1] must be a finite number", vocab.where(), scores.size());
    }
  }
  return scores;
}

std::unique_ptr<SubwordModel> load_unigram(const JsonView& model, const Vocabulary& vocabulary) {
  refuse_unknown_keys(model, {"type", "unk_id", "vocab", "byte_fallback", "alpha", "nbest_size"});
  if (model.has("alpha") || model.has("nbest_size")) {
    throw Error(ErrorCode::unsupported, "{}: encoding at random (alpha, nbest_size) is not supported",
                model.where());
  }
  Unigram::Parts parts;
  parts.scores = load_scores(model.at("vocab"));
  if (model.has("unk_id")) {
    const auto last = static_cast<int64_t>(parts.scores.size()) - 1;
    parts.unknown = static_cast<TokenId>(model.at("unk_id").as_int(0, last));
  }
  parts.byte_fallback = model.bool_or("byte_fallback", false);
  parts.where = model.where();
  return std::make_unique<Unigram>(vocabulary, std::move(parts));
}

UnknownWord load_unknown_word(const JsonView& model, std::string_view fallback,
                              const Vocabulary& vocabulary) {
  return {vocabulary, model.string_or("unk_token", fallback), model.where() + ".unk_token"};
}

std::unique_ptr<SubwordModel> load_word_piece(const JsonView& model, const Vocabulary& vocabulary) {
  refuse_unknown_keys(
      model, {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  WordPiece::Parts parts;
  parts.continuing_prefix = model.string_or("continuing_subword_prefix", "##");
  parts.max_word_chars = static_cast<size_t>(model.int_or("max_input_chars_per_word", 100, 0, kMaxWordChars));
  return std::make_unique<WordPiece>(
      vocabulary, std::move(parts), load_unknown_word(model, "[UNK]", vocabulary), model.at("vocab").where());
}

std::unique_ptr<SubwordModel> load_word_level(const JsonView& model, const Vocabulary& vocabulary) {
  refuse_unknown_keys(model, {"type", "unk_token", "vocab"});
  return std::make_unique<WordLevel>(vocabulary, load_unknown_word(model, "<unk>", vocabulary));
}

// Returns the model type of a file from before 2020, which has no "type".
ModelType type_by_fields(const JsonView& model) {
  if (model.has("merges")) return ModelType::bpe;
  if (model.at("vocab").is_array()) return ModelType::unigram;
  const bool pieces = model.has("continuing_subword_prefix") || model.has("max_input_chars_per_word");
  return pieces ? ModelType::word_piece : ModelType::word_level;
}

}  // namespace

ModelType model_type(const JsonView& model) {
  if (!model.has("type")) return type_by_fields(model);
  const std::string type = type_of(model);
  if (type == "BPE") return ModelType::bpe;
  if (type == "Unigram") return ModelType::unigram;
  if (type == "WordPiece") return ModelType::word_piece;
  if (type == "WordLevel") return ModelType::word_level;
  refuse_type(model);
}

std::unique_ptr<SubwordModel> load_model(const JsonView& model, bool byte_level,
                                         const Vocabulary& vocabulary) {
  switch (model_type(model)) {
    case ModelType::bpe:
      return load_bpe(model, byte_level, vocabulary);
    case ModelType::unigram:
      return load_unigram(model, vocabulary);
    case ModelType::word_piece:
      return load_word_piece(model, vocabulary);
    case ModelType::word_level:
      return load_word_level(model, vocabulary);
  }
  refuse_type(model);
}

}  // namespace quire
