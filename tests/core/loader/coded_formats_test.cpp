// AWQ, compressed-tensors, MXFP4 and NVFP4: malformed files, and layers that are parts of a tensor.
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "core/loader/weight_formats.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/expect_error.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/safetensors_builder.h"

namespace quire {
namespace {

using testing::expect_error;

struct Tensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using Tensors = std::map<std::string, Tensor>;

size_t bytes_of(const Tensor& tensor) {
  size_t bytes = kernels::dtype_bytes(find_stored_type(tensor.dtype)->dtype.value_or(DType::u8));
  for (const int64_t extent : tensor.shape) bytes *= static_cast<size_t>(extent);
  return bytes;
}

// Returns a tensor filled with one byte: 0x1c gives small numbers in every float type.
Tensor tensor_of(const std::string& dtype, std::vector<int64_t> shape, char byte = 0x1c) {
  Tensor tensor{dtype, std::move(shape), ""};
  tensor.bytes.assign(bytes_of(tensor), byte);
  return tensor;
}

template <typename T>
Tensor of_values(const std::string& dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  return {dtype, std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
}

constexpr int32_t kInputs = 64;
constexpr int32_t kOutputs = 24;

Tensors awq() {
  return {{"x.qweight", tensor_of("I32", {64, 3})},
          {"x.qzeros", tensor_of("I32", {2, 3})},
          {"x.scales", tensor_of("F16", {2, 24})}};
}
Tensors packed() {
  return {{"x.weight_packed", tensor_of("I32", {24, 8})},
          {"x.weight_scale", tensor_of("BF16", {24, 2})},
          {"x.weight_shape", of_values<int64_t>("I64", {2}, {24, 64})},
          {"x.weight_zero_point", tensor_of("I32", {3, 2})}};
}
Tensors mxfp4() {
  return {{"x.weight_packed", tensor_of("U8", {24, 32})}, {"x.weight_scale", tensor_of("U8", {24, 2}, 0x70)}};
}
Tensors stack() {
  return {{"x_blocks", tensor_of("U8", {3, 24, 2, 16})}, {"x_scales", tensor_of("U8", {3, 24, 2}, 0x70)}};
}
Tensors nvfp4() {
  return {{"x.weight_packed", tensor_of("U8", {24, 32})},
          {"x.weight_scale", tensor_of("F8_E4M3", {24, 4})},
          {"x.weight_global_scale", of_values<float>("F32", {1}, {2.0f})}};
}

Tensors bitnet() {
  return {{"x.weight", tensor_of("U8", {6, 64}, 0x24)},
          {"x.weight_scale", of_values<uint16_t>("BF16", {1}, {0x3f00})}};
}
QuantizationConfig bitnet_config(BitNetScale scale) {
  QuantizationConfig quantization;
  quantization.bitnet_scale = scale;
  return quantization;
}

LinearWeight load(const Tensors& tensors, const LinearRequest& request,
                  const QuantizationConfig& quantization = {}) {
  testing::SafetensorsBuilder builder;
  for (const auto& [name, tensor] : tensors)
    builder.add_bytes(name, tensor.dtype, tensor.shape, tensor.bytes);
  testing::MemoryFileSystem files;
  files.write("m/a.safetensors", builder.build());
  const WeightDirectory directory = WeightDirectory::open(files, "m");
  WeightReader reader(directory);
  LinearWeight weight = load_linear(reader, request, quantization);
  EXPECT_TRUE(reader.unused().empty());
  return weight;
}

LinearRequest whole() {
  LinearRequest request;
  request.key = "x";
  request.num_in = kInputs;
  request.num_out = kOutputs;
  return request;
}

struct CodedMutation {
  const char* name;
  Tensors (*make)();
  std::function<void(Tensors&)> bend;
  ErrorCode code;
  std::vector<std::string> words;
};

std::function<void(Tensors&)> put(const char* name, const Tensor& tensor) {
  return [name, tensor](Tensors& tensors) { tensors[name] = tensor; };
}
std::function<void(Tensors&)> drop(const char* name) {
  return [name](Tensors& tensors) { tensors.erase(name); };
}

class MalformedFormat : public ::testing::TestWithParam<CodedMutation> {};

TEST_P(MalformedFormat, IsRefusedNamingTheTensor) {
  Tensors tensors = GetParam().make();
  LinearRequest request = whole();
  if (tensors.contains("x_blocks")) request.part.num_experts = 3;
  const QuantizationConfig quantization = bitnet_config(BitNetScale::divides);
  ASSERT_NO_THROW(load(tensors, request, quantization));
  GetParam().bend(tensors);
  for (const std::string& word : GetParam().words)
    expect_error(GetParam().code, {word}, [&] { load(tensors, request, quantization); });
}

const ErrorCode kFormat = ErrorCode::format, kNumeric = ErrorCode::numeric, kLacks = ErrorCode::unsupported;
const std::vector<CodedMutation> kCodedBends = {
    {"awq_rows",
     awq,
     put("x.qweight", tensor_of("I32", {56, 3})),
     kFormat,
     {"x.qweight", "[64, 3] is needed"}},
    {"awq_type", awq, put("x.qweight", tensor_of("U8", {64, 3})), kFormat, {"x.qweight", "I32"}},
    {"awq_zeros", awq, put("x.qzeros", tensor_of("I32", {1, 3})), kFormat, {"x.qzeros", "[2, 3] is needed"}},
    {"awq_no_zeros", awq, drop("x.qzeros"), kFormat, {"x.qzeros"}},
    {"awq_groups", awq, put("x.scales", tensor_of("F16", {3, 24})), kFormat, {"x.scales", "3 groups"}},
    {"awq_infinite",
     awq,
     put("x.scales", tensor_of("F16", {2, 24}, 0x7c)),
     kNumeric,
     {"x.scales", "element 0"}},
    {"packed_words",
     packed,
     put("x.weight_packed", tensor_of("I32", {24, 9})),
     kFormat,
     {"x.weight_packed", "8 words of 4 bits or 16 of 8"}},
    {"packed_three_bits",
     packed,
     put("x.weight_packed", tensor_of("I32", {24, 6})),
     kLacks,
     {"x.weight_packed", "3 bits"}},
    {"packed_outputs",
     packed,
     put("x.weight_packed", tensor_of("I32", {23, 8})),
     kFormat,
     {"x.weight_packed", "[24, 8] is needed"}},
    {"packed_shape",
     packed,
     put("x.weight_shape", of_values<int64_t>("I64", {2}, {24, 65})),
     kFormat,
     {"x.weight_shape", "[24, 65]"}},
    {"packed_zeros",
     packed,
     put("x.weight_zero_point", tensor_of("I32", {24, 2})),
     kFormat,
     {"x.weight_zero_point", "[3, 2] is needed"}},
    {"packed_zero_type",
     packed,
     put("x.weight_zero_point", tensor_of("I8", {3, 2})),
     kFormat,
     {"x.weight_zero_point", "I32"}},
    {"packed_groups",
     packed,
     put("x.weight_scale", tensor_of("BF16", {24, 3})),
     kFormat,
     {"x.weight_scale", "3 groups"}},
    {"packed_no_scale", packed, drop("x.weight_scale"), kFormat, {"x.weight_scale"}},
    {"packed_huge_scale",
     packed,
     put("x.weight_scale", tensor_of("BF16", {24, 2}, 0x7f)),
     kNumeric,
     {"x.weight_scale", "element 0"}},
    {"packed_scale_type",
     packed,
     put("x.weight_scale", tensor_of("I16", {24, 2})),
     kLacks,
     {"x.weight_scale", "I16"}},
    {"packed_group_of_row",
     packed,
     put("x.weight_g_idx", of_values<int32_t>("I32", {64}, std::vector<int32_t>(64, 2))),
     kFormat,
     {"x.weight_g_idx", "group 2 of 2"}},
    {"packed_transform",
     packed,
     put("x.weight_rotation", tensor_of("F16", {64, 64})),
     kLacks,
     {"x.weight_rotation", "not supported for a matrix in the format packed"}},
    {"mxfp4_scale",
     mxfp4,
     put("x.weight_scale", tensor_of("U8", {24, 2}, '\xff')),
     kNumeric,
     {"x.weight_scale"}},
    {"mxfp4_large_scale",
     mxfp4,
     put("x.weight_scale", tensor_of("U8", {24, 2}, '\x8d')),
     kNumeric,
     {"x.weight_scale", "2^14"}},
    {"mxfp4_scales",
     mxfp4,
     put("x.weight_scale", tensor_of("U8", {24, 4})),
     kFormat,
     {"x.weight_scale", "[24, 2] is needed"}},
    {"mxfp4_scale_type",
     mxfp4,
     put("x.weight_scale", tensor_of("F32", {24, 2}, 0)),
     kFormat,
     {"x.weight_scale", "F32"}},
    {"stack_blocks",
     stack,
     put("x_blocks", tensor_of("U8", {3, 24, 1, 32})),
     kFormat,
     {"x_blocks", "[3, 24, 2, 16] is needed"}},
    {"stack_experts",
     stack,
     put("x_scales", tensor_of("U8", {2, 24, 2}, 0x70)),
     kFormat,
     {"x_scales", "[3, 24, 2] is needed"}},
    {"nvfp4_global_0",
     nvfp4,
     put("x.weight_global_scale", of_values<float>("F32", {1}, {0.0f})),
     kNumeric,
     {"x.weight_global_scale"}},
    {"nvfp4_globals",
     nvfp4,
     put("x.weight_global_scale", of_values<float>("F32", {2}, {1.0f, 1.0f})),
     kFormat,
     {"x.weight_global_scale", "[2]"}},
    {"nvfp4_scale_type",
     nvfp4,
     put("x.weight_scale", tensor_of("U8", {24, 4})),
     kFormat,
     {"x.weight_scale", "F8_E4M3"}},
    {"nvfp4_scale_nan",
     nvfp4,
     put("x.weight_scale", tensor_of("F8_E4M3", {24, 4}, 0x7f)),
     kNumeric,
     {"x.weight_scale", "element 0"}},
    {"bitnet_outputs",
     bitnet,
     put("x.weight", tensor_of("U8", {24, 64})),
     kFormat,
     {"x.weight", "[6, 64] is needed"}},
    {"bitnet_code_3",
     bitnet,
     put("x.weight", tensor_of("U8", {6, 64}, 0x34)),
     kNumeric,
     {"x.weight", "element 0 has the code 3"}},
    {"bitnet_scale_0",
     bitnet,
     put("x.weight_scale", of_values<float>("F32", {1}, {0.0f})),
     kNumeric,
     {"x.weight_scale", "above the limit of 65504"}},
    {"bitnet_scale_nan",
     bitnet,
     put("x.weight_scale", of_values<uint16_t>("BF16", {1}, {0x7fc0})),
     kNumeric,
     {"x.weight_scale", "element 0"}},
    {"bitnet_norm",
     bitnet,
     put("x.rms_norm", tensor_of("F16", {64})),
     kLacks,
     {"x.rms_norm", "not supported for a matrix in the format bitnet"}},
};

INSTANTIATE_TEST_SUITE_P(Table, MalformedFormat, ::testing::ValuesIn(kCodedBends),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(CodedFormats, AModuleThatIsListedAsNotQuantizedMustNotBe) {
  QuantizationConfig quantization;
  quantization.ignored = ModuleNames({"x"}, NameRule::exact, "c");
  expect_error(ErrorCode::format, {"\"x\"", "packed", "not quantized"},
               [&] { load(packed(), whole(), quantization); });
  const Tensors dense = {{"x.weight", tensor_of("F16", {24, 64})}};
  EXPECT_NO_THROW(load(dense, whole(), quantization));
}

// With weight_scale alone it is unknown whether the scale multiplies or divides.
TEST(CodedFormats, BitNetWithoutItsConfigIsRefused) {
  expect_error(ErrorCode::format, {"x.weight", "quant_method \"bitnet\""}, [&] { load(bitnet(), whole()); });
}

TEST(CodedFormats, ABiasThatBitNetScalesIsRefused) {
  Tensors tensors = bitnet();
  tensors["x.bias"] = tensor_of("F16", {24});
  EXPECT_EQ(load(tensors, whole(), bitnet_config(BitNetScale::divides)).bias.size(), 24U);
  expect_error(ErrorCode::unsupported, {"x.bias", "autobitlinear"},
               [&] { load(tensors, whole(), bitnet_config(BitNetScale::multiplies)); });
}

TEST(CodedFormats, BitNetNeedsAMultipleOfFourOutputs) {
  LinearRequest request = whole();
  request.num_out = 22;
  expect_error(ErrorCode::format, {"x.weight", "22 outputs"},
               [&] { load(bitnet(), request, bitnet_config(BitNetScale::divides)); });
}

TEST(CodedFormats, BitsMustMatchTheSchemeOfTheModule) {
  QuantizationConfig quantization;
  quantization.groups.push_back({ModuleNames({"x"}, NameRule::exact, "c"), {.bits = 8, .group_size = 32}});
  expect_error(ErrorCode::format, {"x.weight_packed", "4 bits, but config.json specifies 8"},
               [&] { load(packed(), whole(), quantization); });
}

TEST(CodedFormats, GroupsOfRowsMayBeInAnyOrder) {
  Tensors tensors = packed();
  std::vector<int32_t> groups(64);
  for (size_t k = 0; k < groups.size(); ++k) groups[k] = k % 3 == 0 ? 1 : 0;
  tensors["x.weight_g_idx"] = of_values("I32", {64}, groups);
  const LinearWeight weight = load(tensors, whole());
  const kernels::WeightSource source = weight.source();
  EXPECT_EQ(std::vector<int32_t>(source.coded.group_of_row, source.coded.group_of_row + 64), groups);
}

// Floats: slices of a fused matrix, every second output, experts of a stack, in both storage orders.
TEST(LinearParts, OfFloatsEqualTheSameOutputsOfTheWhole) {
  std::vector<float> values(size_t{3} * 24 * 64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto at = [](bool input_major, size_t expert, size_t output, size_t input) {
    const size_t matrix = expert * 24 * 64;
    return static_cast<float>(matrix + (input_major ? input * 24 + output : output * 64 + input));
  };
  for (const bool input_major : {false, true}) {
    Tensors tensors;
    tensors["x"] =
        input_major ? of_values("F32", {3, 64, 24}, values) : of_values("F32", {3, 24, 64}, values);
    tensors["x_bias"] = of_values("F32", {3, 24}, std::vector<float>(values.begin(), values.begin() + 72));
    LinearRequest request = whole();
    request.num_out = 10;
    request.part = {.num_stored = 24, .first = 3, .step = 2, .num_experts = 3, .expert = 2};
    request.part.input_major = input_major;
    const LinearWeight weight = load(tensors, request);
    const std::vector<float> loaded = testing::dequantize_reference(weight.source());
    for (size_t j = 0; j < 10; ++j) {
      EXPECT_EQ(weight.bias[j], static_cast<float>(2 * 24 + 3 + 2 * j));
      for (size_t k = 0; k < 64; ++k) ASSERT_EQ(loaded[k * 10 + j], at(input_major, 2, 3 + 2 * j, k));
    }
  }
}

TEST(LinearParts, OfFp8HaveTheScalesOfTheirOutputs) {
  std::vector<float> scales(size_t{3} * 2);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<float>(i + 1);
  const Tensors tensors = {{"x.weight", tensor_of("F8_E4M3", {24, 64}, 0x38)},  // all ones
                           {"x.weight_scale_inv", of_values("F32", {3, 2}, scales)}};
  QuantizationConfig quantization;
  quantization.scheme.block_out = 8;
  quantization.scheme.block_in = 32;
  LinearRequest request = whole();
  request.num_out = 9;
  request.part = {.num_stored = 24, .first = 6};
  const LinearWeight weight = load(tensors, request, quantization);
  const std::vector<float> loaded = testing::dequantize_reference(weight.source());
  for (size_t j = 0; j < 9; ++j)
    for (size_t k = 0; k < 64; ++k) ASSERT_EQ(loaded[k * 9 + j], scales[(6 + j) / 8 * 2 + k / 32]);
}

TEST(LinearParts, OfFormatsWithoutPartsAreRefused) {
  LinearRequest request = whole();
  request.part.num_experts = 2;
  expect_error(ErrorCode::unsupported, {"x: a stack", "awq"}, [&] {
    request.key = "x";
    load(awq(), request);
  });
}

}  // namespace
}  // namespace quire
