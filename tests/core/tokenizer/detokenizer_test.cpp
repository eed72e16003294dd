#include "core/tokenizer/detokenizer.h"

#include <random>

#include <gtest/gtest.h>

#include "core/base/utf8.h"
#include "core/tokenizer/lossy_utf8.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

// Replaces maximal subparts in a whole text, by the table of well-formed sequences (Unicode, table 3-7).
std::string lossy_reference(const std::string& bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(i < bytes.size() ? bytes[i] : 0); };
  const auto tail = [&](size_t i) { return at(i) >= 0x80 && at(i) <= 0xbf && i < bytes.size(); };
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Char next = decode_utf8(bytes, i);
    if (next.valid) {
      out.append(bytes, i, next.length);
      i += next.length;
      continue;
    }
    const unsigned char lead = at(i);
    const unsigned char second = at(i + 1);
    bool second_fits = tail(i + 1);
    if (lead == 0xe0) second_fits = second >= 0xa0 && second <= 0xbf;
    if (lead == 0xed) second_fits = second >= 0x80 && second <= 0x9f;
    if (lead == 0xf0) second_fits = second >= 0x90 && second <= 0xbf;
    if (lead == 0xf4) second_fits = second >= 0x80 && second <= 0x8f;
    size_t length = 1;
    if (lead >= 0xe0 && lead <= 0xef && second_fits) length = 2;
    if (lead >= 0xf0 && lead <= 0xf4 && second_fits) length = tail(i + 2) ? 3 : 2;
    out += "\xef\xbf\xbd";
    i += length;
  }
  return out;
}

std::string random_bytes(std::mt19937& random) {
  static constexpr unsigned char kLikely[] = {0x41, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf,
                                              0xe0, 0xe4, 0xed, 0xef, 0xf0, 0xf3, 0xf4, 0xf5, 0xff, 0xbd};
  std::string bytes;
  for (size_t i = random() % 12; i-- > 0;) bytes += static_cast<char>(kLikely[random() % std::size(kLikely)]);
  return bytes;
}

TEST(LossyUtf8, ResultDoesNotDependOnSegmentation) {
  std::mt19937 random(5);
  for (int round = 0; round < 100000 / testing::stride_if_sanitized(20); ++round) {
    const std::string bytes = random_bytes(random);
    LossyUtf8 lossy;
    std::string out;
    for (size_t pos = 0; pos < bytes.size();) {
      const size_t length = 1 + random() % 4;
      lossy.push(std::string_view(bytes).substr(pos, length), out);
      ASSERT_EQ(find_invalid_utf8(out), out.size());
      ASSERT_LE(lossy.num_held_bytes(), 3U);
      pos += length;
    }
    lossy.finish(out);
    ASSERT_EQ(out, lossy_reference(bytes));
  }
}

// Two characters of each length, split in every way, with byte tokens and longer ones.
TEST(Detokenizer, HandlesEverySplitOfMultiByteText) {
  const auto tokenizer = load_json(tiny_tokenizer());
  std::u32string alphabet = U"a\u0000\u00e9\u07ff\u0800\u4e2d\ufffd\uffff\U00010000\U0001f600\U0010ffff";
  for (const char32_t first : alphabet) {
    for (const char32_t second : alphabet) {
      const std::string text = utf8(std::u32string{first, second});
      Detokenizer detokenizer(*tokenizer);
      std::string out;
      size_t num_whole = 0;  // bytes of whole characters so far
      for (size_t i = 0; i < text.size(); ++i) {
        detokenizer.push(static_cast<unsigned char>(text[i]), out);
        const size_t first_bytes = utf8(std::u32string{first}).size();
        num_whole = i + 1 >= text.size() ? text.size() : i + 1 >= first_bytes ? first_bytes : 0;
        EXPECT_EQ(out, text.substr(0, num_whole));
        EXPECT_EQ(detokenizer.num_held_bytes(), i + 1 - num_whole);
      }
      EXPECT_FALSE(detokenizer.finish(out));
      EXPECT_EQ(out, text);
    }
  }
}

TEST(Detokenizer, RandomIdsDecodeLikeTheirBytes) {
  std::mt19937 random(9);
  for (const auto& kind : byte_level_kinds()) {
    const auto tokenizer = load_golden(kind);
    for (int round = 0; round < 500; ++round) {
      TokenIds ids;
      std::string bytes;
      for (size_t i = random() % 20; i-- > 0;) {
        // Half of the ids are single bytes, which are mostly incomplete characters.
        const size_t num_ids = random() % 2 == 0 ? 300 : tokenizer->vocab_size() + 5;
        const auto id = static_cast<TokenId>(random() % num_ids);
        ids.push_back(id);
        if (!tokenizer->is_special(id)) bytes += tokenizer->token_bytes(id);
      }
      Detokenizer detokenizer(*tokenizer);
      std::string out;
      for (const TokenId id : ids) {
        detokenizer.push(id, out);
        ASSERT_EQ(find_invalid_utf8(out), out.size());
        ASSERT_LE(detokenizer.num_held_bytes(), 3U);
      }
      detokenizer.finish(out);
      EXPECT_EQ(out, tokenizer->decode(ids, true));
      EXPECT_EQ(out, lossy_reference(bytes));
    }
  }
}

TEST(Detokenizer, CopiesContinueFromTheSameState) {
  const auto tokenizer = load_json(tiny_tokenizer());
  Detokenizer detokenizer(*tokenizer);
  std::string out;
  detokenizer.push(0xe4, out);
  detokenizer.push(0xb8, out);
  Detokenizer fork = detokenizer;
  std::string fork_out;
  fork.push('x', fork_out);
  EXPECT_EQ(fork_out, utf8(U"\ufffdx"));
  detokenizer.push(0xad, out);
  EXPECT_EQ(out, utf8(U"\u4e2d"));
}

TEST(Detokenizer, FinishReplacesAnIncompleteTail) {
  const auto tokenizer = load_json(tiny_tokenizer());
  Detokenizer detokenizer(*tokenizer);
  std::string out;
  detokenizer.push(0xf0, out);
  detokenizer.push(0x9f, out);
  EXPECT_EQ(out, "");
  EXPECT_TRUE(detokenizer.finish(out));
  EXPECT_EQ(out, utf8(U"\ufffd"));
  EXPECT_FALSE(detokenizer.finish(out));
}

TEST(Detokenizer, PassesALiteralReplacementCharacter) {
  const auto tokenizer = load_json(tiny_tokenizer());
  Detokenizer detokenizer(*tokenizer);
  std::string out;
  for (const TokenId byte : {0xef, 0xbf, 0xbd}) detokenizer.push(byte, out);
  EXPECT_EQ(out, utf8(U"\ufffd"));
  EXPECT_EQ(detokenizer.num_held_bytes(), 0U);
}

}  // namespace
}  // namespace quire
