#include "core/loader/exl2_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/loader/coded_tensors.h"
#include "core/loader/typed_tensor.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

// The upstream library narrows permutations to 16 bits, so no file has more rows.
constexpr int64_t kMaxExl2Rows = 65536;

bool is_exl2_width(int32_t bits) {
  return bits == 8 || (bits >= 2 && bits <= 6);
}

// Sizes derived from shapes alone, before any byte of the matrix is read.
struct Exl2Shape {
  int64_t packed_rows = 0;
  int64_t num_groups = 0;
  int64_t padded_out = 0;
};

Exl2Shape check_shapes(const WeightDirectory& directory, const LinearRequest& request) {
  const auto& weight = directory.at(request.key + ".q_weight");
  const auto& scale = directory.at(request.key + ".q_scale");
  require_rank(weight, 2);
  require_rank(scale, 2);
  const Exl2Shape shape{weight.tensor->shape[0], scale.tensor->shape[0], weight.tensor->shape[1]};
  const auto expected_out = static_cast<int64_t>(round_up(static_cast<uint64_t>(request.num_out), 32));
  if (shape.padded_out != expected_out) {
    throw Error(ErrorCode::format, "{}: has {} columns, but {} outputs need {}", describe(weight),
                shape.padded_out, request.num_out, expected_out);
  }
  if (shape.num_groups == 0) throw Error(ErrorCode::format, "{}: has no groups", describe(scale));
  if (request.num_in > kMaxExl2Rows || request.num_in % 32 != 0) {
    throw Error(ErrorCode::format, "{}: {} inputs are not a multiple of 32 up to {}", describe(weight),
                request.num_in, kMaxExl2Rows);
  }
  // Each group has at least one packed row, and each row takes at most 8 bits.
  if (shape.packed_rows < shape.num_groups || shape.packed_rows > request.num_in / 4) {
    throw Error(ErrorCode::format, "{}: {} packed rows do not hold {} inputs in {} groups", describe(weight),
                shape.packed_rows, request.num_in, shape.num_groups);
  }
  return shape;
}

}  // namespace

std::vector<kernels::Exl2Group> decode_exl2_groups(gsl::span<const int16_t> stored, int64_t packed_rows,
                                                   int64_t num_rows, std::string_view where) {
  const size_t num_groups = stored.size() / 2;
  std::vector<kernels::Exl2Group> groups;
  groups.reserve(num_groups);
  int64_t first_row = 0;
  for (size_t g = 0; g < num_groups; ++g) {
    const auto fail = [&](const std::string& reason) {
      throw Error(ErrorCode::format, "{}: group {} {}", where, g, reason);
    };
    // First rows are unsigned 16-bit numbers.
    const auto row_at = [&](size_t group) -> int64_t { return static_cast<uint16_t>(stored[2 * group + 1]); };
    const int32_t bits = stored[2 * g];
    const int64_t begin = row_at(g);
    const int64_t end = g + 1 < num_groups ? row_at(g + 1) : packed_rows;
    if (!is_exl2_width(bits)) fail(fmt::format("has {} bits, not 2, 3, 4, 5, 6 or 8", bits));
    if (g > 0 && bits > groups.back().bits)
      fail(fmt::format("has {} bits after {}", bits, groups.back().bits));
    if (g == 0 && begin != 0) fail(fmt::format("begins at packed row {}, not 0", begin));
    if (begin >= end) fail(fmt::format("has packed rows {} to {}, which is not a range", begin, end));
    const int64_t stored_bits = (end - begin) * 32;
    const int64_t step = bits == 2 ? 16 : 32;
    if (stored_bits % (bits * step) != 0) {
      fail(fmt::format("has {} packed rows, not a multiple of {} rows of {} bits", end - begin, step, bits));
    }
    kernels::Exl2Group group;
    group.bits = bits;
    group.first_row = checked_cast<int32_t>(first_row, where);
    group.num_rows = checked_cast<int32_t>(stored_bits / bits, where);
    group.first_packed_row = checked_cast<int32_t>(begin, where);
    groups.push_back(group);
    first_row += group.num_rows;
  }
  if (first_row != num_rows) {
    throw Error(ErrorCode::format, "{}: its groups hold {} rows, but {} are needed", where, first_row,
                num_rows);
  }
  return groups;
}

std::vector<int32_t> invert_permutation(gsl::span<const int32_t> permutation, std::string_view where) {
  std::vector<int32_t> inverse(permutation.size(), -1);
  bool identity = true;
  for (size_t i = 0; i < permutation.size(); ++i) {
    const int32_t value = permutation[i];
    if (value < 0 || static_cast<size_t>(value) >= permutation.size()) {
      throw Error(ErrorCode::format, "{}: element {} is {}, outside 0 to {}", where, i, value,
                  permutation.size() - 1);
    }
    int32_t& slot = inverse[static_cast<size_t>(value)];
    if (slot >= 0) throw Error(ErrorCode::format, "{}: {} appears at {} and at {}", where, value, slot, i);
    slot = static_cast<int32_t>(i);
    identity = identity && slot == value;
  }
  return identity ? std::vector<int32_t>() : inverse;
}

void require_finite_halves(gsl::span<const uint16_t> halves, std::string_view where) {
  const auto bad =
      std::find_if(halves.begin(), halves.end(), [](uint16_t bits) { return (bits & 0x7c00U) == 0x7c00U; });
  if (bad != halves.end()) {
    throw Error(ErrorCode::numeric, "{}: element {} is not a finite number", where, bad - halves.begin());
  }
}

