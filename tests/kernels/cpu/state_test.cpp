// Layers with a recurrent state: values of double precision, and the same bits for any chunks, company, order
// of steps and number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/kernels/cpu/cpu_device.h"
#include "tests/kernels/cpu/state_ops.h"
#include "tests/support/case_stride.h"

namespace quire::testing {
namespace {

using kernels::kStateLine;
using kernels::StateLines;
using kernels::StateOpParams;
using kernels::Status;

size_t to_size(int64_t count) {
  return static_cast<size_t>(count);
}

StateTarget on(const CpuDevice& device) {
  return {device.table(), device.context()};
}

// Tokens of a sequence in a step.
struct TestLane {
  const std::vector<float>* rows = nullptr;  // inputs of the whole sequence
  int32_t position = 0;
  int32_t count = 0;
  int32_t read = 0;
  int32_t write = 0;
};

// An operation on a device, with slots that begin as NaN.
class StateSlots {
 public:
  StateSlots(CpuDevice& device, const StateOp& op, int32_t num_slots)
      : device_(device), op_(op), stride_(kernels::state_bytes(op.shape()) + 64), lines_(to_size(num_slots)) {
    EXPECT_EQ(device.table().allocate(device.handle(), stride_ * to_size(num_slots), &memory_), Status::ok);
    std::memset(memory_, 0xff, stride_ * to_size(num_slots));
  }
  StateSlots(const StateSlots&) = delete;
  StateSlots& operator=(const StateSlots&) = delete;
  ~StateSlots() { device_.table().release(device_.handle(), memory_); }

  StateLines& lines(int32_t slot) { return lines_[to_size(slot)]; }
  uint8_t* bytes(int32_t slot) { return static_cast<uint8_t*>(memory_) + stride_ * to_size(slot); }
  size_t stride() const { return stride_; }

  // Forgets a slot; what it held must not be read any more.
  void poison(int32_t slot) {
    std::memset(bytes(slot), 0xff, stride_);
    lines(slot) = {};
  }

  void copy(int32_t from, int32_t to) {
    const kernels::CopyStateParams params = {bytes(from), bytes(to), stride_};
    ASSERT_EQ(device_.table().copy_state(device_.context(), &params), Status::ok);
    lines(to) = lines(from);
  }

  // Runs a step; returns the results of each lane.
  std::vector<std::vector<float>> step(const std::vector<TestLane>& lanes) {
    Batch batch;
    std::vector<float> rows;
    const auto wide = to_size(op_.input_columns());
    for (const TestLane& lane : lanes) add_lane(lane, batch);
    for (const TestLane& lane : lanes) {
      const auto first = lane.rows->begin() + lane.position * op_.input_columns();
      rows.insert(rows.end(), first, first + lane.count * op_.input_columns());
    }
    std::vector<float> output(rows.size() / wide * to_size(op_.output_columns()));
    StateOpParams common;
    common.batch = batch.view();
    common.store = {memory_, stride_};
    common.output = output.data();
    EXPECT_EQ(op_.run(on(device_), common, rows.data()), Status::ok);
    std::vector<std::vector<float>> results;
    auto from = output.begin();
    for (const TestLane& lane : lanes) {
      results.emplace_back(from, from + lane.count * op_.output_columns());
      from += lane.count * op_.output_columns();
    }
    return results;
  }

 private:
  struct Batch {
    std::vector<int32_t> positions, starts{0}, read, write, banks;
    kernels::BatchView view() const {
      kernels::BatchView out;
      out.num_tokens = static_cast<int32_t>(positions.size());
      out.num_sequences = static_cast<int32_t>(read.size());
      out.positions = positions.data();
      out.sequence_starts = starts.data();
      out.read_slots = read.data();
      out.write_slots = write.data();
      out.state_banks = banks.data();
      return out;
    }
  };

  void add_lane(const TestLane& lane, Batch& batch) {
    StateLines before = lines(lane.read);
    const int32_t bank = kernels::state_bank(before, lane.position);
    ASSERT_GE(bank, 0) << "position " << lane.position;
    if (lane.read != lane.write) before = kernels::lines_of_bank(before, bank);
    lines(lane.write) = kernels::lines_after(before, lane.position, lane.count, bank);
    for (int32_t i = 0; i < lane.count; ++i) batch.positions.push_back(lane.position + i);
    batch.starts.push_back(static_cast<int32_t>(batch.positions.size()));
    batch.read.push_back(lane.read);
    batch.write.push_back(lane.write);
    batch.banks.push_back(bank);
  }

