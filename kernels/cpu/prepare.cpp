#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu/device.h"
#include "kernels/cpu/table_entries.h"
#include "kernels/cpu/weight.h"
#include "kernels/interface/stored_bytes.h"

namespace quire::kernels::cpu_entries {
namespace {

bool is_exl2_width(int32_t bits) {
  return bits >= 2 && bits <= 8 && bits != 7;
}

// The loader validates sources; this repeats the checks on which memory safety depends here.
const char* fault_of_exl2(const WeightSource& source) {
  int32_t row = 0;
  for (int32_t g = 0; g < source.exl2.num_groups; ++g) {
    const Exl2Group& group = source.exl2.groups[g];
    if (!is_exl2_width(group.bits)) return "the bit width of a group is not 2, 3, 4, 5, 6 or 8";
    if (group.first_row != row || group.num_rows <= 0) return "groups are not in order";
    const int64_t packed_rows = (int64_t{group.num_rows} * group.bits + 31) / 32;
    if (group.first_packed_row < 0 || group.first_packed_row + packed_rows > source.exl2.packed_rows) {
      return "a group extends beyond the packed rows";
    }
    row += group.num_rows;
  }
  return row == source.num_in ? nullptr : "the number of rows in all groups differs from the input features";
}

bool is_scale_type(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f8_e8m0;
}

const char* fault_of_coded(const WeightSource& source) {
  const CodedSource& coded = source.coded;
  if (coded.bits != 4 && (coded.bits != 8 || coded.values != nullptr))
    return "the bit width of the codes is not supported";
  if (!is_scale_type(coded.scale_dtype)) return "the type of the scales is not supported";
  if (source.row_order != nullptr) return "coded weights cannot have a row order";
  for (int32_t k = 0; k < source.num_in; ++k) {
    if (coded.group_of_row[k] < 0 || coded.group_of_row[k] >= coded.num_groups)
      return "a row has an invalid group";
  }
  return nullptr;
}

const char* fault_of_blocks(const WeightSource& source) {
  if (source.blocks.type == BlockType::none) return "blocks need a type";
  if (source.num_in % block_shape(source.blocks.type).weights != 0) return "rows are not whole blocks";
  return source.row_order == nullptr ? nullptr : "blocks cannot have a row order";
}

const char* fault_of_trellis(const WeightSource& source) {
  if (!is_trellis_width(source.trellis.half_bits, source.trellis.codebook))
    return "the bits of a trellis are not supported";
  if (source.padded_out % kHadamardOrder != 0) return "the columns of a trellis are not a multiple of 128";
  return source.row_order == nullptr ? nullptr : "a trellis cannot have a row order";
}

const char* fault_of_dense(const WeightSource& source) {
  const DenseSource& dense = source.dense;
  if (dense.dtype == DType::f16 || dense.dtype == DType::bf16 || dense.dtype == DType::f32) return nullptr;
  if (dense.dtype != DType::f8_e4m3) return "dense weights must be f16, bf16, f32 or f8_e4m3";
  if (source.row_order != nullptr) return "f8_e4m3 weights cannot have a row order";
  const bool fit = dense.scale_out >= 1 && dense.scale_out <= source.padded_out && dense.scale_in >= 1 &&
                   dense.scale_in <= source.num_in;
  return fit ? nullptr : "the scales of f8_e4m3 weights do not fit the matrix";
}

const char* fault_of_order(const int32_t* order, int32_t count, int32_t limit) {
  for (int32_t i = 0; order != nullptr && i < count; ++i) {
    if (order[i] < 0 || order[i] >= limit) return "a row or column order has an index outside of the matrix";
  }
  return nullptr;
}

const char* fault_of(const WeightSource& source) {
  if (source.num_in <= 0 || source.num_out <= 0) return "the matrix has no rows or no columns";
  if (const char* fault = fault_of_order(source.row_order, source.num_in, source.num_in)) return fault;
  if (const char* fault = fault_of_order(source.column_order, source.num_out, source.padded_out))
    return fault;
  if (source.column_order == nullptr && source.padded_out < source.num_out)
    return "the stored columns do not fit the matrix";
  if (source.format == WeightFormat::dense) return fault_of_dense(source);
  if (source.format == WeightFormat::coded) return fault_of_coded(source);
  if (source.format == WeightFormat::blocks) return fault_of_blocks(source);
  if (source.format == WeightFormat::trellis) return fault_of_trellis(source);
  return source.padded_out % 8 == 0 ? fault_of_exl2(source) : "the stored columns do not fit the matrix";
}

// Returns the fault of the first part that cannot be prepared, or nullptr.
const char* fault_of(const WeightSource* parts, int32_t num_parts, int32_t& part) {
  for (part = 0; part < num_parts; ++part) {
    if (const char* fault = fault_of(parts[part])) return fault;
    if (parts[part].num_in != parts[0].num_in) return "the parts have different input sizes";
  }
  return num_parts < 1 ? "no parts" : nullptr;
}

AlignedBuffer panel_bias(Device& device, const WeightSource& source, size_t bytes) {
  AlignedBuffer bias(device.meter, bytes);
  if (bytes == 0) return bias;
  for (int32_t n = 0; n < source.num_out; ++n) bias.as<float>()[n] = source.bias[stored_column(source, n)];
  return bias;
}

RowOrder keep_order(Device& device, const std::vector<int32_t>& features, int32_t num_in) {
  RowOrder order;
  order.num_rows = features.size();
  order.features = AlignedBuffer(device.meter, features.size() * sizeof(int32_t));
  std::copy(features.begin(), features.end(), order.features.as<int32_t>());
  order.identity = true;
  for (size_t k = 0; k < features.size(); ++k) {
    const auto row = static_cast<int32_t>(k);
    order.identity = order.identity && (features[k] == row || (features[k] < 0 && row >= num_in));
  }
  return order;
}

void keep_groups(Device& device, const PartLayout& layout, WeightPart& part) {
  part.order_idx = layout.order_idx;
  part.num_groups = layout.num_groups;
  part.runs = layout.runs;
  part.group_blocks = layout.group_blocks;
  part.panel_bytes = layout.panel_bytes;
  part.data = AlignedBuffer(device.meter, layout.data_bytes);
}

void require_ok(const Status& status) {
  if (status != Status::ok) throw status;
}

void add_part(Device& device, const WeightSource& stored, const PartLayout& layout, Weight& weight) {
  SourceInMemory in_memory;
  require_ok(in_memory.open(stored));
  const WeightSource& source = in_memory.source();
  WeightPart part;
  part.format = source.format;
  part.num_out = source.num_out;
  part.num_panels = layout.num_panels;
  part.bias = panel_bias(device, source, layout.bias_bytes);
  switch (source.format) {
    case WeightFormat::dense:
      prepare_dense_part(device, source, layout, part);
      break;
    case WeightFormat::exl2:
      keep_groups(device, layout, part);
      prepare_exl2_part(device, source, layout, part);
      break;
    case WeightFormat::coded:
      keep_groups(device, layout, part);
      prepare_coded_part(device, source, layout, part);
      break;
    case WeightFormat::blocks:
      keep_groups(device, layout, part);
      prepare_block_part(device, source, layout, part);
      break;
    case WeightFormat::trellis:
      keep_groups(device, layout, part);
      prepare_trellis_part(device, source, layout, part);
      break;
  }
  weight.num_out += source.num_out;
  weight.parts.push_back(std::move(part));
}

uint64_t part_bytes(const WeightPart& part) {
  return part.data.bytes() + part.bias.bytes() + part.nibbles.bytes() + part.scale_table.bytes() +
         part.scales.bytes() + part.coded.zeros.bytes() + part.terms.bytes() +
         part.trellis.input_scales.bytes() + part.trellis.output_scales.bytes() + part.trellis.runs.bytes();
}

Status refuse_unsound(const char* doing, const MatrixSource* matrices, int32_t num_matrices) {
  for (int32_t i = 0; i < num_matrices; ++i) {
    int32_t part = 0;
    const char* fault = fault_of(matrices[i].parts, matrices[i].num_parts, part);
    if (fault != nullptr)
      return failed(Status::invalid_argument, "%s: matrix %d, part %d: %s", doing, i, part, fault);
  }
  return Status::ok;
}

std::unique_ptr<Weight> prepare_matrix(Device& device, const MatrixSource& matrix) {
  const WeightLayout layout = lay_out_weight(matrix.parts, matrix.num_parts);
  auto made = std::make_unique<Weight>();
  made->num_in = matrix.parts[0].num_in;
  made->activations = matrix.parts[0].activations;
  for (const std::vector<int32_t>& order : layout.orders)
    made->orders.push_back(keep_order(device, order, made->num_in));
  for (int32_t i = 0; i < matrix.num_parts; ++i)
    add_part(device, matrix.parts[i], layout.parts[static_cast<size_t>(i)], *made);
  return made;
}

}  // namespace

Status plan_weights(Device* device, const MatrixSource* matrices, int32_t num_matrices, uint64_t* bytes) {
  if (const Status s = refuse_unsound("plan_weights", matrices, num_matrices); s != Status::ok) return s;
  return guarded(device, "weights", [&] {
    for (int32_t i = 0; i < num_matrices; ++i)
      bytes[i] = lay_out_weight(matrices[i].parts, matrices[i].num_parts).bytes();
    return Status::ok;
  });
}

Status prepare_weights(Device* device, const MatrixSource* matrices, int32_t num_matrices, Weight** weights) {
  std::fill_n(weights, num_matrices, nullptr);
  if (const Status s = refuse_unsound("prepare_weights", matrices, num_matrices); s != Status::ok) return s;
  return guarded(device, "weights", [&] {
    std::vector<std::unique_ptr<Weight>> made;
    made.reserve(static_cast<size_t>(num_matrices));
    for (int32_t i = 0; i < num_matrices; ++i) made.push_back(prepare_matrix(*device, matrices[i]));
    for (std::unique_ptr<Weight>& weight : made) *weights++ = weight.release();
    return Status::ok;
  });
}

namespace {

const char* fault_of_table(const TableSource& table) {
  const bool known = table.dtype == DType::f16 || table.dtype == DType::bf16 || table.dtype == DType::f32;
  if (table.blocks != BlockType::none && table.columns % block_shape(table.blocks).weights != 0)
    return "the rows of an embedding table are not whole blocks";
  const bool is_sound = table.rows > 0 && table.columns > 0 && (known || table.blocks != BlockType::none);
  return is_sound ? nullptr : "an embedding table needs rows and columns of f16, bf16, f32 or blocks";
}

size_t table_bytes(const TableSource& table) {
  if (table.blocks != BlockType::none)
    return product({static_cast<size_t>(table.rows), block_row_bytes(table.blocks, table.columns)});
  return product(
      {static_cast<size_t>(table.rows), static_cast<size_t>(table.columns), dtype_bytes(table.dtype)});
}

// Copies or reads the table to its final memory.
void copy_or_read(const TableSource& table, AlignedBuffer& target) {
  if (table.unread == nullptr) {
    std::memcpy(target.as<void>(), table.data, target.bytes());
  } else if (!table.unread->read(table.unread->owner, 0, target.as<void>(), target.bytes())) {
    throw failed(Status::unreadable, "%zu bytes of a table could not be read", target.bytes());
  }
}

}  // namespace

Status plan_table(Device* device, const TableSource* source, uint64_t* bytes) {
  if (const char* fault = fault_of_table(*source))
    return failed(Status::invalid_argument, "plan_table: %s", fault);
  return guarded(device, "embedding table", [&] {
    *bytes = table_bytes(*source);
    return Status::ok;
  });
}

Status prepare_table(Device* device, const TableSource* source, Weight** weight) {
  if (const char* fault = fault_of_table(*source))
    return failed(Status::invalid_argument, "prepare_table: %s", fault);
  return guarded(device, "embedding table", [&] {
    auto made = std::make_unique<Weight>();
    made->is_table = true;
    made->table_dtype = source->dtype;
    made->table_blocks = source->blocks;
    made->table_rows = source->rows;
    made->num_out = source->columns;
    made->table_data = AlignedBuffer(device->meter, table_bytes(*source));
    copy_or_read(*source, made->table_data);
    *weight = made.release();
    return Status::ok;
  });
}

void release_weight(Device*, Weight* weight) {
  delete weight;
}

uint64_t weight_bytes(const Weight* weight) {
  uint64_t bytes = weight->table_data.bytes();
  for (const WeightPart& part : weight->parts) bytes += part_bytes(part);
  for (const RowOrder& order : weight->orders) bytes += order.features.bytes();
  return bytes;
}

Status copy_weight(Device*, const Weight*) {
  return Status::unsupported;
}

uint64_t park_weight(Device*, const Weight*) {
  return 0;
}

Status bring_weight(Device*, const Weight*) {
  return Status::unsupported;
}

}  // namespace quire::kernels::cpu_entries
