// Preparing matrices and dequantizing them again.
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/interface/half.h"
#include "tests/kernels/cpu/cpu_device.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/unread_source.h"

namespace quire::testing {
namespace {

using kernels::DType;
using kernels::Status;

class WeightTest : public EachIsa {};

std::vector<float> rounded_reference(const WeightFixture& weight) {
  std::vector<float> values = dequantize_reference(weight.source());
  if (weight.format == kernels::WeightFormat::dense) return values;
  for (float& value : values) value = kernels::round_to_half(value);
  return values;
}

std::vector<float> dequantized(CpuDevice& device, const WeightFixture& fixture) {
  const CpuWeight weight(device, {fixture.source()});
  std::vector<float> values(static_cast<size_t>(fixture.num_in) * static_cast<size_t>(fixture.num_out));
  EXPECT_EQ(device.table().dequantize(device.handle(), weight.get(), values.data()), Status::ok);
  return values;
}

TEST_P(WeightTest, DequantizesExl2BitForBit) {
  CpuDevice device(GetParam());
  Exl2Options options;
  options.seed = fresh_seed();
  options.num_out = 50;
  options.permute_columns = true;
  options.groups = mixed_groups({8, 6, 5, 4, 3, 2}, 32 * 11, 64);
  EXPECT_EQ(dequantized(device, make_exl2(options)), rounded_reference(make_exl2(options)));
  options.prescale = 0.37f;
  options.groups = {{4, 96}, {2, 16}, {2, 48}};  // the last groups do not fill their blocks
  EXPECT_EQ(dequantized(device, make_exl2(options)), rounded_reference(make_exl2(options)));
}

TEST_P(WeightTest, DequantizesCodesOfEveryVarietyBitForBit) {
  CpuDevice device(GetParam());
  for (const CodedOptions& options : coded_varieties(fresh_seed())) {
    const WeightFixture fixture = make_coded(options);
    EXPECT_EQ(dequantized(device, fixture), rounded_reference(fixture)) << options.bits << " bits";
  }
}

TEST_P(WeightTest, DequantizesGptqBitForBit) {
  CpuDevice device(GetParam());
  for (const bool act_order : {false, true}) {
    for (const int32_t zero_offset : {0, 1}) {
      CodedOptions options;
      options.seed = fresh_seed();
      options.num_in = 120;
      options.num_out = 37;
      options.group_size = 48;
      options.act_order = act_order;
      options.zero_offset = zero_offset;
      options.permute_columns = true;
      EXPECT_EQ(dequantized(device, make_coded(options)), rounded_reference(make_coded(options)));
    }
  }
}

TEST_P(WeightTest, KeepsDenseValues) {
  CpuDevice device(GetParam());
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f8_e4m3}) {
    DenseOptions options;
    options.seed = fresh_seed();
    options.num_in = 29;
    options.num_out = 35;
    options.dtype = dtype;
    options.scale_out = 4;
    options.scale_in = 8;
    options.permute_columns = true;
    options.prescale = 0.5f;
    EXPECT_EQ(dequantized(device, make_dense(options)), rounded_reference(make_dense(options)));
  }
}

TEST_P(WeightTest, KeepsQuantizedWeightsQuantized) {
  CpuDevice device(GetParam());
  Exl2Options options;
  options.num_out = 512;
  options.groups = mixed_groups({4}, 1024, 128);
  const WeightFixture fixture = make_exl2(options);
  const CpuWeight weight(device, {fixture.source()});
  const double bits = static_cast<double>(device.table().weight_bytes(weight.get())) * 8.0 / (512.0 * 1024.0);
  EXPECT_GE(bits, 4.0);
  EXPECT_LE(bits, 4.2);
}

TEST_P(WeightTest, KeepsEightBitFloatsEightBitsWide) {
  CpuDevice device(GetParam());
  DenseOptions options;
  options.num_in = 1024;
  options.num_out = 512;
  options.dtype = DType::f8_e4m3;
  options.scale_out = options.scale_in = 128;
  const WeightFixture fixture = make_dense(options);
  const kernels::WeightSource source = fixture.source();
  const CpuWeight weight(device, {source});
  const uint64_t bytes = device.table().weight_bytes(weight.get());
  EXPECT_EQ(bytes, 512U * 1024U + 512U * 8U * 4U);
  kernels::WeightSource outline = source;
  outline.dense.data = nullptr;
  outline.dense.scales = nullptr;
  uint64_t planned = 0;
  const kernels::MatrixSource outlined = {&outline, 1};
  EXPECT_EQ(device.table().plan_weights(device.handle(), &outlined, 1, &planned), Status::ok);
  EXPECT_EQ(planned, bytes);
}