LinearWeight load_exl2(WeightReader& reader, const LinearRequest& request, const QuantizationConfig&) {
  if (!request.is_whole()) {
    throw Error(ErrorCode::unsupported,
                "{}: a part of an EXL2 matrix is not supported; its rows have one order",
                printable(request.key));
  }
  const Exl2Shape shape = check_shapes(reader.directory(), request);
  const auto name = [&request](std::string_view suffix) { return request.key + std::string(suffix); };
  const auto where = [&](std::string_view suffix) { return describe(reader.directory().at(name(suffix))); };

  LinearWeight weight;
  weight.num_in = request.num_in;
  weight.num_out = request.num_out;
  weight.padded_out = static_cast<int32_t>(shape.padded_out);
  const HostTensor groups = read_typed(reader, name(".q_groups"), {2 * shape.num_groups}, DType::i16);
  const HostTensor inverse = read_typed(reader, name(".q_invperm"), {request.num_in}, DType::i32);
  weight.row_order = invert_permutation(inverse.elements<int32_t>(), where(".q_invperm"));

  Exl2Matrix matrix;
  matrix.groups =
      decode_exl2_groups(groups.elements<int16_t>(), shape.packed_rows, request.num_in, where(".q_groups"));
  matrix.q_scale_max = read_typed(reader, name(".q_scale_max"), {shape.num_groups}, DType::f16);
  require_finite_halves(matrix.q_scale_max.elements<uint16_t>(), where(".q_scale_max"));
  matrix.q_scale =
      read_typed_values(reader, name(".q_scale"), {shape.num_groups, shape.padded_out / 8}, DType::i32);
  matrix.q_weight = read_typed_values(reader, name(".q_weight"), {shape.packed_rows, shape.padded_out},
                                      DType::i32, request.read_by);
  weight.matrix = std::move(matrix);
  // Written by old converters; their content is derived here instead.
  reader.skip(name(".q_perm"));
  reader.skip(name(".q_group_map"));
  return weight;
}

std::vector<int64_t> describe_exl2(const LayerTensors& layer) {
  return {layer.extent(".q_weight", 1), layer.extent(".q_invperm", 0)};
}

namespace {

constexpr int32_t kGroupRows = 128;
constexpr std::array<int32_t, 6> kWidths = {8, 6, 5, 4, 3, 2};

struct Mix {
  int32_t bits = 0;
  double share = 0.0;
};

// Returns widths around an average, mixed as the converter mixes them: a tenth of the rows one width above,
// the rest split so that the average is met.
std::vector<Mix> mix_for(double bits) {
  for (const int32_t width : kWidths) {
    if (bits == width && (width == 8 || width == 2)) return {{width, 1.0}};
  }
  const auto below =
      *std::find_if(kWidths.begin(), kWidths.end(), [&](int32_t width) { return width <= bits; });
  int32_t above = 8;
  for (const int32_t width : kWidths) {
    if (width > bits) above = width;
  }
  if (bits == below && below > 2) {
    const int32_t lower = below == 8 ? 6 : below - 1;
    const double up = 0.1;
    const double down = up * (above - below) / (below - lower);
    return {{above, up}, {below, 1.0 - up - down}, {lower, down}};
  }
  const double up = (bits - below) / (above - below);
  return {{above, up}, {below, 1.0 - up}};
}

// Divides the rows into whole groups, widest first; the last width takes the remaining rows.
std::vector<kernels::Exl2Group> groups_for(int32_t rows, double bits) {
  std::vector<kernels::Exl2Group> groups;
  int32_t row = 0;
  int32_t packed = 0;
  const std::vector<Mix> mix = mix_for(bits);
  for (size_t m = 0; m < mix.size(); ++m) {
    const double share = mix[m].share * rows / kGroupRows;
    int32_t left = m + 1 == mix.size() ? rows - row : static_cast<int32_t>(std::lround(share)) * kGroupRows;
    while (left > 0 && row < rows) {
      const int32_t take = std::min({left, kGroupRows, rows - row});
      groups.push_back({mix[m].bits, row, take, packed});
      packed += take * mix[m].bits / 32;
      row += take;
      left -= take;
    }
  }
  return groups;
}

// Returns the largest scale of a group that gives the matrix unit gain, for uniform codes and scale indices.
uint16_t scale_ceiling(int32_t bits, int32_t rows) {
  const double codes = std::ldexp(1.0, bits) / std::sqrt(12.0);
  const double scales = 0.45;  // root mean square of ((i + 1) / 16)^2 over i = 0..15
  return kernels::float_to_half(
      static_cast<float>(1.0 / (std::sqrt(static_cast<double>(rows)) * codes * scales)));
}

}  // namespace

LinearWeight synthesize_exl2(const SyntheticRequest& request, SyntheticValues& values) {
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  Exl2Matrix matrix;
  matrix.groups = groups_for(request.num_in, request.bits);
  const kernels::Exl2Group& last = matrix.groups.back();
  const int64_t packed_rows = last.first_packed_row + last.num_rows * last.bits / 32;
  const auto num_groups = static_cast<int64_t>(matrix.groups.size());
  matrix.q_weight = values.random_words(packed_rows, request.num_out, request.key);
  matrix.q_scale = values.random_words(num_groups, request.num_out / 8, request.key);
  matrix.q_scale_max = HostTensor(DType::f16, {num_groups}, static_cast<size_t>(num_groups) * 2, request.key);
  for (size_t g = 0; g < matrix.groups.size(); ++g)
    matrix.q_scale_max.elements<uint16_t>()[g] = scale_ceiling(matrix.groups[g].bits, request.num_in);
  weight.row_order = values.order_of(request);
  weight.matrix = std::move(matrix);
  return weight;
}

}  // namespace quire
