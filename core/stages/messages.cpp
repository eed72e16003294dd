#include "core/stages/messages.h"

#include <algorithm>

#include "core/base/checked_math.h"
#include "kernels/interface/state_specs.h"

namespace quire {
namespace {

constexpr int32_t kMostTokens = 1 << 17;
constexpr int32_t kMostSequences = 1 << 12;
constexpr int32_t kMostPages = 1 << 26;
constexpr int32_t kMostPageTokens = 1 << 12;
constexpr int32_t kMostStateSlots = 1 << 20;
constexpr int32_t kMostBanks = 2 * kernels::kFromLineBefore;

void require(bool holds, std::string_view what) {
  if (!holds) throw Error(ErrorCode::format, "the batch is malformed: {}", what);
}

void require_size(int64_t value, int64_t min, int64_t max, std::string_view name) {
  if (value >= min && value <= max) return;
  throw Error(ErrorCode::invalid_argument, "{} is {}; a stage takes {} to {}", name, value, min, max);
}

// Returns the most copies of pages, or of states, in one batch.
size_t most_copies(const ExecutorLimits& limits) {
  return size_t{1024} + size_t{4} * (1 + limits.windows.size()) * static_cast<size_t>(limits.max_sequences);
}

// Returns the pages of a table that have memory.
int32_t pages_of_table(const ExecutorLimits& limits, int32_t num_pages, int32_t table) {
  return table == 0 ? num_pages : limits.windows[static_cast<size_t>(table) - 1].num_slots;
}

struct FlatCopies {
  std::vector<int32_t> pages;   // source, target, tokens, table
  std::vector<int32_t> states;  // source, target
};

constexpr size_t kPageCopyFields = 4;
constexpr size_t kStateCopyFields = 2;

void read_page_copies(const std::vector<int32_t>& flat, const ExecutorLimits& limits, int32_t num_pages,
                      Batch& batch) {
  require(flat.size() % kPageCopyFields == 0 && flat.size() / kPageCopyFields <= most_copies(limits),
          "the number of page copies");
  for (size_t i = 0; i < flat.size(); i += kPageCopyFields) {
    const PageCopy copy{PageId{flat[i]}, PageId{flat[i + 1]}, flat[i + 2], flat[i + 3]};
    require(copy.table >= 0 && copy.table < batch.num_page_tables, "the page table of a copy");
    const int32_t count = pages_of_table(limits, num_pages, copy.table);
    require(flat[i] >= 0 && flat[i] < count && flat[i + 1] >= 0 && flat[i + 1] < count, "the page of a copy");
    require(copy.num_tokens >= 0 && copy.num_tokens <= limits.page_tokens, "the tokens of a copy");
    batch.copies.push_back(copy);
  }
}

void read_states(const std::vector<int32_t>& copies, const ExecutorLimits& limits, int32_t num_pages,
                 Batch& batch) {
  const int32_t num_slots = limits.num_state_slots == 0 ? 0 : limits.state_slots().slots_at(num_pages);
  const auto is_slot = [num_slots](int32_t slot) { return slot >= 0 && slot < num_slots; };
  require(copies.size() % kStateCopyFields == 0 && copies.size() / kStateCopyFields <= most_copies(limits),
          "the number of state copies");
  for (size_t i = 0; i < copies.size(); i += kStateCopyFields) {
    require(is_slot(copies[i]) && is_slot(copies[i + 1]), "the slot of a copy");
    batch.state_copies.push_back({copies[i], copies[i + 1]});
  }
  const size_t expected = num_slots == 0 ? 0 : batch.kv_lengths.size();
  require(batch.state_slots.size() == expected && batch.state_banks.size() == expected,
          "the number of states");
  require(std::all_of(batch.state_slots.begin(), batch.state_slots.end(), is_slot), "the slot of a sequence");
  require(std::all_of(batch.state_banks.begin(), batch.state_banks.end(),
                      [](int32_t bank) { return bank >= 0 && bank < kMostBanks; }),
          "the bank of a sequence");
}

// Checks the lengths, and computes the positions from them.
void place_tokens(const ExecutorLimits& limits, Batch& batch) {
  const auto num_sequences = batch.kv_lengths.size();
  require(num_sequences >= 1 && num_sequences <= static_cast<size_t>(limits.max_sequences) &&
              batch.sequence_starts.size() == num_sequences + 1 && batch.sequence_starts.front() == 0,
          "the number of sequences");
  const int64_t most_kv = int64_t{limits.max_pages_per_sequence} * limits.page_tokens;
  for (size_t s = 0; s < num_sequences; ++s) {
    const int32_t begin = batch.sequence_starts[s];
    const int32_t end = batch.sequence_starts[s + 1];
    require(begin <= end && end <= limits.max_tokens, "the tokens of a sequence");
    const int32_t length = batch.kv_lengths[s];
    require(length >= 1 && length >= end - begin && length <= most_kv, "the length of a sequence");
    for (int32_t token = begin; token < end; ++token) {
      batch.positions.push_back(length - (end - token));
      batch.sequence_of_token.push_back(static_cast<int32_t>(s));
    }
  }
  require(!batch.positions.empty(), "it has no token");
  batch.token_ids.assign(batch.positions.size(), TokenId{0});
}

// Checks the entries that tokens may read. Others become 0.
void check_page_tables(const ExecutorLimits& limits, int32_t num_pages, Batch& batch) {
  require(batch.num_page_tables == 1 + static_cast<int32_t>(limits.windows.size()),
          "the number of page tables");
  require(batch.page_table_stride >= 1 && batch.page_table_stride <= limits.max_pages_per_sequence,
          "the width of the page tables");
  const size_t stride = static_cast<size_t>(batch.page_table_stride);
  const size_t num_rows = static_cast<size_t>(batch.num_page_tables) * batch.kv_lengths.size();
  require(batch.page_table.size() == num_rows * stride, "the size of the page tables");
  auto row = batch.page_table.begin();
  for (int32_t table = 0; table < batch.num_page_tables; ++table) {
    const int32_t count = pages_of_table(limits, num_pages, table);
    for (const int32_t length : batch.kv_lengths) {
      const int32_t used = pages_for(length, limits.page_tokens);
      require(used <= batch.page_table_stride, "the width of the page tables");
      require(std::all_of(row, row + used, [count](int32_t page) { return page >= 0 && page < count; }),
              "an entry of a page table");
      std::fill(row + used, row + batch.page_table_stride, 0);
      row += batch.page_table_stride;
    }
  }
}

}  // namespace

std::string_view library_version() {
  return QUIRE_VERSION;
}

void require_cache_sizes(const TransformerExecutorOptions& options) {
  const CachePages& kv = options.kv;
  require_size(options.max_tokens, 1, kMostTokens, "max_tokens");
  require_size(options.max_sequences, 1, kMostSequences, "max_sequences");
  require_size(kv.page_tokens, 1, kMostPageTokens, "page_tokens");
  require_size(kv.num_pages, 1, kMostPages, "num_pages");
  require_size(options.max_pages_per_sequence, 1, kMostPages, "max_pages_per_sequence");
  require_size(options.max_seq_len, 0, std::numeric_limits<int32_t>::max(), "max_seq_len");
  require_size(kv.least_pages, 0, kv.num_pages, "least_pages");
  require_size(options.chunk_pages, kv.least_pages > 0 ? 1 : 0, kv.num_pages, "chunk_pages");
  require_size(kv.num_state_slots, 0, kMostStateSlots, "num_state_slots");
  require_size(kv.least_state_slots, 0, kv.num_state_slots, "least_state_slots");
  require_size(static_cast<int64_t>(kv.key_format), 0, static_cast<int64_t>(kernels::KvFormat::q4),
               "key_format");
  require_size(static_cast<int64_t>(kv.value_format), 0, static_cast<int64_t>(kernels::KvFormat::q4),
               "value_format");
  require_size(static_cast<int64_t>(kv.windows.size()), 0, int64_t{kMaxWindowGroups},
               "the number of windows");
  int32_t least = 1;
  for (const WindowGroup& group : kv.windows) {
    require_size(group.window, least, std::numeric_limits<int32_t>::max() - 1, "a window");
    require_size(group.num_slots, 1, kv.num_pages, "the slots of a window");
    least = group.window + 1;
  }
}

void write_batch(const Batch& batch, WireWriter& wire) {
  FlatCopies flat;
  for (const PageCopy& copy : batch.copies)
    flat.pages.insert(flat.pages.end(), {copy.source.value, copy.target.value, copy.num_tokens, copy.table});
  for (const StateCopy& copy : batch.state_copies)
    flat.states.insert(flat.states.end(), {copy.source, copy.target});
  wire(batch.sequence_starts, batch.kv_lengths, batch.num_page_tables, batch.page_table_stride,
       batch.page_table, flat.pages, flat.states, batch.state_slots, batch.state_banks);
}

void read_batch(WireReader& wire, const ExecutorLimits& limits, int32_t num_pages, Batch& batch) {
  batch.clear();
  FlatCopies flat;
  wire(batch.sequence_starts, batch.kv_lengths, batch.num_page_tables, batch.page_table_stride,
       batch.page_table, flat.pages, flat.states, batch.state_slots, batch.state_banks);
  place_tokens(limits, batch);
  check_page_tables(limits, num_pages, batch);
  read_page_copies(flat.pages, limits, num_pages, batch);
  read_states(flat.states, limits, num_pages, batch);
}

uint64_t largest_request(const ExecutorLimits& limits, uint64_t most_stored_bytes) {
  const auto number = [](int32_t value) { return static_cast<uint64_t>(value); };
  const uint64_t rows = number(limits.max_tokens) * number(limits.hidden_size) * sizeof(float);
  const uint64_t tables = (1 + limits.windows.size()) * number(limits.max_sequences) *
                          number(limits.max_pages_per_sequence) * sizeof(int32_t);
  const uint64_t copies = most_copies(limits) * (kPageCopyFields + kStateCopyFields) * sizeof(int32_t);
  const uint64_t sequences = number(limits.max_sequences + 1) * 4 * sizeof(int32_t);
  return kPlainMessageBytes + std::max(rows + tables + copies + sequences, most_stored_bytes);
}

}  // namespace quire