TEST_P(WeightTest, RefusesScalesThatDoNotFitTheMatrix) {
  CpuDevice device(GetParam());
  DenseOptions options;
  options.dtype = DType::f8_e4m3;
  const WeightFixture fixture = make_dense(options);
  for (const auto& [scale_out, scale_in] : {std::pair{0, 32}, {32, 0}, {33, 32}, {32, 33}, {-1, 1}}) {
    kernels::WeightSource source = fixture.source();
    source.dense.scale_out = scale_out;
    source.dense.scale_in = scale_in;
    kernels::Weight* weight = nullptr;
    EXPECT_EQ(kernels::prepare_weight(device.table(), device.handle(), &source, 1, &weight),
              Status::invalid_argument);
  }
}

TEST_P(WeightTest, EmbedsRowsOfATable) {
  CpuDevice device(GetParam());
  Random random(fresh_seed());
  const int32_t rows = 11;
  const int32_t columns = 37;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    DenseOptions options;
    options.seed = random.next();
    options.num_in = columns;  // [num_out, num_in]: a table of num_out rows
    options.num_out = rows;
    options.dtype = dtype;
    const WeightFixture fixture = make_dense(options);
    const kernels::WeightSource source = fixture.source();
    kernels::Weight* table = nullptr;
    const kernels::TableSource stored = {dtype, rows, columns, source.dense.data, nullptr};
    ASSERT_EQ(device.table().prepare_table(device.handle(), &stored, &table), Status::ok);
    EXPECT_EQ(device.table().weight_bytes(table),
              static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns) * kernels::dtype_bytes(dtype));
    const std::vector<float> matrix = dequantize_reference(source);  // [columns, rows]
    const std::vector<int32_t> ids = {10, 0, 3, 3};
    std::vector<float> hidden(ids.size() * static_cast<size_t>(columns));
    kernels::EmbedParams params;
    params.table = table;
    params.scale = 1.5f;
    params.token_ids = ids.data();
    params.num_tokens = static_cast<int32_t>(ids.size());
    params.hidden = hidden.data();
    ASSERT_EQ(device.table().embed(device.context(), &params), Status::ok);
    for (size_t t = 0; t < ids.size(); ++t) {
      for (size_t c = 0; c < static_cast<size_t>(columns); ++c) {
        EXPECT_EQ(hidden[t * columns + c], 1.5f * matrix[c * rows + static_cast<size_t>(ids[t])]);
      }
    }
    const int32_t outside = rows;
    params.token_ids = &outside;
    params.num_tokens = 1;
    const Status refused = device.table().embed(device.context(), &params);
    EXPECT_EQ(refused, Status::invalid_argument);
    EXPECT_NE(std::string(refused.words).find("11"), std::string::npos) << refused.words;
    device.table().release_weight(device.handle(), table);
  }
}

TEST_P(WeightTest, RefusesSourcesThatDoNotFitTogether) {
  CpuDevice device(GetParam());
  const auto prepare = [&](std::vector<kernels::WeightSource> parts) {
    kernels::Weight* weight = nullptr;
    const Status status = kernels::prepare_weight(device.table(), device.handle(), parts.data(),
                                                  static_cast<int32_t>(parts.size()), &weight);
    EXPECT_EQ(weight, nullptr);
    return status;
  };
  Exl2Options options;
  options.groups = {{4, 64}};
  const WeightFixture fixture = make_exl2(options);
  EXPECT_EQ(prepare({}), Status::invalid_argument);

  DenseOptions other;
  other.num_in = 32;
  const WeightFixture narrow = make_dense(other);
  EXPECT_EQ(prepare({fixture.source(), narrow.source()}), Status::invalid_argument);

  kernels::WeightSource source = fixture.source();
  source.num_in = 96;
  source.row_order = nullptr;
  EXPECT_EQ(prepare({source}), Status::invalid_argument);
  source = fixture.source();
  source.exl2.packed_rows -= 1;
  EXPECT_EQ(prepare({source}), Status::invalid_argument);
  kernels::Exl2Group group = fixture.groups[0];
  group.bits = 7;
  source = fixture.source();
  source.exl2.groups = &group;
  EXPECT_EQ(prepare({source}), Status::invalid_argument);
  std::vector<int32_t> order = fixture.row_order;
  order[3] = 64;
  source = fixture.source();
  source.row_order = order.data();
  EXPECT_EQ(prepare({source}), Status::invalid_argument);
}

