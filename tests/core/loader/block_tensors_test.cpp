// Scales of blocks that a device reads in pieces.
#include "core/loader/block_tensors.h"

#include <cstring>

#include <gtest/gtest.h>

#include "core/loader/stored_type.h"
#include "tests/support/block_fixture.h"
#include "tests/support/expect_error.h"

namespace quire {
namespace {

using kernels::BlockType;
using testing::BlockFixture;

// Returns the bytes of the matrix as a tensor whose bytes are still in a file.
HostTensor in_file(const BlockFixture& fixture) {
  const std::vector<uint8_t>& rows = fixture.rows;
  HostTensor tensor = HostTensor::in_file(DType::u8, {fixture.num_out, fixture.num_in}, rows.size(),
                                          [&rows](uint64_t offset, gsl::span<std::byte> out) {
                                            std::memcpy(out.data(), &rows[offset], out.size());
                                          });
  tensor.set_blocks(fixture.type);
  return tensor;
}

// Reads the tensor as a device does. Returns false if a piece is refused.
bool read_in_pieces(const HostTensor& tensor, size_t piece_bytes) {
  const kernels::UnreadBytes& bytes = *tensor.unread()->bytes();
  std::vector<std::byte> piece(piece_bytes);
  for (size_t at = 0; at < tensor.size_bytes(); at += piece_bytes) {
    const size_t count = std::min(piece_bytes, tensor.size_bytes() - at);
    if (!bytes.read(bytes.owner, at, piece.data(), count)) return false;
  }
  return true;
}

TEST(BlockTensors, PiecesOfAnySizeAreChecked) {
  for (const size_t piece : {1, 17, 144, 150, 288, 1000, 100000}) {
    BlockFixture fixture = testing::make_blocks(BlockType::q4_k, 512, 6, piece);
    HostTensor sound = in_file(fixture);
    require_finite_scales(sound, "here");
    EXPECT_TRUE(read_in_pieces(sound, piece)) << piece;
    EXPECT_TRUE(read_in_pieces(sound, piece)) << "a second time, " << piece;
    testing::set_block_scale(fixture.type, &fixture.rows[7 * 144], 0x7c00);
    HostTensor unsound = in_file(fixture);
    require_finite_scales(unsound, "here");
    EXPECT_FALSE(read_in_pieces(unsound, piece)) << piece;
    testing::expect_error(ErrorCode::numeric, {"here: the scale of block 7 is not a finite number"},
                          [&] { unsound.unread()->rethrow_failure(); });
  }
}

TEST(BlockTensors, BytesInMemoryAreCheckedAtOnce) {
  BlockFixture fixture = testing::make_blocks(BlockType::q6_k, 256, 6, 1);
  testing::set_block_scale(fixture.type, &fixture.rows[2 * 210], 0x7e00);
  HostTensor tensor(DType::u8, {6, 256}, fixture.rows.size(), "rows");
  std::memcpy(tensor.bytes().data(), fixture.rows.data(), fixture.rows.size());
  tensor.set_blocks(fixture.type);
  testing::expect_error(ErrorCode::numeric, {"block 2"}, [&] { require_finite_scales(tensor, "here"); });
}

TEST(BlockTensors, EachTypeHasANameOfItsOwn) {
  for (const BlockType type : testing::all_block_types()) {
    const StoredType& stored = stored_type_of(type);
    EXPECT_TRUE(stored.has_blocks());
    EXPECT_EQ(stored.blocks, type);
    EXPECT_EQ(stored.name, kernels::block_shape(type).name);
    EXPECT_EQ(find_stored_type(stored.name), nullptr) << "a safetensors file has no blocks";
  }
}

}  // namespace
}  // namespace quire
