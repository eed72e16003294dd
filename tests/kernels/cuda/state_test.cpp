// Layers with a recurrent state: values of double precision within what f16 results allow, and the same bits
// for any chunks, company and order of steps.
#include <algorithm>
#include <map>

#include "tests/kernels/cpu/state_ops.h"
#include "tests/kernels/cuda/cuda_device.h"

namespace quire::kernels {
namespace {

using testing::Random;
using testing::StateOp;

size_t size(int64_t count) {
  return static_cast<size_t>(count);
}

// Tokens of a sequence in a step.
struct TestLane {
  const std::vector<float>* rows = nullptr;  // inputs of the whole sequence
  int32_t position = 0;
  int32_t count = 0;
  int32_t read = 0;
  int32_t write = 0;
};

// An operation on the card, with slots that begin as NaN.
class CudaStates {
 public:
  CudaStates(Device* device, Context* context, const KernelTable& table, const StateOp& op, int32_t num_slots)
      : device_(device),
        context_(context),
        table_(table),
        op_(op),
        stride_(state_bytes(op.shape()) + 64),
        lines_(size(num_slots)) {
    slots_ = take(stride_ * size(num_slots));
    rows_ = take(kMostRows * size(op.input_columns()) * sizeof(float));
    output_ = take(kMostRows * size(op.output_columns()) * sizeof(uint16_t));
    EXPECT_EQ(table.fill(device, slots_, 0xff, stride_ * size(num_slots)), Status::ok);
  }
  CudaStates(const CudaStates&) = delete;
  CudaStates& operator=(const CudaStates&) = delete;
  ~CudaStates() {
    for (void* memory : memory_) table_.release(device_, memory);
  }

  StateLines& lines(int32_t slot) { return lines_[size(slot)]; }
  uint8_t* bytes(int32_t slot) { return static_cast<uint8_t*>(slots_) + stride_ * size(slot); }
  size_t stride() const { return stride_; }
  std::vector<uint8_t> content(int32_t slot) {
    std::vector<uint8_t> out(stride_);
    EXPECT_EQ(table_.synchronize(context_), Status::ok);
    EXPECT_EQ(table_.download(device_, out.data(), bytes(slot), stride_), Status::ok);
    return out;
  }

  // Forgets a slot; what it held must not be read any more.
  void poison(int32_t slot) {
    EXPECT_EQ(table_.synchronize(context_), Status::ok);
    EXPECT_EQ(table_.fill(device_, bytes(slot), 0xff, stride_), Status::ok);
    lines(slot) = {};
  }
  void copy(int32_t from, int32_t to) {
    const CopyStateParams params = {bytes(from), bytes(to), stride_};
    ASSERT_EQ(table_.copy_state(context_, &params), Status::ok);
    lines(to) = lines(from);
  }

  // Runs a step; returns the results of each lane, f16.
  std::vector<std::vector<uint16_t>> step(const std::vector<TestLane>& lanes, StepAction* action = nullptr) {
    Batch batch;
    std::vector<float> rows;
    for (const TestLane& lane : lanes) {
      add_lane(lane, batch);
      const auto first = lane.rows->begin() + lane.position * op_.input_columns();
      rows.insert(rows.end(), first, first + lane.count * op_.input_columns());
    }
    EXPECT_LE(batch.positions.size(), kMostRows);
    EXPECT_EQ(table_.upload(device_, rows_, rows.data(), rows.size() * sizeof(float)), Status::ok);
    run(batch, action);
    std::vector<uint16_t> output(batch.positions.size() * size(op_.output_columns()));
    EXPECT_EQ(table_.synchronize(context_), Status::ok);
    EXPECT_EQ(table_.download(device_, output.data(), output_, output.size() * sizeof(uint16_t)), Status::ok);
    std::vector<std::vector<uint16_t>> results;
    auto from = output.begin();
    for (const TestLane& lane : lanes) {
      results.emplace_back(from, from + lane.count * op_.output_columns());
      from += lane.count * op_.output_columns();
    }
    return results;
  }

  // Binds a batch of one token that has these slots and this bank.
  Status bind(int32_t position, int32_t read, int32_t write, int32_t bank) {
    Batch batch;
    batch.add(position, 1, read, write, bank);
    BatchView bound;
    const BatchView host = batch.view();
    return table_.bind_batch(context_, &host, &bound);
  }