TEST_P(WeightTest, ReadsSourcesFromAFile) {
  CpuDevice device(GetParam());
  Exl2Options exl2;
  exl2.num_out = 50;
  exl2.groups = mixed_groups({6, 4, 3}, 160, 64);
  std::vector<WeightFixture> fixtures = {make_exl2(exl2), make_dense({})};
  for (const CodedOptions& options : coded_varieties(fresh_seed())) fixtures.push_back(make_coded(options));
  for (const WeightFixture& fixture : fixtures) {
    const UnreadSource unread(fixture.source());
    const CpuWeight weight(device, {unread.source()});
    std::vector<float> values(static_cast<size_t>(fixture.num_in) * static_cast<size_t>(fixture.num_out));
    ASSERT_EQ(device.table().dequantize(device.handle(), weight.get(), values.data()), Status::ok);
    EXPECT_EQ(bits_of(values), bits_of(dequantized(device, fixture)));
    EXPECT_EQ(unread.num_read(), kernels::stored_bytes(fixture.source()));
  }
}

TEST_P(WeightTest, UnreadableSourcesTakeNoMemory) {
  CpuDevice device(GetParam());
  const WeightFixture fixture = make_dense({});
  const UnreadSource broken(fixture.source(), kernels::stored_bytes(fixture.source()) - 1);
  const kernels::MatrixSource matrix = {&broken.source(), 1};
  const kernels::TableSource readable = {DType::f16, 2, 3, nullptr, broken.unread()};
  const kernels::TableSource unreadable = {DType::f16, 32, 32, nullptr, broken.unread()};
  kernels::MemoryUse before, after;
  device.table().memory_use(device.handle(), &before);
  kernels::Weight* weight = nullptr;
  EXPECT_EQ(device.table().prepare_weights(device.handle(), &matrix, 1, &weight), Status::unreadable);
  EXPECT_EQ(device.table().prepare_table(device.handle(), &unreadable, &weight), Status::unreadable);
  EXPECT_EQ(weight, nullptr);
  device.table().memory_use(device.handle(), &after);
  EXPECT_EQ(after.held_bytes, before.held_bytes);
  ASSERT_EQ(device.table().prepare_table(device.handle(), &readable, &weight), Status::ok);
  EXPECT_EQ(broken.num_read(), 12U);
  device.table().release_weight(device.handle(), weight);
}

TEST_P(WeightTest, MatricesPreparedTogetherSucceedOrFailTogether) {
  CpuDevice device(GetParam());
  Exl2Options options;
  options.groups = {{4, 64}};
  const WeightFixture first = make_exl2(options);
  DenseOptions other;
  other.num_in = 32;
  const WeightFixture second = make_dense(other);
  const std::vector<kernels::WeightSource> sources = {first.source(), second.source()};
  const std::vector<kernels::MatrixSource> good = {{sources.data(), 1}, {sources.data() + 1, 1}};
  std::vector<uint64_t> planned(2);
  std::vector<kernels::Weight*> weights(2);
  ASSERT_EQ(device.table().plan_weights(device.handle(), good.data(), 2, planned.data()), Status::ok);
  ASSERT_EQ(device.table().prepare_weights(device.handle(), good.data(), 2, weights.data()), Status::ok);
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_EQ(device.table().weight_bytes(weights[i]), planned[i]);
    device.table().release_weight(device.handle(), weights[i]);
  }
  // Parts of different input size.
  const std::vector<kernels::MatrixSource> bad = {{sources.data(), 1}, {sources.data(), 2}};
  kernels::MemoryUse before;
  device.table().memory_use(device.handle(), &before);
  EXPECT_EQ(device.table().plan_weights(device.handle(), bad.data(), 2, planned.data()),
            Status::invalid_argument);
  const Status refused = device.table().prepare_weights(device.handle(), bad.data(), 2, weights.data());
  EXPECT_EQ(refused, Status::invalid_argument);
  EXPECT_NE(std::string(refused.words).find("matrix 1, part 1"), std::string::npos) << refused.words;
  EXPECT_EQ(weights, std::vector<kernels::Weight*>(2, nullptr));
  kernels::MemoryUse after;
  device.table().memory_use(device.handle(), &after);
  EXPECT_EQ(after.held_bytes, before.held_bytes);
}

QUIRE_FOR_EACH_ISA(WeightTest);

}  // namespace
}  // namespace quire::testing