  CpuDevice& device_;
  const StateOp& op_;
  size_t stride_;
  void* memory_ = nullptr;
  std::vector<StateLines> lines_;
};

// Returns the results of a whole sequence in one step of one lane, without vectors and with one thread.
std::vector<float> straight_run(const StateOp& op, const std::vector<float>& rows) {
  CpuDevice device("scalar", 1);
  StateSlots slots(device, op, 1);
  const auto length = static_cast<int32_t>(rows.size()) / op.input_columns();
  return slots.step({{&rows, 0, length, 0, 0}})[0];
}

std::vector<float> part_of(const StateOp& op, const std::vector<float>& results, int32_t first,
                           int32_t count) {
  const auto from = results.begin() + first * op.output_columns();
  return {from, from + count * op.output_columns()};
}

class StateTest : public EachIsa {};

TEST_P(StateTest, EqualsTheRecurrenceInDoublePrecision) {
  Random random(fresh_seed());
  for (const auto& op : all_state_ops(random)) {
    const auto rows = op->random_rows(random, 77);
    CpuDevice device(GetParam());
    StateSlots slots(device, *op, 1);
    const auto results = slots.step({{&rows, 0, 77, 0, 0}})[0];
    const auto expected = op->reference(rows);
    ASSERT_EQ(results.size(), expected.size());
    double squares = 0.0, errors = 0.0, worst = 0.0;
    for (size_t i = 0; i < results.size(); ++i) {
      const double error = std::abs(double{results[i]} - expected[i]);
      squares += expected[i] * expected[i];
      errors += error * error;
      worst = std::max(worst, error / (1.0 + std::abs(expected[i])));
    }
    EXPECT_LT(std::sqrt(errors / squares), 2e-6) << op->name();
    EXPECT_LT(worst, 1e-4) << op->name();
  }
}

// Lengths around each line, as a prefill and one token after it.
TEST_P(StateTest, EveryLengthHasTheBitsOfTheStraightRun) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const auto& op : small_state_ops(random)) {
    const auto rows = op->random_rows(random, 131);
    const auto expected = straight_run(*op, rows);
    for (const float value : expected) ASSERT_TRUE(std::isfinite(value)) << op->name();
    StateSlots slots(device, *op, 1);
    for (int32_t length = 1; length <= 130; length += stride_if_sanitized(5)) {
      slots.poison(0);
      const auto prompt = slots.step({{&rows, 0, length, 0, 0}})[0];
      const auto next = slots.step({{&rows, length, 1, 0, 0}})[0];
      ASSERT_EQ(bits_of(prompt), bits_of(part_of(*op, expected, 0, length))) << op->name() << length;
      ASSERT_EQ(bits_of(next), bits_of(part_of(*op, expected, length, 1))) << op->name() << length;
    }
  }
}

// Sequences in company under random steps: some run twice, some have wrong tokens and are taken back, some
// fork to a slot of NaN, some go back to any position that the slot allows.
class RandomSchedule {
 public:
  RandomSchedule(CpuDevice& device, const StateOp& op, Random& random)
      : op_(op), random_(random), slots_(device, op, kNumSequences + 1), free_slot_(kNumSequences) {
    for (int32_t s = 0; s < kNumSequences; ++s) {
      Sequence sequence;
      sequence.rows = op.random_rows(random, kLength);
      sequence.expected = straight_run(op, sequence.rows);
      sequence.slot = s;
      sequences_.push_back(std::move(sequence));
    }
    wrong_ = op.random_rows(random, kLength);
  }

  void run() {
    for (int32_t i = 0; i < kSteps && !::testing::Test::HasFailure(); ++i) {
      fork();
      rewind();
      step();
    }
  }

 private:
  static constexpr int32_t kNumSequences = 4;
  static constexpr int32_t kLength = 150;
  static constexpr int32_t kSteps = 30;

  struct Sequence {
    std::vector<float> rows;
    std::vector<float> expected;
    int32_t slot = 0;
    int32_t position = 0;
  };

  void fork() {
    if (random_.below(3) != 0) return;
    Sequence& sequence = sequences_[random_.below(kNumSequences)];
    slots_.copy(sequence.slot, free_slot_);
    slots_.poison(sequence.slot);
    std::swap(sequence.slot, free_slot_);
  }

