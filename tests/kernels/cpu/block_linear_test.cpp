// Products, tables and memory of blocks: compared with sums in double precision over their decoded values.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include <gtest/gtest.h>

#include "kernels/interface/stored_bytes.h"
#include "tests/kernels/cpu/cpu_device.h"
#include "tests/support/block_fixture.h"
#include "tests/support/unread_source.h"

namespace quire::testing {
namespace {

using kernels::ActivationDtype;
using kernels::BlockType;
using kernels::Status;
using kernels::WeightSource;

std::string name_of(BlockType type) {
  return kernels::block_shape(type).name;
}

// Returns the weight between output n and input k.
float value_at(const BlockFixture& fixture, const std::vector<float>& values, size_t n, size_t k) {
  const auto stored = fixture.column_order.empty() ? n : static_cast<size_t>(fixture.column_order[n]);
  return values[stored * static_cast<size_t>(fixture.num_in) + k] * fixture.prescale;
}

// Parameters: an instruction set and the format of activations.
class BlockLinear : public ::testing::TestWithParam<std::tuple<std::string, ActivationDtype>> {
 protected:
  static const std::string& isa() { return std::get<0>(GetParam()); }
  static WeightSource source(const BlockFixture& fixture) {
    WeightSource source = fixture.source();
    source.activations = std::get<1>(GetParam());
    return source;
  }
  // Returns the largest error of an activation relative to the amax of its row: half a quantization step.
  static double largest_error() {
    return std::get<1>(GetParam()) == ActivationDtype::i8 ? 1.0 / 254.0 : 1.0 / 65278.0;
  }
  static void expect_product(const BlockFixture& fixture, const std::vector<float>& input, int32_t rows,
                             const std::vector<float>& output, size_t stride, size_t first_column);
  static void check(CpuDevice& device, Random& random, const BlockFixture& fixture, int32_t rows);
};

void BlockLinear::expect_product(const BlockFixture& fixture, const std::vector<float>& input, int32_t rows,
                                 const std::vector<float>& output, size_t stride, size_t first_column) {
  const std::vector<float> values = fixture.values();
  const auto num_in = static_cast<size_t>(fixture.num_in);
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    double amax = 0.0;
    for (size_t k = 0; k < num_in; ++k) amax = std::max(amax, std::abs(double{input[r * num_in + k]}));
    for (size_t n = 0; n < static_cast<size_t>(fixture.num_out); ++n) {
      double sum =
          fixture.bias.empty()
              ? 0.0
              : fixture.bias[fixture.column_order.empty() ? n : static_cast<size_t>(fixture.column_order[n])];
      double magnitude = std::abs(sum), weights = 0.0;
      for (size_t k = 0; k < num_in; ++k) {
        const double w = value_at(fixture, values, n, k);
        sum += input[r * num_in + k] * w;
        magnitude += std::abs(input[r * num_in + k] * w);
        weights += std::abs(w);
      }
      const double tolerance = weights * amax * largest_error() + 4e-6 * (magnitude + weights * amax);
      ASSERT_NEAR(output[r * stride + first_column + n], sum, tolerance)
          << name_of(fixture.type) << " row " << r << " column " << n;
    }
  }
}

void BlockLinear::check(CpuDevice& device, Random& random, const BlockFixture& fixture, int32_t rows) {
  const CpuWeight weight(device, {source(fixture)});
  const auto input =
      random_floats(random, static_cast<size_t>(fixture.num_in) * static_cast<size_t>(rows), -3, 3);
  const auto output = run_linear(device, weight.get(), input, rows, fixture.num_out);
  expect_product(fixture, input, rows, output, static_cast<size_t>(fixture.num_out), 0);
}

TEST_P(BlockLinear, EveryTypeMatches) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  for (const BlockType type : all_block_types()) {
    for (const int32_t rows : {1, 2, 7, 33}) {
      // 17 and 45 columns leave a panel, and a pair of panels, incomplete.
      const int32_t columns = rows == 2 ? 17 : rows == 7 ? 45 : 64;
      check(device, random, make_blocks(type, rows == 1 ? 768 : 256, columns, random.next()), rows);
    }
  }
}

