#include <algorithm>

#include "kernels/cpu/device.h"
#include "kernels/cpu/linear_trellis.h"
#include "kernels/cpu/table_entries.h"
#include "kernels/cpu/weight.h"

namespace quire::kernels::cpu_entries {
namespace {

// Rows that are multiplied with a panel while it is in the first-level cache; also the unit in which rows are
// shared among threads.
constexpr int32_t kRowsOfUnit = 32;

// Dense panels that are multiplied together.
constexpr int32_t kDensePanels = 4;

// Output of all parts, side by side.
struct Output {
  float* data;
  size_t stride;
  bool accumulate;
};

int32_t columns_of_last(const WeightPart& part, int32_t panel) {
  return std::min(kPanelColumns, part.num_out - panel * kPanelColumns);
}

PanelOutput panel_output(const Output& output, const WeightPart& part, int32_t panel, size_t first_column,
                         int32_t row) {
  const int32_t column = panel * kPanelColumns;
  PanelOutput out;
  out.target =
      output.data + static_cast<size_t>(row) * output.stride + first_column + static_cast<size_t>(column);
  out.stride = output.stride;
  out.bias = part.bias.as<float>() != nullptr ? part.bias.as<float>() + column : nullptr;
  out.prescale = part.prescale;
  out.accumulate = output.accumulate;
  return out;
}

// Returns the rows of the tile that begins at `row` of `rows`: full tiles first, then powers of two.
int32_t tile_rows_at(int32_t row, int32_t rows, int32_t max_tile_rows) {
  int32_t tile = max_tile_rows;
  while (tile > rows - row) tile /= 2;
  return tile;
}

// Dense parts.

DensePanels dense_panels_of(const WeightPart& part, int32_t num_in, int32_t first_panel, int32_t num_panels) {
  DensePanels panels;
  panels.dtype = part.dtype;
  panels.data = part.data.as<uint8_t>() + static_cast<size_t>(first_panel) * part.panel_bytes;
  panels.panel_bytes = part.panel_bytes;
  panels.num_in = num_in;
  panels.num_panels = num_panels;
  panels.last_columns = columns_of_last(part, first_panel + num_panels - 1);
  panels.scales = part.panel_scales(first_panel);
  panels.scale_rows = part.scale_rows;
  return panels;
}

// Product of a part with rows of activations.
struct DenseProduct {
  const Weight& weight;
  const WeightPart& part;
  const float* input;
  int32_t rows;
  size_t first_column;  // first column of the part in the output
  const Output& output;
};

void multiply_dense(Context* context, const DenseProduct& product) {
  const WeightPart& part = product.part;
  const int32_t num_in = product.weight.num_in;
  const int32_t rows = product.rows;
  const IsaKernels& isa = context->device->isa;
  const int32_t row_units = (rows - 1) / kRowsOfUnit + 1;
  // For few rows the kernel multiplies several panels together, to hide the latency of their sums.
  const int32_t together = row_units == 1 ? kDensePanels : 1;
  const int64_t panel_units = (part.num_panels - 1) / together + 1;
  const int64_t work = int64_t{num_in} * kPanelColumns * together * std::min(rows, kRowsOfUnit);
  const auto stride = static_cast<size_t>(num_in);
  const auto unit = [&](int32_t panel, int32_t row) {
    isa.dense_panels(dense_panels_of(part, num_in, panel, std::min(together, part.num_panels - panel)),
                     product.input + static_cast<size_t>(row) * stride, stride,
                     std::min(kRowsOfUnit, rows - row),
                     panel_output(product.output, part, panel, product.first_column, row));
  };
  share_work(context, panel_units * row_units, work, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t u = first; u < last; ++u)
      unit(static_cast<int32_t>(u / row_units) * together, static_cast<int32_t>(u % row_units) * kRowsOfUnit);
  });
}

// Quantized parts.

// Activations of some rows as integers, tile after tile.
struct QuantRows {
  const QuantKernels* kernels;
  int8_t* codes;
  float* scales;
  int32_t* sums;
  int32_t* half_sums;
  int32_t num_blocks;
  int32_t rows;

  // Returns the tile that begins at `row`, which must be the first row of a tile.
  QuantTile tile(int32_t row) const {
    return {codes_of(row), scales_of(row), sums_of(row), half_sums_of(row),
            tile_rows_at(row, rows, kernels->max_tile_rows)};
  }
  int8_t* codes_of(int32_t row) const { return codes + size_t{2} * kBlockRows * blocks_before(row); }
  float* scales_of(int32_t row) const {
    const int32_t num_spans = (num_blocks - 1) / kSpanBlocks + 1;
    return scales + static_cast<size_t>(row) * static_cast<size_t>(num_spans);
  }
  int32_t* sums_of(int32_t row) const { return sums + blocks_before(row); }
  int32_t* half_sums_of(int32_t row) const { return half_sums + blocks_before(row); }

 private:
  size_t blocks_before(int32_t row) const {
    return static_cast<size_t>(row) * static_cast<size_t>(num_blocks);
  }
};