  void rewind() {
    if (random_.below(3) != 0) return;
    Sequence& sequence = sequences_[random_.below(kNumSequences)];
    const auto back = static_cast<int32_t>(random_.below(40));
    const int32_t position = std::max(sequence.position - back, 0);
    if (kernels::state_bank(slots_.lines(sequence.slot), position) >= 0) sequence.position = position;
  }

  int32_t random_count(const Sequence& sequence) {
    constexpr int32_t kCounts[] = {1, 1, 1, 2, 3, 7, 16, 17, 40, 64};
    return std::min(kCounts[random_.below(10)], kLength - sequence.position);
  }

  void step() {
    std::vector<Sequence*> chosen;
    for (const int32_t s : random_.permutation(kNumSequences)) {
      Sequence& sequence = sequences_[to_size(s)];
      if (sequence.position == kLength) sequence.position = 0;  // again, in a slot with old content
      if (random_.below(3) != 0) chosen.push_back(&sequence);
    }
    std::vector<TestLane> lanes;
    for (const Sequence* s : chosen)
      lanes.push_back({&s->rows, s->position, random_count(*s), s->slot, s->slot});
    if (lanes.empty()) return;
    if (random_.below(3) == 0) {
      std::vector<TestLane> ahead = lanes;
      for (TestLane& lane : ahead) {
        lane.rows = &wrong_;
        lane.count = std::min(random_count_any(), kLength - lane.position);
      }
      slots_.step(ahead);
    }
    const bool moves = random_.below(4) == 0;
    if (moves) {
      lanes[0].write = free_slot_;
      slots_.poison(free_slot_);
    }
    check(lanes, slots_.step(lanes), chosen);
    if (random_.below(3) == 0) check(lanes, slots_.step(lanes), chosen);
    if (moves) {
      slots_.poison(chosen[0]->slot);
      std::swap(chosen[0]->slot, free_slot_);
    }
    for (size_t i = 0; i < chosen.size(); ++i) chosen[i]->position += lanes[i].count;
  }

  int32_t random_count_any() { return 1 + static_cast<int32_t>(random_.below(70)); }

  void check(const std::vector<TestLane>& lanes, const std::vector<std::vector<float>>& results,
             const std::vector<Sequence*>& chosen) {
    for (size_t i = 0; i < lanes.size(); ++i) {
      const auto expected = part_of(op_, chosen[i]->expected, lanes[i].position, lanes[i].count);
      ASSERT_EQ(bits_of(results[i]), bits_of(expected))
          << op_.name() << ": " << lanes[i].count << " tokens at " << lanes[i].position;
    }
  }

  const StateOp& op_;
  Random& random_;
  StateSlots slots_;
  int32_t free_slot_;
  std::vector<Sequence> sequences_;
  std::vector<float> wrong_;
};

TEST_P(StateTest, RandomSchedulesHaveTheBitsOfTheStraightRun) {
  Random random(fresh_seed());
  for (const int32_t num_threads : {1, 3}) {
    CpuDevice device(GetParam(), num_threads);
    for (const auto& op : small_state_ops(random))
      for (int32_t i = 0; i < 3; i += stride_if_sanitized(3)) RandomSchedule(device, *op, random).run();
  }
  CpuDevice device(GetParam(), 2);
  for (const auto& op : thin_if_sanitized(all_state_ops(random), 4))
    RandomSchedule(device, *op, random).run();
}

// A slot that two lanes read, one of which writes it: the other goes on in its own slot from an earlier
// position.
TEST_P(StateTest, AForkReadsTheSlotWhileItsOwnerGoesOn) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const auto& op : small_state_ops(random)) {
    const auto rows = op->random_rows(random, 100);
    const auto expected = straight_run(*op, rows);
    StateSlots slots(device, *op, 2);
    slots.step({{&rows, 0, 40, 0, 0}});
    const auto results = slots.step({{&rows, 37, 30, 0, 1}, {&rows, 40, 60, 0, 0}});
    EXPECT_EQ(bits_of(results[0]), bits_of(part_of(*op, expected, 37, 30))) << op->name();
    EXPECT_EQ(bits_of(results[1]), bits_of(part_of(*op, expected, 40, 60))) << op->name();
    const auto next = slots.step({{&rows, 67, 5, 1, 1}})[0];
    EXPECT_EQ(bits_of(next), bits_of(part_of(*op, expected, 67, 5))) << op->name();
  }
}

