#include "capi/hub/digest.h"

#include <gtest/gtest.h>

#include "core/base/hex.h"
#include "core/base/sha256.h"

namespace quire::hub {
namespace {

// Sizes around the ends of blocks and of the padding.
constexpr size_t kSizes[] = {0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 1000};

std::string sha1_of(std::string_view text) {
  Sha1 sha1;
  sha1.add(text);
  return sha1.finish();
}

// The examples of FIPS 180-4.
TEST(DigestTest, Sha1HasThePublishedValues) {
  EXPECT_EQ(sha1_of(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(sha1_of("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sha1_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(sha1_of(std::string(1000000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST(DigestTest, Sha256HasThePublishedValues) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(DigestTest, PiecesOfAnySizeGiveTheDigestOfTheWhole) {
  for (const size_t size : kSizes) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 37 + size);
    for (const size_t step : {size_t{1}, size_t{7}, size_t{63}, size_t{64}, size_t{65}, size_t{500}}) {
      Sha1 sha1;
      Sha256Stream sha256;
      for (size_t at = 0; at < size; at += step) {
        sha1.add(std::string_view(text).substr(at, step));
        sha256.add(std::string_view(text).substr(at, step));
      }
      EXPECT_EQ(sha1.finish(), sha1_of(text)) << size << " by " << step;
      EXPECT_EQ(to_hex(sha256.finish()), sha256_hex(text)) << size << " by " << step;
    }
  }
}

}  // namespace
}  // namespace quire::hub
