#include "kernels/cpu/weight_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/cpu/aligned_buffer.h"

namespace quire::kernels {
namespace {

void pad_to_block(PartLayout& layout, size_t group_start) {
  std::vector<int32_t>& rows = layout.stored_rows;
  while ((rows.size() - group_start) % kBlockRows != 0) rows.push_back(-1);
}

// Ends the group whose rows begin at group_start.
void end_group(PartLayout& layout, size_t group_start, int32_t bits) {
  pad_to_block(layout, group_start);
  const auto blocks = static_cast<int32_t>((layout.stored_rows.size() - group_start) / kBlockRows);
  layout.group_blocks.push_back(blocks);
  layout.panel_bytes +=
      static_cast<size_t>(blocks) * static_cast<size_t>(bits) * kPanelColumns * sizeof(uint32_t);
  if (layout.runs.empty() || layout.runs.back().bits != bits) layout.runs.push_back({bits, 0});
  ++layout.runs.back().num_groups;
  ++layout.num_groups;
}

void arrange_exl2(const WeightSource& source, PartLayout& layout) {
  for (int32_t g = 0; g < source.exl2.num_groups; ++g) {
    const Exl2Group& group = source.exl2.groups[g];
    const size_t start = layout.stored_rows.size();
    for (int32_t i = 0; i < group.num_rows; ++i) layout.stored_rows.push_back(group.first_row + i);
    end_group(layout, start, group.bits);
  }
}

// Sorts rows by group, in their stored order within a group.
void arrange_coded(const WeightSource& source, PartLayout& layout) {
  const CodedSource& coded = source.coded;
  std::vector<int32_t> order(static_cast<size_t>(source.num_in));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return coded.group_of_row[a] < coded.group_of_row[b]; });
  size_t next = 0;
  for (int32_t g = 0; g < coded.num_groups; ++g) {
    const size_t start = layout.stored_rows.size();
    for (; next < order.size() && coded.group_of_row[order[next]] == g; ++next) {
      layout.stored_rows.push_back(order[next]);
    }
    end_group(layout, start, coded.bits);
  }
}

// Returns the index of the order of these rows in the weight's orders, and adds it if it is new.
int32_t find_order(const WeightSource& source, const std::vector<int32_t>& stored_rows,
                   std::vector<std::vector<int32_t>>& orders) {
  std::vector<int32_t> features = stored_rows;
  if (source.row_order != nullptr) {
    for (int32_t& row : features) row = row < 0 ? row : source.row_order[row];
  }
  const auto found = std::find(orders.begin(), orders.end(), features);
  const auto index = static_cast<int32_t>(found - orders.begin());
  if (found == orders.end()) orders.push_back(std::move(features));
  return index;
}

PartLayout lay_out_blocks(const WeightSource& source, std::vector<std::vector<int32_t>>& orders) {
  const BlockForm& form = block_form(source.blocks.type);
  const TermRecord record = term_record(form);
  PartLayout layout;
  layout.num_panels = (source.num_out - 1) / kPanelColumns + 1;
  layout.stored_rows.resize(static_cast<size_t>(source.num_in));
  std::iota(layout.stored_rows.begin(), layout.stored_rows.end(), 0);
  layout.order_idx = find_order(source, layout.stored_rows, orders);
  const int32_t num_blocks = source.num_in / kBlockRows;
  layout.panel_bytes = product(
      {static_cast<size_t>(num_blocks), static_cast<size_t>(form.bits), kPanelColumns, sizeof(uint32_t)});
  layout.panel_term_bytes =
      product({static_cast<size_t>(num_blocks / record.blocks), static_cast<size_t>(record.bytes())});
  layout.term_bytes = product({static_cast<size_t>(layout.num_panels), layout.panel_term_bytes});
  return layout;
}

PartLayout lay_out_quantized(const WeightSource& source, std::vector<std::vector<int32_t>>& orders) {
  const bool exl2 = source.format == WeightFormat::exl2;
  PartLayout layout;
  layout.num_panels = (source.num_out - 1) / kPanelColumns + 1;
  if (exl2) {
    arrange_exl2(source, layout);
  } else {
    arrange_coded(source, layout);
  }
  layout.order_idx = find_order(source, layout.stored_rows, orders);
  const auto panels = static_cast<size_t>(layout.num_panels);
  const auto groups = static_cast<size_t>(layout.num_groups);
  if (exl2) {
    layout.nibble_bytes = product({panels, groups, kPanelColumns / 2});
    layout.scale_table_bytes = product({groups, 16, sizeof(float)});
  } else {
    layout.scale_bytes = product({panels, groups, kPanelColumns, dtype_bytes(source.coded.scale_dtype)});
    if (source.coded.has_zeros()) layout.zero_bytes = product({panels, groups, kPanelColumns});
  }
  return layout;
}