// Bytes before the state and rows that a step may write are as they were.
TEST_P(StateTest, AStepLeavesTheSlotsOfOthersAndTheBankItReadsFrom) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const auto& op : small_state_ops(random)) {
    const auto rows = op->random_rows(random, 100);
    StateSlots slots(device, *op, 2);
    slots.step({{&rows, 0, 20, 0, 0}});
    const std::vector<uint8_t> other(slots.bytes(1), slots.bytes(1) + slots.stride());
    // The source of position 32 is the bank of line 1, which the step does not write.
    slots.step({{&rows, 20, 12, 0, 0}});
    const int32_t bank = kernels::state_bank(slots.lines(0), 32);
    ASSERT_GE(bank, kernels::kFromLineBefore);
    const size_t bank_bytes = kernels::state_layout(op->shape()).bank_bytes;
    const uint8_t* const own = slots.bytes(0) + to_size(bank - kernels::kFromLineBefore) * bank_bytes;
    const std::vector<uint8_t> before(own, own + bank_bytes);
    slots.step({{&rows, 32, 60, 0, 0}});
    EXPECT_TRUE(std::equal(before.begin(), before.end(), own)) << op->name();
    EXPECT_TRUE(std::equal(other.begin(), other.end(), slots.bytes(1))) << op->name();
  }
}

TEST_P(StateTest, GatedNormByItselfEqualsDoublePrecision) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const auto gate : {kernels::GateKind::none, kernels::GateKind::silu, kernels::GateKind::sigmoid,
                          kernels::GateKind::gelu_tanh}) {
    for (const bool gates_first : {false, true}) {
      kernels::GatedNormParams p;
      p.gate = gate;
      p.normalises = true;
      p.gates_first = gates_first;
      p.group_columns = 21;
      p.rows = 5;
      p.columns = 63;
      auto input = random_floats(random, 5 * 70);
      auto gates = random_floats(random, 5 * 80, -3, 3);
      const auto weight = random_floats(random, 63);
      std::vector<float> output(5 * 63);
      p.input = {input.data(), 70};
      p.norm_input = {{gates.data(), 80}, weight.data()};
      p.output = output.data();
      ASSERT_EQ(device.table().gated_norm(device.context(), &p), Status::ok);
      for (size_t row = 0; row < 5; ++row) {
        for (size_t column = 0; column < 63; column += 21) {
          std::vector<double> group(21);
          for (size_t c = 0; c < 21; ++c) group[c] = input[row * 70 + column + c];
          gated_norm_reference(p, group.data(), &gates[row * 80 + column], &weight[column], group.data());
          for (size_t c = 0; c < 21; ++c) EXPECT_NEAR(output[row * 63 + column + c], group[c], 3e-6);
        }
      }
    }
  }
}

QUIRE_FOR_EACH_ISA(StateTest);

// Whatever happened before, a slot can continue at the first token of its last step, and in the line of its
// last token.
TEST(StateLinesTest, AStepCanRunAgainAndItsLastLineCanBeCut) {
  Random random(fresh_seed());
  for (int32_t schedule = 0; schedule < 2000; ++schedule) {
    StateLines lines;
    int32_t position = 0;
    for (int32_t step = 0; step < 30; ++step) {
      const auto count = 1 + static_cast<int32_t>(random.below(random.below(2) == 0 ? 3 : 60));
      const int32_t bank = kernels::state_bank(lines, position);
      ASSERT_GE(bank, 0);
      const StateLines after = kernels::lines_after(lines, position, count, bank);
      const int32_t end = position + count;
      for (int32_t p = (end - 1) / kStateLine * kStateLine; p <= end; ++p)
        ASSERT_GE(kernels::state_bank(after, p), 0) << p;
      ASSERT_GE(kernels::state_bank(after, position), 0);
      // What is read when the step runs again is what the first run read.
      if (position > 0) {
        const int32_t again = kernels::state_bank(after, position);
        ASSERT_EQ(kernels::lines_of_bank(after, bank), kernels::lines_of_bank(lines, bank));
        ASSERT_TRUE(again == bank || again == (bank + 1) % 2);
      }
      lines = after;
      position = random.below(4) == 0 ? end - 1 : end;
    }
  }
}

// Steps of at most a line: the line before the last one is always there, so drafts can be taken back.
TEST(StateLinesTest, ShortStepsKeepTheLineBeforeTheLast) {
  Random random(fresh_seed());
  StateLines lines;
  int32_t position = 0;
  for (int32_t step = 0; step < 5000; ++step) {
    const auto count = 1 + static_cast<int32_t>(random.below(kStateLine));
    lines = kernels::lines_after(lines, position, count, kernels::state_bank(lines, position));
    position += count;
    const int32_t last = (position - 1) / kStateLine;
    for (int32_t p = std::max(last - 1, 0) * kStateLine + 1; p <= position; ++p)
      ASSERT_GE(kernels::state_bank(lines, p), 0) << p << " of " << position;
  }
}

