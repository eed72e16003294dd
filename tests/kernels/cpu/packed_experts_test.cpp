// What a card needs of this backend to multiply host experts: descriptions of matrices, and copies.
#include <cstring>
#include <numeric>

#include "tests/kernels/cpu/cpu_device.h"

namespace quire::testing {
namespace {

using kernels::CopyPiece;
using kernels::PackedPart;
using kernels::PackedWeight;
using kernels::Status;

TEST(DescribeWeight, CoversAllBytesOfAnExl2Matrix) {
  CpuDevice device("scalar");
  Exl2Options options;
  options.groups = {{6, 64}, {4, 96}, {3, 32}};
  options.num_out = 72;
  options.bias = true;
  const WeightFixture gate = make_exl2(options);
  options.seed = 2;
  const WeightFixture up = make_exl2(options);
  const CpuWeight weight(device, {gate.source(), up.source()});
  PackedWeight described;
  ASSERT_EQ(device.table().describe_weight(weight.get(), &described), Status::ok);
  ASSERT_EQ(described.num_parts, 2);
  EXPECT_EQ(described.num_in, 192);
  EXPECT_EQ(described.num_out, 144);
  uint64_t bytes = 0;
  for (const PackedPart& part : described.parts) {
    EXPECT_EQ(part.num_out, 72);
    EXPECT_EQ(part.num_panels, 5);
    EXPECT_EQ(std::accumulate(part.group_blocks, part.group_blocks + part.num_groups, 0),
              part.order.num_blocks());
    bytes += part.code_bytes() + part.nibble_bytes() + part.table_bytes() + part.bias_bytes() +
             static_cast<size_t>(part.order.num_rows) * sizeof(int32_t);
  }
  EXPECT_EQ(bytes, device.table().weight_bytes(weight.get()));
}

TEST(DescribeWeight, RefusesOtherForms) {
  CpuDevice device("scalar");
  const WeightFixture dense = make_dense({}), coded = make_coded({}), exl2 = make_exl2({{{4, 32}}});
  const CpuWeight of_dense(device, {dense.source()}), of_coded(device, {coded.source()});
  const CpuWeight of_three(device, {exl2.source(), exl2.source(), exl2.source()});
  for (const kernels::Weight* weight : {of_dense.get(), of_coded.get(), of_three.get()}) {
    PackedWeight described;
    EXPECT_EQ(device.table().describe_weight(weight, &described), Status::unsupported);
  }
}

TEST(CopyPieces, CopiesAllBytesAndNoOther) {
  CpuDevice device("scalar", 3);
  const std::vector<size_t> sizes = {0, 1, 131072, 131073, 5, 400000, 0, 64};
  const size_t total = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
  std::vector<uint8_t> from(total), to(total + 2 * sizes.size(), 0xee);
  for (size_t i = 0; i < total; ++i) from[i] = static_cast<uint8_t>(i * 31 + i / 251);
  std::vector<CopyPiece> pieces;
  size_t source = 0, target = 1;
  for (const size_t bytes : sizes) {
    pieces.push_back({to.data() + target, from.data() + source, bytes});
    source += bytes;
    target += bytes + 2;
  }
  ASSERT_EQ(device.table().copy_pieces(device.context(), pieces.data(), static_cast<int32_t>(pieces.size())),
            Status::ok);
  for (const CopyPiece& piece : pieces) {
    const auto* const at = static_cast<const uint8_t*>(piece.to);
    EXPECT_TRUE(piece.bytes == 0 || std::memcmp(at, piece.from, piece.bytes) == 0) << piece.bytes;
    EXPECT_EQ(at[-1], 0xee);
    EXPECT_EQ(at[piece.bytes], 0xee);
  }
  EXPECT_EQ(device.table().copy_pieces(device.context(), nullptr, 0), Status::ok);
}

}  // namespace
}  // namespace quire::testing
