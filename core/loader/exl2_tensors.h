// EXL2 tensors of one layer: docs/formats.md, "EXL2". The upstream reader does not validate them; this one
// does.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/loader/layer_tensors.h"
#include "core/loader/load_linear.h"
#include "core/loader/synthetic_values.h"

namespace quire {

LinearWeight load_exl2(WeightReader& reader, const LinearRequest& request,
                       const QuantizationConfig& quantization);
std::vector<int64_t> describe_exl2(const LayerTensors& layer);
// Makes a matrix with rows in random order, as files have them, and a mix of widths around the requested
// bits.
LinearWeight synthesize_exl2(const SyntheticRequest& request, SyntheticValues& values);

// Converts q_groups (pairs of bits and first packed row) to runs of rows. Throws ErrorCode::format beginning
// with `where` unless: widths are 2, 3, 4, 5, 6 or 8 and never increase; first rows begin at 0, increase, and
// stay below packed_rows; each group unpacks to a multiple of 32 rows (16 for 2 bits); all groups together
// have num_rows rows.
std::vector<kernels::Exl2Group> decode_exl2_groups(gsl::span<const int16_t> stored, int64_t packed_rows,
                                                   int64_t num_rows, std::string_view where);

// Returns the inverse of `permutation`; empty if it is the identity. Throws ErrorCode::format beginning with
// `where` if it is not a permutation of 0..n-1.
std::vector<int32_t> invert_permutation(gsl::span<const int32_t> permutation, std::string_view where);

// Throws ErrorCode::numeric beginning with `where` at the first infinity or NaN among half floats.
void require_finite_halves(gsl::span<const uint16_t> halves, std::string_view where);

}  // namespace quire
