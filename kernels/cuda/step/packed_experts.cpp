// Host experts on the card: those in slots are multiplied from there, and the matrices of the others are
// streamed through two staging buffers while the products of those before them run.
#include <algorithm>
#include <string>
#include <utility>

#include "kernels/cuda/plan/sorted_experts.h"
#include "kernels/cuda/step/context_builder.h"

namespace quire::kernels {
namespace {

// Consecutive places of the order whose experts fit into a staging buffer.
struct Chunk {
  int32_t first = 0;
  int32_t end = 0;
  size_t bytes = 0;
};

// A call that multiplies packed experts, or only copies some to their slots.
class ExpertCall {
 public:
  ExpertCall(Context& context, const PackedExpertsParams& params)
      : c_(context), p_(params), memory_(context.packed), sizes_(context.packed.sizes) {}

  Status sum() {
    QUIRE_RETURN_IF_FAILED(sort(PackedRowsOf::all_experts));
    QUIRE_RETURN_IF_FAILED(measure());
    QUIRE_RETURN_IF_FAILED(send_inputs());
    QUIRE_RETURN_IF_FAILED(multiply_there());
    QUIRE_RETURN_IF_FAILED(pass_chunks());
    return return_sums();
  }

  Status fill_slots() {
    QUIRE_RETURN_IF_FAILED(sort(PackedRowsOf::all_experts));
    return pass_chunks();
  }

  Status start() {
    if (p_.tokens > kMaxSlotTokens) return refuse("more tokens than a call may start");
    returns_rows_ = true;
    QUIRE_RETURN_IF_FAILED(sort(PackedRowsOf::experts_in_slots));
    if (sorted_.num_rows() == 0) return Status::ok;
    QUIRE_RETURN_IF_FAILED(measure());
    QUIRE_RETURN_IF_FAILED(send_inputs());
    QUIRE_RETURN_IF_FAILED(multiply_there());
    return return_rows();
  }

 private:
  Status check(cudaError_t error) { return c_.device->check(error, "multiplying packed experts"); }
  Status refuse(const char* words) {
    return c_.device->fail(Status::invalid_argument, std::string("packed experts: ") + words);
  }
  size_t num_rows() const { return static_cast<size_t>(p_.tokens) * static_cast<size_t>(p_.num_chosen); }

  // Checks the call and sorts its rows. Rows of a call before this one that was not finished may still be
  // read.
  Status sort(PackedRowsOf which) {
    if (memory_.num_started > 0) QUIRE_RETURN_IF_FAILED(check(cudaStreamSynchronize(c_.stream)));
    memory_.num_started = 0;
    if (p_.num_experts <= 0 || p_.num_experts > kMaxExperts ||
        p_.num_experts > c_.limits.packed.num_experts || p_.tokens < 0 || p_.num_chosen <= 0 ||
        p_.mlp.is_sparse || num_rows() > sizes_.num_rows)
      return refuse("more rows or experts than the limits of the context allow");
    for (int32_t e = 0; p_.places != nullptr && e < p_.num_experts; ++e)
      if (p_.places[e].slot >= c_.limits.packed.num_slots)
        return refuse("a slot beyond those of the context");
    return sort_experts(p_, which, sorted_, memory_.host_rows) ? Status(Status::ok)
                                                               : refuse("a row has no expert");
  }