 private:
  static constexpr size_t kMostRows = 512;

  struct Batch {
    std::vector<int32_t> positions, sequences, starts{0}, lengths, read, write, banks, tokens;
    int32_t longest = 0;
    int32_t most_tokens = 0;

    void add(int32_t position, int32_t count, int32_t from, int32_t to, int32_t bank) {
      for (int32_t i = 0; i < count; ++i) {
        positions.push_back(position + i);
        sequences.push_back(static_cast<int32_t>(read.size()));
        tokens.push_back(0);
      }
      starts.push_back(static_cast<int32_t>(positions.size()));
      lengths.push_back(position + count);
      longest = std::max(longest, count);
      most_tokens = std::max(most_tokens, position + count);
      read.push_back(from);
      write.push_back(to);
      banks.push_back(bank);
    }
    BatchView view() const {
      BatchView out;
      out.num_tokens = static_cast<int32_t>(positions.size());
      out.num_sequences = static_cast<int32_t>(read.size());
      out.max_query_tokens = longest;
      out.max_kv_tokens = most_tokens;
      out.token_ids = tokens.data();
      out.positions = positions.data();
      out.sequence_of_token = sequences.data();
      out.sequence_starts = starts.data();
      out.kv_lengths = lengths.data();
      out.read_slots = read.data();
      out.write_slots = write.data();
      out.state_banks = banks.data();
      return out;
    }
  };

  void* take(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(table_.allocate(device_, bytes, &memory), Status::ok);
    memory_.push_back(memory);
    return memory;
  }

  // Returns weights on the card, which are uploaded once.
  const float* place(const std::vector<float>& weights) {
    if (weights.empty()) return nullptr;
    void*& there = placed_[weights.data()];
    if (there == nullptr) {
      there = take(weights.size() * sizeof(float));
      EXPECT_EQ(table_.upload(device_, there, weights.data(), weights.size() * sizeof(float)), Status::ok);
    }
    return static_cast<const float*>(there);
  }

  void add_lane(const TestLane& lane, Batch& batch) {
    StateLines before = lines(lane.read);
    const int32_t bank = state_bank(before, lane.position);
    ASSERT_GE(bank, 0) << "position " << lane.position;
    if (lane.read != lane.write) before = lines_of_bank(before, bank);
    lines(lane.write) = lines_after(before, lane.position, lane.count, bank);
    batch.add(lane.position, lane.count, lane.read, lane.write, bank);
  }

  void run(const Batch& batch, StepAction* action) {
    const BatchView host = batch.view();
    StateOpParams common;
    ASSERT_EQ(table_.bind_batch(context_, &host, &common.batch), Status::ok);
    common.store = {slots_, stride_};
    common.rows_are_f32 = true;
    common.output = output_;
    const auto on =
        testing::StateTarget{table_, context_, [&](const auto& weights) { return place(weights); }};
    if (action == nullptr) {
      ASSERT_EQ(op_.run(on, common, static_cast<float*>(rows_)), Status::ok);
      return;
    }
    ASSERT_EQ(table_.begin_step(context_, &common.batch, action), Status::ok);
    if (*action == StepAction::replayed) return;
    ASSERT_EQ(op_.run(on, common, static_cast<float*>(rows_)), Status::ok);
    ASSERT_EQ(table_.end_step(context_, action), Status::ok);
    *action = StepAction::run;
  }

  Device* device_;
  Context* context_;
  const KernelTable& table_;
  const StateOp& op_;
  size_t stride_;
  std::vector<StateLines> lines_;
  std::vector<void*> memory_;
  std::map<const float*, void*> placed_;
  void* slots_;
  void* rows_;
  void* output_;
};

class StateTest : public CudaTest {
 protected:
  void SetUp() override {
    open(true);
    if (device_ != nullptr) make_context(limits_with(kLineBytes));
    const auto seed = std::random_device{}();
    RecordProperty("seed", std::to_string(seed));
    random_ = Random(seed);
  }
  CudaStates states(const StateOp& op, int32_t num_slots) {
    return {device_, context_, *table_, op, num_slots};
  }
  // Limits of a context with memory for solved lines of this size.
  static constexpr uint64_t kLineBytes = 512 << 10;
  static ContextLimits limits_with(uint64_t line_bytes) {
    ContextLimits limits = small_limits();
    limits.state_line_bytes = line_bytes;
    return limits;
  }
  std::vector<uint16_t> straight_run(const StateOp& op, const std::vector<float>& rows) {
    CudaStates slots = states(op, 1);
    return slots.step({{&rows, 0, static_cast<int32_t>(rows.size()) / op.input_columns(), 0, 0}})[0];
  }

