#include "core/config/generation_rules.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "core/base/error.h"

namespace quire {
namespace {

constexpr size_t kMaxIds = 1024;
constexpr size_t kMaxWords = 65536;

// A number that changes the output unless it is `neutral`.
struct NeutralNumber {
  std::string_view field;
  double neutral;
};
constexpr std::array<NeutralNumber, 13> kNumbers = {{
    {"num_beams", 1},
    {"num_beam_groups", 1},
    {"diversity_penalty", 0},
    {"no_repeat_ngram_size", 0},
    {"penalty_alpha", 0},
    {"encoder_repetition_penalty", 1},
    {"guidance_scale", 1},
    {"encoder_no_repeat_ngram_size", 0},
    {"epsilon_cutoff", 0},
    {"eta_cutoff", 0},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"num_return_sequences", 1},
}};

// Fields that change the output whatever their value.
constexpr std::array<std::string_view, 8> kOthers = {
    "forced_bos_token_id", "forced_eos_token_id", "forced_decoder_ids", "exponential_decay_length_penalty",
    "sequence_bias",       "watermarking_config", "stop_strings",       "dola_layers"};

TokenIds read_ids(const JsonView& list, int32_t vocab_size, size_t max_ids) {
  if (list.elements().size() > max_ids)
    throw Error(ErrorCode::format, "{} has more than {} entries", list.where(), max_ids);
  TokenIds ids;
  for (const JsonView& item : list.items()) {
    const int64_t id = item.as_int(-1, INT32_MAX);
    if (id >= 0 && id < vocab_size) ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

// Reads words that are not to be generated; those of several tokens cannot be expressed.
void read_bad_words(const JsonView& words, int32_t vocab_size, GenerationRules& rules) {
  if (words.elements().size() > kMaxWords)
    throw Error(ErrorCode::format, "{} has more than {} entries", words.where(), kMaxWords);
  size_t num_long = 0;
  for (const JsonView& word : words.items()) {
    const TokenIds ids = read_ids(word, vocab_size, kMaxIds);
    if (word.elements().size() > 1) ++num_long;
    if (word.elements().size() == 1 && !ids.empty()) rules.banned_ids.push_back(ids.front());
  }
  if (num_long > 0) rules.unused.push_back(fmt::format("bad_words_ids ({} of several tokens)", num_long));
}

}  // namespace

GenerationRules read_generation_rules(const JsonView& generation, int32_t vocab_size) {
  GenerationRules rules;
  if (const auto ids = generation.find("suppress_tokens"))
    rules.banned_ids = read_ids(*ids, vocab_size, kMaxWords);
  if (const auto ids = generation.find("begin_suppress_tokens"))
    rules.first_banned_ids = read_ids(*ids, vocab_size, kMaxIds);
  if (const auto words = generation.find("bad_words_ids")) read_bad_words(*words, vocab_size, rules);
  for (const NeutralNumber& row : kNumbers) {
    const auto value = generation.find(row.field);
    if (!value) continue;
    const int64_t* const whole = value->raw().as_int();
    const double* const fraction = value->raw().as_double();
    const double number = whole != nullptr      ? static_cast<double>(*whole)
                          : fraction != nullptr ? *fraction
                                                : row.neutral;
    if (number != row.neutral) rules.unused.push_back(fmt::format("{} {}", row.field, number));
  }
  for (const std::string_view field : kOthers)
    if (generation.has(field)) rules.unused.emplace_back(field);
  return rules;
}

}  // namespace quire
