// Sequences over pages: page tables, prefix reuse, copy-on-write, and the reservation of a step.
//
// A page has a slot in each group of layers with a window, as long as a sequence sees it there or nobody else
// needs the slot. A sequence uses the slots of the pages that its window reaches, and of those that it writes
// in a step: one stretch of its table for each group. What is taken over from others ends where the window
// before it has all its slots.
// This is the KV cache, with its prefix cache.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/kv/content.h"
#include "core/kv/page_demand.h"
#include "core/kv/page_listener.h"
#include "core/kv/page_pool.h"
#include "core/kv/page_room.h"
#include "core/kv/page_shelf.h"
#include "core/kv/sequence_table.h"
#include "core/kv/slot_pool.h"
#include "core/step/batch.h"
#include "core/step/step_plan.h"

namespace quire {

class Reservation;

struct SequenceOptions {
  PrefixDomain domain;
  bool reuse = true;    // may start from pages of others
  bool publish = true;  // others may start from its pages
};

struct KvCacheOptions {
  PagePoolOptions pool;
  int32_t max_pages_per_sequence = 0;
  int32_t max_sequences = 0;  // that take part in one step
  std::vector<WindowGroup> windows;
  // Where whole pages go that leave; none: nowhere. Of caches without windows. Outlives the cache.
  PageShelf* shelf = nullptr;
  PageListener* listener = nullptr;  // none: nobody. Outlives the cache
  // Where more pages than pool.least_pages get their memory; none: there are no more. Outlives the cache.
  PageRoom* room = nullptr;
};

// One thread at a time. Failure leaves everything as it was.
class KvCache {
 public:
  explicit KvCache(const KvCacheOptions& options);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  SequenceId create(const SequenceOptions& options);
  // A second sequence with the same tokens; all pages are shared until one of the two writes.
  SequenceId fork(SequenceId parent);
  // What is indexed stays in the cache; the rest is free.
  void destroy(SequenceId sequence) noexcept;
  // Keeps the first num_tokens, or fewer: as many as the windows before the new end are still there for.
  void truncate(SequenceId sequence, int32_t num_tokens) noexcept;

  int32_t length(SequenceId sequence) const { return get(sequence).length; }
  int32_t num_pages(SequenceId sequence) const { return static_cast<int32_t>(get(sequence).pages.size()); }
  gsl::span<const PageId> pages(SequenceId sequence) const { return get(sequence).pages; }
  // The last whole page before its end; with the length it says where a sequence stands among others.
  ContentId tail_content(SequenceId sequence) const { return get(sequence).tail; }
  // Whether others may profit from what it computes.
  bool publishes(SequenceId sequence) const { return get(sequence).publish; }

  // Where it stands, with nothing found.
  PageDemand standing(SequenceId sequence) const;
  // Where `sequence`, which is to become `tokens`, stands, and what it would find if it were reserved now.
  // Never all of the tokens: one at least is left to compute.
  PageDemand demand(SequenceId sequence, gsl::span<const TokenId> tokens) const;
  // The same of a sequence yet to be created.
  PageDemand demand(const PrefixDomain& domain, gsl::span<const TokenId> tokens) const;

  // Finds prefixes and takes pages for all lanes of a plan, and fills in what it found. Throws
  // ErrorCode::capacity where pages do not suffice. One reservation at a time; the plan outlives it.
  Reservation reserve(StepPlan& plan);
  // Takes pages and slots for a length before the step that needs them; within an open reservation they go
  // with it where that comes to nothing. False where there are none; what was taken stays.
  bool hold_pages(SequenceId sequence, int32_t num_tokens);

  // Keeps the whole cached pages of a prefix, as far as it can be taken over, max_pages of those that no pin
  // keeps at most; the pages, or an empty list where none is cached.
  std::vector<PageId> pin(const PrefixDomain& domain, gsl::span<const TokenId> tokens, int32_t max_pages);
  void unpin(gsl::span<const PageId> pages) noexcept;

  // Takes back whole pages of a prefix that have left, as far as there is room: they are cached then, as if
  // just used. How many. Between two steps.
  int32_t bring_back(const PrefixDomain& domain, gsl::span<const TokenId> tokens);
  // Copies of all whole pages that are here, until `stops` says so.
  void shelve_all(const std::function<bool()>& stops) noexcept;

  // Every whole page that can be found, a page after the one that it continues.
  void visit_pages(const PageVisitor& visit) const;

  // One chunk of pages more; false where there is no room for it.
  bool grow() noexcept;
  // One chunk less, whose pages go to the shelf, with those that continue them; false where a sequence or a
  // pin uses one of them.
  bool shrink() noexcept;

  PagePool& pool() { return pool_; }
  const PagePool& pool() const { return pool_; }
  gsl::span<const SlotPool> windows() const { return windows_; }  // by group
  int32_t num_sequences() const { return sequences_.size(); }
  uint64_t num_deduplicated() const { return num_deduplicated_; }

