#include "core/loader/safetensors_header.h"

#include <gtest/gtest.h>

#include "tests/support/case_stride.h"
#include "tests/support/expect_error.h"

namespace quire {
namespace {

using testing::expect_error;

SafetensorsHeader parse(std::string_view text, uint64_t data_bytes) {
  return parse_safetensors_header(text, 8 + text.size(), data_bytes, "a.safetensors");
}

struct Refusal {
  const char* name;
  std::string text;
  uint64_t data_bytes;
  const char* reason;
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.name;
}

class MalformedHeader : public ::testing::TestWithParam<Refusal> {};

TEST_P(MalformedHeader, IsRefusedWithFileAndReason) {
  const Refusal& refusal = GetParam();
  expect_error(ErrorCode::format, {"a.safetensors", refusal.reason},
               [&] { parse(refusal.text, refusal.data_bytes); });
}

std::string one(std::string_view fields) {
  return R"({"w":{)" + std::string(fields) + "}}";
}

std::string shape_of(std::string_view shape) {
  return one(R"("dtype":"F32","shape":[)" + std::string(shape) + R"(],"data_offsets":[0,16])");
}

std::string offsets_of(std::string_view offsets) {
  return one(R"("dtype":"F32","shape":[4],"data_offsets":)" + std::string(offsets));
}

std::string two(std::string_view first, std::string_view second) {
  return R"({"a":{"dtype":"U8","shape":)" + std::string(first) + R"(},"b":{"dtype":"U8","shape":)" +
         std::string(second) + "}}";
}

const std::string kGood = R"("dtype":"F32","shape":[4],"data_offsets":[0,16])";

const Refusal kRefusals[] = {
    // Text:
    {"empty", "", 0, "begin with '{'"},
    {"leading_space", " {}", 0, "begin with '{'"},
    {"byte_order_mark", "\xef\xbb\xbf{}", 0, "begin with '{'"},
    {"list", "[]", 0, "begin with '{'"},
    {"number", "7", 0, "begin with '{'"},
    {"not_utf8", "{\"\xff\":1}", 0, "not UTF-8 at byte 2"},
    {"overlong_utf8", "{\"\xc0\xaf\":1}", 0, "not UTF-8"},
    {"surrogate", R"({"\ud800":{}})", 0, "not valid JSON"},
    {"open_object", "{", 0, "not valid JSON"},
    {"open_string", R"({"w)", 0, "not valid JSON"},
    {"trailing_comma", "{" + std::string(R"("w":{)") + kGood + "},}", 16, "not valid JSON"},
    {"trailing_text", "{}x", 0, "not valid JSON"},
    {"trailing_nul", std::string("{}\0", 3), 0, "not valid JSON"},
    {"second_value", "{}{}", 0, "not valid JSON"},
    {"comment", "{}/*x*/", 0, "not valid JSON"},
    {"nan", one(R"("dtype":"F32","shape":[NaN],"data_offsets":[0,16])"), 16, "not valid JSON"},
    {"deep", R"({"w":)" + std::string(100000, '['), 0, "but an object is needed"},
    {"deep_objects", "{\"a\":{\"shape\":{\"a\":{", 0, "an object as its shape"},
    // Tensor:
    {"tensor_null", R"({"w":null})", 0, "null, but an object is needed"},
    {"tensor_number", R"({"w":3})", 0, "number, but an object is needed"},
    {"tensor_string", R"({"w":"F32"})", 0, "string, but an object is needed"},
    {"tensor_empty", R"({"w":{}})", 0, "\"w\" has no dtype"},
    {"tensor_twice", R"({"w":{)" + kGood + R"(},"w":{)" + kGood + "}}", 16, "\"w\" appears twice"},
    {"tensor_twice_escaped", R"({"w":{)" + kGood + R"(},"\u0077":{)" + kGood + "}}", 16,
     "\"w\" appears twice"},
    {"field_twice", one(kGood + R"(,"dtype":"F32")"), 16, "\"dtype\" appears twice"},
    {"field_unknown", one(kGood + R"(,"strides":[1])"), 16, "unknown field \"strides\""},
    {"no_shape", one(R"("dtype":"F32","data_offsets":[0,16])"), 16, "has no shape"},
    {"no_offsets", one(R"("dtype":"F32","shape":[4])"), 16, "has no data_offsets"},
    // Type:
    {"type_unknown", one(R"("dtype":"F128","shape":[1],"data_offsets":[0,16])"), 16, "unknown type \"F128\""},
    {"type_lower_case", one(R"("dtype":"f32","shape":[4],"data_offsets":[0,16])"), 16, "unknown type"},
    {"type_empty", one(R"("dtype":"","shape":[4],"data_offsets":[0,16])"), 16, "unknown type"},
    {"type_number", one(R"("dtype":4,"shape":[4],"data_offsets":[0,16])"), 16, "a number as its dtype"},
    {"type_null", one(R"("dtype":null,"shape":[4],"data_offsets":[0,16])"), 16, "null as its dtype"},
    {"type_line_break", one(R"("dtype":"F\n32","shape":[4],"data_offsets":[0,16])"), 16, "unknown type"},
    // Shape:
    {"shape_string", one(R"("dtype":"F32","shape":"4","data_offsets":[0,16])"), 16, "a string as its shape"},
    {"shape_number", one(R"("dtype":"F32","shape":4,"data_offsets":[0,16])"), 16, "a number as its shape"},
    {"shape_negative", shape_of("-4"), 16, "negative number in its shape"},
    {"shape_minus_zero", shape_of("-0"), 16, "negative number in its shape"},
    {"shape_float", shape_of("4.0"), 16, "no whole number of 64 bits in its shape"},
    {"shape_exponent", shape_of("4e0"), 16, "no whole number of 64 bits in its shape"},
    {"shape_nested", shape_of("[4]"), 16, "a list in its shape"},
    {"shape_true", shape_of("true"), 16, "true or false in its shape"},
    {"shape_rank_9", shape_of("1,1,1,1,1,1,1,1,4"), 16, "more than 8 dimensions"},
    {"shape_too_small", shape_of("3"), 16, "takes 12 bytes, its data_offsets hold 16"},
    {"shape_too_big", shape_of("5"), 16, "takes 20 bytes, its data_offsets hold 16"},
    {"shape_scalar", shape_of(""), 16, "takes 4 bytes"},
    {"shape_2_31", shape_of("2147483648"), 16, "data_offsets hold 16"},
    {"shape_2_32", shape_of("4294967296"), 16, "data_offsets hold 16"},
    {"shape_2_42", shape_of("4398046511105"), 16, "data_offsets hold 16"},
    {"shape_2_61_wraps_bytes", shape_of("2305843009213693952"), 16, "overflows"},
    {"shape_2_62_times_4_wraps_to_0", shape_of("4611686018427387904,4"), 16, "overflows"},
    {"shape_wraps_to_16_bytes", shape_of("4294967298,4294967298"), 16, "overflows"},
    {"shape_2_63", shape_of("9223372036854775808"), 16, "overflows"},
    {"shape_2_64_less_1", shape_of("18446744073709551615"), 16, "overflows"},
    {"shape_2_64", shape_of("18446744073709551616"), 16, "no whole number of 64 bits"},
    {"shape_overflow_beside_zero", shape_of("0,4611686018427387904,4611686018427387904"), 16, "overflows"},
    {"shape_zero_with_bytes", shape_of("0"), 16, "takes 0 bytes"},
    {"four_bit_odd", one(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2, "whole bytes"},
    // Range:
    {"offsets_one", offsets_of("[0]"), 16, "data_offsets of two numbers"},
    {"offsets_three", offsets_of("[0,16,16]"), 16, "more than two data_offsets"},
    {"offsets_none", offsets_of("[]"), 16, "data_offsets of two numbers"},
    {"offsets_object", offsets_of("{}"), 16, "an object as its data_offsets"},
    {"offsets_negative", offsets_of("[-16,0]"), 16, "negative number in its data_offsets"},
    {"offsets_float", offsets_of("[0.0,16]"), 16, "in its data_offsets"},
    {"offsets_string", offsets_of(R"(["0","16"])"), 16, "a string"},
    {"offsets_reversed", offsets_of("[16,0]"), 16, "not a range of bytes"},
    {"offsets_huge", offsets_of("[18446744073709551600,18446744073709551615]"), 16, "not a range of bytes"},
    {"hole_at_start", offsets_of("[4,20]"), 20, "a hole"},
    {"bytes_at_end", offsets_of("[0,16]"), 17, "1 bytes after the last tensor"},
    {"bytes_without_tensor", "{}", 1, "1 bytes after the last tensor"},
    {"overlap", two(R"([4],"data_offsets":[0,4])", R"([4],"data_offsets":[2,6])"), 6, "overlap"},
    {"same_range", two(R"([4],"data_offsets":[0,4])", R"([4],"data_offsets":[0,4])"), 4, "overlap"},
    {"hole_between", two(R"([2],"data_offsets":[0,2])", R"([2],"data_offsets":[3,5])"), 5, "a hole"},
    {"empty_inside_another", two(R"([4],"data_offsets":[0,4])", R"([0],"data_offsets":[2,2])"), 4, "overlap"},
    {"empty_beyond_data", two(R"([4],"data_offsets":[0,4])", R"([0],"data_offsets":[5,5])"), 4, "a hole"},
    // Metadata:
    {"metadata_number", R"({"__metadata__":{"a":1}})", 0, "\"a\" is a number, but a string"},
    {"metadata_null_value", R"({"__metadata__":{"a":null}})", 0, "null, but a string"},
    {"metadata_object", R"({"__metadata__":{"a":{}}})", 0, "an object, but a string"},
    {"metadata_list", R"({"__metadata__":["a"]})", 0, "a list, but an object"},
    {"metadata_null", R"({"__metadata__":null})", 0, "null, but an object"},
    {"metadata_is_a_tensor", R"({"__metadata__":{)" + kGood + "}}", 16, "a list, but a string"},
    {"metadata_key_twice", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "\"a\" appears twice"},
    {"metadata_twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "appears twice"},
};

INSTANTIATE_TEST_SUITE_P(Table, MalformedHeader, ::testing::ValuesIn(kRefusals),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(SafetensorsHeader, NamesTheTensorOnOneLine) {
  expect_error(ErrorCode::format, {"a.safetensors", "tensor \"a\\x0ab\""},
               [] { parse(R"({"a\nb":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8); });
}

// The header stays valid whatever number of data bytes is missing: the file is reported as too short.
TEST(SafetensorsHeader, ReportsATruncatedFile) {
  for (const uint64_t left : {15U, 8U, 1U, 0U}) {
    expect_error(ErrorCode::truncated, {"a.safetensors", "need 16 bytes, it has " + std::to_string(left)},
                 [&] { parse(offsets_of("[0,16]"), left); });
  }
}

TEST(SafetensorsHeader, HasALimitOfTensors) {
  if (testing::kIsSanitized) GTEST_SKIP() << "half a million tensors are too many under a sanitizer";
  std::string text = "{";
  for (size_t i = 0; i < kMaxTensorsOfFile; ++i)
    text += "\"" + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)";
  std::string one_more = text + R"("x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  text.back() = '}';
  EXPECT_EQ(parse(text, 0).tensors.size(), kMaxTensorsOfFile);
  expect_error(ErrorCode::format, {"more than 262144 tensors"}, [&] { parse(one_more, 0); });
}

TEST(SafetensorsHeader, ReadsAValidHeader) {
  const std::string text =
      R"({"__metadata__":{"format":"pt"},"z":{"data_offsets":[4,12],"shape":[2,2],"dtype":"BF16"},)"
      R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}   )";
  const SafetensorsHeader header = parse(text, 12);
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].offset_bytes, 8 + text.size());
  EXPECT_EQ(header.tensors[1].name, "z");
  EXPECT_EQ(header.tensors[1].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(header.tensors[1].offset_bytes, 8 + text.size() + 4);
  EXPECT_EQ(header.tensors[1].size_bytes, 8U);
  EXPECT_EQ(header.tensors[1].num_elements(), 4U);
}

TEST(SafetensorsHeader, EmptyTensorsHaveNoBytesAndLieAtBoundaries) {
  const SafetensorsHeader header = parse(
      R"({"first":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
      R"("last":{"dtype":"F64","shape":[3,0,5],"data_offsets":[4,4]},"also":{"dtype":"I8","shape":[0],"data_offsets":[4,4]}})",
      4);
  EXPECT_EQ(header.tensors.size(), 4U);
  for (const TensorInfo& tensor : header.tensors) EXPECT_EQ(tensor.size_bytes, tensor.name == "w" ? 4U : 0U);
}

TEST(SafetensorsHeader, AcceptsNoTensorsAndScalars) {
  EXPECT_TRUE(parse("{}", 0).tensors.empty());
  const SafetensorsHeader header = parse(R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4);
  EXPECT_EQ(header.tensors.at(0).num_elements(), 1U);
}

TEST(SafetensorsHeader, UsesTheSizeOfEveryType) {
  const std::pair<const char*, int> kBits[] = {{"F64", 64},    {"F32", 32}, {"F16", 16},    {"BF16", 16},
                                               {"I64", 64},    {"I32", 32}, {"I16", 16},    {"I8", 8},
                                               {"U8", 8},      {"U64", 64}, {"U32", 32},    {"U16", 16},
                                               {"BOOL", 8},    {"C64", 64}, {"F8_E4M3", 8}, {"F8_E5M2", 8},
                                               {"F8_E8M0", 8}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}};
  for (const auto& [name, bits] : kBits) {
    const auto bytes = static_cast<uint64_t>(8 * bits / 8);
    const std::string text =
        fmt::format(R"({{"w":{{"dtype":"{}","shape":[2,4],"data_offsets":[0,{}]}}}})", name, bytes);
    EXPECT_EQ(parse(text, bytes).tensors.at(0).size_bytes, bytes) << name;
  }
}

TEST(SafetensorsHeader, ReadsRankEightAndManyTensors) {
  std::string text = R"({"w":{"dtype":"U8","shape":[1,1,1,1,1,1,1,2],"data_offsets":[0,2]})";
  for (int i = 0; i < 5000; ++i) {
    text += fmt::format(R"(,"t{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", i, i + 2, i + 3);
  }
  EXPECT_EQ(parse(text + "}", 5002).tensors.size(), 5001U);
}

}  // namespace
}  // namespace quire
