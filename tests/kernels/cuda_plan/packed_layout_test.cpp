// How packed experts lie in a staging buffer, and the tables by which kernels walk through them.
#include "kernels/cuda/plan/packed_layout.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace quire::kernels {
namespace {

// A part whose codes are numbered bytes. Groups as (bits, blocks).
struct StoredPart {
  std::vector<QuantRun> runs;
  std::vector<int32_t> group_blocks, features;
  std::vector<uint8_t> codes, nibbles;
  std::vector<float> table, bias;
  PackedPart part;
  uint64_t bytes = 0;  // as the CPU backend counts them

  StoredPart(const std::vector<std::pair<int32_t, int32_t>>& groups, int32_t num_out, bool has_bias) {
    size_t words = 0;
    int32_t blocks = 0;
    for (const auto& [bits, count] : groups) {
      if (runs.empty() || runs.back().bits != bits) runs.push_back({bits, 0});
      ++runs.back().num_groups;
      group_blocks.push_back(count);
      words += static_cast<size_t>(bits * count * kPackedColumns);
      blocks += count;
    }
    part.num_out = num_out;
    part.num_panels = (num_out - 1) / kPackedColumns + 1;
    part.num_groups = static_cast<int32_t>(groups.size());
    part.panel_bytes = words * sizeof(uint32_t);
    features.assign(static_cast<size_t>(blocks * kPackedRows), 3);
    codes.resize(part.code_bytes());
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 7);
    nibbles.assign(part.nibble_bytes(), 0x21);
    table.assign(part.table_bytes() / sizeof(float), 0.5f);
    if (has_bias) bias.assign(static_cast<size_t>(part.num_panels) * kPackedColumns, 0.25f);
    part.order = {features.data(), static_cast<int32_t>(features.size())};
    part.runs = runs.data();
    part.num_runs = static_cast<int32_t>(runs.size());
    part.group_blocks = group_blocks.data();
    part.codes = codes.data();
    part.nibbles = nibbles.data();
    part.scale_table = table.data();
    part.bias = has_bias ? bias.data() : nullptr;
    bytes = codes.size() + nibbles.size() + part.table_bytes() + part.bias_bytes();
  }
  StoredPart(const StoredPart&) = delete;
  StoredPart& operator=(const StoredPart&) = delete;
};

class PackedLayout : public ::testing::Test {
 protected:
  PackedLayout() {
    expert_.gate_up.num_parts = 2;
    expert_.gate_up.parts[0] = gate_.part;
    expert_.gate_up.parts[1] = up_.part;
    expert_.down.num_parts = 1;
    expert_.down.parts[0] = down_.part;
  }
  uint64_t weight_bytes(bool shares_order) const {
    const uint64_t orders =
        gate_.features.size() + (shares_order ? 0 : up_.features.size()) + down_.features.size();
    return gate_.bytes + up_.bytes + down_.bytes + orders * sizeof(int32_t);
  }
  // Stages the expert at an offset, does the copies and returns the record, whose addresses are in the
  // buffer.
  PackedRecord stage(size_t offset) {
    buffer_.assign(offset + staged_bytes(expert_), 0xee);
    CopyPiece pieces[kMaxExpertPieces];
    PieceList copies = {pieces, 0};
    uint8_t* const begin = buffer_.data() + offset;
    EXPECT_EQ(stage_expert(expert_, {begin, begin}, copies), staged_bytes(expert_));
    EXPECT_LE(copies.count, kMaxExpertPieces);
    for (int32_t i = 0; i < copies.count; ++i) {
      auto* const to = static_cast<uint8_t*>(pieces[i].to);
      EXPECT_GE(to, begin + kRecordBytes);
      EXPECT_LE(to + pieces[i].bytes, buffer_.data() + buffer_.size());
      std::memcpy(to, pieces[i].from, pieces[i].bytes);
    }
    return *reinterpret_cast<const PackedRecord*>(begin);
  }

  const StoredPart gate_{{{6, 1}, {4, 6}, {4, 2}}, 40, true};
  const StoredPart up_{{{5, 3}, {2, 6}}, 40, true};
  const StoredPart down_{{{8, 1}, {3, 1}}, 7, false};
  PackedExpert expert_;
  std::vector<uint8_t> buffer_;
};

TEST_F(PackedLayout, SegmentsEndWithTheirGroupOrSpan) {
  const PackedRecord record = stage(32);
  const PackedMatrix& gate = record.matrices[0];
  const std::vector<std::vector<int32_t>> expected = {{0, 6, 1}, {1, 4, 3}, {1, 4, 3}, {2, 4, 1}, {2, 4, 1}};
  for (size_t i = 0; i < expected.size(); ++i) {
    const PackedSegment& segment = gate.segments[i];
    EXPECT_EQ((std::vector<int32_t>{segment.group, segment.bits, segment.num_blocks}), expected[i]) << i;
  }
  EXPECT_EQ(gate.num_spans, 3);
  EXPECT_EQ(gate.num_blocks, 9);
  const std::vector<uint32_t> words(gate.span_words, gate.span_words + 4);
  EXPECT_EQ(words, (std::vector<uint32_t>{0, 16 * (6 + 12), 16 * (6 + 28), 16 * (6 + 32)}));
  EXPECT_EQ(static_cast<size_t>(words.back()) * sizeof(uint32_t), gate_.part.panel_bytes);
}

