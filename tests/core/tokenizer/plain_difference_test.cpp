// Random models, texts and tokens, compared with plain implementations of the same definitions.
// QUIRE_TOKENIZER_ROUNDS sets the number of rounds.
#include <cstdlib>
#include <functional>
#include <random>
#include <set>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/tokenizer/detokenizer.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"
#include "tests/support/case_stride.h"
#include "tests/support/plain_tokenizer.h"

namespace quire {
namespace {

using testing::decode_plainly;
using testing::encode_plainly;

int num_rounds() {
  const char* const given = std::getenv("QUIRE_TOKENIZER_ROUNDS");
  return given != nullptr ? std::atoi(given) : 300 / testing::stride_if_sanitized(5);
}

// Few characters, so that tokens overlap and compete; some never get a token.
const std::vector<std::string>& alphabet() {
  static const auto* characters =
      new std::vector<std::string>{"a", "b", "c", "\xc3\xa9", "\xe4\xb8\xad", "x", "\xf0\x9f\x98\x80"};
  return *characters;
}
constexpr size_t kNumKnown = 5;  // of the alphabet

std::string random_text(std::mt19937& random, size_t max_length) {
  std::string text;
  for (size_t i = 1 + random() % max_length; i-- > 0;) {
    // Unknown characters are rare, so that long merges occur.
    const size_t idx = random() % 8 == 0 ? random() % alphabet().size() : random() % kNumKnown;
    text += alphabet()[idx];
  }
  return text;
}

std::string random_piece(std::mt19937& random) {
  return random_text(random, random() % 4 == 0 ? 120 : 12);
}

void add_bytes(std::mt19937& random, const std::function<void(const std::string&)>& add) {
  const bool all = random() % 2 == 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (all || byte != 0x98) add(fmt::format("<0x{:02X}>", byte));
  }
}

Json random_bpe(std::mt19937& random) {
  Json model = {{"type", "BPE"}, {"merges", Json::array()}, {"vocab", Json::object()}};
  const std::string prefix = random() % 4 == 0 ? "##" : "";
  const std::string suffix = random() % 4 == 0 ? "</w>" : "";
  if (!prefix.empty()) model["continuing_subword_prefix"] = prefix;
  if (!suffix.empty()) model["end_of_word_suffix"] = suffix;
  std::vector<std::string> tokens;
  const auto add = [&](const std::string& token) {
    if (model["vocab"].contains(token)) return;
    const size_t id = model["vocab"].size();
    model["vocab"][token] = id;
  };
  add("?");
  for (size_t i = 0; i < kNumKnown; ++i) {
    for (const std::string& before : {std::string(), prefix}) {
      for (const std::string& after : {std::string(), suffix}) {
        tokens.push_back(before + alphabet()[i] + after);
        add(tokens.back());
      }
    }
  }
  for (size_t i = random() % 40; i-- > 0;) {
    const std::string left = tokens[random() % tokens.size()];
    const std::string right = tokens[random() % tokens.size()];
    const bool fits = right.starts_with(prefix) && (suffix.empty() || !left.ends_with(suffix));
    if (!fits) continue;
    model["merges"].push_back({left, right});
    tokens.push_back(left + right.substr(prefix.size()));
    add(tokens.back());
  }
  if (random() % 2 == 0) model["unk_token"] = "?";
  model["fuse_unk"] = random() % 2 == 0;
  model["ignore_merges"] = random() % 4 == 0;
  model["byte_fallback"] = random() % 2 == 0;
  if (model["byte_fallback"].get<bool>()) add_bytes(random, add);
  return model;
}

Json random_unigram(std::mt19937& random) {
  Json vocab = Json::array();
  std::set<std::string> known;
  const auto add = [&](const std::string& token) {
    // Coarse scores, so that paths tie.
    if (known.insert(token).second) vocab.push_back({token, -0.5 * static_cast<double>(random() % 12)});
  };
  add("?");
  for (size_t i = 0; i < kNumKnown; ++i) add(alphabet()[i]);
  for (size_t i = random() % 40; i-- > 0;) add(random_text(random, 6));
  Json model = {{"type", "Unigram"}, {"unk_id", 0}, {"byte_fallback", random() % 2 == 0}};
  if (model["byte_fallback"].get<bool>()) add_bytes(random, add);
  model["vocab"] = vocab;
  return model;
}

Json random_word_piece(std::mt19937& random) {
  Json model = {
      {"type", "WordPiece"}, {"unk_token", "?"}, {"max_input_chars_per_word", 20}, {"vocab", Json::object()}};
  model["continuing_subword_prefix"] = random() % 4 == 0 ? "" : "##";
  const auto add = [&](const std::string& token) {
    if (model["vocab"].contains(token)) return;
    const size_t id = model["vocab"].size();
    model["vocab"][token] = id;
  };
  add("?");
  for (size_t i = 0; i < kNumKnown; ++i) {
    if (random() % 8 != 0) add(alphabet()[i]);
    if (random() % 8 != 0) add("##" + alphabet()[i]);
  }
  for (size_t i = random() % 40; i-- > 0;) add((random() % 2 == 0 ? "##" : "") + random_text(random, 6));
  return model;
}

void compare(const Json& model, std::mt19937& random) {
  const auto tokenizer = load_json({{"model", model}});
  for (int i = 0; i < 8; ++i) {
    const std::string piece = random_piece(random);
    SCOPED_TRACE(model.dump() + ": " + piece);
    const auto plain = encode_plainly(model, piece);
    ASSERT_TRUE(plain.has_value());
    ASSERT_EQ(tokenizer->encode(piece, kBare), TokenIds(plain->begin(), plain->end()));
  }
}

TEST(PlainDifference, BpeMatches) {
  std::mt19937 random(21);
  for (int round = 0; round < num_rounds() && !HasFatalFailure(); ++round)
    compare(random_bpe(random), random);
}

TEST(PlainDifference, UnigramMatches) {
  std::mt19937 random(22);
  for (int round = 0; round < num_rounds() && !HasFatalFailure(); ++round)
    compare(random_unigram(random), random);
}

TEST(PlainDifference, WordPieceMatches) {
  std::mt19937 random(23);
  for (int round = 0; round < num_rounds() && !HasFatalFailure(); ++round)
    compare(random_word_piece(random), random);
}

const std::vector<std::string>& decoders() {
  static const auto* list = new std::vector<std::string>{
      R"({"type": "ByteFallback"})",
      R"({"type": "Fuse"})",
      R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": true})",
      R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "never", "split": true})",
      R"({"type": "WordPiece", "prefix": "##", "cleanup": true})",
      R"({"type": "WordPiece", "prefix": "##", "cleanup": false})",
      R"({"type": "BPEDecoder", "suffix": "</w>"})",
      R"({"type": "CTC", "pad_token": "a", "word_delimiter_token": "_", "cleanup": true})",
      R"({"type": "Strip", "content": "_", "start": 1, "stop": 1})",
      R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "_"}, "content": " "},
          {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})",
      R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"},
          {"type": "Strip", "content": "_", "start": 2, "stop": 3}]})",
      R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"},
          {"type": "Replace", "pattern": {"String": "aab"}, "content": "[]"}]})",
      R"({"type": "Sequence", "decoders": [{"type": "BPEDecoder", "suffix": "</w>"}, {"type": "Fuse"},
          {"type": "Replace", "pattern": {"String": "_ "}, "content": "_"}]})",
      R"({"type": "Sequence", "decoders": [{"type": "WordPiece", "prefix": "##", "cleanup": true}, {"type": "Fuse"},
          {"type": "Strip", "content": "a", "start": 3, "stop": 2}]})"};
  return *list;
}