PartLayout lay_out_dense(const WeightSource& source) {
  PartLayout layout;
  layout.num_panels = (source.num_out - 1) / kPanelColumns + 1;
  layout.panel_bytes =
      product({static_cast<size_t>(source.num_in), kPanelColumns, dtype_bytes(source.dense.dtype)});
  if (source.dense.dtype == DType::f8_e4m3) {
    layout.num_groups = (source.num_in - 1) / source.dense.scale_in + 1;
    layout.scale_bytes = product({static_cast<size_t>(layout.num_panels),
                                  static_cast<size_t>(layout.num_groups), kPanelColumns, sizeof(float)});
  }
  return layout;
}

// Finds the panels that outputs read, and for each of them the runs of outputs that lie side by side in it.
TrellisLayout arrange_trellis(const WeightSource& source) {
  std::vector<std::pair<int32_t, int32_t>> columns;  // stored column and output
  columns.reserve(static_cast<size_t>(source.num_out));
  for (int32_t n = 0; n < source.num_out; ++n) columns.emplace_back(stored_column(source, n), n);
  std::sort(columns.begin(), columns.end());
  TrellisLayout layout;
  for (const auto& [column, output] : columns) {
    const int32_t panel = column / kHadamardOrder, lane = column % kHadamardOrder;
    const bool begins = layout.stored_panels.empty() || layout.stored_panels.back() != panel;
    if (begins) {
      layout.stored_panels.push_back(panel);
      layout.runs_of_panel.push_back(static_cast<int32_t>(layout.runs.size()));
    }
    if (!begins) {
      OutputRun& last = layout.runs.back();
      if (last.output + last.count == output && last.lane + last.count == lane) {
        ++last.count;
        continue;
      }
    }
    layout.runs.push_back({output, lane, 1});
  }
  layout.runs_of_panel.push_back(static_cast<int32_t>(layout.runs.size()));
  return layout;
}

PartLayout lay_out_trellis(const WeightSource& source) {
  PartLayout layout;
  layout.order_idx = -1;
  layout.trellis = arrange_trellis(source);
  const auto panels = layout.trellis.stored_panels.size();
  const auto inputs = static_cast<size_t>(hadamard_padded(source.num_in));
  layout.num_panels = static_cast<int32_t>(panels);
  layout.panel_bytes =
      product({inputs / kTrellisTile, kHadamardOrder / kTrellisTile,
               static_cast<size_t>(trellis_tile_words(source.trellis.half_bits)), sizeof(uint16_t)});
  layout.scale_bytes = product({inputs, sizeof(uint16_t)}) + product({panels, kHadamardOrder, sizeof(float)});
  layout.run_bytes = product({layout.trellis.runs.size(), sizeof(OutputRun)});
  if (source.bias != nullptr)
    layout.bias_bytes = product({static_cast<size_t>(source.num_out), sizeof(float)});
  return layout;
}

PartLayout lay_out_part(const WeightSource& source, std::vector<std::vector<int32_t>>& orders) {
  switch (source.format) {
    case WeightFormat::dense:
      return lay_out_dense(source);
    case WeightFormat::blocks:
      return lay_out_blocks(source, orders);
    case WeightFormat::trellis:
      return lay_out_trellis(source);
    default:
      return lay_out_quantized(source, orders);
  }
}

}  // namespace

TermRecord term_record(const BlockForm& form) {
  const int32_t groups = kBlockRows / form.group;
  switch (form.terms) {
    case BlockTerms::half:
      return {1, 1, 0};
    case BlockTerms::half_min:
      return {1, 2, 0};
    case BlockTerms::bytes:
      return {kFactorBlocks, 1, groups};
    case BlockTerms::bytes_min:
      return {kFactorBlocks, 2, 2 * groups};
    case BlockTerms::nibbles_min:
      return {kFactorBlocks, 2, groups};
    case BlockTerms::e4m3:
    case BlockTerms::e8m0:
      return {1, 0, groups};
  }
  return {};
}

WeightLayout lay_out_weight(const WeightSource* parts, int32_t num_parts) {
  WeightLayout weight;
  for (int32_t i = 0; i < num_parts; ++i) {
    const WeightSource& source = parts[i];
    PartLayout layout = lay_out_part(source, weight.orders);
    const auto panels = static_cast<size_t>(layout.num_panels);
    layout.data_bytes = product({panels, layout.panel_bytes});
    if (source.bias != nullptr && source.format != WeightFormat::trellis)
      layout.bias_bytes = product({panels, kPanelColumns, sizeof(float)});
    weight.parts.push_back(std::move(layout));
  }
  return weight;
}

uint64_t WeightLayout::bytes() const {
  uint64_t total = 0;
  for (const PartLayout& part : parts) total += part.bytes();
  for (const std::vector<int32_t>& order : orders) total += order.size() * sizeof(int32_t);
  return total;
}

}  // namespace quire::kernels
