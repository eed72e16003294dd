#include "kernels/interface/block_codes.h"

#include <iterator>

#include "kernels/interface/block_forms.h"
#include "kernels/interface/block_grids.h"
#include "kernels/interface/block_readers.h"
#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

// Places of the f16 scales in a block; -1: none.
struct ScalePlaces {
  int first;
  int second;
};
constexpr ScalePlaces kPlaces[kNumBlockTypes] = {
    {-1, -1}, {0, -1},   {0, 2},   {0, -1},  {0, 2},   {0, -1},  {80, 82}, {108, -1}, {0, 2},
    {0, 2},   {208, -1}, {0, -1},  {-1, -1}, {0, -1},  {0, -1},  {0, -1},  {0, -1},   {0, -1},
    {0, -1},  {0, -1},   {52, -1}, {64, -1}, {-1, -1}, {-1, -1}, {0, -1},  {0, -1},
};

// 6 * 2^125 is a float, 6 * 2^126 is not.
constexpr uint8_t kLargestE8m0 = 127 + 125;

bool is_finite_half(uint16_t half) {
  return (half & 0x7c00U) != 0x7c00U;
}

bool is_sound(BlockType type, const uint8_t* block) {
  if (type == BlockType::iq1_m) return is_finite_half(iq1_m_scale(block + 48));
  if (type == BlockType::mxfp4) return block[0] <= kLargestE8m0;
  const ScalePlaces places = kPlaces[static_cast<size_t>(type)];
  return (places.first < 0 || is_finite_half(half_at(block + places.first))) &&
         (places.second < 0 || is_finite_half(half_at(block + places.second)));
}

}  // namespace

const BlockForm& block_form(BlockType type) {
  return kBlockForms[static_cast<size_t>(type)];
}

BlockGrid block_grid(BlockType type) {
  switch (type) {
    case BlockType::iq1_s:
    case BlockType::iq1_m:
      return BlockGrid{kIq1Grid, std::size(kIq1Grid)};
    case BlockType::iq2_xxs:
      return BlockGrid{kIq2XxsGrid, std::size(kIq2XxsGrid)};
    case BlockType::iq2_xs:
      return BlockGrid{kIq2XsGrid, std::size(kIq2XsGrid)};
    case BlockType::iq2_s:
      return BlockGrid{kIq2SGrid, std::size(kIq2SGrid)};
    case BlockType::iq3_xxs:
      return BlockGrid{kIq3XxsGrid, std::size(kIq3XxsGrid)};
    case BlockType::iq3_s:
      return BlockGrid{kIq3SGrid, std::size(kIq3SGrid)};
    default:
      return {};
  }
}

void read_block(BlockType type, const uint8_t* block, BlockCodes& out) {
  read_block_with(block_grid(type).indices, type, block, out);
}

BlockGroup group_of_block(const BlockForm& form, const BlockCodes& block, int32_t group) {
  const float whole = half_to_float(block.scales[0]);
  const float whole_min = half_to_float(block.mins[0]);
  const uint8_t byte = block.group_scales[group];
  switch (form.terms) {
    case BlockTerms::half:
      return {half_to_float(block.scales[group]), 0.0f};
    case BlockTerms::half_min:
      return {half_to_float(block.scales[group]), half_to_float(block.mins[group])};
    case BlockTerms::bytes:
      return {whole * static_cast<float>(static_cast<int8_t>(byte)), 0.0f};
    case BlockTerms::bytes_min:
      return {whole * static_cast<float>(byte), whole_min * static_cast<float>(block.group_mins[group])};
    case BlockTerms::nibbles_min:
      return {whole * static_cast<float>(byte & 15), whole_min * static_cast<float>(byte >> 4)};
    case BlockTerms::e4m3:
      return {half_to_float(static_cast<uint16_t>(byte << 7)) * 256.0f, 0.0f};
    case BlockTerms::e8m0:
      return {e8m0_to_float(byte), 0.0f};
  }
  return {};
}

void decode_blocks(BlockType type, const void* blocks, size_t count, float* out) {
  const BlockShape& shape = block_shape(type);
  const BlockForm& form = block_form(type);
  const auto* bytes = static_cast<const uint8_t*>(blocks);
  BlockCodes block = {};
  for (size_t b = 0; b < count; ++b, bytes += shape.bytes) {
    read_block(type, bytes, block);
    for (int32_t first = 0; first < shape.weights; first += form.group) {
      const BlockGroup group = group_of_block(form, block, first / form.group);
      for (int32_t j = first; j < first + form.group; ++j) {
        const int32_t value = form.values != nullptr ? form.values[block.codes[j]] : block.codes[j];
        const float scaled = static_cast<float>(value - form.zero) * (group.scale * form.factor);
        *out++ = has_min(form.terms) ? scaled - group.min : scaled;
      }
    }
  }
}

size_t first_unsound_block(BlockType type, const void* blocks, size_t count) {
  const auto* bytes = static_cast<const uint8_t*>(blocks);
  size_t b = 0;
  while (b < count && is_sound(type, bytes + b * static_cast<size_t>(block_shape(type).bytes))) ++b;
  return b;
}

}  // namespace quire::kernels