TEST(StateLinesTest, NoSlotContinuesWhereItHoldsNoLine) {
  EXPECT_EQ(kernels::state_bank({{0, 6}}, 17), -1);
  EXPECT_EQ(kernels::state_bank({{0, 6}}, 95), -1);
  EXPECT_EQ(kernels::state_bank({{0, 6}}, 113), -1);
  EXPECT_EQ(kernels::state_bank({{0, 6}}, 16), kernels::kFromLineBefore);
  EXPECT_EQ(kernels::state_bank({{0, 6}}, 112), kernels::kFromLineBefore + 1);
  EXPECT_EQ(kernels::state_bank({}, 0), 0);
  EXPECT_EQ(kernels::state_bank({}, 1), -1);
  // A cut below a line that was formed from other tokens forgets that line.
  EXPECT_EQ(kernels::lines_after({{2, 3}}, 40, 2, 0), (StateLines{{2, -1}}));
}

TEST(StateErrorsTest, ArgumentsOutsideTheRangeAreRefused) {
  Random random(1);
  CpuDevice device("scalar", 1);
  const auto refuses = [&](const auto& op, auto params) {
    return (device.table().*op)(device.context(), &params) == Status::invalid_argument;
  };
  kernels::DeltaRuleParams delta;
  delta.num_heads = 3;
  delta.num_key_heads = 2;
  delta.key_dim = delta.value_dim = 16;
  EXPECT_TRUE(refuses(&kernels::KernelTable::delta_rule, delta)) << "heads that do not divide";
  delta.num_key_heads = 3;
  EXPECT_TRUE(refuses(&kernels::KernelTable::delta_rule, delta)) << "no slots";
  delta.key_dim = kernels::kMaxStateKey + 1;
  EXPECT_TRUE(refuses(&kernels::KernelTable::delta_rule, delta)) << "wide keys";
  kernels::ConvolveParams convolve;
  convolve.channels = 8;
  convolve.kernels::ConvolutionSpec::taps = kernels::kMaxConvTaps + 1;
  EXPECT_TRUE(refuses(&kernels::KernelTable::convolve, convolve)) << "taps";
  kernels::SelectiveScanParams scan;
  scan.channels = 8;
  EXPECT_TRUE(refuses(&kernels::KernelTable::selective_scan, scan)) << "no state";
  kernels::GatedNormParams norm;
  EXPECT_TRUE(refuses(&kernels::KernelTable::gated_norm, norm)) << "neither norm nor gate";
  norm.normalises = true;
  norm.columns = 10;
  norm.group_columns = 4;
  EXPECT_TRUE(refuses(&kernels::KernelTable::gated_norm, norm)) << "groups";
}

TEST(StateErrorsTest, SlotsAndBanksThatDoNotFitAreRefused) {
  Random random(1);
  CpuDevice device("scalar", 1);
  const auto ops = small_state_ops(random);
  const StateOp& op = *ops[0];
  std::vector<float> rows = op.random_rows(random, 1), output(to_size(op.output_columns()));
  std::vector<uint8_t> memory(kernels::state_bytes(op.shape()) + 64);
  const int32_t starts[] = {0, 1};
  int32_t position = 16, read = 0, write = 0, bank = 0;
  StateOpParams common;
  common.batch.num_tokens = common.batch.num_sequences = 1;
  common.batch.positions = &position;
  common.batch.sequence_starts = starts;
  common.batch.read_slots = &read;
  common.batch.write_slots = &write;
  common.batch.state_banks = &bank;
  common.store.memory = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  common.store.slot_stride = kernels::state_bytes(op.shape());
  common.output = output.data();
  const auto refused = [&] { return op.run(on(device), common, rows.data()) == Status::invalid_argument; };
  EXPECT_FALSE(refused());
  bank = 4;
  EXPECT_TRUE(refused());
  bank = 2;
  position = 17;
  EXPECT_TRUE(refused()) << "the line before, for a token within a line";
  bank = 0;
  write = -1;
  EXPECT_TRUE(refused());
  write = 0;
  common.store.slot_stride -= 64;
  EXPECT_TRUE(refused());
}

}  // namespace
}  // namespace quire::testing
