#include "tests/support/trellis_fixture.h"

#include <bit>
#include <cmath>

#include "kernels/interface/half.h"

namespace quire::testing {
namespace {

using kernels::TrellisCodebook;
using kernels::WeightSource;

constexpr size_t kOrder = 128;

size_t padded(int32_t size) {
  return (static_cast<size_t>(size) + kOrder - 1) / kOrder * kOrder;
}

// Returns the value of a code: integers modulo 2^32, then f16 arithmetic.
double value_of_code(TrellisCodebook codebook, uint32_t code) {
  const auto half = [](uint32_t bits) -> double {
    return kernels::half_to_float(static_cast<uint16_t>(bits & 0xffffU));
  };
  const auto rounded = [](double value) -> double {
    return kernels::round_to_half(static_cast<float>(value));
  };
  if (codebook == TrellisCodebook::mul1) {
    const uint32_t x = code * 2212286765U;
    uint32_t sum = 0;
    for (int byte = 0; byte < 4; ++byte) sum += x >> (8 * byte) & 0xffU;
    return rounded(half(0x6400U + sum) * half(0x1eee) + half(0xc931));
  }
  uint32_t x = codebook == TrellisCodebook::mcg ? code * 3417055213U : code * 89226354U + 64248484U;
  x = (x & 0x8fff8fffU) ^ 0x3b603b60U;
  return rounded(half(x) + half(x >> 16));
}

// Returns bit `index` of the ring of a tile. Its words of 32 bits begin with their highest bit.
uint32_t ring_bit(const uint16_t* tile, size_t index) {
  const uint32_t word = tile[index / 32 * 2] | static_cast<uint32_t>(tile[index / 32 * 2 + 1]) << 16;
  return word >> (31 - index % 32) & 1U;
}

// Returns the bits of the first `count` weights of a tile. With half bits every second weight has one bit
// more.
size_t bits_of_weights(size_t count, int32_t half_bits) {
  const auto whole = static_cast<size_t>(half_bits / 2);
  return count * whole + (half_bits % 2 != 0 ? count / 2 : 0);
}

double value_in_tile(const kernels::TrellisSource& trellis, const uint16_t* tile, size_t t) {
  const size_t ring = bits_of_weights(256, trellis.half_bits);
  const size_t end = bits_of_weights(t + 1, trellis.half_bits);
  uint32_t code = 0;
  for (size_t i = 16; i > 0; --i) code = code << 1 | ring_bit(tile, (end + ring - i) % ring);
  return value_of_code(trellis.codebook, code);
}

// Multiplies blocks of 128 values, `stride` apart, by the Hadamard matrix: each entry is 1 or -1.
void transform(std::vector<double>& values, size_t first, size_t stride) {
  double out[kOrder];
  for (size_t i = 0; i < kOrder; ++i) {
    double sum = 0.0;
    for (size_t j = 0; j < kOrder; ++j) {
      const double value = values[first + j * stride];
      sum += std::popcount(i & j) % 2 != 0 ? -value : value;
    }
    out[i] = sum;
  }
  for (size_t i = 0; i < kOrder; ++i) values[first + i * stride] = out[i];
}

uint16_t random_scale(Random& random, float size) {
  const float value = size * random.between(0.5f, 1.5f);
  return kernels::float_to_half(random.below(2) != 0 ? value : -value);
}

}  // namespace

std::vector<TrellisKind> all_trellis_kinds() {
  std::vector<TrellisKind> kinds;
  for (const TrellisCodebook codebook :
       {TrellisCodebook::three_inst, TrellisCodebook::mcg, TrellisCodebook::mul1})
    for (int32_t bits = 1; bits <= 8; ++bits) kinds.push_back({codebook, 2 * bits});
  for (const int32_t half_bits : {3, 5, 7}) kinds.push_back({TrellisCodebook::mul1, half_bits});
  return kinds;
}

std::string name_of(const TrellisKind& kind) {
  const char* codebook = kind.codebook == TrellisCodebook::three_inst ? "3inst"
                         : kind.codebook == TrellisCodebook::mcg      ? "mcg"
                                                                      : "mul1";
  return std::string(codebook) + ", half bits " + std::to_string(kind.half_bits);
}

WeightSource TrellisFixture::source() const {
  WeightSource source;
  source.format = kernels::WeightFormat::trellis;
  source.num_in = num_in;
  source.num_out = column_order.empty() ? num_out : static_cast<int32_t>(column_order.size());
  source.padded_out = padded_out();
  source.trellis = {kind.codebook, kind.half_bits, tiles.data(), input_scales.data(), output_scales.data()};
  source.column_order = column_order.empty() ? nullptr : column_order.data();
  source.bias = bias.empty() ? nullptr : bias.data();
  source.prescale = prescale;
  return source;
}

TrellisFixture make_trellis(const TrellisKind& kind, int32_t num_in, int32_t num_out, uint64_t seed) {
  Random random(seed);
  TrellisFixture matrix;
  matrix.kind = kind;
  matrix.num_in = num_in;
  matrix.num_out = num_out;
  const size_t inputs = padded(num_in), outputs = padded(num_out);
  matrix.tiles.resize(inputs * outputs / 32 * static_cast<size_t>(kind.half_bits));
  for (uint16_t& word : matrix.tiles) word = static_cast<uint16_t>(random.below(0x10000));
  for (size_t k = 0; k < inputs; ++k) matrix.input_scales.push_back(random_scale(random, 1.0f));
  const float gain = 1.0f / std::sqrt(static_cast<float>(num_in));
  for (size_t n = 0; n < outputs; ++n) matrix.output_scales.push_back(random_scale(random, gain));
  return matrix;
}

std::vector<float> trellis_tiles(const WeightSource& source) {
  const size_t inputs = padded(source.num_in), outputs = static_cast<size_t>(source.padded_out);
  const size_t tile_words = size_t{8} * static_cast<size_t>(source.trellis.half_bits);
  std::vector<float> values(inputs * outputs);
  for (size_t tile = 0; tile < inputs / 16 * (outputs / 16); ++tile) {
    const size_t first_row = tile / (outputs / 16) * 16, first_column = tile % (outputs / 16) * 16;
    for (size_t lane = 0; lane < 32; ++lane) {
      for (size_t e = 0; e < 8; ++e) {
        const size_t row = first_row + 2 * (lane % 4) + e % 2 + (e / 2 % 2 == 1 ? 8 : 0);
        const size_t column = first_column + lane / 4 + (e >= 4 ? 8 : 0);
        values[row * outputs + column] = static_cast<float>(
            value_in_tile(source.trellis, source.trellis.tiles + tile * tile_words, 8 * lane + e));
      }
    }
  }
  return values;
}

std::vector<double> trellis_matrix(const WeightSource& source) {
  const size_t inputs = padded(source.num_in), outputs = static_cast<size_t>(source.padded_out);
  const std::vector<float> tiles = trellis_tiles(source);
  std::vector<double> values(tiles.begin(), tiles.end());
  for (size_t n = 0; n < outputs; ++n)
    for (size_t k = 0; k < inputs; k += kOrder) transform(values, k * outputs + n, outputs);
  for (size_t k = 0; k < inputs; ++k)
    for (size_t n = 0; n < outputs; n += kOrder) transform(values, k * outputs + n, 1);
  std::vector<double> matrix;
  for (size_t k = 0; k < static_cast<size_t>(source.num_in); ++k) {
    for (size_t j = 0; j < static_cast<size_t>(source.num_out); ++j) {
      const size_t n = source.column_order != nullptr ? static_cast<size_t>(source.column_order[j]) : j;
      const double scales = double{kernels::half_to_float(source.trellis.input_scales[k])} *
                            double{kernels::half_to_float(source.trellis.output_scales[n])};
      matrix.push_back(values[k * outputs + n] * scales * double{source.prescale} / kOrder);
    }
  }
  return matrix;
}

}  // namespace quire::testing
