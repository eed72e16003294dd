// The formula of the weights in tests/golden/derived, compared with the numbers of its README.
#include "tests/support/derived_weights.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/support/temp_directory.h"

namespace quire::testing {
namespace {

TEST(DerivedWeights, StartAsInTheTableOfTheReadme) {
  using Bits = std::vector<uint64_t>;
  using Elements = std::vector<uint16_t>;
  EXPECT_EQ(derived_bits("lm_head.weight", 3),
            (Bits{0xfe26d58e17aadb45, 0xfc17a7d9b777a837, 0x0ab6a2e3d30d1f8b}));
  EXPECT_EQ(derived_bf16("lm_head.weight", 3, 0.0F, 0.14F), (Elements{0x3e0d, 0x3e0b, 0xbe03}));
  EXPECT_EQ(derived_bits("model.norm.weight", 3),
            (Bits{0x0c76ce58e35720dc, 0x23482d69c64c1e61, 0x66ed3454ea7e614d}));
  EXPECT_EQ(derived_bf16("model.norm.weight", 3, 1.0F, 0.35F), (Elements{0x3f2f, 0x3f3f, 0x3f6e}));
}

TEST(DerivedWeights, RangesOfANameDenoteEveryCombination) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(expand_ranges("norm.weight"), Names{"norm.weight"});
  EXPECT_EQ(expand_ranges("a.{0-1}.b.{9-11}"),
            (Names{"a.0.b.9", "a.0.b.10", "a.0.b.11", "a.1.b.9", "a.1.b.10", "a.1.b.11"}));
  EXPECT_THROW(expand_ranges("a.{0,1}.b"), std::runtime_error);
  EXPECT_THROW(expand_ranges("a.{0-1"), std::runtime_error);
}

TEST(DerivedWeights, BecomeAFileOfTheirTypesAndShapes) {
  const TempDirectory directory;
  const std::string path = directory.write("model.safetensors", derived_safetensors(R"({
      "model.norm.weight": [[3], "BF16", 1, 0.35], "b.{0-1}": [[2, 2], "F32", 0, 0.5], "table": [[3], "I64", [7, -1, 9007199254740993]]})"));
  EXPECT_EQ(read_floats(path, "model.norm.weight"),
            (std::vector<float>{0.68359375F, 0.74609375F, 0.9296875F}));
  for (const char* name : {"b.0", "b.1"}) EXPECT_EQ(read_floats(path, name).size(), 4U);
  EXPECT_NE(read_floats(path, "b.0"), read_floats(path, "b.1"));
  EXPECT_EQ(read_ids(path, "table"), (TokenIds{7, 0, -1, -1, 1, 0x200000}));  // in halves of four bytes
}

TEST(DerivedWeights, RefuseRowsOfAnotherForm) {
  for (const char* rows :
       {R"({"a": [[2], "F16", 0, 1]})", R"({"a": [[2], "BF16", [1, 2]]})", R"({"a": [[2], "BF16"]})"})
    EXPECT_THROW(derived_safetensors(rows), std::runtime_error) << rows;
}

}  // namespace
}  // namespace quire::testing