TEST_F(PackedLayout, CopiesAreThereAndAligned) {
  for (const size_t offset : {size_t{0}, size_t{272}}) {
    const PackedRecord record = stage(offset);
    const StoredPart* parts[] = {&gate_, &up_, &down_};
    for (size_t i = 0; i < 3; ++i) {
      const PackedMatrix& matrix = record.matrices[i];
      EXPECT_EQ(std::memcmp(matrix.codes, parts[i]->codes.data(), parts[i]->codes.size()), 0);
      EXPECT_EQ(std::memcmp(matrix.nibbles, parts[i]->nibbles.data(), parts[i]->nibbles.size()), 0);
      EXPECT_EQ(matrix.scale_table[5], 0.5f);
      EXPECT_EQ(matrix.features[17], 3);
      EXPECT_EQ(matrix.bias != nullptr, i < 2);
      EXPECT_EQ(matrix.num_out, parts[i]->part.num_out);
      for (const void* address :
           {static_cast<const void*>(matrix.codes), static_cast<const void*>(matrix.features)})
        EXPECT_EQ((static_cast<const uint8_t*>(address) - buffer_.data()) % ptrdiff_t{kPackedAlignment}, 0);
    }
    EXPECT_EQ(record.matrices[1].order, 1);
  }
}

TEST_F(PackedLayout, APartWithTheOrderOfTheFirstSharesIt) {
  const size_t apart = staged_bytes(expert_);
  expert_.gate_up.parts[1].order = gate_.part.order;
  EXPECT_EQ(staged_bytes(expert_), apart - up_.features.size() * sizeof(int32_t));
  const PackedRecord record = stage(0);
  EXPECT_EQ(record.matrices[1].features, record.matrices[0].features);
  EXPECT_EQ(record.matrices[1].order, 0);
}

TEST_F(PackedLayout, TakesAtMostTheLimit) {
  EXPECT_LE(staged_bytes(expert_), staged_limit(weight_bytes(false)));
  expert_.gate_up.parts[1].order = gate_.part.order;
  EXPECT_LE(staged_bytes(expert_), staged_limit(weight_bytes(true)));
  const StoredPart deep({{2, 1000}}, 1, false);
  PackedExpert narrow;
  narrow.gate_up.num_parts = narrow.down.num_parts = 1;
  narrow.gate_up.parts[0] = narrow.down.parts[0] = deep.part;
  EXPECT_LE(staged_bytes(narrow), staged_limit(2 * (deep.bytes + deep.features.size() * sizeof(int32_t))));
}

// Slots are many, so their bound is close.
TEST_F(PackedLayout, TakesAtMostASlot) {
  EXPECT_LE(staged_bytes(expert_), slot_bytes(weight_bytes(false), 7));
  for (const int32_t num_out : {1, 16, 48, 768}) {
    for (const int32_t blocks : {1, 5, 1000}) {
      const StoredPart part({{2, blocks}}, num_out, true);
      const std::vector<std::pair<int32_t, int32_t>> single(static_cast<size_t>(blocks), {2, 1});
      const StoredPart groups(single, num_out, true);
      for (const StoredPart* of : {&part, &groups}) {
        PackedExpert expert;
        expert.gate_up.num_parts = expert.down.num_parts = 1;
        expert.gate_up.parts[0] = expert.down.parts[0] = of->part;
        const uint64_t bytes = 2 * (of->bytes + of->features.size() * sizeof(int32_t));
        EXPECT_LE(staged_bytes(expert), slot_bytes(bytes, num_out)) << num_out << ", " << blocks;
        EXPECT_LE(slot_bytes(bytes, num_out), bytes + bytes / 16 + 4352);
      }
    }
  }
}

TEST_F(PackedLayout, PartsThatKernelsCannotWalkThroughHaveNoSize) {
  expert_.down.parts[0].num_groups = 1 << 16;
  EXPECT_EQ(staged_bytes(expert_), 0U);
  expert_.down.parts[0] = down_.part;
  expert_.gate_up.parts[0].panel_bytes = size_t{1} << 40;
  EXPECT_EQ(staged_bytes(expert_), 0U);
}

TEST(PackedSizes, HoldATileWhateverThePadding) {
  EXPECT_EQ(packed_sizes({}).staging_bytes, 0U);
  PackedExpertLimits limits;
  limits.staging_bytes = staging_bytes(1000, 4);
  limits.num_experts = 4;
  limits.num_chosen = 2;
  limits.max_tokens = 10;
  limits.num_in = 96;
  limits.products = 64;
  limits.activated = 32;
  limits.num_out = 96;
  const PackedSizes sizes = packed_sizes(limits);
  EXPECT_GE(sizes.staging_bytes, limits.staging_bytes);
  EXPECT_EQ(sizes.returned_floats, 0U);
  EXPECT_EQ(sizes.num_rows, 20U);
  EXPECT_GE(sizes.num_tiles, 4U);
  EXPECT_EQ(sizes.batch_rows, size_t{kPackedTileRows});
  // Groups of one row each take a block.
  const size_t spans = (96 * kPackedRows - 1) / kSpanRows + 1;
  EXPECT_GE(sizes.scale_floats, kMaxPackedParts * spans * kPackedTileRows);
  EXPECT_EQ(sizes.token_floats, 960U);
  limits.num_slots = 3;
  limits.max_tokens = 100;
  EXPECT_EQ(packed_sizes(limits).returned_floats, size_t{kMaxSlotTokens} * 2 * 96);
}

TEST(StagingBytes, AreThoseOfSeveralExperts) {
  constexpr uint64_t kSeveral = uint64_t{16} << 20;
  EXPECT_EQ(staging_bytes(1000, 4), 4 * staged_limit(1000));
  EXPECT_EQ(staging_bytes(uint64_t{3} << 20, 128), kSeveral);
  EXPECT_EQ(staging_bytes(uint64_t{40} << 20, 128), staged_limit(uint64_t{40} << 20));
}

}  // namespace
}  // namespace quire::kernels
