// Shapes of products, for cards of all supported kinds and matrices of all forms. A violation here shows on a
// card as a wrong sum, a deadlock or a failed launch.
#include "kernels/cuda/plan/gemm_shape.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/plan/trellis_tiles.h"

namespace quire::kernels {
namespace {

struct Card {
  const char* name;
  CardLimits limits;
};
// Shared memory by compute capability, from the CUDA programming guide; multiprocessors from the data sheets.
constexpr Card kCards[] = {{"T4", {40, 64 << 10, 64 << 10}},
                           {"A100", {108, 163 << 10, 164 << 10}},
                           {"A10", {72, 99 << 10, 100 << 10}},
                           {"RTX 3060", {28, 99 << 10, 100 << 10}},
                           {"RTX 3090", {82, 99 << 10, 100 << 10}},
                           {"L4", {58, 99 << 10, 100 << 10}},
                           {"L40S", {142, 99 << 10, 100 << 10}},
                           {"RTX 4090", {128, 99 << 10, 100 << 10}},
                           {"H100", {132, 227 << 10, 228 << 10, true}},
                           {"B200", {148, 227 << 10, 228 << 10}},
                           {"RTX 5090", {170, 99 << 10, 100 << 10}},
                           {"a seventh of an H100", {16, 227 << 10, 228 << 10, true}},
                           {"H100 with kernels for 8.0", {132, 227 << 10, 228 << 10}},
                           {"emulated", {16, 227 << 10, 228 << 10}}};
CardLimits limits_of(std::string_view name) {
  for (const Card& card : kCards)
    if (name == card.name) return card.limits;
  ADD_FAILURE() << name << " is not in the list";
  return {};
}

constexpr int32_t kRows[] = {1, 2, 8, 9, 16, 17, 32, 33, 40, 64, 65, 96, 128, 1000, 2048};

struct Form {
  TileKind kind;
  int32_t bits;
  int32_t records;
};
constexpr Form kForms[] = {{TileKind::exl2, 2, 1},    {TileKind::exl2, 4, 1},    {TileKind::exl2, 5, 4},
                           {TileKind::exl2, 8, 4},    {TileKind::gptq, 4, 1},    {TileKind::gptq, 4, 4},
                           {TileKind::fp8, 8, 1},     {TileKind::fp8, 8, 4},     {TileKind::dense, 16, 0},
                           {TileKind::gptq8, 8, 1},   {TileKind::gptq8, 8, 4},   {TileKind::mxfp4, 4, 1},
                           {TileKind::trellis, 4, 0}, {TileKind::trellis, 1, 0}, {TileKind::trellis, 8, 0}};

Matrix matrix_of(const Form& form, int32_t rows, const std::vector<int32_t>& columns, bool paired) {
  Matrix m;
  m.kind = form.kind;
  m.num_parts = static_cast<int32_t>(columns.size());
  m.num_rows = rows;
  m.num_blocks = (rows + kBlockRows - 1) / kBlockRows;
  m.paired = paired ? 1 : 0;
  m.max_segment_bytes = static_cast<uint32_t>(form.records) * scale_bytes(form.kind) +
                        static_cast<uint32_t>(segment_steps(form.kind) * form.bits) * 128;
  for (size_t p = 0; p < columns.size(); ++p) {
    m.parts[p].num_columns = columns[p];
    // Parts of a trellis have whole transforms of 128 columns.
    const int32_t unit = form.kind == TileKind::trellis ? kHadamardOrder : kStripColumns;
    m.parts[p].num_strips = (columns[p] + unit - 1) / unit * (unit / kStripColumns);
    m.parts[p].first_column = m.num_columns;
    m.num_columns += columns[p];
    m.num_strips += m.parts[p].num_strips;
  }
  m.chain_bits = chain_bits_of(m.paired != 0, false, m.num_strips);
  return m;
}

Matrix of_expert(Matrix m) {
  m.chain_bits = chain_bits_of(m.paired != 0, true, m.num_strips);
  return m;
}

struct Case {
  std::string name;
  Matrix matrix;
};

std::vector<Case> cases() {
  struct Size {
    int32_t rows;
    std::vector<int32_t> columns;
    bool paired;
  };
  // The matrices of Llama 1B, 8B and 70B, their heads, those of the test models, and odd ones.
  const Size sizes[] = {{2048, {2048, 512, 512}, false},
                        {4096, {4096, 1024, 1024}, false},
                        {4096, {4096}, false},
                        {4096, {14336, 14336}, true},
                        {14336, {4096}, false},
                        {8192, {28672, 28672}, true},
                        {28672, {8192}, false},
                        {4096, {128256}, false},
                        {288, {288}, false},
                        {288, {768, 768}, true},
                        {1, {1}, false},
                        {130, {33}, false},
                        {100, {70, 3, 40}, false},
                        {53248, {16384}, false},
                        {4096, {20000}, false}};
  std::vector<Case> all;
  for (const Form& form : kForms) {
    for (const Size& size : sizes) {
      all.push_back({std::to_string(static_cast<int>(form.kind)) + " of " + std::to_string(form.bits) +
                         " bits, " + std::to_string(size.rows) + " rows by " +
                         std::to_string(size.columns[0]) + " columns",
                     matrix_of(form, size.rows, size.columns, size.paired)});
    }
  }
  return all;
}

// Returns the number of strips that the groups must cover.
int32_t strips_to_cover(const Matrix& m) {
  return m.paired != 0 ? 2 * m.parts[0].num_strips : m.num_strips;
}

void expect_groups_cover(const GemmShape& s, const Matrix& m) {
  const int32_t strips = s.is_broad() ? 2 * s.strips : s.strips;
  EXPECT_GE(s.groups * strips, strips_to_cover(m));
  EXPECT_LT((s.groups - 1) * strips, strips_to_cover(m)) << "a group has no strips";
  EXPECT_GE(s.blocks, 1);
  EXPECT_LE(s.blocks, s.tasks);
}

void expect_sound_narrow(const GemmShape& s, const Matrix& m, int32_t rows, const CardLimits& card) {
  if (m.kind == TileKind::trellis && rows == 1) {
    EXPECT_EQ(s.groups, m.num_strips);
    EXPECT_LE(s.blocks, s.groups);
  } else {
    expect_groups_cover(s, m);
  }
  EXPECT_EQ(s.tasks, s.groups);
  ASSERT_GT(s.shared_bytes, 0U) << "the launch would refuse it";
  EXPECT_LE(s.shared_bytes, card.shared_per_block);
  EXPECT_GE(s.ring_slots, 1);
  EXPECT_LE(s.ring_slots, kMaxSlots);
  EXPECT_GE(s.activations_at, kFreeAt);
  const int32_t inputs = m.kind == TileKind::trellis ? trellis_input_rows(m.num_parts) : 1;
  const int32_t staged_rows = rows == 1 ? inputs * m.num_blocks * kBlockRows : 0;
  EXPECT_GE(s.sums_at, s.activations_at + static_cast<uint32_t>(staged_rows) * 2);
  EXPECT_GE(s.rings_at,
            s.sums_at + static_cast<uint32_t>(std::min(rows, 8) * kStripColumns * kNarrowWarps) * 4);
  EXPECT_LE(s.rings_at + static_cast<uint32_t>(s.ring_slots * kNarrowWarps) * s.slot_bytes, s.shared_bytes);
  EXPECT_EQ(s.slot_bytes % 128, 0U);
  EXPECT_EQ(s.rings_at % 128, 0U);
}

void expect_sound_wide(const GemmShape& s, const Matrix& m, const CardLimits& card, bool is_expert = false) {
  expect_groups_cover(s, m);
  if (s.is_broad()) {
    EXPECT_TRUE(card.warpgroup_products);
    EXPECT_EQ(s.tiles, kBroadTiles);
    EXPECT_EQ(s.strips, kBroadStrips);
  } else {
    EXPECT_TRUE(s.tiles == 2 || s.tiles == 4 || s.tiles == 8);
    EXPECT_LE(s.strips, kMaxWideStrips) << "more threads than there are registers for";
    EXPECT_EQ(s.threads, card.warpgroup_products ? wide_threads(s.strips) : 32 * s.strips);
  }
  EXPECT_EQ(s.strips % kWarpgroupStrips, 0) << "a warpgroup without some of its warps never multiplies";
  EXPECT_EQ(s.splits, 1 << s.split_bits);
  if (card.warpgroup_products && !s.is_broad()) {
    EXPECT_TRUE(s.splits == 1 || s.splits == kMaxSplits);
  }
  EXPECT_LE(s.splits, kMaxSplits);
  EXPECT_EQ(s.splits * s.eighths, kMaxSplits);
  EXPECT_EQ(s.num_partial_sums, 1 + (s.splits - 1) * s.eighths)
      << "one sum of the first split, and one per eighth of the others";
  EXPECT_EQ(s.few_strips, card.warpgroup_products && !s.is_broad() && s.tiles == kMaxWideTiles &&
                              s.strips <= kMaxFewStrips && s.splits == 1 && !is_expert);
  if (card.warpgroup_products && !s.is_broad() && s.tiles == kMaxWideTiles && !s.few_strips) {
    EXPECT_LE(s.eighths << (m.chain_bits - kFewChainBits), s.splits == 1 ? kFewChains : 2)
        << "only the sum of one earlier chain can be parked";
  }
  EXPECT_EQ(s.tasks, s.groups * s.splits);
  EXPECT_TRUE(m.paired == 0 || s.splits == 1) << "gate and up must be in one block";
  EXPECT_TRUE(s.splits == 1 || partial_floats(m, s) <= kPartialFloats)
      << "the partial sums of one tile do not fit";
  // With fewer ring slots, a producer warp that takes turns with others could be two rounds ahead of the
  // consumers and mistake one phase of a barrier for another.
  const bool takes_turns =
      card.warpgroup_products && !s.is_broad() && (s.tiles != kMaxWideTiles || s.few_strips);
  EXPECT_GE(s.pipeline_slots, takes_turns ? kActivationProducers : kMinPipelineSlots);
  EXPECT_LE(s.pipeline_slots, card.warpgroup_products ? kMaxPipelineSlots : kMaxStripSlots);
  EXPECT_GE(s.table_at, kFreeAt);
  EXPECT_GE(s.sums_at, s.table_at + static_cast<uint32_t>(m.num_parts * m.num_blocks) * 8);
  // Parked sums: of earlier chains for all tokens; gate and up exchange half of theirs.
  const bool parks = s.tiles == kMaxWideTiles && card.warpgroup_products && !s.few_strips;
  const bool exchanges = m.paired != 0 && card.warpgroup_products;
  const int32_t parked_tokens = parks || m.chain_bits != kFewChainBits ? 8 : exchanges ? 4 : 0;
  EXPECT_GE(s.activations_at,
            s.sums_at + static_cast<uint32_t>(s.strips * s.tiles * parked_tokens * kStripColumns) * 4);
  EXPECT_GE(s.slot_bytes, m.max_segment_bytes * static_cast<uint32_t>(kBlockSteps / segment_steps(m.kind)));
  EXPECT_GE(s.pipeline_slot_bytes,
            kBlockSteps * step_bytes(s.tiles) + static_cast<uint32_t>(s.strips) * s.slot_bytes);
  EXPECT_EQ(s.activations_at % 128, 0U);
  EXPECT_EQ(s.pipeline_slot_bytes % 128, 0U);
  EXPECT_EQ(s.slot_bytes % 128, 0U);
  EXPECT_EQ(s.shared_bytes,
            s.activations_at + static_cast<uint32_t>(s.pipeline_slots) * s.pipeline_slot_bytes);
  EXPECT_LE(s.shared_bytes, card.shared_per_block);
}

TEST(GemmShapeTest, EveryShapeIsValidOnEveryCard) {
  for (const Card& card : kCards) {
    for (const auto& [name, matrix] : cases()) {
      for (const int32_t rows : kRows) {
        SCOPED_TRACE(name + ", " + std::to_string(rows) + " tokens, compute capability " + card.name);
        const GemmShape shape = gemm_shape(card.limits, matrix, rows);
        if (shape.tiles == 1) {
          expect_sound_narrow(shape, matrix, rows, card.limits);
        } else {
          expect_sound_wide(shape, matrix, card.limits);
        }
      }
    }
  }
}

// The narrow kernel would read the weights again for every eight tokens.
TEST(GemmShapeTest, ManyTokensUseWideTilesOnEveryCard) {
  for (const Card& card : kCards) {
    for (const auto& [name, matrix] : cases()) {
      SCOPED_TRACE(name + ", " + card.name);
      EXPECT_EQ(gemm_shape(card.limits, matrix, 17).tiles, 4);
      EXPECT_EQ(gemm_shape(card.limits, matrix, 16).tiles, 2);
    }
  }
}

// Without warpgroup products: tiles of 64 from 33 tokens on, by blocks of four strips, of which a
// multiprocessor with much shared memory runs two.
TEST(GemmShapeTest, BlocksOfFewStripsShareAMultiprocessor) {
  const CardLimits card = limits_of("H100 with kernels for 8.0");
  const Form form = {TileKind::exl2, 4, 1};
  const Matrix qkv = matrix_of(form, 4096, {4096, 1024, 1024}, false);
  const Matrix gate_up = matrix_of(form, 4096, {14336, 14336}, true);
  const Matrix down = matrix_of(form, 14336, {4096}, false);
  for (const Matrix& matrix : {qkv, gate_up, down}) {
    for (const int32_t rows : {16, 32, 33, 64, 2048}) {
      SCOPED_TRACE(std::to_string(rows) + " tokens");
      const GemmShape s = gemm_shape(card, matrix, rows);
      EXPECT_EQ(s.tiles, rows == 16 ? 2 : rows == 32 ? 4 : 8);
      EXPECT_EQ(s.strips, 4);
      EXPECT_GE(s.resident, 2);
      EXPECT_GE(s.pipeline_slots, 3) << "too few to hide copies";
      EXPECT_LE(static_cast<uint32_t>(s.resident) * (s.shared_bytes + kReservedBytes),
                card.shared_per_multiprocessor);
    }
  }
}

// If each block has one task, the warps that arrive last share the addition of the sums of all splits.
// Otherwise one warp adds up all of them, which is slower.
TEST(GemmShapeTest, BlocksThatSplitKHaveOneTask) {
  const CardLimits card = limits_of("H100 with kernels for 8.0");
  const Form form = {TileKind::exl2, 4, 1};
  const Matrix qkv = matrix_of(form, 4096, {4096, 1024, 1024}, false);
  const Matrix gemm_o = matrix_of(form, 4096, {4096}, false);
  const Matrix down = matrix_of(form, 14336, {4096}, false);
  struct Choice {
    const Matrix& matrix;
    int32_t rows, splits;
  };
  for (const Choice& c :
       {Choice{qkv, 16, 8}, Choice{qkv, 32, 4}, Choice{qkv, 64, 4}, Choice{qkv, 128, 2},
        Choice{gemm_o, 64, 8}, Choice{gemm_o, 128, 4}, Choice{down, 64, 8}, Choice{down, 128, 4}}) {
    SCOPED_TRACE(std::to_string(c.matrix.num_rows) + " by " + std::to_string(c.matrix.num_columns) + ", " +
                 std::to_string(c.rows) + " tokens");
    const GemmShape s = gemm_shape(card, c.matrix, c.rows);
    EXPECT_EQ(s.splits, c.splits);
    EXPECT_EQ(s.blocks, s.tasks);
  }
}

// Broad tiles if there are enough tokens and columns for all pairs of multiprocessors.
TEST(GemmShapeTest, ManyTokensUseBroadTiles) {
  const CardLimits card = limits_of("H100");
  const Form form = {TileKind::exl2, 4, 1};
  const Matrix qkv = matrix_of(form, 4096, {4096, 1024, 1024}, false);
  const Matrix gate_up = matrix_of(form, 4096, {14336, 14336}, true);
  const Matrix down = matrix_of(form, 14336, {4096}, false);
  const Matrix gemm_o = matrix_of(form, 4096, {4096}, false);
  for (const Matrix& matrix : {qkv, gate_up, down}) {
    EXPECT_FALSE(gemm_shape(card, matrix, 64).is_broad());
    const GemmShape shape = gemm_shape(card, matrix, 2048);
    EXPECT_TRUE(shape.is_broad());
    EXPECT_EQ(shape.tiles, 16);
    EXPECT_EQ(shape.strips, 4);
  }
  EXPECT_TRUE(gemm_shape(card, gate_up, 128).is_broad());
  EXPECT_TRUE(gemm_shape(card, qkv, 256).is_broad());
  EXPECT_TRUE(gemm_shape(card, gemm_o, 256).few_strips) << "128 independent blocks";
  EXPECT_TRUE(gemm_shape(card, qkv, 320).few_strips) << "two rounds, as many as with broad tiles";
  EXPECT_TRUE(gemm_shape(card, qkv, 512).is_broad())
      << "two rounds of broad tiles are faster than three of few-strip tiles";
  EXPECT_TRUE(gemm_shape(card, gemm_o, 768).is_broad());
  // Few columns: 64 pairs of blocks, each with a part of K (split-K).
  for (const auto& [rows, splits] : {std::pair(128, 4), std::pair(256, 2)}) {
    EXPECT_TRUE(gemm_shape(card, down, rows).is_broad());
    EXPECT_EQ(gemm_shape(card, down, rows).splits, splits);
  }
}

// The matrices whose results the kernel tests check.
TEST(GemmShapeTest, MatricesOfTheKernelTestsUseTilesOf64) {
  for (const char* name : {"H100", "B200"}) {
    SCOPED_TRACE(name);
    const CardLimits card = limits_of(name);
    for (const Form& form : kForms) {
      for (const int32_t rows : {33, 64}) {
        SCOPED_TRACE(std::to_string(rows) + " tokens, " + std::to_string(form.bits) + " bits");
        EXPECT_EQ(gemm_shape(card, matrix_of(form, 224, {18432}, false), rows).tiles, 8);
        EXPECT_EQ(gemm_shape(card, matrix_of(form, 224, {9216, 9216}, true), rows).tiles, 8);
      }
    }
    const GemmShape deep = gemm_shape(card, matrix_of(kForms[1], 12288, {4096}, false), 40);
    EXPECT_EQ(deep.tiles, 8);
    EXPECT_EQ(deep.splits, kMaxSplits);
  }
}

TEST(GemmShapeTest, MatricesOfTheKernelTestsUseBroadAndFewStripTiles) {
  const CardLimits card = limits_of("H100");
  for (const Form& form : kForms) {
    SCOPED_TRACE(std::to_string(static_cast<int>(form.kind)) + ", " + std::to_string(form.bits) + " bits");
    EXPECT_TRUE(gemm_shape(card, matrix_of(form, 1024, {4864}, false), 130).few_strips);
    EXPECT_TRUE(gemm_shape(card, matrix_of(form, 3072, {12288}, false), 70).is_broad());
    EXPECT_TRUE(gemm_shape(card, matrix_of(form, 2304, {6656, 6656}, true), 256).is_broad());
  }
  const auto broad_splits = [&](int32_t depth, int32_t columns, int32_t rows) {
    const GemmShape s = gemm_shape(card, matrix_of({TileKind::exl2, 5, 1}, depth, {columns}, false), rows);
    return s.is_broad() ? s.splits : 0;
  };
  EXPECT_EQ(broad_splits(16384, 3584, 100), 4);
  EXPECT_EQ(broad_splits(16384, 3584, 130), 2);
  EXPECT_EQ(broad_splits(28672, 2048, 70), kMaxSplits);
  EXPECT_EQ(broad_splits(6656, 3200, 70), 4) << "down of a block";
  EXPECT_TRUE(gemm_shape(card, matrix_of({TileKind::exl2, 5, 1}, 3200, {6656, 6656}, true), 70).is_broad());
}

TEST(GemmShapeTest, MatricesOfTheKernelTestsSplitKInHalvesAndQuarters) {
  const CardLimits large = limits_of("H100 with kernels for 8.0"), emulated = limits_of("emulated");
  struct Product {
    const CardLimits& card;
    int32_t depth, columns, rows, splits;
  };
  const Product products[] = {{large, 1024, 6144, 20, 4},    {large, 1024, 6144, 40, 4},
                              {large, 1024, 6144, 70, 2},    {large, 1024, 16384, 20, 2},
                              {large, 1024, 16384, 40, 2},   {emulated, 1024, 1024, 20, 4},
                              {emulated, 1024, 1024, 40, 4}, {emulated, 2048, 1024, 70, 2}};
  for (const Product& p : products) {
    for (const Form& form : kForms) {
      if (form.bits >= 8) continue;  // leaves no memory for two blocks on a multiprocessor
      SCOPED_TRACE(std::to_string(static_cast<int>(form.kind)) + ", " + std::to_string(form.bits) +
                   " bits, " + std::to_string(p.depth) + " by " + std::to_string(p.columns) + ", " +
                   std::to_string(p.rows) + " tokens");
      EXPECT_EQ(gemm_shape(p.card, matrix_of(form, p.depth, {p.columns}, false), p.rows).splits, p.splits);
    }
  }
}

// With 99 KB of shared memory blocks have a multiprocessor each, and more strips.
TEST(GemmShapeTest, BlocksOfSmallCardsHaveManyStrips) {
  for (const char* name : {"RTX 3090", "RTX 4090", "RTX 5090"}) {
    SCOPED_TRACE(name);
    const Matrix gate_up = matrix_of({TileKind::exl2, 4, 1}, 4096, {14336, 14336}, true);
    const GemmShape s = gemm_shape(limits_of(name), gate_up, 2048);
    EXPECT_EQ(s.tiles, 8);
    EXPECT_GE(s.strips, 6);
    EXPECT_EQ(s.resident, 1);
  }
}

// Returns true if the rings of the narrow kernel leave no memory for a row: 16 strips of 8 bits take 64 KiB,
// and EXL3 with several parts has a row for each part and one more.
bool rings_fill(const CardLimits& card, const Matrix& matrix) {
  const uint32_t rings = (matrix.max_segment_bytes + kFreeAt) * kNarrowWarps;
  const int32_t inputs = matrix.kind == TileKind::trellis ? trellis_input_rows(matrix.num_parts) : 1;
  const uint32_t rows = inputs > 1 ? static_cast<uint32_t>(inputs * matrix.num_blocks * kBlockRows) * 2 : 0;
  return rings + rows > card.shared_per_block;
}

// Only the narrow kernel computes the norm itself, and a single token is fastest there.
TEST(GemmShapeTest, OneTokenUsesTheNarrowKernelIfItsRowFits) {
  for (const Card& card : kCards) {
    for (const auto& [name, matrix] : cases()) {
      if (matrix.num_rows > 8192 || rings_fill(card.limits, matrix)) continue;
      SCOPED_TRACE(name + ", " + card.name);
      EXPECT_EQ(gemm_shape(card.limits, matrix, 1).tiles, 1);
    }
  }
}

// Down of a 70B model with 99 KB of shared memory: its row takes 56 KB, which leaves no memory for the rings.
TEST(GemmShapeTest, ATokenOfADeepMatrixUsesATileIfItsRowDoesNotFit) {
  const CardLimits card = limits_of("RTX 4090");
  const Matrix down = matrix_of({TileKind::exl2, 5, 1}, 28672, {8192}, false);
  EXPECT_EQ(narrow_shape(card, down, 1).shared_bytes, 0U);
  const GemmShape shape = gemm_shape(card, down, 1);
  EXPECT_EQ(shape.tiles, 2);
  expect_sound_wide(shape, down, card);
}

// A T4 has 64 KiB. Matrices of 8 bits with several records and single tokens of deep ones use tiles of 16
// rows there, those of fewer bits the narrow kernel.
TEST(GemmShapeTest, ACardOf64KiBMultipliesEveryMatrix) {
  const CardLimits card = limits_of("T4");
  const std::vector<int32_t> columns = {14336, 14336};
  EXPECT_EQ(gemm_shape(card, matrix_of({TileKind::exl2, 4, 1}, 4096, columns, true), 1).tiles, 1);
  EXPECT_EQ(gemm_shape(card, matrix_of({TileKind::dense, 16, 0}, 4096, columns, true), 1).tiles, 1);
  EXPECT_EQ(gemm_shape(card, matrix_of({TileKind::exl2, 8, 4}, 4096, columns, true), 1).tiles, 2);
  EXPECT_EQ(gemm_shape(card, matrix_of({TileKind::exl2, 4, 1}, 28672, {8192}, false), 1).tiles, 2);
  for (const Form& form : kForms) {
    const Matrix gate_up = of_expert(matrix_of(form, 2048, {768, 768}, true));
    EXPECT_GT(expert_shape(card, gate_up, 2, 8, 2048).shared_bytes, 0U) << form.bits << " bits";
  }
}

// An expert's product is not split over blocks, and leaves shared memory for the matrix record after the
// memory of the shape.
TEST(GemmShapeTest, ExpertsLeaveMemoryForTheirMatrixRecord) {
  constexpr uint32_t kSpare = 2048;
  for (const Card& card : kCards) {
    for (const auto& [name, matrix] : cases()) {
      for (const int32_t tiles : {0, 1, 2, 4, 8}) {
        for (const int32_t token_tiles : {1, 8, 160, 400}) {
          SCOPED_TRACE(name + ", " + std::to_string(token_tiles) + " tiles of " + std::to_string(tiles) +
                       ", " + card.name);
          const Matrix expert = of_expert(matrix);
          const GemmShape s = expert_shape(card.limits, expert, tiles, token_tiles, kSpare);
          if (s.shared_bytes == 0) {
            EXPECT_TRUE(matrix.num_rows > 8192 || tiles > 2 ||
                        (tiles <= 1 && rings_fill(card.limits, matrix)))
                << "smaller tiles fit";
            continue;
          }
          EXPECT_EQ(s.tiles, std::max(1, tiles));
          EXPECT_EQ(s.splits, 1);
          EXPECT_EQ(s.shared_bytes % 128, 0U);
          EXPECT_LE(s.shared_bytes + kSpare, card.limits.shared_per_block);
          CardLimits left = card.limits;
          left.shared_per_block -= kSpare;
          if (tiles <= 1) {
            expect_sound_narrow(s, expert, tiles == 0 ? 1 : 8, left);
          } else {
            expect_sound_wide(s, expert, left, true);
          }
        }
      }
    }
  }
}

TEST(GemmShapeTest, AMatrixTooLargeForTheCardIsRefused) {
  const CardLimits small = {80, 32 << 10, 64 << 10};
  const Matrix dense = matrix_of({TileKind::dense, 16, 0}, 4096, {4096}, false);
  EXPECT_EQ(gemm_shape(small, dense, 64).shared_bytes, 0U);
}

TEST(GemmShapeTest, OnlyFewStripsAreSplitIntoMoreChains) {
  const CardLimits card = limits_of("H100");
  EXPECT_EQ(gemm_shape(card, matrix_of({TileKind::exl2, 4, 1}, 4096, {4096}, false), 32).splits, kMaxSplits);
  EXPECT_EQ(gemm_shape(card, matrix_of({TileKind::exl2, 4, 1}, 4096, {128256}, false), 32).splits, 1);
}

}  // namespace
}  // namespace quire::kernels