  Random random_{1};
};

std::vector<uint16_t> part_of(const StateOp& op, const std::vector<uint16_t>& results, int32_t first,
                              int32_t count) {
  const auto from = results.begin() + first * op.output_columns();
  return {from, from + count * op.output_columns()};
}

TEST_F(StateTest, EqualsTheRecurrenceInDoublePrecision) {
  for (const auto& op : all_state_ops(random_)) {
    constexpr int32_t kTokens = 85;
    const auto rows = op->random_rows(random_, kTokens);
    const auto expected = op->reference(rows);
    // A rounding to f16 is off by 3e-4 at most.
    EXPECT_LT(relative_error(to_floats(straight_run(*op, rows)), expected), 4e-4) << op->name();
    CudaStates slots = states(*op, 1);
    std::vector<uint16_t> single;
    for (int32_t position = 0; position < kTokens; position += position < 14 ? 14 : 1) {
      const auto part = slots.step({{&rows, position, position < 14 ? 14 : 1, 0, 0}})[0];
      single.insert(single.end(), part.begin(), part.end());
    }
    EXPECT_LT(relative_error(to_floats(single), expected), 4e-4) << op->name() << ", single tokens";
  }
}

// Lengths around each line, as a prompt and one token after it.
TEST_F(StateTest, EveryLengthHasTheBitsOfTheStraightRun) {
  for (const auto& op : small_state_ops(random_)) {
    const auto rows = op->random_rows(random_, 52);
    const auto expected = straight_run(*op, rows);
    for (const float value : to_floats(expected)) ASSERT_TRUE(std::isfinite(value)) << op->name();
    CudaStates slots = states(*op, 1);
    for (int32_t length = 1; length <= 51; ++length) {
      slots.poison(0);
      const auto prompt = slots.step({{&rows, 0, length, 0, 0}})[0];
      const auto next = slots.step({{&rows, length, 1, 0, 0}})[0];
      ASSERT_EQ(prompt, part_of(*op, expected, 0, length)) << op->name() << length;
      ASSERT_EQ(next, part_of(*op, expected, length, 1)) << op->name() << length;
    }
  }
}

// Prompts whose lines are solved in advance, and those whose lines are not, all in one step: the bits of
// short chunks by themselves. Each prompt begins within a line, at one, or where the state is still to be
// formed.
TEST_F(StateTest, LongPromptsInCompanyHaveTheBitsOfShortChunks) {
  constexpr int32_t kTokens = 150, kCounts[] = {64, 1, 79, 80, 2, 81, 63, 97};
  for (const auto& op : small_state_ops(random_)) {
    CudaStates slots = states(*op, 9);
    std::vector<std::vector<float>> rows;
    std::vector<std::vector<uint16_t>> expected;
    for (int32_t s = 0; s < 8; ++s) {
      rows.push_back(op->random_rows(random_, kTokens));
      expected.emplace_back();
      slots.poison(8);
      for (int32_t position = 0; position < kTokens; position += 25) {
        const auto part = slots.step({{&rows.back(), position, 25, 8, 8}})[0];
        expected.back().insert(expected.back().end(), part.begin(), part.end());
      }
    }
    std::vector<TestLane> lanes;
    for (const int32_t s : random_.permutation(8)) {
      const int32_t begin = static_cast<int32_t>(random_.below(3)) * 16 + (s % 3 == 0 ? 0 : s);
      if (begin > 0) slots.step({{&rows[size(s)], 0, begin, s, s}});
      lanes.push_back({&rows[size(s)], begin, kCounts[s], s, s});
    }
    for (int32_t time = 0; time < 2; ++time) {
      const auto results = slots.step(lanes);
      for (size_t i = 0; i < lanes.size(); ++i)
        ASSERT_EQ(results[i], part_of(*op, expected[size(lanes[i].write)], lanes[i].position, lanes[i].count))
            << op->name() << ": " << lanes[i].count << " tokens at " << lanes[i].position;
    }
    for (const TestLane& lane : lanes) {
      const int32_t position = lane.position + lane.count;
      const auto next = slots.step({{lane.rows, position, 3, lane.write, lane.write}})[0];
      ASSERT_EQ(next, part_of(*op, expected[size(lane.write)], position, 3)) << op->name() << position;
    }
  }
}

TEST_F(StateTest, WithoutMemoryForSolvedLinesResultsHaveTheSameBits) {
  std::vector<std::vector<float>> rows;
  std::vector<std::vector<uint16_t>> expected;
  const auto ops = all_state_ops(random_);
  for (const auto& op : ops) {
    rows.push_back(op->random_rows(random_, 83));
    expected.push_back(straight_run(*op, rows.back()));
  }
  table_->release_context(context_);
  make_context(limits_with(0));
  for (size_t i = 0; i < ops.size(); ++i)
    EXPECT_EQ(straight_run(*ops[i], rows[i]), expected[i]) << ops[i]->name();
}

// Sequences in company under random steps: some run twice, some have wrong tokens and are taken back, some
// fork to a slot of NaN, some go back to any position that the slot allows.
class RandomSchedule {
 public:
  RandomSchedule(CudaStates& slots, const StateOp& op, Random& random)
      : op_(op), random_(random), slots_(slots) {
    wrong_ = op.random_rows(random, kLength);
  }
  void add(std::vector<float> rows, std::vector<uint16_t> expected) {
    sequences_.push_back({std::move(rows), std::move(expected), free_slot_++, 0});
  }
  void run(int32_t steps) {
    for (int32_t i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      fork();
      rewind();
      step();
    }
  }
  static constexpr int32_t kLength = 90;

