// Host experts on the card: their matrices are streamed through two staging buffers while the products of
// those before them run.
#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/cuda/step/context_builder.h"

namespace quire::kernels {
namespace {

// Rows of a call in the order of their experts.
struct SortedExperts {
  int32_t first_row[kMaxExperts + 1];
  int32_t first_tile[kMaxExperts + 1];

  int32_t num_rows(int32_t expert) const { return first_row[expert + 1] - first_row[expert]; }
};

// Experts from `first` to end - 1 that fit into a staging buffer; those without rows are left out.
struct Chunk {
  int32_t first = 0;
  int32_t end = 0;
  int32_t num_experts = 0;
  size_t bytes = 0;
};

constexpr size_t kRecordBytes =
    (sizeof(PackedRecord) + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;

class ExpertSum {
 public:
  ExpertSum(Context& context, const PackedExpertsParams& params)
      : c_(context), p_(params), memory_(context.packed), sizes_(context.packed.sizes) {}

  Status run() {
    QUIRE_RETURN_IF_FAILED(check_limits());
    QUIRE_RETURN_IF_FAILED(sort_rows());
    QUIRE_RETURN_IF_FAILED(measure());
    QUIRE_RETURN_IF_FAILED(send_inputs());
    for (int32_t expert = 0; expert < p_.num_experts;) {
      Chunk chunk;
      QUIRE_RETURN_IF_FAILED(next_chunk(expert, chunk));
      if (chunk.num_experts > 0) QUIRE_RETURN_IF_FAILED(run_chunk(chunk));
      expert = chunk.end;
    }
    return return_sums();
  }

 private:
  Status check(cudaError_t error) { return c_.device->check(error, "multiplying packed experts"); }
  Status refuse(const char* words) {
    return c_.device->fail(Status::invalid_argument, std::string("sum_packed_experts: ") + words);
  }
  size_t num_rows() const { return static_cast<size_t>(p_.tokens) * static_cast<size_t>(p_.num_chosen); }

  Status check_limits() {
    if (p_.num_experts <= 0 || p_.num_experts > kMaxExperts ||
        p_.num_experts > c_.limits.packed.num_experts || p_.num_chosen <= 0 || p_.mlp.is_sparse ||
        num_rows() > sizes_.num_rows)
      return refuse("more rows or experts than the limits of the context allow");
    return Status::ok;
  }

  Status describe(int32_t expert, PackedExpert& described) {
    QUIRE_RETURN_IF_FAILED(p_.describe(p_.owner, expert, &described));
    const PackedExpertLimits& limits = c_.limits.packed;
    const PackedWeight& gate_up = described.gate_up;
    bool fits = true;
    for (int32_t i = 0; i < gate_up.num_parts; ++i)
      fits = fits && gate_up.parts[i].num_out == p_.mlp.intermediate;
    fits = fits && gate_up.num_in <= limits.num_in && gate_up.num_out <= limits.products &&
           described.down.num_in <= limits.activated && described.down.num_out <= limits.num_out &&
           described.down.num_parts == 1 && gate_up.num_parts == (p_.mlp.gated ? 2 : 1) &&
           described.down.num_in == p_.mlp.intermediate &&
           static_cast<size_t>(p_.tokens) *
                   static_cast<size_t>(std::max(gate_up.num_in, described.down.num_out)) <=
               sizes_.token_floats;
    return fits ? Status(Status::ok) : refuse("matrices beyond the limits of the context");
  }

  // Sorts the rows by expert, and makes the tiles. The rows of an expert keep their order.
  Status sort_rows() {
    std::fill_n(sorted_.first_row, p_.num_experts + 1, 0);
    const auto rows = static_cast<int32_t>(num_rows());
    for (int32_t r = 0; r < rows; ++r) {
      if (p_.expert_of_row[r] < 0 || p_.expert_of_row[r] >= p_.num_experts)
        return refuse("a row has no expert");
      ++sorted_.first_row[p_.expert_of_row[r] + 1];
    }
    for (int32_t e = 0; e < p_.num_experts; ++e) sorted_.first_row[e + 1] += sorted_.first_row[e];
    int32_t next[kMaxExperts];
    std::copy_n(sorted_.first_row, p_.num_experts, next);
    for (int32_t r = 0; r < rows; ++r) memory_.host_rows[next[p_.expert_of_row[r]]++] = r;
    sorted_.first_tile[0] = 0;
    for (int32_t e = 0; e < p_.num_experts; ++e)
      sorted_.first_tile[e + 1] =
          sorted_.first_tile[e] + (sorted_.num_rows(e) + kPackedTileRows - 1) / kPackedTileRows;
    return Status::ok;
  }

  // Finds the sizes that all experts share, and how many rows are quantized at a time.
  Status measure() {
    int32_t num_spans = 1;
    for (int32_t e = 0; e < p_.num_experts; ++e) {
      if (sorted_.num_rows(e) == 0) continue;
      PackedExpert expert;
      QUIRE_RETURN_IF_FAILED(describe(e, expert));
      for (const PackedWeight* weight : {&expert.gate_up, &expert.down})
        for (int32_t i = 0; i < weight->num_parts; ++i)
          num_spans = std::max(num_spans, weight->parts[i].order.num_spans());
      if (shape_.gate_up.num_in == 0) shape_ = expert;
      if (expert.gate_up.num_in != shape_.gate_up.num_in || expert.down.num_out != shape_.down.num_out)
        return refuse("experts of different shapes");
    }
    num_spans_ = num_spans;
    const size_t most = sizes_.scale_floats / kMaxPackedParts / static_cast<size_t>(num_spans);
    batch_rows_ = static_cast<int32_t>(std::min(most, sizes_.batch_rows));
    return batch_rows_ >= kPackedTileRows ? Status(Status::ok) : refuse("groups of too few rows");
  }

  Status send_inputs() {
    const float* const factors = p_.input_scale != nullptr ? p_.input_scale : p_.weights;
    const size_t input_floats = static_cast<size_t>(p_.tokens) * static_cast<size_t>(shape_.gate_up.num_in);
    const CopyPiece pieces[] = {{memory_.host_tokens, p_.input, input_floats * sizeof(float)},
                                {memory_.host_factors, factors, num_rows() * sizeof(float)}};
    QUIRE_RETURN_IF_FAILED(p_.copy(p_.owner, pieces, factors != nullptr ? 2 : 1));
    QUIRE_RETURN_IF_FAILED(send(memory_.tokens, memory_.host_tokens, input_floats));
    if (factors != nullptr) QUIRE_RETURN_IF_FAILED(send(memory_.factors, memory_.host_factors, num_rows()));
    return send(memory_.rows, memory_.host_rows, num_rows());
  }
  template <typename T>
  Status send(T* target, const T* from, size_t count) {
    return check(cudaMemcpyAsync(target, from, count * sizeof(T), cudaMemcpyHostToDevice, c_.stream));
  }

  Status next_chunk(int32_t first, Chunk& chunk) {
    chunk.first = chunk.end = first;
    for (; chunk.end < p_.num_experts; ++chunk.end) {
      if (sorted_.num_rows(chunk.end) == 0) continue;
      PackedExpert expert;
      QUIRE_RETURN_IF_FAILED(describe(chunk.end, expert));
      const size_t staged = staged_bytes(expert);
      if (staged == 0 || kRecordBytes + staged > sizes_.slot_bytes)
        return refuse("an expert does not fit its staging buffer");
      if (chunk.bytes + kRecordBytes + staged > sizes_.slot_bytes) break;
      chunk.bytes += kRecordBytes + staged;
      ++chunk.num_experts;
    }
    return Status::ok;
  }

  Status run_chunk(const Chunk& chunk) {
    PackedSlot& slot = memory_.slots[next_slot_++ % memory_.slots.size()];
    QUIRE_RETURN_IF_FAILED(check(cudaEventSynchronize(slot.sent)));
    QUIRE_RETURN_IF_FAILED(fill(slot, chunk));
    QUIRE_RETURN_IF_FAILED(check(cudaStreamWaitEvent(memory_.stream, slot.used, 0)));
    QUIRE_RETURN_IF_FAILED(
        check(cudaMemcpyAsync(slot.device, slot.host, chunk.bytes, cudaMemcpyHostToDevice, memory_.stream)));
    const int32_t first_tile = sorted_.first_tile[chunk.first], end_tile = sorted_.first_tile[chunk.end];
    QUIRE_RETURN_IF_FAILED(
        check(cudaMemcpyAsync(memory_.tiles + first_tile, memory_.host_tiles + first_tile,
                              static_cast<size_t>(end_tile - first_tile) * sizeof(PackedTile),
                              cudaMemcpyHostToDevice, memory_.stream)));
    QUIRE_RETURN_IF_FAILED(check(cudaEventRecord(slot.sent, memory_.stream)));
    QUIRE_RETURN_IF_FAILED(check(cudaStreamWaitEvent(c_.stream, slot.sent, 0)));
    for (int32_t tile = first_tile; tile < end_tile;) QUIRE_RETURN_IF_FAILED(run_batch(slot, tile, end_tile));
    return check(cudaEventRecord(slot.used, c_.stream));
  }

  // Lays the experts of a chunk out in the pinned buffer, and makes their tiles.
  Status fill(const PackedSlot& slot, const Chunk& chunk) {
    constexpr int32_t kPieces = 16 * kMaxExpertPieces;
    CopyPiece pieces[kPieces];
    PieceList copies = {pieces, 0};
    auto* const records = reinterpret_cast<PackedRecord*>(slot.host);
    StagingPlace place = {slot.host, slot.device, static_cast<size_t>(chunk.num_experts) * kRecordBytes};
    int32_t record = 0;
    for (int32_t e = chunk.first; e < chunk.end; ++e) {
      if (sorted_.num_rows(e) == 0) continue;
      if (copies.count > kPieces - kMaxExpertPieces) QUIRE_RETURN_IF_FAILED(copy(copies));
      PackedExpert expert;
      QUIRE_RETURN_IF_FAILED(describe(e, expert));
      place.offset = stage_expert(expert, place, copies, records[record]);
      make_tiles(e, record++);
    }
    return copy(copies);
  }
  Status copy(PieceList& copies) {
    const Status status = p_.copy(p_.owner, copies.pieces, copies.count);
    copies.count = 0;
    return status;
  }
  void make_tiles(int32_t expert, int32_t record) {
    PackedTile* tile = memory_.host_tiles + sorted_.first_tile[expert];
    const int32_t end = sorted_.first_row[expert + 1];
    for (int32_t row = sorted_.first_row[expert]; row < end; row += kPackedTileRows)
      *tile++ = {record, row, std::min(kPackedTileRows, end - row)};
  }

  // Multiplies tiles from `tile` on, and sets it to the first one that is left.
  Status run_batch(const PackedSlot& slot, int32_t& tile, int32_t end_tile) {
    PackedBatch batch;
    batch.records = reinterpret_cast<const PackedRecord*>(slot.device);
    batch.tiles = memory_.tiles + tile;
    batch.first_row = memory_.host_tiles[tile].first_row;
    for (; tile < end_tile && batch.num_rows + memory_.host_tiles[tile].num_rows <= batch_rows_; ++tile) {
      batch.num_rows += memory_.host_tiles[tile].num_rows;
      ++batch.num_tiles;
    }
    batch.sorted_rows = memory_.rows;
    batch.num_spans = num_spans_;
    batch.bytes_only = shape_.gate_up.activations == ActivationDtype::i8;
    const size_t codes_of_order = sizes_.code_bytes / kMaxPackedParts;
    const size_t scales_of_order = sizes_.scale_floats / kMaxPackedParts;
    for (size_t i = 0; i < static_cast<size_t>(kMaxPackedParts); ++i)
      batch.inputs[i] = {memory_.codes + i * codes_of_order, memory_.scales + i * scales_of_order};
    return launch(batch);
  }

  Status launch(const PackedBatch& batch) {
    const PackedInputs inputs = {memory_.tokens, p_.input_scale != nullptr ? memory_.factors : nullptr,
                                 shape_.gate_up.num_in, p_.num_chosen};
    const int32_t num_parts = shape_.gate_up.num_parts, products = shape_.gate_up.num_out;
    const int32_t panels = shape_.gate_up.parts[0].num_panels;
    cudaError_t error = launch_quantize_inputs(batch, inputs, num_parts, c_.stream);
    if (error == cudaSuccess)
      error = launch_multiply_gate_up(batch, num_parts, panels, memory_.products, products, c_.stream);
    if (error == cudaSuccess)
      error = launch_quantize_activated(batch, p_.mlp, memory_.products, products, c_.stream);
    if (error == cudaSuccess)
      error = launch_multiply_down(batch, shape_.down.parts[0].num_panels, memory_.outputs,
                                   shape_.down.num_out, c_.stream);
    return check(error);
  }

  Status return_sums() {
    const bool weighs = p_.input_scale == nullptr && p_.weights != nullptr;
    const PackedSum sum = {memory_.outputs, weighs ? memory_.factors : nullptr, p_.num_chosen,
                           shape_.down.num_out, memory_.tokens};
    QUIRE_RETURN_IF_FAILED(check(launch_sum_packed(sum, p_.tokens, c_.stream)));
    const size_t bytes =
        static_cast<size_t>(p_.tokens) * static_cast<size_t>(shape_.down.num_out) * sizeof(float);
    QUIRE_RETURN_IF_FAILED(check(
        cudaMemcpyAsync(memory_.host_tokens, memory_.tokens, bytes, cudaMemcpyDeviceToHost, c_.stream)));
    QUIRE_RETURN_IF_FAILED(check(cudaStreamSynchronize(c_.stream)));
    *p_.sums = memory_.host_tokens;
    return Status::ok;
  }

  Context& c_;
  const PackedExpertsParams& p_;
  PackedMemory& memory_;
  const PackedSizes& sizes_;
  SortedExperts sorted_;
  PackedExpert shape_;  // of the first expert with rows
  int32_t num_spans_ = 0;
  int32_t batch_rows_ = 0;
  size_t next_slot_ = 0;
};

}  // namespace

void take_packed_memory(ContextBuilder& build, Context& c, const PackedExpertLimits& l) {
  if (l.staging_bytes == 0) return;
  PackedMemory& p = c.packed;
  const char* const what = "allocating memory for packed experts";
  p.sizes = packed_sizes(l);
  for (PackedSlot& slot : p.slots) {
    build.take(slot.device, p.sizes.slot_bytes, what);
    build.pin(slot.host, p.sizes.slot_bytes, what);
  }
  build.pin(p.host_tokens, p.sizes.token_floats, what);
  build.pin(p.host_factors, p.sizes.num_rows, what);
  build.pin(p.host_rows, p.sizes.num_rows, what);
  build.pin(p.host_tiles, p.sizes.num_tiles, what);
  build.take(p.tokens, p.sizes.token_floats, what);
  build.take(p.factors, p.sizes.num_rows, what);
  build.take(p.rows, p.sizes.num_rows, what);
  build.take(p.tiles, p.sizes.num_tiles, what);
  build.take(p.codes, p.sizes.code_bytes, what);
  build.take(p.scales, p.sizes.scale_floats, what);
  build.take(p.products, p.sizes.product_floats, what);
  build.take(p.outputs, p.sizes.output_floats, what);
}

void make_packed_stream(ContextBuilder& build, PackedMemory& packed) {
  build.check(cudaStreamCreateWithFlags(&packed.stream, cudaStreamNonBlocking), "creating a stream");
  for (PackedSlot& slot : packed.slots)
    for (cudaEvent_t* event : {&slot.sent, &slot.used})
      build.check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event");
}

void release_packed_stream(const PackedMemory& packed) {
  for (const PackedSlot& slot : packed.slots)
    for (cudaEvent_t event : {slot.sent, slot.used})
      if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
  if (packed.stream != nullptr) static_cast<void>(cudaStreamDestroy(packed.stream));
}

Status sum_packed_experts(Context* context, const PackedExpertsParams* params) {
  Context& c = *context;
  if (const Status s = c.device->enter(); s != Status::ok) return s;
  if (c.packed.stream == nullptr)
    return c.device->fail(Status::invalid_argument, "sum_packed_experts: the context has no memory for it");
  if (params->tokens <= 0) return Status::ok;
  const Status status = ExpertSum(c, *params).run();
  if (status == Status::ok) return status;
  // Copies from the pinned buffers may still run; the next call fills them again.
  static_cast<void>(cudaStreamSynchronize(c.packed.stream));
  static_cast<void>(cudaStreamSynchronize(c.stream));
  return status;
}

}  // namespace quire::kernels