Json decoding_vocabulary() {
  Json vocab = Json::object();
  for (const char* token : {"a",        "b",
                            "_",        "__",
                            "_a",       "a_",
                            "aa",       "##b",
                            "##",       "a</w>",
                            "</w>",     "_</w>b</w>",
                            "ab",       " .",
                            ".",        "n't",
                            "do",       " do not",
                            "'",        " ' ",
                            "\xc3\xa9", "\xe4\xb8\xad_",
                            "<0xE4>",   "<0xB8>",
                            "<0xAD>",   "<0x41>",
                            "<0xFF>",   "<0xC3>",
                            "<0xA9>",   "<0x5F>",
                            "<0xF0>",   "<0x9F>"}) {
    const size_t id = vocab.size();
    vocab[token] = id;
  }
  return vocab;
}

// The text decoded token by token, also by a copy made half-way, equals the decoded list.
TEST(PlainDifference, StreamsOfAllDecodersMatch) {
  std::mt19937 random(24);
  const Json vocab = decoding_vocabulary();
  for (const std::string& text : decoders()) {
    const Json decoder = Json::parse(text);
    const auto tokenizer =
        load_json({{"decoder", decoder}, {"model", {{"type", "WordLevel"}, {"vocab", vocab}}}});
    for (int round = 0; round < num_rounds(); ++round) {
      Detokenizer detokenizer(*tokenizer);
      std::string streamed;
      std::vector<std::string> tokens;
      for (size_t i = random() % 12; i-- > 0;) {
        const auto id = static_cast<TokenId>(random() % vocab.size());
        tokens.emplace_back(tokenizer->token_text(id));
        if (random() % 4 == 0) detokenizer = Detokenizer(detokenizer);
        detokenizer.push(id, streamed);
        ASSERT_EQ(find_invalid_utf8(streamed), streamed.size());
      }
      detokenizer.finish(streamed);
      ASSERT_EQ(streamed, decode_plainly(decoder, tokens)) << text << Json(tokens).dump();
    }
  }
}

}  // namespace
}  // namespace quire
