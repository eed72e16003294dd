#include "core/net/address.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

TEST(Address, ReadsNamesAndNumbers) {
  EXPECT_EQ(parse_address("10.0.0.2:7430"), (NetAddress{"10.0.0.2", 7430}));
  EXPECT_EQ(parse_address("stage-1.local:1"), (NetAddress{"stage-1.local", 1}));
  EXPECT_EQ(parse_address("[fe80::2%eth0]:65535"), (NetAddress{"fe80::2%eth0", 65535}));
  EXPECT_EQ(parse_address("h:0", true), (NetAddress{"h", 0}));
  EXPECT_EQ(parse_address("[::1]:7430").text(), "[::1]:7430");
  EXPECT_EQ(parse_address("h:7430").text(), "h:7430");
}

TEST(Address, RefusesAnythingElse) {
  const std::string long_host = std::string(254, 'a') + ":1";
  for (const std::string& text :
       {std::string(), std::string("h"), std::string(":1"), std::string("h:"), std::string("h:0"),
        std::string("h:65536"), std::string("h:-1"), std::string("h:1 "), std::string("a/b:1"),
        std::string("::1:7430"), std::string("[]:1"), std::string("h\n:1"), std::string("h:+1"), long_host}) {
    SCOPED_TRACE(text);
    expect_error(ErrorCode::invalid_argument, {"HOST:PORT"}, [&] { (void)parse_address(text); });
  }
}

}  // namespace
}  // namespace quire::testing