TEST_P(BlockLinear, ShortRowsMatch) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  for (const BlockType type : all_block_types()) {
    const int32_t weights = kernels::block_shape(type).weights;
    for (const int32_t columns : {1, 16, 33})
      check(device, random, make_blocks(type, weights, columns, random.next()), 5);
    if (weights < 256) check(device, random, make_blocks(type, 7 * weights, 3, random.next()), 1);
  }
}

TEST_P(BlockLinear, OrderBiasAndFactorMatch) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  for (const BlockType type : {BlockType::q4_0, BlockType::q4_k, BlockType::q6_k, BlockType::iq2_s}) {
    BlockFixture fixture = make_blocks(type, 512, 40, random.next());
    fixture.column_order = random.permutation(40);
    fixture.bias = random_floats(random, 40);
    fixture.prescale = 0.37f;
    check(device, random, fixture, 6);
  }
}

// As q, k and v, of which llama.cpp often stores v with more bits.
TEST_P(BlockLinear, PartsOfSeveralTypesAreAdjacentInTheOutput) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  const std::vector<BlockFixture> fixtures = {make_blocks(BlockType::q4_k, 512, 40, random.next()),
                                              make_blocks(BlockType::q6_k, 512, 24, random.next()),
                                              make_blocks(BlockType::q8_0, 512, 17, random.next())};
  std::vector<WeightSource> sources;
  for (const BlockFixture& fixture : fixtures) sources.push_back(source(fixture));
  const CpuWeight weight(device, sources);
  const auto input = random_floats(random, 512 * 11);
  const auto output = run_linear(device, weight.get(), input, 11, 81);
  size_t first = 0;
  for (const BlockFixture& fixture : fixtures) {
    expect_product(fixture, input, 11, output, 81, first);
    first += static_cast<size_t>(fixture.num_out);
  }
}

TEST_P(BlockLinear, RowsDoNotDependOnBatchOrThreads) {
  Random random(fresh_seed());
  for (const BlockType type : {BlockType::q4_k, BlockType::q6_k, BlockType::q2_k, BlockType::iq4_xs}) {
    const BlockFixture fixture = make_blocks(type, 512, 83, random.next());
    const auto row_of_interest = random_floats(random, 512);
    std::vector<uint32_t> expected;
    for (const int32_t threads : {1, 2, 5}) {
      CpuDevice device(isa(), threads);
      const CpuWeight weight(device, {source(fixture)});
      for (const int32_t rows : {1, 2, 3, 4, 8, 13, 64, 130}) {
        auto input = random_floats(random, 512 * static_cast<size_t>(rows), -100, 100);
        const auto place = static_cast<size_t>(random.below(static_cast<uint32_t>(rows)));
        std::copy(row_of_interest.begin(), row_of_interest.end(),
                  input.begin() + static_cast<ptrdiff_t>(place * 512));
        const auto all = run_linear(device, weight.get(), input, rows, fixture.num_out);
        const auto first = all.begin() + static_cast<ptrdiff_t>(place) * fixture.num_out;
        const auto own = bits_of({first, first + fixture.num_out});
        if (expected.empty()) expected = own;
        ASSERT_EQ(own, expected) << name_of(type) << ", " << rows << " rows, " << threads << " threads";
      }
    }
  }
}

TEST_P(BlockLinear, AScaleThatIsNotFiniteSpoilsItsOutputOnly) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  for (const BlockType type : all_block_types()) {
    if (type == BlockType::nvfp4) continue;
    const BlockFixture sound = make_blocks(type, 512, 37, random.next());
    const auto input = random_floats(random, 512 * 3, 1, 2);
    const CpuWeight whole(device, {source(sound)});
    const auto expected = run_linear(device, whole.get(), input, 3, 37);
    for (const uint16_t half : {uint16_t{0x7c00}, uint16_t{0x7e00}}) {
      BlockFixture fixture = sound;
      set_block_scale(type, &fixture.rows[20 * fixture.row_bytes()], type == BlockType::mxfp4 ? 0xff : half);
      const CpuWeight weight(device, {source(fixture)});
      const auto output = run_linear(device, weight.get(), input, 3, 37);
      for (size_t i = 0; i < output.size(); ++i) {
        if (i % 37 == 20) {
          EXPECT_FALSE(std::isfinite(output[i])) << name_of(type);
        } else {
          EXPECT_EQ(output[i], expected[i]) << name_of(type);
        }
      }
    }
  }
}

