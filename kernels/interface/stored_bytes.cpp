#include "kernels/interface/stored_bytes.h"

namespace quire::kernels {

size_t stored_bytes(const WeightSource& source) {
  const auto rows = static_cast<size_t>(source.num_in), columns = static_cast<size_t>(source.padded_out);
  switch (source.format) {
    case WeightFormat::dense:
      return rows * columns * dtype_bytes(source.dense.dtype);
    case WeightFormat::exl2:
      return static_cast<size_t>(source.exl2.packed_rows) * columns * sizeof(uint32_t);
    case WeightFormat::coded:
      return (rows * static_cast<size_t>(source.coded.bits) + 31) / 32 * columns * sizeof(uint32_t);
    case WeightFormat::blocks:
      return columns * block_row_bytes(source.blocks.type, source.num_in);
    case WeightFormat::trellis:
      return static_cast<size_t>(hadamard_padded(source.num_in) / kTrellisTile) * (columns / kTrellisTile) *
             static_cast<size_t>(trellis_tile_words(source.trellis.half_bits)) * sizeof(uint16_t);
  }
  return 0;
}

Status SourceInMemory::open(const WeightSource& source) {
  source_ = source;
  if (source.unread == nullptr) return Status::ok;
  const size_t bytes = stored_bytes(source);
  memory_ = {take_host_memory(bytes), {bytes}};
  if (memory_ == nullptr)
    return failed(Status::out_of_memory, "%zu bytes of host memory needed to read a matrix", bytes);
  if (!source.unread->read(source.unread->owner, 0, memory_.get(), bytes))
    return failed(Status::unreadable, "%zu bytes of a matrix could not be read", bytes);
  source_.unread = nullptr;
  source_.dense.data = memory_.get();
  source_.exl2.q_weight = static_cast<const uint32_t*>(memory_.get());
  source_.coded.codes = static_cast<const uint32_t*>(memory_.get());
  source_.blocks.data = memory_.get();
  source_.trellis.tiles = static_cast<const uint16_t*>(memory_.get());
  return Status::ok;
}

}  // namespace quire::kernels