void quantize_rows(Context* context, const RowOrder& order, int32_t num_in, const float* input,
                   const QuantRows& target) {
  const QuantKernels& kernels = *target.kernels;
  const int32_t* features = order.identity ? nullptr : order.features.as<int32_t>();
  share_work(context, target.rows, 2 * int64_t{num_in}, [&](int32_t, int64_t first, int64_t last) {
    for (auto row = static_cast<int32_t>(first); row < last; ++row) {
      // Find the row's tile: full tiles come first, so this is a division and at most a few steps.
      int32_t tile_row = row / kernels.max_tile_rows * kernels.max_tile_rows;
      QuantTile tile = target.tile(tile_row);
      while (row >= tile_row + tile.rows) {
        tile_row += tile.rows;
        tile = target.tile(tile_row);
      }
      kernels.quantize_row({input + static_cast<size_t>(row) * static_cast<size_t>(num_in), features, num_in,
                            target.num_blocks},
                           {target.codes_of(tile_row), target.scales_of(tile_row), target.sums_of(tile_row),
                            target.half_sums_of(tile_row), row - tile_row, tile.rows});
    }
  });
}

QuantPanels panels_of(const WeightPart& part, int32_t first_panel, int32_t num_panels, int32_t num_blocks) {
  const auto index = static_cast<size_t>(first_panel);
  const size_t first_group = index * static_cast<size_t>(part.num_groups);
  QuantPanels out;
  out.runs = part.runs.data();
  out.num_runs = static_cast<int32_t>(part.runs.size());
  out.num_groups = part.num_groups;
  out.group_blocks = part.group_blocks.data();
  out.codes = reinterpret_cast<const uint32_t*>(part.data.as<uint8_t>() + index * part.panel_bytes);
  out.panel_words = part.panel_bytes / sizeof(uint32_t);
  if (part.format == WeightFormat::blocks) {
    const BlockForm& form = block_form(part.block_type);
    out.blocks = {part.terms.as<uint8_t>() + index * part.panel_term_bytes,
                  part.panel_term_bytes,
                  form.terms,
                  form.bits,
                  form.group < kBlockRows,
                  num_blocks};
    out.zero_offset = form.zero;
    out.values = form.values;
  } else if (part.format == WeightFormat::exl2) {
    out.nibbles = part.nibbles.as<uint8_t>() + first_group * (kPanelColumns / 2);
    out.scale_table = part.scale_table.as<float>();
  } else {
    const size_t first_term = first_group * kPanelColumns;
    const CodedTerms& coded = part.coded;
    if (coded.zeros.bytes() > 0) out.zeros = coded.zeros.as<uint8_t>() + first_term;
    out.zero_offset = coded.zero_offset;
    if (coded.has_values) out.values = coded.values;
    out.scales = part.scales.as<uint8_t>() + first_term * dtype_bytes(coded.scale_dtype);
    out.scale_dtype = coded.scale_dtype;
  }
  out.num_panels = num_panels;
  out.last_columns = columns_of_last(part, first_panel + num_panels - 1);
  return out;
}

// Work units of the parts that share a row order: panels that are multiplied together by the rows of a unit,
// numbered consecutively. All parts form one operation, because each operation costs a synchronization of the
// threads.
class QuantUnits {
 public:
  QuantUnits(const Weight& weight, int32_t order_idx, int32_t panels_together, int32_t rows)
      : weight_(weight),
        order_idx_(order_idx),
        together_(panels_together),
        row_units_((rows - 1) / kRowsOfUnit + 1) {}

  struct Place {
    const WeightPart* part = nullptr;
    size_t first_column = 0;  // first column of the part
    int32_t panel = 0;
    int32_t num_panels = 0;
    int32_t row = 0;
  };

  int64_t count() const {
    int64_t units = 0;
    for (const WeightPart& part : weight_.parts) units += units_of(part);
    return units;
  }
  Place at(int64_t unit) const {
    Place place;
    for (const WeightPart& part : weight_.parts) {
      place.part = &part;
      if (unit < units_of(part)) break;
      unit -= units_of(part);
      place.first_column += static_cast<size_t>(part.num_out);
    }
    place.panel = static_cast<int32_t>(unit / row_units_) * together_;
    place.num_panels = std::min(together_, place.part->num_panels - place.panel);
    place.row = static_cast<int32_t>(unit % row_units_) * kRowsOfUnit;
    return place;
  }

 private:
  int64_t units_of(const WeightPart& part) const {
    if (part.format == WeightFormat::dense || part.format == WeightFormat::trellis ||
        part.order_idx != order_idx_)
      return 0;
    return int64_t{(part.num_panels - 1) / together_ + 1} * row_units_;
  }

  const Weight& weight_;
  int32_t order_idx_;
  int32_t together_;
  int32_t row_units_;
};

