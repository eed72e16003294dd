#include <cstring>

#include "kernels/cpu/device.h"
#include "kernels/cpu/table_entries.h"
#include "kernels/cpu/weight.h"

namespace quire::kernels::cpu_entries {
namespace {

bool is_exl2_width(int32_t bits) {
  return bits >= 2 && bits <= 8 && bits != 7;
}

// Sources are validated by the loader; this repeats what memory safety here rests on.
const char* fault_of_exl2(const WeightSource& source) {
  int32_t row = 0;
  for (int32_t g = 0; g < source.exl2.num_groups; ++g) {
    const Exl2Group& group = source.exl2.groups[g];
    if (!is_exl2_width(group.bits)) return "a group's width is none of 2, 3, 4, 5, 6, 8 bits";
    if (group.first_row != row || group.num_rows <= 0) return "groups are not in order";
    const int64_t packed_rows = (int64_t{group.num_rows} * group.bits + 31) / 32;
    if (group.first_packed_row < 0 || group.first_packed_row + packed_rows > source.exl2.packed_rows) {
      return "a group lies outside of the packed rows";
    }
    row += group.num_rows;
  }
  return row == source.num_in ? nullptr : "the groups' rows are not as many as the input features";
}

const char* fault_of_gptq(const WeightSource& source) {
  for (int32_t k = 0; k < source.num_in; ++k) {
    const int32_t group = source.gptq.group_of_row[k];
    if (group < 0 || group >= source.gptq.num_groups) return "a row belongs to no group";
  }
  return source.num_in % 8 == 0 ? nullptr : "the input features are no multiple of 8";
}

const char* fault_of_order(const int32_t* order, int32_t count, int32_t limit) {
  for (int32_t i = 0; order != nullptr && i < count; ++i) {
    if (order[i] < 0 || order[i] >= limit) return "an order leaves its matrix";
  }
  return nullptr;
}

const char* fault_of(const WeightSource& source) {
  if (source.num_in <= 0 || source.num_out <= 0) return "a matrix without rows or columns";
  if (const char* fault = fault_of_order(source.row_order, source.num_in, source.num_in)) return fault;
  if (const char* fault = fault_of_order(source.column_order, source.num_out, source.num_out)) return fault;
  if (source.format == WeightFormat::dense) {
    const DType dtype = source.dense.dtype;
    const bool known = dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32;
    return known ? nullptr : "dense weights are f16, bf16 or f32";
  }
  if (source.padded_out < source.num_out || source.padded_out % 8 != 0)
    return "the stored columns do not fit";
  return source.format == WeightFormat::exl2 ? fault_of_exl2(source) : fault_of_gptq(source);
}

AlignedBuffer panel_bias(const WeightSource& source, int32_t num_panels) {
  if (source.bias == nullptr) return {};
  AlignedBuffer bias(static_cast<size_t>(num_panels) * kPanelColumns * sizeof(float));
  for (int32_t n = 0; n < source.num_out; ++n) bias.as<float>()[n] = source.bias[stored_column(source, n)];
  return bias;
}

void add_part(Device* device, const WeightSource& source, Weight& weight) {
  WeightPart part;
  part.format = source.format;
  part.num_out = source.num_out;
  part.num_panels = (source.num_out - 1) / kPanelColumns + 1;
  part.bias = panel_bias(source, part.num_panels);
  if (source.format == WeightFormat::dense) {
    prepare_dense_part(device->pool, source, part);
  } else {
    prepare_quantized_part(device->pool, source, weight, part);
  }
  weight.num_out += source.num_out;
  weight.parts.push_back(std::move(part));
}

uint64_t part_bytes(const WeightPart& part) {
  return part.data.bytes() + part.bias.bytes() + part.nibbles.bytes() + part.scale_table.bytes() +
         part.scales.bytes();
}

}  // namespace

Status prepare_weight(Device* device, const WeightSource* parts, int32_t num_parts, Weight** weight) {
  if (num_parts < 1) return fail(device, Status::invalid_argument, "prepare_weight: no parts");
  for (int32_t i = 0; i < num_parts; ++i) {
    const char* fault = fault_of(parts[i]);
    if (fault == nullptr && parts[i].num_in != parts[0].num_in) fault = "parts of different input size";
    if (fault != nullptr)
      return fail(device, Status::invalid_argument, "prepare_weight: part %d: %s", i, fault);
  }
  return guarded(device, "weights", [&] {
    auto made = std::make_unique<Weight>();
    made->num_in = parts[0].num_in;
    for (int32_t i = 0; i < num_parts; ++i) add_part(device, parts[i], *made);
    *weight = made.release();
    return Status::ok;
  });
}

Status prepare_table(Device* device, DType dtype, const void* data, int32_t rows, int32_t columns,
                     Weight** weight) {
  if (rows <= 0 || columns <= 0 || (dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f32)) {
    return fail(device, Status::invalid_argument, "prepare_table: %d x %d, of f16, bf16 or f32", rows,
                columns);
  }
  return guarded(device, "embedding table", [&] {
    auto made = std::make_unique<Weight>();
    made->is_table = true;
    made->table_dtype = dtype;
    made->table_rows = rows;
    made->num_out = columns;
    made->table_data =
        AlignedBuffer(static_cast<size_t>(rows) * static_cast<size_t>(columns) * dtype_bytes(dtype));
    std::memcpy(made->table_data.as<void>(), data, made->table_data.bytes());
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
  for (const RowOrder& order : weight->orders) bytes += order.features.size() * sizeof(int32_t);
  return bytes;
}

}  // namespace quire::kernels::cpu_entries
