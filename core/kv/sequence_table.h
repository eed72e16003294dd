// State of each sequence of a KV cache, and the table that holds them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/kv/content.h"
#include "core/kv/page_listener.h"
#include "core/kv/slot_pool.h"

namespace quire {

// Range of the page table whose slots the sequence uses.
struct SlotRange {
  int32_t begin = 0;
  int32_t end = 0;
  bool holds(int32_t page_idx) const { return page_idx >= begin && page_idx < end; }
};
using SlotRanges = std::array<SlotRange, kMaxWindowGroups>;

// Root of the prefixes of a domain.
struct PrefixRoot {
  ContentId content;
  PrefixKey key;
  // One object per root, so that its address identifies the root.
  std::shared_ptr<const std::string> name_space;
};

struct Sequence {
  uint64_t generation = 0;  // of this entry of the table; odd while in use
  bool reuse = true;
  bool publish = true;
  PrefixRoot root;
  ContentId tail;  // last whole page; the root if there is none; none if it does not publish
  int32_t length = 0;
  std::vector<PageId> pages;
  SlotRanges slots;         // cover its whole window
  int32_t state_slot = -1;  // slot of its recurrent state; -1: none yet
  // Position at which its prompt leaves another cached one, and gets a snapshot for those that follow; 0:
  // none.
  int32_t junction = 0;

  bool is_in_use() const { return generation % 2 == 1; }
};

// For one thread at a time. A sequence never moves in memory, and no id is given twice.
class SequenceTable {
 public:
  // Each sequence may have max_pages pages; their table entries are allocated when it is created.
  explicit SequenceTable(size_t max_pages) : max_pages_(max_pages) {}

  // Adds a sequence without tokens. A failed call changes nothing.
  SequenceId add(const PrefixRoot& root, bool reuse, bool publish);
  // Removes a sequence whose pages were already released.
  void remove(SequenceId id) noexcept;
  // Return an existing sequence.
  Sequence& at(SequenceId id);
  const Sequence& at(SequenceId id) const;

  // Returns all entries, in use or free.
  gsl::span<const std::unique_ptr<Sequence>> places() const { return places_; }
  int32_t size() const { return size_; }
  size_t max_pages() const { return max_pages_; }

 private:
  size_t max_pages_;
  std::vector<std::unique_ptr<Sequence>> places_;
  std::vector<uint32_t> free_entries_;  // has capacity for all entries
  int32_t size_ = 0;
};

}  // namespace quire
