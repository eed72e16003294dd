#include "core/loader/stored_type.h"

#include <array>

#include <gsl/gsl>

namespace quire {
namespace {

constexpr std::array<StoredType, 22> kStoredTypes = {{
    {"F64", 64, DType::f64},          {"F32", 32, DType::f32},        {"F16", 16, DType::f16},
    {"BF16", 16, DType::bf16},        {"I64", 64, DType::i64},        {"I32", 32, DType::i32},
    {"I16", 16, DType::i16},          {"I8", 8, DType::i8},           {"U8", 8, DType::u8},
    {"U64", 64, std::nullopt},        {"U32", 32, std::nullopt},      {"U16", 16, std::nullopt},
    {"BOOL", 8, std::nullopt},        {"C64", 64, std::nullopt},      {"F8_E4M3", 8, DType::f8_e4m3},
    {"F8_E5M2", 8, std::nullopt},     {"F8_E8M0", 8, DType::f8_e8m0}, {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt},   {"F6_E3M2", 6, std::nullopt},
    {"F4", 4, std::nullopt},
}};

constexpr auto kBlockTypes = [] {
  std::array<StoredType, kernels::kNumBlockTypes> types{};
  for (size_t i = 1; i < types.size(); ++i)
    types[i] = {kernels::kBlockShapes[i].name, 0, DType::u8, static_cast<kernels::BlockType>(i)};
  return types;
}();

}  // namespace

const StoredType* find_stored_type(std::string_view name) {
  for (const StoredType& type : kStoredTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

const StoredType& stored_type_of(kernels::BlockType blocks) {
  Expects(blocks != kernels::BlockType::none);
  return kBlockTypes[static_cast<size_t>(blocks)];
}

}  // namespace quire
