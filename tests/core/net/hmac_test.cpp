// HMAC-SHA-256 against the vectors of RFC 4231.
#include "core/net/hmac.h"

#include <gtest/gtest.h>

#include "core/base/hex.h"

namespace quire::testing {
namespace {

std::string code_of(std::string_view key, std::initializer_list<std::string_view> pieces) {
  return to_hex(HmacKey(key).sign(pieces));
}

TEST(Hmac, EqualsTheVectorsOfTheStandard) {
  EXPECT_EQ(code_of(std::string(20, '\x0b'), {"Hi There"}),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(code_of("Jefe", {"what do ya want ", "for nothing?"}),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(code_of(std::string(20, '\xaa'), {std::string(50, '\xdd')}),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(code_of(std::string(131, '\xaa'), {"Test Using Larger Than Block-Size Key - Hash Key First"}),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, PiecesAreOneText) {
  const HmacKey key("key");
  EXPECT_EQ(key.sign({"ab", "", "c"}), key.sign({"abc"}));
  EXPECT_NE(key.sign({"abc"}), key.sign({"abd"}));
}

TEST(Hmac, ComparesAllBytes) {
  const Sha256 code = HmacKey("key").sign({"text"});
  EXPECT_TRUE(equal_in_constant_time(code, code));
  for (size_t i = 0; i < code.size(); ++i) {
    Sha256 other = code;
    other[i] = static_cast<uint8_t>(other[i] ^ 0x80);
    EXPECT_FALSE(equal_in_constant_time(code, other)) << i;
  }
  EXPECT_FALSE(equal_in_constant_time(gsl::span<const uint8_t>(code).first(31), code));
}

TEST(Hmac, RandomBytesDiffer) {
  EXPECT_NE(random_bytes(), random_bytes());
}

}  // namespace
}  // namespace quire::testing
