// What a cache knows of each sequence, and the places that sequences have.
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

// The pages of a table whose slots its sequence uses.
struct SlotRange {
  int32_t begin = 0;
  int32_t end = 0;
  bool holds(int32_t page_idx) const { return page_idx >= begin && page_idx < end; }
};
using SlotRanges = std::array<SlotRange, kMaxWindowGroups>;

// Where the prefixes of a domain begin.
struct PrefixRoot {
  ContentId content;
  PrefixKey key;
  std::shared_ptr<const std::string> name_space;  // of this root alone, so that it stands for it
};

struct Sequence {
  uint64_t generation = 0;  // of this place; odd while in use
  bool reuse = true;
  bool publish = true;
  PrefixRoot root;
  ContentId tail;  // of the last whole page; the root's where there is none; none where not published
  int32_t length = 0;
  std::vector<PageId> pages;
  SlotRanges slots;  // all that its window reaches lies within

  bool is_in_use() const { return generation % 2 == 1; }
};

// One thread at a time. A sequence stays where it is; an id is never given twice.
class SequenceTable {
 public:
  // Each may have max_pages, for which there is room from the beginning.
  explicit SequenceTable(size_t max_pages) : max_pages_(max_pages) {}

  // Without tokens. Failure leaves everything as it was.
  SequenceId add(const PrefixRoot& root, bool reuse, bool publish);
  // Its pages have been given back.
  void remove(SequenceId id) noexcept;
  // Of a sequence that is there.
  Sequence& at(SequenceId id);
  const Sequence& at(SequenceId id) const;

  // Those in use, and places that wait for the next.
  gsl::span<const std::unique_ptr<Sequence>> places() const { return places_; }
  int32_t size() const { return size_; }
  size_t max_pages() const { return max_pages_; }

 private:
  size_t max_pages_;
  std::vector<std::unique_ptr<Sequence>> places_;
  std::vector<uint32_t> free_places_;  // room for all of them
  int32_t size_ = 0;
};

}  // namespace quire
