#include "kernels/cpu/state/lanes.h"

#include <cstring>

namespace quire::kernels {
namespace {

// The bank of a lane that goes on in another slot.
struct Move {
  const uint8_t* from;
  uint8_t* to;
  int32_t num_rows;  // before the first row of the step
  bool has_state;    // false at line 0: no state, and no inputs before the line
};

void copy_rows(const Move& move, size_t offset, int32_t row_elements, int32_t groups) {
  if (row_elements == 0) return;
  const size_t row_bytes = static_cast<size_t>(row_elements / groups) * sizeof(float);
  for (int32_t g = 0; g < groups; ++g) {
    const size_t at = offset + static_cast<size_t>(g) * kStateLine * row_bytes;
    std::memcpy(move.to + at, move.from + at, static_cast<size_t>(move.num_rows) * row_bytes);
  }
}

void run_move(const Move& move, const StateShape& shape, const BankGroups& groups) {
  const StateLayout layout = state_layout(shape);
  const auto floats = [](int64_t count) { return static_cast<size_t>(count) * sizeof(float); };
  if (move.has_state) std::memcpy(move.to + layout.state, move.from + layout.state, floats(shape.state));
  copy_rows(move, layout.keys, shape.key, groups.keys);
  copy_rows(move, layout.updates, shape.update, groups.updates);
  copy_rows(move, layout.decays, shape.decay, groups.decays);
  if (shape.conv_taps == 0) return;
  // At line 0 no inputs lie before the line.
  const int32_t before = shape.conv_taps - 1, first = move.has_state ? 0 : before;
  const size_t begin = floats(int64_t{first} * shape.conv_channels);
  const size_t end = floats(int64_t{before + move.num_rows} * shape.conv_channels);
  std::memcpy(move.to + layout.inputs + begin, move.from + layout.inputs + begin, end - begin);
}

bool is_sound(const StateLane& lane, const BatchView& batch, int32_t sequence) {
  const int32_t bank = batch.state_banks[sequence];
  const bool forms = bank >= kFromLineBefore;
  return batch.read_slots[sequence] >= 0 && batch.write_slots[sequence] >= 0 && bank >= 0 &&
         bank < 2 * kFromLineBefore && lane.position >= 0 &&
         (!forms || (lane.position > 0 && lane.position % kStateLine == 0));
}

}  // namespace

Status open_lanes(Context* context, const char* operation, const StateOpParams& params,
                  const StateShape& shape, const BankGroups& groups) {
  const BatchView& batch = params.batch;
  if (batch.read_slots == nullptr || batch.write_slots == nullptr || batch.state_banks == nullptr)
    return failed(Status::invalid_argument, "%s: the batch has no slots", operation);
  if (params.store.memory == nullptr || params.store.slot_stride < state_bytes(shape))
    return failed(Status::invalid_argument, "%s: slots of %zu bytes, of which %zu are needed", operation,
                  params.store.slot_stride, state_bytes(shape));
  context->state_lanes.clear();
  const size_t bank_bytes = state_layout(shape).bank_bytes;
  auto* const memory = static_cast<uint8_t*>(params.store.memory);
  for (int32_t s = 0; s < batch.num_sequences; ++s) {
    StateLane lane;
    lane.first_row = batch.sequence_starts[s];
    lane.num_rows = batch.sequence_starts[s + 1] - lane.first_row;
    if (lane.num_rows == 0) continue;
    lane.position = batch.positions[lane.first_row];
    if (!is_sound(lane, batch, s))
      return failed(Status::invalid_argument, "%s: sequence %d at position %d has slots %d and %d, bank %d",
                    operation, s, lane.position, batch.read_slots[s], batch.write_slots[s],
                    batch.state_banks[s]);
    const size_t own = static_cast<size_t>(batch.state_banks[s] % kFromLineBefore) * bank_bytes;
    uint8_t* const written = memory + static_cast<size_t>(batch.write_slots[s]) * params.store.slot_stride;
    const uint8_t* const read = memory + static_cast<size_t>(batch.read_slots[s]) * params.store.slot_stride;
    lane.forms = batch.state_banks[s] >= kFromLineBefore;
    lane.source = written + own;
    lane.later = written + (bank_bytes - own);
    lane.first = lane.forms ? lane.later : written + own;
    context->state_lanes.push_back(lane);
    if (read == written || lane.position == 0) continue;
    const int32_t line = lane.position / kStateLine - (lane.forms ? 1 : 0);
    run_move({read + own, written + own, lane.position - line * kStateLine, line > 0}, shape, groups);
  }
  return Status::ok;
}

}  // namespace quire::kernels