TEST_P(BlockLinear, ARowThatIsNotFiniteSpoilsItsOutputsOnly) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  for (const BlockType type : {BlockType::q4_k, BlockType::q6_k, BlockType::q8_0}) {
    const CpuWeight weight(device, {source(make_blocks(type, 256, 37, random.next()))});
    auto input = random_floats(random, 256 * 9);
    const auto expected = run_linear(device, weight.get(), input, 9, 37);
    input[4 * 256 + 17] = std::numeric_limits<float>::infinity();
    const auto output = run_linear(device, weight.get(), input, 9, 37);
    for (size_t i = 0; i < output.size(); ++i) {
      if (i / 37 == 4) {
        EXPECT_TRUE(std::isnan(output[i]));
      } else {
        EXPECT_EQ(output[i], expected[i]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, BlockLinear,
                         ::testing::Combine(::testing::ValuesIn(usable_isas()),
                                            ::testing::Values(ActivationDtype::full, ActivationDtype::i8)),
                         [](const auto& test) {
                           return std::get<0>(test.param) +
                                  (std::get<1>(test.param) == ActivationDtype::i8 ? "_i8" : "");
                         });

TEST(BlockLinearAcrossIsas, GivesTheSameBits) {
  Random random(fresh_seed());
  for (const BlockType type : all_block_types()) {
    const BlockFixture fixture = make_blocks(type, 512, 50, random.next());
    const auto input = random_floats(random, 13 * 512);
    for (const ActivationDtype activations : {ActivationDtype::full, ActivationDtype::i8}) {
      WeightSource source = fixture.source();
      source.activations = activations;
      std::vector<uint32_t> expected;
      for (const std::string& isa : usable_isas()) {
        CpuDevice device(isa);
        const CpuWeight weight(device, {source});
        const auto output = bits_of(run_linear(device, weight.get(), input, 13, 50));
        if (expected.empty()) expected = output;
        EXPECT_EQ(output, expected) << isa << " " << name_of(type);
      }
    }
  }
}

class BlockWeight : public EachIsa {};

TEST_P(BlockWeight, DequantizesBitForBit) {
  CpuDevice device(GetParam());
  for (const BlockType type : all_block_types()) {
    BlockFixture fixture = make_blocks(type, 512, 37, fresh_seed());
    Random random(fresh_seed());
    fixture.column_order = random.permutation(37);
    const CpuWeight weight(device, {fixture.source()});
    std::vector<float> found(512 * 37), expected;
    ASSERT_EQ(device.table().dequantize(device.handle(), weight.get(), found.data()), Status::ok);
    const std::vector<float> values = fixture.values();
    for (size_t k = 0; k < 512; ++k)
      for (size_t n = 0; n < 37; ++n) expected.push_back(value_at(fixture, values, n, k));
    EXPECT_EQ(bits_of(found), bits_of(expected)) << name_of(type);
  }
}

TEST_P(BlockWeight, TablesHaveTheValuesOfTheirRows) {
  CpuDevice device(GetParam());
  for (const BlockType type : all_block_types()) {
    const BlockFixture fixture = make_blocks(type, 512, 11, fresh_seed());
    kernels::TableSource source;
    source.rows = 11;
    source.columns = 512;
    source.data = fixture.rows.data();
    source.blocks = type;
    kernels::Weight* table = nullptr;
    uint64_t planned = 0;
    ASSERT_EQ(device.table().plan_table(device.handle(), &source, &planned), Status::ok);
    ASSERT_EQ(device.table().prepare_table(device.handle(), &source, &table), Status::ok);
    EXPECT_EQ(planned, fixture.rows.size());
    EXPECT_EQ(device.table().weight_bytes(table), planned);
    const std::vector<float> values = fixture.values();
    const std::vector<int32_t> ids = {10, 0, 3, 3};
    std::vector<float> hidden(ids.size() * 512);
    kernels::EmbedParams params;
    params.table = table;
    params.scale = 1.5f;
    params.token_ids = ids.data();
    params.num_tokens = static_cast<int32_t>(ids.size());
    params.hidden = hidden.data();
    ASSERT_EQ(device.table().embed(device.context(), &params), Status::ok);
    for (size_t i = 0; i < hidden.size(); ++i)
      ASSERT_EQ(hidden[i], 1.5f * values[static_cast<size_t>(ids[i / 512]) * 512 + i % 512]) << name_of(type);
    std::vector<float> all(values.size());
    ASSERT_EQ(device.table().dequantize(device.handle(), table, all.data()), Status::ok);
    EXPECT_EQ(bits_of(all), bits_of(values));
    device.table().release_weight(device.handle(), table);
  }
}

// Large enough that the order of rows and the last panel do not count.
TEST_P(BlockWeight, TakesTheBitsOfTheFile) {
  CpuDevice device(GetParam());
  for (const BlockType type : all_block_types()) {
    const BlockFixture fixture = make_blocks(type, 1024, 1024, fresh_seed());
    const WeightSource source = fixture.source();
    const kernels::MatrixSource matrix = {&source, 1};
    uint64_t planned = 0;
    ASSERT_EQ(device.table().plan_weights(device.handle(), &matrix, 1, &planned), Status::ok);
    const CpuWeight weight(device, {source});
    EXPECT_EQ(device.table().weight_bytes(weight.get()), planned);
    // The IQ1 to IQ3 grids, ternary and binary types are wider in memory (docs/adr/0067).
    const bool is_rare = (type >= BlockType::iq1_s && type <= BlockType::iq3_s) || type == BlockType::tq1_0 ||
                         type == BlockType::tq2_0 || type == BlockType::q1_0 || type == BlockType::q2_0;
    const double of_file = static_cast<double>(planned) / static_cast<double>(fixture.rows.size());
    EXPECT_LE(of_file, is_rare ? 2.3 : 1.06) << name_of(type);
  }
}

TEST_P(BlockWeight, ReadsSourcesFromAFile) {
  CpuDevice device(GetParam());
  for (const BlockType type : {BlockType::q4_k, BlockType::mxfp4}) {
    const BlockFixture fixture = make_blocks(type, 512, 20, fresh_seed());
    const UnreadSource unread(fixture.source());
    const CpuWeight read(device, {unread.source()}), given(device, {fixture.source()});
    EXPECT_EQ(unread.num_read(), fixture.rows.size());
    std::vector<float> of_read(512 * 20), of_given(512 * 20);
    ASSERT_EQ(device.table().dequantize(device.handle(), read.get(), of_read.data()), Status::ok);
    ASSERT_EQ(device.table().dequantize(device.handle(), given.get(), of_given.data()), Status::ok);
    EXPECT_EQ(bits_of(of_read), bits_of(of_given));
  }
}

TEST_P(BlockWeight, RefusesRowsThatAreNotWholeBlocks) {
  CpuDevice device(GetParam());
  const BlockFixture fixture = make_blocks(BlockType::q4_k, 512, 16, 1);
  const auto prepare = [&](const WeightSource& source) {
    kernels::Weight* weight = nullptr;
    const Status status = kernels::prepare_weight(device.table(), device.handle(), &source, 1, &weight);
    EXPECT_EQ(weight, nullptr);
    return status;
  };
  WeightSource source = fixture.source();
  source.num_in = 384;
  EXPECT_EQ(prepare(source), Status::invalid_argument);
  source = fixture.source();
  source.blocks.type = BlockType::none;
  EXPECT_EQ(prepare(source), Status::invalid_argument);
  source = fixture.source();
  const std::vector<int32_t> order = Random(1).permutation(512);
  source.row_order = order.data();
  EXPECT_EQ(prepare(source), Status::invalid_argument);
  kernels::TableSource table;
  table.rows = 16;
  table.columns = 384;
  table.data = fixture.rows.data();
  table.blocks = BlockType::q4_k;
  kernels::Weight* weight = nullptr;
  EXPECT_EQ(device.table().prepare_table(device.handle(), &table, &weight), Status::invalid_argument);
}

QUIRE_FOR_EACH_ISA(BlockWeight);

}  // namespace
}  // namespace quire::testing
