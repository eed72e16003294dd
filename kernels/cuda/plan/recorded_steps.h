// Recorded steps (CUDA graphs): which steps are recorded, and which recordings are evicted for others.
// Independent of CUDA.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <utility>
#include <vector>

namespace quire::kernels {

// Key of a recording: steps with equal keys replay the same recording.
struct StepKey {
  int32_t num_tokens = 0;
  int32_t num_sequences = 0;
  int32_t num_logit_rows = 0;
  int32_t max_query_tokens = 0;
  int32_t max_kv_tokens = 0;     // the grids are sized for this number
  int32_t num_single = 0;        // sequences with one token, which come first
  int32_t num_shared_pages = 0;  // pages that those sequences share
  bool moves_states = false;     // a sequence continues its state in another slot

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy sees a comparison with 0
  auto operator<=>(const StepKey&) const = default;
};

// Recordings by key, in order of last use (LRU). A recording uses memory for each of its kernels, so their
// total number is limited. Making one takes as long as ten replays save. So a step that occurs once is not
// recorded, and one for which others would be evicted must have occurred often.
template <typename Recording>
class RecordedSteps {
 public:
  static constexpr int32_t kRunsBefore = 1;       // runs of a step before it is recorded
  static constexpr int32_t kRunsBeforeFull = 16;  // the same if the limit on kernels is reached
  static constexpr size_t kMaxKeys = 1024;        // largest number of steps whose runs are counted

  explicit RecordedSteps(size_t most_kernels) : most_kernels_(most_kernels) {}

  // Returns the recording of such a step; null if there is none.
  const Recording* find(const StepKey& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &found->second->recording;
  }
  // Counts a run of a step that has no recording. Returns true if the step should be recorded instead.
  bool should_record(const StepKey& key) {
    if (most_kernels_ == 0) return false;
    if (num_runs_.size() >= kMaxKeys && num_runs_.find(key) == num_runs_.end()) num_runs_.clear();
    const bool full = num_kernels_ + newest_kernels_ > most_kernels_;
    return num_runs_[key]++ >= (full ? kRunsBeforeFull : kRunsBefore);
  }
  // Evicts and returns the recordings that must go before one with `kernels` kernels is made.
  std::vector<Recording> evict_for(size_t kernels) {
    std::vector<Recording> gone;
    while (!entries_.empty() && num_kernels_ + kernels > most_kernels_) gone.push_back(take_oldest());
    return gone;
  }
  // Stores a recording; returns a reference that stays valid while it is stored.
  const Recording& keep(const StepKey& key, Recording recording, size_t kernels) {
    std::list<Entry> entry;
    entry.push_back({key, std::move(recording), kernels});
    places_.insert_or_assign(key, entry.begin());
    entries_.splice(entries_.begin(), entry);
    num_runs_.erase(key);
    num_kernels_ += kernels;
    newest_kernels_ = kernels;
    return entries_.front().recording;
  }
  // Called when memory ran out while this step was recorded: keeps the present recordings and makes no more.
  void settle(const StepKey& tried) {
    most_kernels_ = num_kernels_;
    num_runs_.erase(tried);
  }
  std::vector<Recording> take_all() {
    std::vector<Recording> all;
    while (!entries_.empty()) all.push_back(take_oldest());
    return all;
  }
  size_t num_kernels() const { return num_kernels_; }

 private:
  struct Entry {
    StepKey key;
    Recording recording;
    size_t kernels;
  };

  Recording take_oldest() {
    Entry oldest = std::move(entries_.back());
    entries_.pop_back();
    places_.erase(oldest.key);
    num_kernels_ -= oldest.kernels;
    return std::move(oldest.recording);
  }

  size_t most_kernels_;
  size_t num_kernels_ = 0;
  size_t newest_kernels_ = 0;
  std::list<Entry> entries_;  // the last used first
  std::map<StepKey, typename std::list<Entry>::iterator> places_;
  std::map<StepKey, int32_t> num_runs_;  // runs of steps without a recording
};

}  // namespace quire::kernels
