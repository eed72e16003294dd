// Values of blocks against those of ggml, and blocks with scales that are not finite.
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "tests/kernels/cpu/cpu_device.h"
#include "tests/support/block_fixture.h"

namespace quire::testing {
namespace {

using kernels::BlockType;

// Takes the next `count` bytes of a file in memory.
const uint8_t* take(const std::vector<uint8_t>& file, size_t& at, size_t count) {
  EXPECT_LE(at + count, file.size());
  const uint8_t* bytes = file.data() + at;
  at += count;
  return bytes;
}

TEST(BlockCodes, AreTheValuesOfGgmlBitForBit) {
  std::ifstream stream(QUIRE_TEST_DATA "/formats/gguf_blocks.bin", std::ios::binary);
  const std::vector<uint8_t> file{std::istreambuf_iterator<char>(stream), {}};
  ASSERT_FALSE(file.empty());
  size_t at = 0;
  for (const BlockType type : all_block_types()) {
    const kernels::BlockShape& shape = kernels::block_shape(type);
    const std::string name(reinterpret_cast<const char*>(take(file, at, 8)));
    uint32_t counts[2];
    std::memcpy(counts, take(file, at, sizeof counts), sizeof counts);
    ASSERT_EQ(name, shape.name);
    ASSERT_EQ(counts[1], counts[0] * static_cast<uint32_t>(shape.weights));
    const uint8_t* blocks = take(file, at, counts[0] * static_cast<size_t>(shape.bytes));
    std::vector<float> expected(counts[1]), values(counts[1]);
    std::memcpy(expected.data(), take(file, at, expected.size() * sizeof(float)),
                expected.size() * sizeof(float));
    kernels::decode_blocks(type, blocks, counts[0], values.data());
    EXPECT_EQ(bits_of(values), bits_of(expected)) << name;
    EXPECT_EQ(kernels::first_unsound_block(type, blocks, counts[0]), counts[0]) << name;
  }
  EXPECT_EQ(at, file.size());
}

TEST(BlockCodes, AnyBytesAreABlock) {
  Random random(fresh_seed());
  std::vector<uint8_t> bytes(4096);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.below(256));
  for (const BlockType type : all_block_types()) {
    const kernels::BlockShape& shape = kernels::block_shape(type);
    const size_t count = bytes.size() / static_cast<size_t>(shape.bytes);
    std::vector<float> values(count * static_cast<size_t>(shape.weights));
    kernels::decode_blocks(type, bytes.data(), count, values.data());
    const size_t unsound = kernels::first_unsound_block(type, bytes.data(), count);
    for (size_t i = 0; i < unsound * static_cast<size_t>(shape.weights); ++i)
      ASSERT_TRUE(std::isfinite(values[i])) << shape.name << " weight " << i;
  }
}

TEST(BlockCodes, FindTheFirstScaleThatIsNotFinite) {
  for (const BlockType type : all_block_types()) {
    if (type == BlockType::nvfp4) continue;
    const kernels::BlockShape& shape = kernels::block_shape(type);
    for (const uint16_t half : {uint16_t{0x7c00}, uint16_t{0xfc00}, uint16_t{0x7eff}}) {
      BlockFixture fixture = make_blocks(type, shape.weights, 5, fresh_seed());
      EXPECT_EQ(kernels::first_unsound_block(type, fixture.rows.data(), 5), 5U) << shape.name;
      set_block_scale(type, &fixture.rows[3 * static_cast<size_t>(shape.bytes)],
                      type == BlockType::mxfp4 ? 0xff : half);
      EXPECT_EQ(kernels::first_unsound_block(type, fixture.rows.data(), 5), 3U) << shape.name;
    }
  }
}

}  // namespace
}  // namespace quire::testing
