// Converts stored matrices to tiles on the card: raw bytes are copied through pinned staging buffers, and
// kernels repack them.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/plan/coded_form.h"
#include "kernels/cuda/plan/float8_shape.h"
#include "kernels/cuda/plan/weight_plan.h"
#include "kernels/cuda/weights/block_repack.h"
#include "kernels/cuda/weights/trellis_repack.h"
#include "kernels/cuda/weights/weight_repack.h"
#include "kernels/interface/block_codes.h"
#include "kernels/interface/half.h"
#include "kernels/interface/stored_bytes.h"

namespace quire::kernels {
namespace {

size_t padded_bytes(size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// Returns the bytes of a part's scales and columns beside its strips.
size_t terms_bytes(const PartPlan& plan) {
  if (plan.kind != TileKind::trellis) return 0;
  return trellis_terms_bytes(plan.source->num_in, plan.trellis.stored.size());
}

// A bump allocator over a staging buffer's scratch: sizes are counted first, then bytes are sent.
class RawBytes {
 public:
  size_t add(size_t bytes) {
    const size_t at = size_;
    size_ += padded_bytes(bytes);
    return at;
  }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

struct Piece {
  const void* host = nullptr;  // nullptr: the bytes of the matrix are still in a file
  size_t bytes = 0;
  size_t offset = 0;
};

template <typename T>
Piece piece_of(const std::vector<T>& values) {
  return {values.data(), values.size() * sizeof(T), 0};
}

// Returns the number of f8_e4m3 scales.
size_t num_scales(const WeightSource& source) {
  const DenseSource& dense = source.dense;
  if (dense.dtype != DType::f8_e4m3) return 0;
  return static_cast<size_t>((source.padded_out - 1) / dense.scale_out + 1) *
         static_cast<size_t>((source.num_in - 1) / dense.scale_in + 1);
}

// Returns roughly how many bytes of the source are copied at a time.
size_t sent_bytes(const WeightSource& source) {
  if (source.format == WeightFormat::coded && coded_kind(source) == TileKind::dense)
    return static_cast<size_t>(source.num_in) * static_cast<size_t>(source.padded_out) * sizeof(uint16_t);
  return stored_bytes(source);
}

// Returns the form in which the repack kernel reads a part.
TileKind stored_as(const PartPlan& plan) {
  const WeightSource& source = *plan.source;
  if (source.format == WeightFormat::exl2) return TileKind::exl2;
  if (source.format != WeightFormat::coded) return TileKind::dense;
  const TileKind kind = coded_kind(source);
  // Single weights of mxfp4 cannot be read, so other tiles are made from f16.
  return kind == TileKind::mxfp4 && plan.kind != kind ? TileKind::dense : kind;
}

// Parts of a matrix of grouped codes that are copied to the card, in the form that it is read there.
class CodedPieces {
 public:
  CodedPieces(const WeightSource& source, TileKind kind) : source_(source), kind_(kind) {
    if (source.format != WeightFormat::coded) return;
    if (kind == TileKind::dense) {
      halves_ = expand_to_half(source);
    } else if (kind == TileKind::mxfp4) {
      form_.codes = make_codes(source);
    } else {
      make_gptq_form(source, form_);
    }
  }
  CodedPieces(const CodedPieces&) = delete;
  CodedPieces& operator=(const CodedPieces&) = delete;

  Piece codes() const { return {form_.codes.words, form_.codes.count * sizeof(uint32_t), 0}; }
  Piece zeros() const { return {form_.zeros.words, form_.zeros.count * sizeof(uint32_t), 0}; }
  Piece scales() const { return {form_.scales, form_.scales == nullptr ? 0 : num_scales() * 2, 0}; }
  Piece exponents() const { return {source_.coded.scales, kind_ == TileKind::mxfp4 ? num_scales() : 0, 0}; }
  Piece halves() const { return piece_of(halves_); }

  void describe(StoredMatrix& stored) const {
    if (source_.format != WeightFormat::coded) return;
    stored.code_bits = source_.coded.bits;
    stored.row_words = form_.codes.outer_words;
    stored.column_words = form_.codes.inner_words;
    stored.zero_group_words = form_.zeros.outer_words;
    stored.zero_column_words = form_.zeros.inner_words;
    stored.zero_offset = source_.coded.zero_offset;
    if (kind_ == TileKind::mxfp4) stored.exponent_shift = exponent_shift(source_);
  }

 private:
  size_t num_scales() const {
    return static_cast<size_t>(source_.coded.num_groups) * static_cast<size_t>(source_.padded_out);
  }

  const WeightSource& source_;
  TileKind kind_;
  GptqForm form_;
  std::vector<uint16_t> halves_;
};

class Preparer {
 public:
  // Prepares the weight in `memory`, which has the size of its layout.
  Preparer(Device& device, Weight& weight, StagingLease& stage, uint8_t* memory)
      : device_(device), weight_(weight), stage_(stage), next_(memory), left_(weight.bytes) {}

  // float8 describes the tiles of that kind, if there are any.
  Status part(const PartPlan& plan, const Float8Target& float8, Part& part);
  Status group_rows(WeightGroup& group);
  Status bias(const WeightSource* parts, int32_t num_parts);

 private:
  // Takes the next bytes, in the order of the layout.
  Status take(size_t bytes, void** memory) {
    const size_t padded = padded_bytes(bytes);
    if (padded > left_)
      return device_.fail(Status::invalid_argument,
                          "prepare_weights: a weight is larger than its planned layout");
    *memory = next_;
    next_ += padded;
    left_ -= padded;
    return Status::ok;
  }
  template <typename T>
  Status keep(const std::vector<T>& values, const T** memory, const char* what) {
    void* target = nullptr;
    if (const Status status = take(values.size() * sizeof(T), &target); status != Status::ok) return status;
    *memory = static_cast<const T*>(target);
    return device_.check(cudaMemcpyAsync(target, values.data(), values.size() * sizeof(T),
                                         cudaMemcpyHostToDevice, stage_->stream()),
                         what);
  }
  Status send(const std::vector<Piece*>& pieces, const UnreadBytes* unread);
  Status place_part(const PartPlan& plan, Part& part);
  Status block_part(const PartPlan& plan, Part& part);
  Status trellis_part(const PartPlan& plan, Part& part);
  Status float8_part(const StoredMatrix& stored, const PartPlan& plan, Float8Target target, uint8_t* tiles);
  const void* at(const Piece& piece) const {
    return piece.bytes == 0 ? nullptr : stage_->scratch() + piece.offset;
  }

  Device& device_;
  Weight& weight_;
  StagingLease& stage_;
  uint8_t* next_;
  size_t left_;
};

Status Preparer::send(const std::vector<Piece*>& pieces, const UnreadBytes* unread) {
  RawBytes raw;
  for (Piece* piece : pieces) piece->offset = raw.add(piece->bytes);
  if (const Status s = stage_->reserve(raw.size()); s != Status::ok) return s;
  for (Piece* piece : pieces) {
    const Status s = stage_->send(stage_->scratch() + piece->offset, piece->host, unread, piece->bytes);
    if (s != Status::ok) return s;
  }
  return Status::ok;
}

// Describes the strips of a part and takes their memory.
Status Preparer::place_part(const PartPlan& plan, Part& part) {
  part.strip_bytes = plan.strip_bytes;
  part.num_strips = plan.num_strips;
  part.num_columns = plan.source->num_out;
  part.unit = plan.unit;
  part.num_runs = static_cast<int32_t>(plan.runs.size());
  std::copy(plan.runs.begin(), plan.runs.end(), part.runs);
  void* strips = nullptr;
  const Status status = take(static_cast<size_t>(plan.num_strips) * plan.strip_bytes, &strips);
  part.strips = static_cast<const uint8_t*>(strips);
  return status;
}

// The card finds the largest scale before blocks are repacked, since their unit depends on it.
Status Preparer::block_part(const PartPlan& plan, Part& part) {
  const WeightSource& source = *plan.source;
  const BlockType type = source.blocks.type;
  const BlockGrid grid = block_grid(type);
  BlockMaximaBits largest;
  Piece rows = {source.blocks.data, stored_bytes(source), 0}, order,
        grids = {grid.indices, grid.count * sizeof(uint16_t), 0}, maxima = {&largest, sizeof(largest), 0};
  if (source.column_order != nullptr)
    order = {source.column_order, static_cast<size_t>(source.num_out) * sizeof(int32_t), 0};
  Status status = send({&rows, &order, &grids, &maxima}, source.unread);
  if (status == Status::ok) status = place_part(plan, part);
  if (status != Status::ok) return status;
  StoredBlocks stored;
  stored.type = type;
  stored.rows = static_cast<const uint8_t*>(at(rows));
  stored.row_bytes = block_row_bytes(type, source.num_in);
  stored.grid = static_cast<const uint16_t*>(at(grids));
  stored.num_rows = source.num_in;
  stored.num_columns = source.num_out;
  stored.column_order = static_cast<const int32_t*>(at(order));
  auto* found = reinterpret_cast<BlockMaximaBits*>(stage_->scratch() + maxima.offset);
  cudaError_t error = find_block_maxima(stored, found, stage_->stream());
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(&largest, found, sizeof(largest), cudaMemcpyDeviceToHost, stage_->stream());
  if (error == cudaSuccess) error = cudaStreamSynchronize(stage_->stream());
  status = device_.check(error, "reading scales of blocks");
  if (status != Status::ok) return status;
  BlockTarget target;
  target.strips = const_cast<uint8_t*>(part.strips);
  target.strip_bytes = plan.strip_bytes;
  target.num_strips = plan.num_strips;
  target.num_blocks = plan.runs.front().end;
  target.unit = block_unit(type, {std::bit_cast<float>(largest.scale), std::bit_cast<float>(largest.min)});
  part.unit = target.unit * source.prescale;
  error = repack_blocks(stored, target, stage_->stream());
  if (error == cudaSuccess) error = cudaStreamSynchronize(stage_->stream());
  return device_.check(error, "repacking weights");
}

Status Preparer::trellis_part(const PartPlan& plan, Part& part) {
  void* terms = nullptr;
  Status status = place_part(plan, part);
  if (status == Status::ok) status = take(terms_bytes(plan), &terms);
  return status == Status::ok ? prepare_trellis(device_, stage_, plan, terms, part) : status;
}

Status Preparer::part(const PartPlan& plan, const Float8Target& float8, Part& part) {
  if (plan.kind == TileKind::blocks) return block_part(plan, part);
  if (plan.kind == TileKind::trellis) return trellis_part(plan, part);
  const bool is_coded = plan.source->format == WeightFormat::coded;
  const TileKind stored_kind = stored_as(plan);
  const bool expands = is_coded && stored_kind == TileKind::dense;
  SourceInMemory in_memory;
  if (expands) {
    if (const Status s = in_memory.open(*plan.source); s != Status::ok) return s;
  }
  const WeightSource& source = expands ? in_memory.source() : *plan.source;
  const auto padded = static_cast<size_t>(source.padded_out);
  CodedPieces coded(source, stored_kind);

  Piece codes, scales, group_scale, dense, dense_scales, order, row_group, row_bits, row_packed, row_source,
      first_rows, zeros, exponents;
  Piece steps = piece_of(plan.steps), records = piece_of(plan.records);
  if (source.column_order != nullptr)
    order = {source.column_order, static_cast<size_t>(source.num_out) * 4, 0};
  if (source.format == WeightFormat::exl2) {
    codes = {source.exl2.q_weight, stored_bytes(source), 0};
    scales = {source.exl2.q_scale, static_cast<size_t>(source.exl2.num_groups) * (padded / 8) * 4, 0};
    group_scale = piece_of(plan.group_scale);
    row_bits = piece_of(plan.row_bits);
    row_packed = piece_of(plan.row_packed);
  } else if (is_coded && stored_kind != TileKind::dense) {
    codes = coded.codes();
    zeros = coded.zeros();
    group_scale = coded.scales();
    exponents = coded.exponents();
    row_source = piece_of(plan.row_source);
    first_rows = piece_of(plan.group_first_row);
  } else if (is_coded) {
    dense = coded.halves();
  } else {
    dense = {source.dense.data, stored_bytes(source), 0};
    dense_scales = {source.dense.scales, num_scales(source) * sizeof(float), 0};
  }
  row_group = piece_of(plan.row_group);
  Status status = send({&codes, &scales, &group_scale, &dense, &dense_scales, &order, &row_group, &row_bits,
                        &row_packed, &row_source, &first_rows, &zeros, &exponents, &steps, &records},
                       source.unread);
  if (status != Status::ok) return status;

  StoredMatrix stored;
  stored.kind = stored_kind;
  stored.num_rows = source.num_in;
  stored.num_columns = source.num_out;
  stored.padded_columns = source.padded_out;
  stored.column_order = static_cast<const int32_t*>(at(order));
  stored.codes = static_cast<const uint32_t*>(at(codes));
  stored.scales = static_cast<const uint32_t*>(at(scales));
  stored.group_scale = static_cast<const uint16_t*>(at(group_scale));
  stored.record_factor = kExl2CodeUnit / plan.unit;
  stored.row_group = static_cast<const int32_t*>(at(row_group));
  stored.row_source = static_cast<const int32_t*>(at(row_source));
  stored.row_bits = static_cast<const int32_t*>(at(row_bits));
  stored.row_packed = static_cast<const int32_t*>(at(row_packed));
  stored.zeros = static_cast<const uint32_t*>(at(zeros));
  stored.exponents = static_cast<const uint8_t*>(at(exponents));
  coded.describe(stored);
  stored.prescale =
      is_coded && stored_kind == TileKind::dense ? 1.0f : source.prescale;  // the f16 values include it
  stored.dense = at(dense);
  stored.dense_dtype = static_cast<int32_t>(is_coded ? DType::f16 : source.dense.dtype);
  stored.dense_scales = static_cast<const float*>(at(dense_scales));
  stored.scale_out = source.dense.scale_out;
  stored.scale_in = source.dense.scale_in;

  status = place_part(plan, part);
  if (status != Status::ok) return status;
  auto* strips = const_cast<uint8_t*>(part.strips);
  if (plan.kind == TileKind::float8) return float8_part(stored, plan, float8, strips);
  RepackTarget target;
  target.strips = strips;
  target.strip_bytes = plan.strip_bytes;
  target.num_strips = plan.num_strips;
  target.steps = static_cast<const StepSource*>(at(steps));
  target.num_steps = static_cast<int32_t>(plan.steps.size());
  target.scales = static_cast<const ScaleSource*>(at(records));
  target.num_scales = static_cast<int32_t>(plan.records.size());
  const cudaError_t error =
      plan.kind == TileKind::exl2 ? repack_exl2(stored, target, stage_->stream())
      : is_coded && plan.kind != TileKind::dense
          ? repack_coded(stored, target, static_cast<const int32_t*>(at(first_rows)), stage_->stream())
      : plan.kind == TileKind::fp8 ? repack_fp8(stored, target, stage_->stream())
                                   : repack_dense(stored, target, stage_->stream());
  status = device_.check(error, "repacking weights");
  if (status != Status::ok) return status;
  // The scratch is reused for the next part, and the vectors here end with this call.
  return device_.check(cudaStreamSynchronize(stage_->stream()), "repacking weights");
}

// The first part clears the tiles of all parts.
Status Preparer::float8_part(const StoredMatrix& stored, const PartPlan& plan, Float8Target target,
                             uint8_t* tiles) {
  const size_t bytes = static_cast<size_t>(plan.num_strips) * plan.strip_bytes;
  cudaError_t error = cudaSuccess;
  if (target.first_column == 0) {
    target.tiles = tiles;
    error = cudaMemsetAsync(tiles, 0, bytes, stage_->stream());
  }
  if (error == cudaSuccess) error = repack_float8(stored, target, stage_->stream());
  if (error == cudaSuccess) error = cudaStreamSynchronize(stage_->stream());
  return device_.check(error, "repacking weights");
}

Status Preparer::group_rows(WeightGroup& group) {
  if (group.row_order.empty()) return Status::ok;
  std::vector<int32_t> place(group.row_order.size());
  for (size_t i = 0; i < place.size(); ++i) {
    const int32_t feature = group.row_order[i];
    if (feature < 0 || static_cast<size_t>(feature) >= place.size()) return Status::invalid_argument;
    place[static_cast<size_t>(feature)] = static_cast<int32_t>(i);
  }
  if (const Status s = keep(group.row_order, &group.device_row_order, "copying a row order"); s != Status::ok)
    return s;
  if (const Status s = keep(place, &group.device_row_place, "copying a row order"); s != Status::ok) return s;
  return device_.check(cudaStreamSynchronize(stage_->stream()), "copying a row order");
}

Status Preparer::bias(const WeightSource* parts, int32_t num_parts) {
  if (std::none_of(parts, parts + num_parts, [](const WeightSource& p) { return p.bias != nullptr; }))
    return Status::ok;
  std::vector<float> values;
  for (int32_t p = 0; p < num_parts; ++p)
    for (int32_t j = 0; j < parts[p].num_out; ++j)
      values.push_back(parts[p].bias == nullptr
                           ? 0.0f
                           : parts[p].bias[parts[p].column_order != nullptr ? parts[p].column_order[j] : j]);
  const float* memory = nullptr;
  if (const Status s = keep(values, &memory, "copying a bias"); s != Status::ok) return s;
  for (WeightGroup& group : weight_.groups) group.matrix.bias = memory;
  return device_.check(cudaStreamSynchronize(stage_->stream()), "copying a bias");
}

void finish_matrix(Matrix& m, const PartPlan& plan) {
  m.kind = plan.kind;
  m.num_rows = plan.source->num_in;
  m.num_blocks = (m.num_rows + kBlockRows - 1) / kBlockRows;
  for (int32_t p = 0; p < m.num_parts; ++p) {
    m.num_strips += m.parts[p].num_strips;
    for (int32_t r = 0; r < m.parts[p].num_runs; ++r)
      m.max_segment_bytes = std::max(m.max_segment_bytes, m.parts[p].runs[r].segment_bytes);
  }
}

// Layout of all parts, computed before any memory is allocated.
struct WeightLayout {
  std::vector<PartPlan> plans;
  std::vector<size_t> group_of_part;
  std::vector<size_t> first_of_group;  // first part of each group
  bool has_bias = false;
  bool is_pair = false;
  int32_t num_columns = 0;

  // Returns the total size of the pieces, each padded, in the order in which they are taken.
  size_t bytes() const {
    size_t total = 0;
    for (const PartPlan& plan : plans)
      total += padded_bytes(static_cast<size_t>(plan.num_strips) * plan.strip_bytes) +
               padded_bytes(terms_bytes(plan));
    for (const size_t part : first_of_group)
      total += 2 * padded_bytes(plans[part].row_order.size() * sizeof(int32_t));
    return total + (has_bias ? padded_bytes(static_cast<size_t>(num_columns) * sizeof(float)) : 0);
  }
};

Status lay_out(Device& device, const MatrixSource& matrix, WeightLayout& layout) {
  const WeightSource* parts = matrix.parts;
  const int32_t num_parts = matrix.num_parts;
  if (num_parts < 1) return device.fail(Status::invalid_argument, "prepare_weights: a matrix has no parts");
  const bool float8 = num_parts <= kMaxParts && uses_float8(matrix);
  std::vector<int> parts_of_group;
  layout.plans.resize(static_cast<size_t>(num_parts));
  for (size_t p = 0; p < layout.plans.size(); ++p) {
    PartPlan& plan = layout.plans[p];
    if (!plan_part(parts[p], plan, float8) || parts[p].num_in != parts[0].num_in)
      return device.fail(Status::invalid_argument,
                         "prepare_weights: the groups or shapes of a matrix do not fit together");
    size_t g = 0;
    while (g < layout.first_of_group.size() &&
           (parts_of_group[g] == kMaxParts || !shares_launch(layout.plans[layout.first_of_group[g]], plan)))
      ++g;
    if (g == layout.first_of_group.size()) {
      layout.first_of_group.push_back(p);
      parts_of_group.push_back(0);
    }
    ++parts_of_group[g];
    layout.group_of_part.push_back(g);
    layout.has_bias = layout.has_bias || parts[p].bias != nullptr;
    layout.num_columns += parts[p].num_out;
  }
  layout.is_pair = is_pair(matrix, layout.plans);
  if (float8) join_float8(layout.plans, layout.is_pair);
  return Status::ok;
}

Status build(Device& device, const MatrixSource& matrix, const WeightLayout& layout, StagingLease& stage,
             uint8_t* memory, Weight& weight) {
  const WeightSource* parts = matrix.parts;
  const int32_t num_parts = matrix.num_parts;
  weight.bytes = layout.bytes();
  Preparer preparer(device, weight, stage, memory);
  weight.num_rows = parts[0].num_in;
  weight.groups.resize(layout.first_of_group.size());
  for (int32_t p = 0; p < num_parts; ++p) {
    Matrix& m = weight.groups[layout.group_of_part[static_cast<size_t>(p)]].matrix;
    Part& part = m.parts[m.num_parts++];
    part.first_column = weight.num_columns;
    const Float8Target float8 = {const_cast<uint8_t*>(m.parts[0].strips),
                                 (parts[0].num_in + kBlockRows - 1) / kBlockRows, part.first_column,
                                 layout.num_columns, layout.is_pair};
    if (const Status s = preparer.part(layout.plans[static_cast<size_t>(p)], float8, part); s != Status::ok)
      return s;
    weight.part_columns.push_back(parts[p].num_out);
    weight.column_orders.emplace_back();
    if (parts[p].column_order != nullptr)
      weight.column_orders.back().assign(parts[p].column_order, parts[p].column_order + parts[p].num_out);
    weight.num_columns += parts[p].num_out;
  }
  for (size_t g = 0; g < weight.groups.size(); ++g) {
    Matrix& m = weight.groups[g].matrix;
    const PartPlan& first = layout.plans[layout.first_of_group[g]];
    weight.groups[g].row_order = first.row_order;
    m.paired = m.num_parts == num_parts && layout.is_pair ? 1 : 0;
    finish_matrix(m, first);
    m.chain_bits = chain_bits_of(matrix, m);
    m.num_columns = weight.num_columns;
    if (const Status s = preparer.group_rows(weight.groups[g]); s != Status::ok) return s;
  }
  return preparer.bias(parts, num_parts);
}

// Returns the number of records per matrix. Records of matrices that are prepared together are adjacent, with
// the same number for each, so that a kernel finds an expert by its number. A single matrix needs none.
size_t most_groups(const std::vector<WeightLayout>& layouts) {
  size_t most = 0;
  if (layouts.size() == 1) return most;
  for (const WeightLayout& layout : layouts) most = std::max(most, layout.first_of_group.size());
  return most;
}

// Returns the bytes of the records of one matrix.
size_t record_bytes(const std::vector<WeightLayout>& layouts) {
  return padded_bytes(most_groups(layouts) * sizeof(MatrixRecord));
}

void write_records(const Weight& weight, MatrixRecord* records) {
  for (size_t g = 0; g < weight.groups.size(); ++g)
    records[g] = {weight.groups[g].matrix, weight.groups[g].device_row_order};
}

}  // namespace

// Prepares all matrices in one block of memory, so that at most one page is partly filled rather than one per
// matrix.
Status prepare_weights(Device* device, const MatrixSource* matrices, int32_t num_matrices, Weight** weights) {
  std::fill_n(weights, num_matrices, nullptr);
  if (const Status s = device->enter(); s != Status::ok) return s;
  std::vector<WeightLayout> layouts(static_cast<size_t>(num_matrices));
  size_t bytes = 0, largest_part = 0;
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (const Status s = lay_out(*device, matrices[i], layouts[i]); s != Status::ok) return s;
    bytes += layouts[i].bytes();
    for (int32_t p = 0; p < matrices[i].num_parts; ++p)
      largest_part = std::max(largest_part, sent_bytes(matrices[i].parts[p]));
  }
  const size_t num_records = most_groups(layouts) * layouts.size();
  bytes += record_bytes(layouts) * layouts.size();
  StagingLease stage(*device, largest_part);
  if (stage.status() != Status::ok) return stage.status();
  const auto memory = std::make_shared<WeightMemory>(*device);
  if (const Status s = memory->take(bytes, "allocating memory for weights"); s != Status::ok) return s;
  std::vector<std::unique_ptr<Weight>> made;
  auto* records = reinterpret_cast<MatrixRecord*>(memory->data());
  uint8_t* place = memory->data() + record_bytes(layouts) * layouts.size();
  for (size_t i = 0; i < layouts.size(); ++i) {
    made.push_back(std::make_unique<Weight>());
    made.back()->memory = memory;
    const Status s = build(*device, matrices[i], layouts[i], stage, place, *made.back());
    if (s != Status::ok) {
      static_cast<void>(cudaStreamSynchronize(stage->stream()));  // wait for copies into memory that is about
                                                                  // to be freed
      return s;
    }
    made.back()->bytes += record_bytes(layouts);
    if (num_records > 0) made.back()->records = records + i * most_groups(layouts);
    place += layouts[i].bytes();
  }
  std::vector<MatrixRecord> told(num_records);
  for (size_t i = 0; i < made.size() && num_records > 0; ++i)
    write_records(*made[i], &told[i * most_groups(layouts)]);
  const Status status =
      device->table.upload(device, records, told.data(), num_records * sizeof(MatrixRecord));
  if (status != Status::ok) return status;
  for (std::unique_ptr<Weight>& weight : made) *weights++ = weight.release();
  return Status::ok;
}

Status plan_weights(Device* device, const MatrixSource* matrices, int32_t num_matrices, uint64_t* bytes) {
  std::vector<WeightLayout> layouts(static_cast<size_t>(num_matrices));
  for (size_t i = 0; i < layouts.size(); ++i)
    if (const Status s = lay_out(*device, matrices[i], layouts[i]); s != Status::ok) return s;
  for (size_t i = 0; i < layouts.size(); ++i) bytes[i] = layouts[i].bytes() + record_bytes(layouts);
  return Status::ok;
}

void release_weight(Device*, Weight* weight) {
  delete weight;
}

uint64_t weight_bytes(const Weight* weight) {
  return weight->bytes;
}

Status copy_weight(Device*, const Weight* weight) {
  return weight->memory->copy_to_host();
}

uint64_t park_weight(Device*, const Weight* weight) {
  return weight->memory->park();
}

Status bring_weight(Device*, const Weight* weight) {
  return weight->memory->bring();
}

}  // namespace quire::kernels
