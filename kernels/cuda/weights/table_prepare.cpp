// Embedding tables in device memory, as stored.
#include <memory>
#include <string>

#include "kernels/cuda/device/device.h"
#include "kernels/interface/block_codes.h"

namespace quire::kernels {
namespace {

size_t stored_table_bytes(const TableSource& source) {
  const auto rows = static_cast<size_t>(source.rows);
  if (source.blocks != BlockType::none) return rows * block_row_bytes(source.blocks, source.columns);
  return rows * static_cast<size_t>(source.columns) * dtype_bytes(source.dtype);
}

// The rows of an IQ type are followed by its grid.
size_t grid_bytes(BlockType type) {
  return block_grid(type).count * sizeof(uint16_t);
}
size_t grid_at(const TableSource& source) {
  const size_t rows = stored_table_bytes(source);
  return rows + rows % alignof(uint16_t);
}
size_t table_bytes(const TableSource& source) {
  const size_t grid = grid_bytes(source.blocks);
  return grid == 0 ? stored_table_bytes(source) : grid_at(source) + grid;
}

}  // namespace

Status plan_table(Device* device, const TableSource* source, uint64_t* bytes) {
  if (source->rows <= 0 || source->columns <= 0)
    return device->fail(Status::invalid_argument,
                        "prepare_table: the embedding table has no rows or no columns");
  const BlockShape& shape = block_shape(source->blocks);
  if (source->columns % shape.weights != 0)
    return device->fail(
        Status::invalid_argument,
        std::string("prepare_table: rows of the embedding table are no whole blocks of ") + shape.name);
  *bytes = table_bytes(*source);
  return Status::ok;
}

namespace {

// Waits for the copy even if a later part failed.
Status send_table(Device& device, const TableSource& source, uint8_t* memory) {
  StagingLease stage(device, 0);
  if (stage.status() != Status::ok) return stage.status();
  Status sent = stage->send(memory, source.data, source.unread, stored_table_bytes(source));
  const BlockGrid grid = block_grid(source.blocks);
  if (sent == Status::ok && grid.count > 0)
    sent = stage->send(memory + grid_at(source), grid.indices, nullptr, grid_bytes(source.blocks));
  const Status arrived = device.check(cudaStreamSynchronize(stage->stream()), "copying an embedding table");
  return sent == Status::ok ? arrived : sent;
}

}  // namespace

Status prepare_table(Device* device, const TableSource* source, Weight** weight) {
  *weight = nullptr;
  const DType dtype = source->dtype;
  const bool is_coded = source->blocks != BlockType::none;
  if (!is_coded && dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f32)
    return device->fail(Status::unsupported,
                        "prepare_table: the embedding table is neither f16, bf16 nor f32");
  uint64_t bytes = 0;
  if (const Status s = plan_table(device, source, &bytes); s != Status::ok) return s;
  if (const Status s = device->enter(); s != Status::ok) return s;
  auto made = std::make_unique<Weight>();
  made->memory = std::make_shared<WeightMemory>(*device);
  Status status = made->memory->take(bytes, "allocating memory for an embedding table");
  if (status != Status::ok) return status;
  made->bytes = bytes;
  made->table = made->memory->data();
  made->table_dtype = dtype;
  made->num_rows = source->rows;
  made->num_columns = source->columns;
  made->table_blocks = source->blocks;
  if (grid_bytes(source->blocks) > 0)
    made->table_grid = reinterpret_cast<const uint16_t*>(made->memory->data() + grid_at(*source));
  status = send_table(*device, *source, made->memory->data());
  if (status == Status::ok) *weight = made.release();
  return status;
}

}  // namespace quire::kernels
