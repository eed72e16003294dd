// Gathers whose result goes elsewhere than to rows: to the row order of a matrix, and through a norm.
#include <cmath>
#include <numeric>
#include <random>

#include "tests/kernels/cuda/gather_fixture.h"

namespace quire::kernels {
namespace {

class GatherFormsTest : public GatherTest {};

// Rows of 16-bit elements whose columns go to the row order of a matrix.
TEST_P(GatherFormsTest, PlacedColumnsEqualAPermutedCopy) {
  connect(max_shards(), 1 << 14);
  std::mt19937 random{7};
  for (const int32_t columns : {17, 64, 250, 256}) {
    std::vector<int32_t> place(static_cast<size_t>(columns));
    std::iota(place.begin(), place.end(), 0);
    std::shuffle(place.begin(), place.end(), random);
    for (const int32_t rows : {1, 5, 40}) {  // 40 rows of 250 columns and more take the way of large results
      const Result result = {even_starts(columns, max_shards()), rows, DType::f16};
      std::vector<AllGatherParams> gathers;
      for (size_t r = 0; r < num_shards(); ++r) {
        const Buffers buffers = take_buffers(r, result);
        upload(r, result, 3, buffers.input);
        gathers.push_back(gather_of(r, result, buffers));
        void* const places = take(r, place.size() * sizeof(int32_t));
        EXPECT_EQ(table().upload(shards_[r].device, places, place.data(), place.size() * sizeof(int32_t)),
                  Status::ok);
        gathers.back().place = static_cast<const int32_t*>(places);
      }
      each_shard([&](size_t r) {
        EXPECT_EQ(table().all_gather(shards_[r].context, &gathers[r]), Status::ok);
        EXPECT_EQ(synchronize(r), Status::ok);
      });
      const std::vector<uint8_t> gathered = whole(result, 3);
      std::vector<uint8_t> expected(gathered.size());
      for (size_t row = 0; row < static_cast<size_t>(rows); ++row)
        for (size_t c = 0; c < place.size(); ++c)
          std::memcpy(&expected[row * result.row_bytes() + 2 * static_cast<size_t>(place[c])],
                      &gathered[row * result.row_bytes() + 2 * c], 2);
      for (size_t r = 0; r < num_shards(); ++r)
        EXPECT_TRUE(download(r, result, gathers[r].output) == expected)
            << r << ", " << rows << "x" << columns;
    }
  }
}

// A norm of one shard's result, with all that it reads and writes.
struct NormOfShard {
  AllGatherParams gather;
  NormParams norm;
  std::vector<float> rows;  // this shard's columns of the result in place, NaN elsewhere
  void* output = nullptr;
  size_t output_bytes = 0;
};

// The norm that reads a gathered result gives the same bits whether one kernel gathers and normalizes, or two
// do. The columns of a shard lie in place, as those of the residual stream.
TEST_P(GatherFormsTest, ANormAfterAGatherEqualsOneOfTheGatheredRows) {
  connect(max_shards(), 1 << 20);
  std::mt19937 random{11};
  struct Case {
    int32_t columns, rows;
    NormKind kind;
    int output;  // 0: f16, 1: added to rows, 2: f32
  };
  // Rows of more columns than stay in registers, more rows than blocks, and columns that are not cut by
  // fours.
  const Case cases[] = {{64, 1, NormKind::rms, 0},     {64, 70, NormKind::rms, 0},
                        {192, 3, NormKind::layer, 0},  {192, 3, NormKind::rms, 1},
                        {192, 5, NormKind::none, 2},   {200, 2, NormKind::rms, 0},
                        {250, 3, NormKind::rms, 0},    {5120, 1, NormKind::rms, 0},
                        {5120, 2, NormKind::layer, 2}, {24576, 1, NormKind::rms, 0}};
  for (const Case& test : cases) {
    const Result result = {even_starts(test.columns, max_shards()), test.rows, DType::f32};
    const auto columns = static_cast<size_t>(test.columns), rows = static_cast<size_t>(test.rows);
    const std::vector<float> all = random_floats(rows * columns, random);
    const std::vector<float> weights = random_floats(columns, random),
                             before = random_floats(rows * columns, random);
    std::vector<NormOfShard> shards(num_shards());
    for (size_t r = 0; r < num_shards(); ++r) {
      NormOfShard& shard = shards[r];
      auto* const residual = static_cast<float*>(take(r, result.bytes()));
      shard.rows.assign(all.size(), NAN);
      const auto first = static_cast<size_t>(result.starts[r]),
                 end = static_cast<size_t>(result.starts[r + 1]);
      for (size_t row = 0; row < rows; ++row)
        std::copy_n(&all[row * columns + first], end - first, &shard.rows[row * columns + first]);
      shard.gather = gather_of(r, result, {residual + first, residual});
      shard.gather.input_stride = test.columns;
      void* const weight = take(r, columns * sizeof(float));
      EXPECT_EQ(table().upload(shards_[r].device, weight, weights.data(), columns * sizeof(float)),
                Status::ok);
      shard.output_bytes = rows * columns * (test.output == 0 ? sizeof(uint16_t) : sizeof(float));
      shard.output = take(r, shard.output_bytes);
      shard.norm.columns = test.columns;
      shard.norm.rows = test.rows;
      shard.norm.kind = test.kind;
      shard.norm.weight = static_cast<const float*>(weight);
      shard.norm.input = residual;
      (test.output == 0   ? shard.norm.output
       : test.output == 1 ? reinterpret_cast<void*&>(shard.norm.residual)
                          : reinterpret_cast<void*&>(shard.norm.output_f32)) = shard.output;
    }
    std::vector<std::vector<uint8_t>> outputs[2];
    for (const bool apart : {true, false}) {
      for (size_t r = 0; r < num_shards(); ++r) {
        EXPECT_EQ(
            table().upload(shards_[r].device, shards[r].gather.output, shards[r].rows.data(), result.bytes()),
            Status::ok);
        EXPECT_EQ(table().upload(shards_[r].device, shards[r].output, before.data(), shards[r].output_bytes),
                  Status::ok);
      }
      each_shard([&](size_t r) {
        EXPECT_EQ(table().all_gather(shards_[r].context, &shards[r].gather), Status::ok);
        if (apart) {
          EXPECT_EQ(synchronize(r), Status::ok);
        }
        EXPECT_EQ(table().norm(shards_[r].context, &shards[r].norm), Status::ok);
        EXPECT_EQ(synchronize(r), Status::ok);
      });
      for (size_t r = 0; r < num_shards(); ++r) {
        std::vector<uint8_t>& output = outputs[apart ? 0 : 1].emplace_back(shards[r].output_bytes);
        EXPECT_EQ(table().download(shards_[r].device, output.data(), shards[r].output, output.size()),
                  Status::ok);
        const std::vector<uint8_t> gathered = download(r, result, shards[r].gather.output);
        EXPECT_EQ(std::memcmp(gathered.data(), all.data(), gathered.size()), 0)
            << test.columns << ", " << apart;
      }
    }
    EXPECT_TRUE(outputs[0] == outputs[1]) << test.rows << " rows of " << test.columns;
    for (size_t r = 1; r < num_shards(); ++r) EXPECT_TRUE(outputs[0][r] == outputs[0][0]) << test.columns;
  }
}

INSTANTIATE_TEST_SUITE_P(Places, GatherFormsTest, ::testing::ValuesIn(kPlaces), place_name);

}  // namespace
}  // namespace quire::kernels
