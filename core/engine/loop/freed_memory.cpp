#include "core/engine/loop/freed_memory.h"

#include <algorithm>

namespace quire {
namespace {

constexpr uint64_t kNever = ~uint64_t{0};

}  // namespace

FreedMemory::FreedMemory(Executor& executor, const KvCache& kv)
    : executor_(executor),
      kv_(kv),
      pages_(static_cast<size_t>(kv.pool().max_pages()), kNever),
      states_(static_cast<size_t>(kv.states().max_slots()), kNever) {
  uint64_t largest = std::max(executor.page_bytes(0), executor.state_bytes());
  for (size_t g = 0; g < kv.windows().size(); ++g) {
    slots_[g].assign(static_cast<size_t>(kv.windows()[g].num_slots()), kNever);
    largest = std::max(largest, executor.page_bytes(1 + static_cast<int32_t>(g)));
  }
  bytes_.assign(static_cast<size_t>(largest), std::byte{0xff});
}

void FreedMemory::poison() {
  poison_pages();
  for (size_t g = 0; g < kv_.windows().size(); ++g) poison_slots(g);
  poison_states();
}

void FreedMemory::poison_pages() {
  const PagePool& pool = kv_.pool();
  for (int32_t page = 0; page < pool.num_pages(); ++page) {
    uint64_t& poisoned = pages_[static_cast<size_t>(page)];
    const uint64_t generation = pool.generation(PageId{page});
    if (!pool.is_free(PageId{page}) || poisoned == generation) continue;
    write_page(0, page);
    poisoned = generation;
  }
}

void FreedMemory::poison_slots(size_t group) {
  const SlotPool& pool = kv_.windows()[group];
  for (int32_t slot = 0; slot < pool.num_slots(); ++slot) {
    uint64_t& poisoned = slots_[group][static_cast<size_t>(slot)];
    if (pool.page_of(slot) >= 0 || poisoned == pool.generation(slot)) continue;
    write_page(1 + static_cast<int32_t>(group), slot);
    poisoned = pool.generation(slot);
  }
}

void FreedMemory::poison_states() {
  const StatePool& pool = kv_.states();
  for (int32_t slot = 0; slot < pool.num_slots(); ++slot) {
    uint64_t& poisoned = states_[static_cast<size_t>(slot)];
    const uint64_t generation = pool.name(slot).generation;
    if (pool.is_used(slot) || pool.is_snapshot(slot) || poisoned == generation) continue;
    write_state(slot);
    poisoned = generation;
  }
}

void FreedMemory::poison_begun(const StepPlan& plan, gsl::span<const StateCopy> copies) {
  for (const PlannedLane& lane : plan.lanes) {
    const bool is_source = std::any_of(copies.begin(), copies.end(),
                                       [&](const StateCopy& copy) { return copy.source == lane.state_slot; });
    if (lane.state_slot >= 0 && lane.start == 0 && !is_source) write_state(lane.state_slot);
  }
}

void FreedMemory::write_page(int32_t table, int32_t page) {
  const auto num_bytes = static_cast<size_t>(executor_.page_bytes(table));
  if (num_bytes > 0) executor_.write_page(table, PageId{page}, gsl::span(bytes_).first(num_bytes));
}

void FreedMemory::write_state(int32_t slot) {
  const auto num_bytes = static_cast<size_t>(executor_.state_bytes());
  for (int32_t bank = 0; bank < 2 && num_bytes > 0; ++bank)
    executor_.write_state(slot, bank, gsl::span(bytes_).first(num_bytes));
}

}  // namespace quire
