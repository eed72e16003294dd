#include "tests/support/block_fixture.h"

namespace quire::testing {
namespace {

using kernels::BlockType;

// Returns the place of the f16 scale in a block, of ggml's structs.
size_t scale_place(BlockType type) {
  switch (type) {
    case BlockType::q2_k:
      return 80;
    case BlockType::q3_k:
      return 108;
    case BlockType::q6_k:
      return 208;
    case BlockType::tq1_0:
      return 52;
    case BlockType::tq2_0:
      return 64;
    default:
      return 0;
  }
}

bool has_second_scale(BlockType type) {
  return type == BlockType::q4_1 || type == BlockType::q5_1 || type == BlockType::q2_k ||
         type == BlockType::q4_k || type == BlockType::q5_k;
}

void write_half(uint8_t* bytes, uint16_t half) {
  bytes[0] = static_cast<uint8_t>(half);
  bytes[1] = static_cast<uint8_t>(half >> 8);
}

// Returns plus or minus a number from 2^-7 to 2^-5.
uint16_t moderate_half(Random& random) {
  return static_cast<uint16_t>((random.below(2) << 15) | ((8 + random.below(2)) << 10) | random.below(1024));
}

}  // namespace

kernels::WeightSource BlockFixture::source() const {
  kernels::WeightSource source;
  source.format = kernels::WeightFormat::blocks;
  source.num_in = num_in;
  source.num_out = source.padded_out = num_out;
  source.blocks = {type, rows.data()};
  source.column_order = column_order.empty() ? nullptr : column_order.data();
  source.bias = bias.empty() ? nullptr : bias.data();
  source.prescale = prescale;
  return source;
}

std::vector<float> BlockFixture::values() const {
  std::vector<float> out(static_cast<size_t>(num_in) * static_cast<size_t>(num_out));
  kernels::decode_blocks(type, rows.data(), out.size() / static_cast<size_t>(block_shape(type).weights),
                         out.data());
  return out;
}

std::vector<BlockType> all_block_types() {
  std::vector<BlockType> types;
  for (int i = 1; i < kernels::kNumBlockTypes; ++i) types.push_back(static_cast<BlockType>(i));
  return types;
}

void set_block_scale(BlockType type, uint8_t* block, uint16_t half) {
  if (type == BlockType::nvfp4) return;
  if (type == BlockType::mxfp4) {
    block[0] = static_cast<uint8_t>(half);
  } else if (type == BlockType::iq1_m) {
    for (int i = 0; i < 4; ++i)
      block[49 + 2 * i] = static_cast<uint8_t>((block[49 + 2 * i] & 15) | ((half >> (4 * i) & 15) << 4));
  } else {
    write_half(block + scale_place(type), half);
  }
}

BlockFixture make_blocks(BlockType type, int32_t num_in, int32_t num_out, uint64_t seed) {
  Random random(seed);
  BlockFixture fixture{type, num_in, num_out, {}, {}, {}};
  fixture.rows.resize(fixture.row_bytes() * static_cast<size_t>(num_out));
  for (uint8_t& byte : fixture.rows) byte = static_cast<uint8_t>(random.below(256));
  const auto bytes = static_cast<size_t>(block_shape(type).bytes);
  for (size_t at = 0; at < fixture.rows.size(); at += bytes) {
    uint8_t* block = &fixture.rows[at];
    const bool is_e8m0 = type == BlockType::mxfp4;
    set_block_scale(type, block,
                    is_e8m0 ? static_cast<uint16_t>(118 + random.below(6)) : moderate_half(random));
    if (has_second_scale(type)) write_half(block + scale_place(type) + 2, moderate_half(random));
  }
  return fixture;
}

}  // namespace quire::testing