 private:
  struct Sequence {
    std::vector<float> rows;
    std::vector<uint16_t> expected;
    int32_t slot = 0;
    int32_t position = 0;
  };

  Sequence& any_sequence() { return sequences_[random_.below(static_cast<uint32_t>(sequences_.size()))]; }

  void fork() {
    if (random_.below(3) != 0) return;
    Sequence& sequence = any_sequence();
    slots_.copy(sequence.slot, free_slot_);
    slots_.poison(sequence.slot);
    std::swap(sequence.slot, free_slot_);
  }

  void rewind() {
    if (random_.below(3) != 0) return;
    Sequence& sequence = any_sequence();
    const int32_t position = std::max(sequence.position - static_cast<int32_t>(random_.below(30)), 0);
    if (state_bank(slots_.lines(sequence.slot), position) >= 0) sequence.position = position;
  }

  int32_t random_count(int32_t position) {
    constexpr int32_t kCounts[] = {1, 1, 1, 2, 3, 7, 16, 17, 30, 40};
    return std::min(kCounts[random_.below(10)], kLength - position);
  }

  void step() {
    std::vector<Sequence*> chosen;
    for (const int32_t s : random_.permutation(static_cast<int32_t>(sequences_.size()))) {
      Sequence& sequence = sequences_[size(s)];
      if (sequence.position == kLength) sequence.position = 0;  // again, in a slot with old content
      if (random_.below(3) != 0) chosen.push_back(&sequence);
    }
    std::vector<TestLane> lanes;
    for (const Sequence* s : chosen)
      lanes.push_back({&s->rows, s->position, random_count(s->position), s->slot, s->slot});
    if (lanes.empty()) return;
    if (random_.below(3) == 0) {
      std::vector<TestLane> ahead = lanes;
      for (TestLane& lane : ahead) {
        lane.rows = &wrong_;
        lane.count = random_count(lane.position);
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

  void check(const std::vector<TestLane>& lanes, const std::vector<std::vector<uint16_t>>& results,
             const std::vector<Sequence*>& chosen) {
    for (size_t i = 0; i < lanes.size(); ++i) {
      const auto expected = part_of(op_, chosen[i]->expected, lanes[i].position, lanes[i].count);
      ASSERT_EQ(results[i], expected) << op_.name() << ": " << lanes[i].count << " tokens at "
                                      << lanes[i].position << ", lane " << i << " of " << lanes.size();
    }
  }

  const StateOp& op_;
  Random& random_;
  CudaStates& slots_;
  int32_t free_slot_ = 0;
  std::vector<Sequence> sequences_;
  std::vector<float> wrong_;
};

TEST_F(StateTest, RandomSchedulesHaveTheBitsOfTheStraightRun) {
  constexpr int32_t kSequences = 3;
  for (const auto& op : all_state_ops(random_)) {
    CudaStates slots = states(*op, kSequences + 1);
    RandomSchedule schedule(slots, *op, random_);
    for (int32_t s = 0; s < kSequences; ++s) {
      auto rows = op->random_rows(random_, RandomSchedule::kLength);
      auto expected = straight_run(*op, rows);
      schedule.add(std::move(rows), std::move(expected));
    }
    schedule.run(8);
  }
}

// A slot that two lanes read, one of which writes it: the other goes on in its own slot from an earlier
// position.
TEST_F(StateTest, AForkReadsTheSlotWhileItsOwnerGoesOn) {
  for (const auto& op : small_state_ops(random_)) {
    const auto rows = op->random_rows(random_, 90);
    const auto expected = straight_run(*op, rows);
    CudaStates slots = states(*op, 2);
    slots.step({{&rows, 0, 40, 0, 0}});
    const auto results = slots.step({{&rows, 37, 30, 0, 1}, {&rows, 40, 50, 0, 0}});
    EXPECT_EQ(results[0], part_of(*op, expected, 37, 30)) << op->name();
    EXPECT_EQ(results[1], part_of(*op, expected, 40, 50)) << op->name();
    const auto next = slots.step({{&rows, 67, 5, 1, 1}})[0];
    EXPECT_EQ(next, part_of(*op, expected, 67, 5)) << op->name();
  }
}

// Bytes before the state and rows that a step may write are as they were.
TEST_F(StateTest, AStepLeavesTheSlotsOfOthersAndTheBankItReadsFrom) {
  for (const auto& op : small_state_ops(random_)) {
    const auto rows = op->random_rows(random_, 92);
    CudaStates slots = states(*op, 2);
    slots.step({{&rows, 0, 20, 0, 0}});
    const std::vector<uint8_t> other = slots.content(1);
    // The source of position 32 is the bank of line 1, which the step does not write.
    slots.step({{&rows, 20, 12, 0, 0}});
    const int32_t bank = state_bank(slots.lines(0), 32);
    ASSERT_GE(bank, kFromLineBefore);
    const auto bank_bytes = static_cast<ptrdiff_t>(state_layout(op->shape()).bank_bytes);
    const ptrdiff_t own = (bank - kFromLineBefore) * bank_bytes;
    const std::vector<uint8_t> before = slots.content(0);
    slots.step({{&rows, 32, 60, 0, 0}});
    const std::vector<uint8_t> after = slots.content(0);
    EXPECT_TRUE(std::equal(before.begin() + own, before.begin() + own + bank_bytes, after.begin() + own))
        << op->name();
    EXPECT_EQ(slots.content(1), other) << op->name();
  }
}

// Steps of one shape are recorded once, and each replay finds positions, slots and banks in its batch.
TEST_F(StateTest, ReplayedStepsHaveTheBitsOfTheStraightRun) {
  for (const auto& op : small_state_ops(random_)) {
    const auto rows = op->random_rows(random_, 50), others = op->random_rows(random_, 50);
    const auto expected = straight_run(*op, rows), expected_of_others = straight_run(*op, others);
    CudaStates slots = states(*op, 3);
    slots.step({{&rows, 0, 5, 0, 0}, {&others, 0, 9, 1, 1}});
    int32_t num_replayed = 0, own = 0, free_slot = 2;
    for (int32_t i = 0; i < 24; ++i) {
      StepAction action = StepAction::run;
      const bool moves = i % 5 == 4;
      const auto results =
          slots.step({{&rows, 5 + i, 1, own, moves ? free_slot : own}, {&others, 9 + i, 1, 1, 1}}, &action);
      if (moves) std::swap(own, free_slot);
      num_replayed += action == StepAction::replayed ? 1 : 0;
      ASSERT_EQ(results[0], part_of(*op, expected, 5 + i, 1)) << op->name() << i;
      ASSERT_EQ(results[1], part_of(*op, expected_of_others, 9 + i, 1)) << op->name() << i;
    }
    EXPECT_GT(num_replayed, 10) << op->name();
    ASSERT_EQ(table_->forget_steps(context_), Status::ok);
  }
}

TEST_F(StateTest, GatedNormByItselfEqualsDoublePrecision) {
  for (const int32_t columns : {21, 700}) {
    for (const bool gates_first : {false, true}) {
      GatedNormParams p;
      p.gate = gates_first ? GateKind::silu : GateKind::sigmoid;
      p.gates_first = gates_first;
      p.normalises = true;
      p.group_columns = columns;
      p.rows = 5;
      p.columns = 3 * columns;
      const size_t wide = size(p.columns);
      std::mt19937 random(random_.below(1000));
      const auto input = to_halves(random_floats(5 * (wide + 7), random));
      const auto gates = to_floats(to_halves(random_floats(5 * (wide + 3), random)));
      const auto weight = random_floats(wide, random);
      p.input = {to_device(input), p.columns + 7};
      p.norm_input.gate = {to_device(to_halves(gates)), p.columns + 3};
      p.norm_input.weight = to_device(weight);
      auto* output = poisoned<uint16_t>(5 * wide);
      p.output = output;
      ASSERT_EQ(table_->gated_norm(context_, &p), Status::ok);
      std::vector<double> expected(5 * wide);
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] = double{half_to_float(input[i / wide * (wide + 7) + i % wide])};
      for (size_t i = 0; i < expected.size(); i += size(columns))
        testing::gated_norm_reference(p, &expected[i], &gates[i / wide * (wide + 3) + i % wide],
                                      &weight[i % wide], &expected[i]);
      EXPECT_LT(relative_error(to_floats(from_device(output, 5 * wide)), expected), 4e-4) << columns;
    }
  }
}

TEST_F(StateTest, SlotsAndBanksThatDoNotFitAreRefused) {
  const auto ops = small_state_ops(random_);
  CudaStates slots = states(*ops[0], 1);
  EXPECT_EQ(slots.bind(16, 0, 0, 0), Status::ok);
  EXPECT_EQ(slots.bind(16, 0, 0, 2), Status::ok);
  EXPECT_EQ(slots.bind(16, 0, 0, 4), Status::invalid_argument);
  EXPECT_EQ(slots.bind(16, 0, 0, -1), Status::invalid_argument);
  EXPECT_EQ(slots.bind(17, 0, 0, 2), Status::invalid_argument)
      << "the line before, for a token within a line";
  EXPECT_EQ(slots.bind(0, 0, 0, 2), Status::invalid_argument);
  EXPECT_EQ(slots.bind(16, -1, 0, 0), Status::invalid_argument);
  EXPECT_EQ(slots.bind(16, 0, -1, 0), Status::invalid_argument);
}

TEST_F(StateTest, ArgumentsOutsideTheRangeAreRefused) {
  const auto refused = [&](const auto& op, auto params) {
    return (table_->*op)(context_, &params) == Status::invalid_argument;
  };
  DeltaRuleParams delta;
  delta.num_heads = 3;
  delta.num_key_heads = 2;
  delta.key_dim = delta.value_dim = 16;
  EXPECT_TRUE(refused(&KernelTable::delta_rule, delta)) << "heads that do not divide";
  delta.num_key_heads = 3;
  EXPECT_TRUE(refused(&KernelTable::delta_rule, delta)) << "no slots";
  delta.key_dim = kMaxStateKey + 1;
  EXPECT_TRUE(refused(&KernelTable::delta_rule, delta)) << "wide keys";
  ConvolveParams convolve;
  convolve.channels = 8;
  convolve.ConvolutionSpec::taps = kMaxConvTaps + 1;
  EXPECT_TRUE(refused(&KernelTable::convolve, convolve)) << "taps";
  SelectiveScanParams scan;
  scan.channels = 8;
  EXPECT_TRUE(refused(&KernelTable::selective_scan, scan)) << "no state";
  GatedNormParams norm;
  EXPECT_TRUE(refused(&KernelTable::gated_norm, norm)) << "neither norm nor gate";
  norm.normalises = true;
  norm.columns = 10;
  norm.group_columns = 4;
  EXPECT_TRUE(refused(&KernelTable::gated_norm, norm)) << "groups";
}

}  // namespace
}  // namespace quire::kernels
