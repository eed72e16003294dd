// Converts EXL3 matrices to tiles on the card, and back to values on the host.
#include <algorithm>
#include <cstring>
#include <cuda_fp16.h>
#include <vector>

#include "kernels/cuda/weights/trellis_repack.h"
#include "kernels/interface/half.h"
#include "kernels/interface/stored_bytes.h"

namespace quire::kernels {
namespace {

constexpr auto kOrder = static_cast<size_t>(kHadamardOrder);

// Copies the scales and the outputs of columns to `memory`.
cudaError_t send_terms(const PartPlan& plan, const TrellisScales& scales, void* memory, cudaStream_t stream,
                       TrellisTerms& terms) {
  auto* inputs = static_cast<float*>(memory);
  float* outputs = inputs + scales.inputs.size();
  auto* columns = reinterpret_cast<int32_t*>(outputs + scales.outputs.size());
  terms = {inputs, outputs, columns};
  const auto send = [&](void* to, const auto& values) {
    return cudaMemcpyAsync(to, values.data(), values.size() * sizeof(values[0]), cudaMemcpyHostToDevice,
                           stream);
  };
  cudaError_t error = send(inputs, scales.inputs);
  if (error == cudaSuccess) error = send(outputs, scales.outputs);
  return error == cudaSuccess ? send(columns, plan.trellis.outputs) : error;
}

// Copies device memory to the host.
template <typename T>
Status read(Device& device, const T* from, std::vector<T>& to) {
  return device.check(cudaMemcpy(to.data(), from, to.size() * sizeof(T), cudaMemcpyDeviceToHost),
                      "reading a matrix");
}

// Scales of a part, and the outputs of its columns.
struct HostTerms {
  std::vector<float> inputs;
  std::vector<float> outputs;
  std::vector<int32_t> columns;
};

// Writes the columns of a transform: `tiles` has their values between the transforms, [128, padded K].
void write_transform(const Weight& weight, const Part& part, const HostTerms& terms, size_t number,
                     const std::vector<__half_raw>& tiles, float* host) {
  const size_t padded = terms.inputs.size(), inputs = static_cast<size_t>(weight.num_rows);
  std::vector<float> block(kOrder * kOrder);  // [columns, rows]
  for (size_t first = 0; first < padded; first += kOrder) {
    for (size_t c = 0; c < kOrder; ++c)
      for (size_t k = 0; k < kOrder; ++k)
        block[c * kOrder + k] = half_to_float(tiles[c * padded + first + k].x);
    for (size_t i = 0; i < kOrder; ++i) hadamard_transform(block.data() + i, kOrder);
    for (size_t i = 0; i < kOrder; ++i) hadamard_transform(block.data() + i * kOrder, 1);
    for (size_t c = 0; c < kOrder; ++c) {
      const int32_t output = terms.columns[number * kOrder + c];
      if (output < 0) continue;
      for (size_t k = first; k < std::min(first + kOrder, inputs); ++k)
        host[k * static_cast<size_t>(weight.num_columns) + static_cast<size_t>(part.first_column + output)] =
            block[c * kOrder + k - first] * terms.inputs[k] * terms.outputs[number * kOrder + c];
    }
  }
}

}  // namespace

Status prepare_trellis(Device& device, StagingLease& stage, const PartPlan& plan, void* terms, Part& part) {
  const WeightSource& source = *plan.source;
  const size_t bytes = stored_bytes(source), numbers = (bytes + 255) / 256 * 256;
  const std::vector<int32_t>& transforms = plan.trellis.stored;
  const TrellisScales scales = trellis_scales(source, plan.trellis);
  Status status = stage->reserve(numbers + transforms.size() * sizeof(int32_t));
  if (status == Status::ok)
    status = stage->send(stage->scratch(), source.trellis.tiles, source.unread, bytes);
  if (status == Status::ok)
    status = stage->send(stage->scratch() + numbers, transforms.data(), nullptr,
                         transforms.size() * sizeof(int32_t));
  if (status != Status::ok) return status;
  StoredTrellis stored;
  stored.tiles = reinterpret_cast<const uint16_t*>(stage->scratch());
  stored.half_bits = source.trellis.half_bits;
  stored.column_tiles = source.padded_out / kTrellisTile;
  stored.transforms = reinterpret_cast<const int32_t*>(stage->scratch() + numbers);
  const TrellisTarget target = {const_cast<uint8_t*>(part.strips), plan.strip_bytes, plan.num_strips,
                                plan.runs.front().end};
  cudaError_t error = send_terms(plan, scales, terms, stage->stream(), part.trellis);
  if (error == cudaSuccess) error = repack_trellis(stored, target, stage->stream());
  // The scratch is reused for the next part, and the vectors here end with this call.
  if (error == cudaSuccess) error = cudaStreamSynchronize(stage->stream());
  return device.check(error, "repacking weights");
}

Status dequantize_trellis(Device& device, const Weight& weight, const WeightGroup& group, float* host) {
  const Matrix& m = group.matrix;
  const size_t padded = static_cast<size_t>(m.num_blocks) * kOrder;
  void* memory = nullptr;
  Status status =
      device.allocate(kOrder * padded * sizeof(uint16_t), &memory, "allocating memory to expand a matrix");
  if (status != Status::ok) return status;
  std::vector<__half_raw> tiles(kOrder * padded);
  for (int32_t p = 0; p < m.num_parts && status == Status::ok; ++p) {
    const Part& part = m.parts[p];
    const auto transforms = static_cast<size_t>(part.num_strips / kTransformStrips);
    HostTerms terms = {std::vector<float>(padded), std::vector<float>(transforms * kOrder),
                       std::vector<int32_t>(transforms * kOrder)};
    status = read(device, part.trellis.input_scales, terms.inputs);
    if (status == Status::ok) status = read(device, part.trellis.output_scales, terms.outputs);
    if (status == Status::ok) status = read(device, part.trellis.outputs, terms.columns);
    for (size_t t = 0; t < transforms && status == Status::ok; ++t) {
      status = device.check(
          expand_trellis(m, p, static_cast<int32_t>(t) * kTransformStrips, kTransformStrips, memory, nullptr),
          "expanding a matrix");
      if (status == Status::ok) status = read(device, static_cast<const __half_raw*>(memory), tiles);
      if (status == Status::ok) write_transform(weight, part, terms, t, tiles, host);
    }
  }
  device.release(memory);
  return status;
}

}  // namespace quire::kernels