  // Empty where every page and slot is accounted for, else the first thing that is not.
  std::string audit() const;

 private:
  friend class Reservation;

  struct Undo {
    size_t sequence_idx;
    size_t page_idx;
    PageId before;  // -1: there was none
  };
  struct Change {
    Sequence* sequence = nullptr;
    int32_t old_length = 0;
    int32_t own_start = 0;  // after adopted pages: from here on it writes pages of its own
    ContentId old_tail;
    SlotRanges old_slots;
    PlannedLane* lane = nullptr;
  };
  struct SlotUse {
    size_t group;
    PageId page;
  };
  // What the open reservation does; nothing where none is open. Its memory is used again.
  struct OpenStep {
    bool is_open = false;
    std::vector<Change> changes;
    std::vector<Undo> undo;
    std::vector<PageCopy> copies;
    std::vector<SlotUse> taken_slots;
    std::vector<SlotUse> left_slots;  // with the commit

    void reserve(size_t num_sequences, size_t num_windows);
    void clear() noexcept;
  };
  // Pages that stay, each as often as a pin keeps it.
  struct Pins {
    std::vector<PageId> pages;
    std::array<std::vector<PageId>, kMaxWindowGroups> slots;  // pages whose slots pins use
  };

  Sequence& get(SequenceId id) { return sequences_.at(id); }
  const Sequence& get(SequenceId id) const { return sequences_.at(id); }
  const PrefixRoot& root_of(const PrefixDomain& domain);
  ContentId find_root(const PrefixDomain& domain) const;
  void drop_unused_domains();
  gsl::span<const PageId> find_pages(ContentId tail, int32_t num_own_pages,
                                     gsl::span<const TokenId> tokens) const;
  PagePool::PartialMatch find_piece(ContentId tail, gsl::span<const TokenId> tokens) const;
  void match(ContentId tail, gsl::span<const TokenId> tokens, PageDemand& demand) const;
  bool must_copy_tail(const Sequence& sequence) const;
  bool has_slots(PageId page) const;
  int32_t standing_length(int32_t num_tokens,
                          const std::function<bool(const SlotPool&, int32_t)>& has_slot) const;
  int32_t first_kept(size_t group, int32_t length) const {
    return first_kept_page(length, windows_[group].window(), pool_.page_tokens());
  }
  void use_range(Sequence& sequence, size_t group, SlotRange range) noexcept;
  void release_page(PageId page) noexcept;
  gsl::span<const PageId> window_of_pin(size_t group, gsl::span<const PageId> pages) const;
  std::string audit_slots(size_t group) const;

  PageId take_page();
  void shelve(PageId page) noexcept;
  PageId bring_back_page(ContentId parent, const PageName& name, gsl::span<const TokenId> tokens);
  void name_page(PageId page, const PageName& name) noexcept;
  void leave(PageId page) noexcept;
  void take_slot(size_t group, PageId page);
  void take_slots(Sequence& sequence, int32_t end);
  bool hold_slots(Sequence& sequence, int32_t end, bool is_open);
  void touch(PageId page) noexcept;
  SlotCounts slots_of(PageId page) const;
  void copy_slots(const SlotCounts& source, PageId target, int32_t num_tokens);
  void adopt_slots(size_t change_idx, gsl::span<const PageId> found);
  void leave_window(Sequence& sequence) noexcept;

  void place(size_t change_idx, size_t page_idx, PageId page);
  void adopt(size_t change_idx);
  void extend(size_t change_idx);
  void copy_tail(size_t change_idx);
  void commit() noexcept;
  void keep(const Change& change, int32_t num_tokens) noexcept;
  void keep_page(Sequence& sequence, size_t page_idx, int32_t offset,
                 gsl::span<const TokenId> tokens) noexcept;
  void roll_back() noexcept;

  PagePool pool_;
  PageShelf* const shelf_;
  PageListener* const listener_;
  PageRoom* const room_;
  std::vector<PageName> names_;  // of whole pages
  std::vector<SlotPool> windows_;
  SequenceTable sequences_;
  std::unordered_map<std::string, PrefixRoot> roots_;
  Pins pins_;
  mutable std::vector<PageId> found_;  // by find_pages
  uint64_t num_deduplicated_ = 0;
  OpenStep step_;
};

// The pages of one step. Gives everything back on destruction unless committed.
class Reservation {
 public:
  Reservation(Reservation&& other) noexcept
      : cache_(other.cache_), open_(std::exchange(other.open_, false)) {}
  Reservation& operator=(Reservation&&) = delete;
  ~Reservation();

  gsl::span<const PageCopy> copies() const { return cache_->step_.copies; }

  // What was accepted becomes part of the sequences; whole pages become findable.
  void commit() noexcept;

 private:
  friend class KvCache;
  explicit Reservation(KvCache& cache) : cache_(&cache) {}
  KvCache* cache_;
  bool open_ = true;
};

}  // namespace quire