  Status describe(int32_t place, PackedExpert& described) {
    QUIRE_RETURN_IF_FAILED(p_.describe(p_.owner, sorted_.experts[place], &described));
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

  // Finds the sizes that all experts share, and how many rows are quantized at a time.
  Status measure() {
    int32_t num_spans = 1;
    for (int32_t place = 0; place < sorted_.count; ++place) {
      if (sorted_.num_rows(place) == 0) continue;
      PackedExpert expert;
      QUIRE_RETURN_IF_FAILED(describe(place, expert));
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
    const float* const factors = p_.input_scale != nullptr ? p_.input_scale
                                 : returns_rows_           ? nullptr
                                                           : p_.weights;
    const size_t input_floats = static_cast<size_t>(p_.tokens) * static_cast<size_t>(shape_.gate_up.num_in);
    const CopyPiece pieces[] = {{memory_.host_tokens, p_.input, input_floats * sizeof(float)},
                                {memory_.host_factors, factors, num_rows() * sizeof(float)}};
    QUIRE_RETURN_IF_FAILED(p_.copy(p_.owner, pieces, factors != nullptr ? 2 : 1));
    QUIRE_RETURN_IF_FAILED(send(memory_.tokens, memory_.host_tokens, input_floats));
    if (factors != nullptr) QUIRE_RETURN_IF_FAILED(send(memory_.factors, memory_.host_factors, num_rows()));
    return send(memory_.rows, memory_.host_rows, static_cast<size_t>(sorted_.num_rows()));
  }
  template <typename T>
  Status send(T* target, const T* from, size_t count) {
    return check(cudaMemcpyAsync(target, from, count * sizeof(T), cudaMemcpyHostToDevice, c_.stream));
  }

  // Multiplies the experts in slots, which may be on their way.
  Status multiply_there() {
    if (sorted_.end_there == 0) return Status::ok;
    for (const ExpertStaging& buffer : memory_.staging)
      QUIRE_RETURN_IF_FAILED(check(cudaStreamWaitEvent(c_.stream, buffer.sent, 0)));
    for (int32_t place = 0; place < sorted_.end_there; ++place) make_tiles(place, slot_of(place));
    QUIRE_RETURN_IF_FAILED(send_tiles({0, sorted_.end_there}, c_.stream));
    return multiply_tiles(memory_.slots, {0, sorted_.end_there});
  }

  Status pass_chunks() {
    for (int32_t place = sorted_.end_there; place < sorted_.count;) {
      Chunk chunk;
      QUIRE_RETURN_IF_FAILED(next_chunk(place, chunk));
      QUIRE_RETURN_IF_FAILED(pass(chunk));
      place = chunk.end;
    }
    return Status::ok;
  }

  // Experts that get into slots are not in one chunk with those that pass through.
  Status next_chunk(int32_t first, Chunk& chunk) {
    chunk.first = chunk.end = first;
    const bool has_slots = first < sorted_.end_slotted;
    const int32_t end = has_slots ? sorted_.end_slotted : sorted_.count;
    const size_t room = has_slots ? std::min(sizes_.slot_bytes, sizes_.staging_bytes) : sizes_.staging_bytes;
    for (; chunk.end < end; ++chunk.end) {
      PackedExpert expert;
      QUIRE_RETURN_IF_FAILED(describe(chunk.end, expert));
      const size_t staged = staged_bytes(expert);
      if (staged == 0 || staged > room) return refuse("an expert does not fit its buffer");
      if (chunk.bytes + staged > sizes_.staging_bytes) break;
      chunk.bytes += staged;
    }
    return Status::ok;
  }

  // Copies the experts of a chunk to the card, and multiplies their rows.
  Status pass(const Chunk& chunk) {
    ExpertStaging& buffer = memory_.staging[memory_.next_staging++ % memory_.staging.size()];
    const bool has_slots = chunk.first < sorted_.end_slotted;
    QUIRE_RETURN_IF_FAILED(check(cudaEventSynchronize(buffer.sent)));
    size_t begins[kMaxExperts + 1];
    QUIRE_RETURN_IF_FAILED(fill(buffer, chunk, begins));
    QUIRE_RETURN_IF_FAILED(check(cudaStreamWaitEvent(memory_.stream, buffer.used, 0)));
    if (has_slots) {
      for (int32_t place = chunk.first; place < chunk.end; ++place) {
        const size_t from = begins[place - chunk.first], end = begins[place - chunk.first + 1];
        QUIRE_RETURN_IF_FAILED(copy_to_card(memory_.slots + slot_of(place), buffer.host + from, end - from));
      }
    } else {
      QUIRE_RETURN_IF_FAILED(copy_to_card(buffer.device, buffer.host, chunk.bytes));
    }
    QUIRE_RETURN_IF_FAILED(send_tiles(chunk, memory_.stream));
    QUIRE_RETURN_IF_FAILED(check(cudaEventRecord(buffer.sent, memory_.stream)));
    if (sorted_.first_tile[chunk.first] == sorted_.first_tile[chunk.end]) return Status::ok;
    QUIRE_RETURN_IF_FAILED(check(cudaStreamWaitEvent(c_.stream, buffer.sent, 0)));
    QUIRE_RETURN_IF_FAILED(multiply_tiles(has_slots ? memory_.slots : buffer.device, chunk));
    return check(cudaEventRecord(buffer.used, c_.stream));
  }
  Status copy_to_card(uint8_t* to, const uint8_t* from, size_t bytes) {
    return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, memory_.stream));
  }
  Status send_tiles(const Chunk& chunk, cudaStream_t stream) {
    const int32_t first = sorted_.first_tile[chunk.first], end = sorted_.first_tile[chunk.end];
    if (first == end) return Status::ok;
    return check(cudaMemcpyAsync(memory_.tiles + first, memory_.host_tiles + first,
                                 static_cast<size_t>(end - first) * sizeof(PackedTile),
                                 cudaMemcpyHostToDevice, stream));
  }

