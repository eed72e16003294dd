// Converts tiles on the card back to values on the host.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/plan/float8_shape.h"
#include "kernels/cuda/weights/trellis_repack.h"
#include "kernels/cuda/weights/weight_repack.h"
#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

// One tile at a time.
Status dequantize_float8(Device& device, const Weight& weight, float* host) {
  const Matrix& m = weight.groups.front().matrix;
  std::vector<uint8_t> tile(m.parts[0].strip_bytes);
  std::vector<int32_t> orders;  // output column of each column of the product
  for (size_t p = 0, first = 0; p < weight.part_columns.size();
       first += static_cast<size_t>(weight.part_columns[p++]))
    for (int32_t c = 0; c < weight.part_columns[p]; ++c)
      orders.push_back(static_cast<int32_t>(first) + (weight.column_orders[p].empty()
                                                          ? c
                                                          : weight.column_orders[p][static_cast<size_t>(c)]));
  for (int32_t t = 0; t < m.parts[0].num_strips; ++t) {
    const uint8_t* from = m.parts[0].strips + static_cast<size_t>(t) * tile.size();
    const cudaError_t error = cudaMemcpy(tile.data(), from, tile.size(), cudaMemcpyDeviceToHost);
    if (const Status s = device.check(error, "reading a matrix"); s != Status::ok) return s;
    for (int32_t column = 0; column < m.num_columns; ++column) {
      const Float8Place place = float8_column(column, m.num_columns, m.paired != 0);
      if (place.tile != t) continue;
      const auto row = static_cast<uint32_t>(place.row);
      for (uint32_t k = 0; k < static_cast<uint32_t>(m.num_rows); ++k) {
        const uint8_t* block = tile.data() + k / kBlockRows * kFloat8BlockBytes;
        float scale = 0.0f;
        std::memcpy(&scale, block + kFloat8CodeBytes + row * sizeof(float), sizeof scale);
        host[size_t{k} * static_cast<size_t>(m.num_columns) +
             static_cast<size_t>(orders[static_cast<size_t>(column)])] =
            e4m3_to_float(block[row / 8 * kFloat8OctetBytes + float8_place(row, k % kBlockRows)]) * scale;
      }
    }
  }
  return Status::ok;
}

}  // namespace

Status dequantize(Device* device, const Weight* weight, float* host) {
  if (weight->table != nullptr)
    return device->fail(Status::invalid_argument,
                        "dequantize: the weight is not a matrix but an embedding table");
  if (const Status s = device->enter(); s != Status::ok) return s;
  if (const Status s =
          device->check(weight->memory->await(nullptr), "waiting for weights that are being copied");
      s != Status::ok)
    return s;
  if (weight->groups.front().matrix.kind == TileKind::float8)
    return dequantize_float8(*device, *weight, host);
  const int32_t stride = (weight->num_rows + 7) / 8 * 8;
  constexpr int32_t kStripsAtOnce = 32;
  const size_t bytes = static_cast<size_t>(kStripsAtOnce) * kStripColumns * static_cast<size_t>(stride) * 2;
  void* memory = nullptr;
  if (const Status s = device->allocate(bytes, &memory, "allocating memory to expand a matrix");
      s != Status::ok)
    return s;
  std::vector<__half_raw> slab(bytes / 2);
  Status status = Status::ok;
  for (const WeightGroup& group : weight->groups) {
    if (group.matrix.kind == TileKind::trellis) {
      if (status == Status::ok) status = dequantize_trellis(*device, *weight, group, host);
      continue;
    }
    for (int32_t p = 0; p < group.matrix.num_parts && status == Status::ok; ++p) {
      const Part& part = group.matrix.parts[p];
      // Find the stored part of these columns by its first column.
      size_t source = 0;
      for (int32_t column = 0; column != part.first_column; ++source) column += weight->part_columns[source];
      const std::vector<int32_t>& order = weight->column_orders[source];
      for (int32_t strip = 0; strip < part.num_strips && status == Status::ok; strip += kStripsAtOnce) {
        const int32_t strips = std::min(kStripsAtOnce, part.num_strips - strip);
        status = device->check(
            expand_columns(group.matrix, {p, strip, strips}, static_cast<__half*>(memory), stride, nullptr),
            "expanding a matrix");
        if (status == Status::ok)
          status = device->check(
              cudaMemcpy(slab.data(), memory,
                         static_cast<size_t>(strips) * kStripColumns * static_cast<size_t>(stride) * 2,
                         cudaMemcpyDeviceToHost),
              "reading a matrix");
        if (status != Status::ok) break;
        for (int32_t c = 0; c < strips * kStripColumns; ++c) {
          const int32_t column = strip * kStripColumns + c;
          if (column >= part.num_columns) break;
          const int32_t stored = order.empty() ? column : order[static_cast<size_t>(column)];
          for (int32_t k = 0; k < weight->num_rows; ++k) {
            const int32_t feature = group.row_order.empty() ? k : group.row_order[static_cast<size_t>(k)];
            host[static_cast<size_t>(feature) * static_cast<size_t>(weight->num_columns) +
                 static_cast<size_t>(part.first_column + stored)] =
                half_to_float(
                    slab[static_cast<size_t>(c) * static_cast<size_t>(stride) + static_cast<size_t>(k)].x);
          }
        }
      }
    }
  }
  device->release(memory);
  return status;
}

}  // namespace quire::kernels
