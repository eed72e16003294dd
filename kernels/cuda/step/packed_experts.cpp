// Host experts on the card: their matrices are streamed through staging buffers while the products of those
// before them run.
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

constexpr size_t kRecordBytes =
    (sizeof(PackedRecord) + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;

class ExpertSum {
 public:
  ExpertSum(Context& context, const PackedExpertsParams& params)
      : c_(context), p_(params), memory_(context.packed), sizes_(context.packed.sizes) {}

  Status run() {
    QUIRE_RETURN_IF_FAILED(check_limits());
    QUIRE_RETURN_IF_FAILED(check(cudaEventSynchronize(memory_.done)));
    QUIRE_RETURN_IF_FAILED(sort_rows());
    QUIRE_RETURN_IF_FAILED(measure());
    QUIRE_RETURN_IF_FAILED(find_prefetched());
    QUIRE_RETURN_IF_FAILED(send_inputs());
    size_t next = 0;  // of the prefetched chunks
    for (int32_t expert = 0; expert < p_.num_experts;) {
      PackedChunk chunk;
      size_t slot = 0;
      if (next < memory_.num_prefetched) {
        chunk = memory_.prefetched[next];
        slot = memory_.next_slot + kPackedSlots - memory_.num_prefetched + next++;
      } else if (sorted_.first_row[expert] == sorted_.first_row[p_.num_experts]) {
        break;  // the others have no rows
      } else {
        slot = memory_.next_slot;
        QUIRE_RETURN_IF_FAILED(send_chunk(expert, false, chunk));
      }
      QUIRE_RETURN_IF_FAILED(run_chunk(memory_.slots[slot % kPackedSlots], chunk));
      expert = chunk.end;
    }
    memory_.num_prefetched = 0;
    return return_sums();
  }

  // Starts the copies of the first experts.
  Status prefetch() {
    QUIRE_RETURN_IF_FAILED(check_experts());
    PackedExpert first;
    QUIRE_RETURN_IF_FAILED(p_.describe(p_.owner, 0, &first));
    memory_.num_prefetched = 0;
    memory_.prefetched_codes = first.gate_up.parts[0].codes;
    for (int32_t expert = 0; expert < p_.num_experts && memory_.num_prefetched < kPackedSlots;) {
      PackedChunk& chunk = memory_.prefetched[memory_.num_prefetched];
      QUIRE_RETURN_IF_FAILED(send_chunk(expert, true, chunk));
      ++memory_.num_prefetched;
      expert = chunk.end;
    }
    return Status::ok;
  }

 private:
  Status check(cudaError_t error) { return c_.device->check(error, "multiplying packed experts"); }
  Status refuse(const char* words) {
    return c_.device->fail(Status::invalid_argument, std::string("sum_packed_experts: ") + words);
  }
  size_t num_rows() const { return static_cast<size_t>(p_.tokens) * static_cast<size_t>(p_.num_chosen); }

  Status check_experts() {
    const bool fit =
        p_.num_experts > 0 && p_.num_experts <= kMaxExperts && p_.num_experts <= c_.limits.packed.num_experts;
    return fit ? Status(Status::ok) : refuse("more experts than the limits of the context allow");
  }
  Status check_limits() {
    QUIRE_RETURN_IF_FAILED(check_experts());
    const bool fit = p_.num_chosen > 0 && !p_.mlp.is_sparse && num_rows() <= sizes_.num_rows;
    return fit ? Status(Status::ok) : refuse("more rows than the limits of the context allow");
  }

  // Discards chunks that were prefetched for other matrices.
  Status find_prefetched() {
    PackedExpert first;
    QUIRE_RETURN_IF_FAILED(p_.describe(p_.owner, 0, &first));
    if (first.gate_up.parts[0].codes != memory_.prefetched_codes) memory_.num_prefetched = 0;
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

  // Fills the next staging buffer with experts from `first` on, as many as fit, and starts its copy to the
  // card.
  Status send_chunk(int32_t first, bool has_all, PackedChunk& chunk) {
    PackedSlot& slot = memory_.slots[memory_.next_slot++ % kPackedSlots];
    QUIRE_RETURN_IF_FAILED(check(cudaEventSynchronize(slot.sent)));
    chunk = {first, first, has_all};
    size_t bytes = 0;
    QUIRE_RETURN_IF_FAILED(choose_chunk(chunk, bytes));
    QUIRE_RETURN_IF_FAILED(fill(slot, chunk));
    QUIRE_RETURN_IF_FAILED(check(cudaStreamWaitEvent(memory_.stream, slot.used, 0)));
    QUIRE_RETURN_IF_FAILED(
        check(cudaMemcpyAsync(slot.device, slot.host, bytes, cudaMemcpyHostToDevice, memory_.stream)));
    return check(cudaEventRecord(slot.sent, memory_.stream));
  }

  bool is_in(const PackedChunk& chunk, int32_t expert) const {
    return chunk.has_all || sorted_.num_rows(expert) > 0;
  }
  Status choose_chunk(PackedChunk& chunk, size_t& bytes) {
    for (; chunk.end < p_.num_experts; ++chunk.end) {
      if (!is_in(chunk, chunk.end)) continue;
      PackedExpert expert;
      QUIRE_RETURN_IF_FAILED(p_.describe(p_.owner, chunk.end, &expert));
      const size_t staged = staged_bytes(expert);
      if (staged == 0 || kRecordBytes + staged > sizes_.slot_bytes)
        return refuse("an expert does not fit its staging buffer");
      if (bytes + kRecordBytes + staged > sizes_.slot_bytes) break;
      bytes += kRecordBytes + staged;
    }
    return Status::ok;
  }
  // Lays the experts of a chunk out in the pinned buffer, after their records.
  Status fill(const PackedSlot& slot, const PackedChunk& chunk) {
    constexpr int32_t kPieces = 16 * kMaxExpertPieces;
    CopyPiece pieces[kPieces];
    PieceList copies = {pieces, 0};
    auto* record = reinterpret_cast<PackedRecord*>(slot.host);
    StagingPlace place = {slot.host, slot.device, 0};
    for (int32_t e = chunk.first; e < chunk.end; ++e) place.offset += is_in(chunk, e) ? kRecordBytes : 0;
    for (int32_t e = chunk.first; e < chunk.end; ++e) {
      if (!is_in(chunk, e)) continue;
      if (copies.count > kPieces - kMaxExpertPieces) QUIRE_RETURN_IF_FAILED(copy(copies));
      PackedExpert expert;
      QUIRE_RETURN_IF_FAILED(p_.describe(p_.owner, e, &expert));
      place.offset = stage_expert(expert, place, copies, *record++);
    }
    return copy(copies);
  }
  Status copy(PieceList& copies) {
    const Status status = p_.copy(p_.owner, copies.pieces, copies.count);
    copies.count = 0;
    return status;
  }
  // Multiplies the rows of a chunk's experts.
  Status run_chunk(const PackedSlot& slot, const PackedChunk& chunk) {
    int32_t record = 0;
    for (int32_t e = chunk.first; e < chunk.end; ++e)
      if (is_in(chunk, e)) make_tiles(e, record++);
    const int32_t first = sorted_.first_tile[chunk.first], end = sorted_.first_tile[chunk.end];
    if (first == end) return Status::ok;
    QUIRE_RETURN_IF_FAILED(
        send(memory_.tiles + first, memory_.host_tiles + first, static_cast<size_t>(end - first)));
    QUIRE_RETURN_IF_FAILED(check(cudaStreamWaitEvent(c_.stream, slot.sent, 0)));
    for (int32_t tile = first; tile < end;) QUIRE_RETURN_IF_FAILED(run_batch(slot, tile, end));
    return check(cudaEventRecord(slot.used, c_.stream));
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
    const bool adds = p_.residual != nullptr;
    const PackedSum sum = {memory_.outputs,     weighs ? memory_.factors : nullptr,  p_.num_chosen,
                           shape_.down.num_out, adds ? p_.residual : memory_.tokens, adds};
    QUIRE_RETURN_IF_FAILED(check(launch_sum_packed(sum, p_.tokens, c_.stream)));
    if (adds) return check(cudaEventRecord(memory_.done, c_.stream));
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
  SortedExperts sorted_;  // not of a prefetch
  PackedExpert shape_;    // of the first expert with rows
  int32_t num_spans_ = 0;
  int32_t batch_rows_ = 0;
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
  build.check(cudaEventCreateWithFlags(&packed.done, cudaEventDisableTiming), "creating an event");
  for (PackedSlot& slot : packed.slots)
    for (cudaEvent_t* event : {&slot.sent, &slot.used})
      build.check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event");
}

void release_packed_stream(const PackedMemory& packed) {
  for (const PackedSlot& slot : packed.slots)
    for (cudaEvent_t event : {slot.sent, slot.used})
      if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
  if (packed.done != nullptr) static_cast<void>(cudaEventDestroy(packed.done));
  if (packed.stream != nullptr) static_cast<void>(cudaStreamDestroy(packed.stream));
}

Status sum_packed_experts(Context* context, const PackedExpertsParams* params) {
  Context& c = *context;
  if (const Status s = c.device->enter(); s != Status::ok) return s;
  if (c.packed.stream == nullptr)
    return c.device->fail(Status::invalid_argument, "sum_packed_experts: the context has no memory for it");
  if (params->tokens <= 0 && !params->only_prefetches) return Status::ok;
  ExpertSum sum(c, *params);
  const Status status = params->only_prefetches ? sum.prefetch() : sum.run();
  if (status == Status::ok) return status;
  c.packed.num_prefetched = 0;
  // Copies from the pinned buffers may still run; the next call fills them again.
  static_cast<void>(cudaStreamSynchronize(c.packed.stream));
  static_cast<void>(cudaStreamSynchronize(c.stream));
  return status;
}

}  // namespace quire::kernels