  // Lays the experts of a chunk out in the pinned buffer, and makes their tiles. Writes the beginning of each
  // expert and the end of the last one.
  Status fill(const ExpertStaging& buffer, const Chunk& chunk, size_t* begins) {
    constexpr int32_t kPieces = 16 * kMaxExpertPieces;
    CopyPiece pieces[kPieces];
    PieceList copies = {pieces, 0};
    const bool has_slots = chunk.first < sorted_.end_slotted;
    size_t at = 0;
    for (int32_t place = chunk.first; place < chunk.end; ++place) {
      if (copies.count > kPieces - kMaxExpertPieces) QUIRE_RETURN_IF_FAILED(copy(copies));
      PackedExpert expert;
      QUIRE_RETURN_IF_FAILED(describe(place, expert));
      const uint8_t* const device = has_slots ? memory_.slots + slot_of(place) : buffer.device + at;
      make_tiles(place, has_slots ? slot_of(place) : at);
      *begins++ = at;
      at += stage_expert(expert, {buffer.host + at, device}, copies);
    }
    *begins = at;
    return copy(copies);
  }
  Status copy(PieceList& copies) {
    const Status status = p_.copy(p_.owner, copies.pieces, copies.count);
    copies.count = 0;
    return status;
  }

  // Returns the beginning of the slot of an expert.
  size_t slot_of(int32_t place) const {
    return static_cast<size_t>(p_.places[sorted_.experts[place]].slot) * sizes_.slot_bytes;
  }
  // `record` is the beginning of the expert.
  void make_tiles(int32_t place, size_t record) {
    PackedTile* tile = memory_.host_tiles + sorted_.first_tile[place];
    const int32_t end = sorted_.first_row[place + 1];
    for (int32_t row = sorted_.first_row[place]; row < end; row += kPackedTileRows)
      *tile++ = {static_cast<uint32_t>(record / kPackedAlignment), row, std::min(kPackedTileRows, end - row)};
  }

  Status multiply_tiles(const uint8_t* records, const Chunk& chunk) {
    const int32_t end = sorted_.first_tile[chunk.end];
    for (int32_t tile = sorted_.first_tile[chunk.first]; tile < end;)
      QUIRE_RETURN_IF_FAILED(run_batch(records, tile, end));
    return Status::ok;
  }

  // Multiplies tiles from `tile` on, and sets it to the first one that is left.
  Status run_batch(const uint8_t* records, int32_t& tile, int32_t end_tile) {
    PackedBatch batch;
    batch.records = records;
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
                                   shape_.down.num_out, returns_rows_, c_.stream);
    return check(error);
  }

  Status return_sums() {
    const bool weighs = p_.input_scale == nullptr && p_.weights != nullptr;
    const PackedSum sum = {memory_.outputs, weighs ? memory_.factors : nullptr, p_.num_chosen,
                           shape_.down.num_out, memory_.tokens};
    QUIRE_RETURN_IF_FAILED(check(launch_sum_packed(sum, p_.tokens, c_.stream)));
    const size_t floats = static_cast<size_t>(p_.tokens) * static_cast<size_t>(shape_.down.num_out);
    QUIRE_RETURN_IF_FAILED(take(memory_.host_tokens, memory_.tokens, floats));
    QUIRE_RETURN_IF_FAILED(check(cudaStreamSynchronize(c_.stream)));
    *p_.sums = memory_.host_tokens;
    return Status::ok;
  }
  Status return_rows() {
    memory_.num_started = static_cast<size_t>(sorted_.num_rows());
    memory_.started_columns = static_cast<size_t>(shape_.down.num_out);
    return take(memory_.host_outputs, memory_.outputs, memory_.num_started * memory_.started_columns);
  }
  Status take(float* target, const float* from, size_t count) {
    return check(cudaMemcpyAsync(target, from, count * sizeof(float), cudaMemcpyDeviceToHost, c_.stream));
  }