// Sets up the prefetch of the next panels. While all tiles of a unit except the first find its panels in
// cache, memory is idle. So each tile prefetches its share of the panels that follow, which usually belong to
// the same thread.
void prefetch_next_panels(const QuantUnits::Place& at, const QuantRows& rows, QuantPanels& panels) {
  const int32_t num_tiles = (rows.rows - at.row - 1) / rows.kernels->max_tile_rows + 1;
  if (num_tiles == 1 || rows.rows - at.row > kRowsOfUnit)
    return;  // otherwise these same panels are needed
             // again
  if (at.panel + 2 * at.num_panels > at.part->num_panels) return;
  const size_t words = static_cast<size_t>(at.num_panels) * panels.panel_words;
  const size_t blocks = static_cast<size_t>(num_tiles) * static_cast<size_t>(rows.num_blocks);
  panels.next_codes = panels.codes + words;
  panels.next_lines = static_cast<int32_t>((words / kLineWords - 1) / blocks + 1);
}

void multiply(Context* context, const QuantUnits& units, const QuantRows& rows, int32_t first_row,
              const Output& output) {
  const IsaKernels& isa = context->device->isa;
  const int64_t work = int64_t{rows.num_blocks} * kBlockRows * kPanelColumns * isa.max_quant_panels *
                       std::min(rows.rows, kRowsOfUnit);
  share_work(context, units.count(), work, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t u = first; u < last; ++u) {
      const QuantUnits::Place at = units.at(u);
      QuantPanels panels = panels_of(*at.part, at.panel, at.num_panels, rows.num_blocks);
      prefetch_next_panels(at, rows, panels);
      const auto product =
          at.part->format == WeightFormat::blocks ? rows.kernels->block_panels : rows.kernels->quant_panels;
      const auto next_words = ptrdiff_t{panels.next_lines} * rows.num_blocks * kLineWords;  // per tile
      const int32_t end = std::min(rows.rows, at.row + kRowsOfUnit);
      for (int32_t row = at.row; row < end;) {
        const QuantTile tile = rows.tile(row);
        product(panels, tile, panel_output(output, *at.part, at.panel, at.first_column, first_row + row));
        row += tile.rows;
        panels.next_codes += next_words;
      }
    }
  });
}

// Multiplies all parts with this row order: the activations are quantized once for them.
Status quantized_parts(Context* context, const Weight& weight, int32_t order_idx, const float* input,
                       int32_t rows, const Output& output) {
  const RowOrder& order = weight.orders[static_cast<size_t>(order_idx)];
  const IsaKernels& isa = context->device->isa;
  const size_t rows_that_fit = context->quant_capacity / order.num_rows;
  if (rows_that_fit == 0) {
    return failed(Status::invalid_argument,
                  "linear: %zu rows of weights, but the limits of the context allow %zu", order.num_rows,
                  context->quant_capacity);
  }
  int32_t chunk = static_cast<int32_t>(std::min<size_t>(rows_that_fit, static_cast<size_t>(rows)));
  if (chunk > kRowsOfUnit) chunk = chunk / kRowsOfUnit * kRowsOfUnit;
  for (int32_t row = 0; row < rows; row += chunk) {
    const QuantRows quantized = {weight.activations == ActivationDtype::i8 ? &isa.i8 : &isa.full,
                                 context->quant_codes.as<int8_t>(),
                                 context->quant_scales.as<float>(),
                                 context->quant_sums.as<int32_t>(),
                                 context->quant_sums.as<int32_t>() + context->quant_capacity / kBlockRows,
                                 order.num_blocks(),
                                 std::min(chunk, rows - row)};
    const size_t first_input = static_cast<size_t>(row) * static_cast<size_t>(weight.num_in);
    quantize_rows(context, order, weight.num_in, input + first_input, quantized);
    const QuantUnits units(weight, order_idx, isa.max_quant_panels, quantized.rows);
    multiply(context, units, quantized, row, output);
  }
  return Status::ok;
}

}  // namespace

Status linear(Context* context, const LinearParams* params) {
  const Weight& weight = *params->weight;
  if (weight.is_table)
    return failed(Status::invalid_argument, "linear: the weight is not a matrix but an embedding table");
  if (params->rows <= 0) return Status::ok;
  const int32_t stride = params->output_stride != 0 ? params->output_stride : weight.num_out;
  Output output = {params->residual, static_cast<size_t>(stride), params->residual != nullptr};
  if (!output.accumulate) {
    output.data = params->output_f32 != nullptr ? params->output_f32 : static_cast<float*>(params->output);
  }
  const auto* input = static_cast<const float*>(params->input);
  for (size_t i = 0; i < weight.orders.size(); ++i) {
    const Status status =
        quantized_parts(context, weight, static_cast<int32_t>(i), input, params->rows, output);
    if (status != Status::ok) return status;
  }
  size_t first_column = 0;
  for (const WeightPart& part : weight.parts) {
    if (part.format == WeightFormat::dense) {
      multiply_dense(context, {weight, part, input, params->rows, first_column, output});
    } else if (part.format == WeightFormat::trellis) {
      multiply_trellis(context, {part, weight.num_in, input, params->rows, output.data + first_column,
                                 output.stride, output.accumulate});
    }
    first_column += static_cast<size_t>(part.num_out);
  }
  return Status::ok;
}

}  // namespace quire::kernels::cpu_entries