  Context& c_;
  const PackedExpertsParams& p_;
  PackedMemory& memory_;
  const PackedSizes& sizes_;
  SortedExperts sorted_;
  PackedExpert shape_;  // of the first expert with rows
  int32_t num_spans_ = 0;
  int32_t batch_rows_ = 0;
  bool returns_rows_ = false;  // outputs of down are returned in the order of the experts, not their sums
};

// Runs a call. If it fails, waits: copies from the pinned buffers may still run, and the next call fills them
// again.
template <typename Run>
Status run_call(Context* context, const PackedExpertsParams* params, Run run) {
  Context& c = *context;
  if (const Status s = c.device->enter(); s != Status::ok) return s;
  if (c.packed.stream == nullptr)
    return c.device->fail(Status::invalid_argument, "packed experts: the context has no memory for them");
  ExpertCall call(c, *params);
  const Status status = run(call);
  if (status == Status::ok) return status;
  static_cast<void>(cudaStreamSynchronize(c.packed.stream));
  static_cast<void>(cudaStreamSynchronize(c.stream));
  return status;
}

}  // namespace

void take_packed_memory(ContextBuilder& build, Context& c, const PackedExpertLimits& l) {
  if (l.staging_bytes == 0) return;
  PackedMemory& p = c.packed;
  const char* const what = "allocating memory for packed experts";
  p.sizes = packed_sizes(l);
  for (ExpertStaging& buffer : p.staging) {
    build.take(buffer.device, p.sizes.staging_bytes, what);
    build.pin(buffer.host, p.sizes.staging_bytes, what);
  }
  if (p.sizes.num_slots > 0) {
    build.take(p.slots, p.sizes.num_slots * p.sizes.slot_bytes, "allocating memory for experts that stay");
    build.pin(p.host_outputs, p.sizes.returned_floats, what);
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
  for (ExpertStaging& buffer : packed.staging)
    for (cudaEvent_t* event : {&buffer.sent, &buffer.used})
      build.check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event");
}

void release_packed_stream(const PackedMemory& packed) {
  for (const ExpertStaging& buffer : packed.staging)
    for (cudaEvent_t event : {buffer.sent, buffer.used})
      if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
  if (packed.stream != nullptr) static_cast<void>(cudaStreamDestroy(packed.stream));
}

Status sum_packed_experts(Context* context, const PackedExpertsParams* params) {
  if (params->tokens <= 0) return Status::ok;
  return run_call(context, params, [](ExpertCall& call) { return call.sum(); });
}

Status fill_expert_slots(Context* context, const PackedExpertsParams* params) {
  return run_call(context, params, [](ExpertCall& call) { return call.fill_slots(); });
}

Status start_slot_experts(Context* context, const PackedExpertsParams* params) {
  return run_call(context, params, [](ExpertCall& call) { return call.start(); });
}

Status finish_slot_experts(Context* context, float* outputs) {
  Context& c = *context;
  PackedMemory& packed = c.packed;
  if (const Status s = c.device->enter(); s != Status::ok) return s;
  const size_t count = std::exchange(packed.num_started, 0), columns = packed.started_columns;
  if (count == 0) return Status::ok;
  QUIRE_RETURN_IF_FAILED(c.device->check(cudaStreamSynchronize(c.stream), "waiting for packed experts"));
  for (size_t i = 0; i < count; ++i)
    std::copy_n(packed.host_outputs + i * columns, columns,
                outputs + static_cast<size_t>(packed.host_rows[i]) * columns);
  return Status::ok;
}

}  // namespace quire::kernels
