// Paged KV cache: sequences with page tables, prefix cache, copy-on-write, and the page reservation of a
// step.
//
// A page has at most one slot in each group of layers with a sliding window. It keeps the slot as long as a
// sequence uses it there, and afterwards until the slot is needed for another page. A sequence uses the slots
// of the pages in its window, and of the pages that it writes in a step: one contiguous range of its page
// table for each group. A prefix can be shared up to a page for which all slots of the window before it
// exist.
//
// If layers have a recurrent state, a sequence has a slot of the StatePool, in which its state is kept lazily
// (docs/adr/0062). It can then be reused only at positions of snapshots: a prefix is shared up to the last
// position that has a snapshot, all pages and all slots. Sequences that fork share their slot until one of
// them writes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
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
#include "core/kv/page_memory_source.h"
#include "core/kv/page_offload_tier.h"
#include "core/kv/page_pool.h"
#include "core/kv/sequence_table.h"
#include "core/kv/slot_pool.h"
#include "core/kv/state_pool.h"
#include "core/step/batch.h"
#include "core/step/state_slots.h"
#include "core/step/step_plan.h"

namespace quire {

class Reservation;

struct SequenceOptions {
  PrefixDomain domain;
  bool reuse = true;    // may share cached pages of other sequences
  bool publish = true;  // other sequences may share its pages
};

// Pages that a pin keeps, and the state slot of the snapshot that they end with; -1: none.
struct PinnedPrefix {
  std::vector<PageId> pages;
  int32_t num_whole = 0;  // of the pages; the last one may have only the last tokens before the snapshot
  int32_t state_slot = -1;
};

struct KvCacheOptions {
  PagePoolOptions pool;
  int32_t max_pages_per_sequence = 0;
  int32_t max_sequences = 0;  // that take part in one step
  std::vector<WindowGroup> windows;
  // Slots for recurrent states, at least as many as sequences that exist at the same time; 0: there are no
  // states.
  int32_t num_state_slots = 0;
  // Slots that have memory at first, 2 or more, if the others get it with the pages after pool.least_pages
  // (StateSlotRange); 0: all. Then there are as many sequences as max_lanes() allows.
  int32_t least_state_slots = 0;
  // Offloads evicted whole pages and dropped snapshots; null: they are lost. With windows only if there are
  // states: their snapshots carry the windows. Outlives the cache.
  PageOffloadTier* offload_tier = nullptr;
  PageListener* listener = nullptr;  // may be null; outlives the cache
  // Provides the memory of pages after pool.least_pages; null: the cache cannot grow. Outlives the cache.
  PageMemorySource* room = nullptr;
};

// For one thread at a time. A failed call changes nothing.
class KvCache {
 public:
  explicit KvCache(const KvCacheOptions& options);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  SequenceId create(const SequenceOptions& options);
  // Creates a second sequence with the same tokens. All pages are shared until one of the two writes to them.
  SequenceId fork(SequenceId parent);
  // Removes the sequence. Its published pages stay cached; its other pages become free.
  void destroy(SequenceId sequence) noexcept;
  // Keeps the first num_tokens tokens, or fewer: the largest number for which the windows before the new end
  // still have all their slots, and from which the state can continue.
  void truncate(SequenceId sequence, int32_t num_tokens) noexcept;

  int32_t length(SequenceId sequence) const { return get(sequence).length; }
  int32_t num_pages(SequenceId sequence) const { return static_cast<int32_t>(get(sequence).pages.size()); }
  gsl::span<const PageId> pages(SequenceId sequence) const { return get(sequence).pages; }
  // Returns the content id of the last whole page. Together with the length it identifies how much of a
  // prefix two sequences have in common.
  ContentId tail_content(SequenceId sequence) const { return get(sequence).tail; }
  // Returns whether other sequences may share the pages that it computes.
  bool publishes(SequenceId sequence) const { return get(sequence).publish; }

  // Returns the current demand of the sequence, without a search of the prefix cache.
  PageDemand standing(SequenceId sequence) const;
  // Returns the current state of `sequence`, which will become `tokens`, and what a reservation would now
  // find in the prefix cache. Never finds all tokens: at least one is left to compute.
  PageDemand demand(SequenceId sequence, gsl::span<const TokenId> tokens) const;
  // Does the same for a sequence that does not exist yet.
  PageDemand demand(const PrefixDomain& domain, gsl::span<const TokenId> tokens) const;

  // Finds prefixes and allocates pages for all lanes of a plan, and fills in the plan. Throws
  // ErrorCode::capacity if there are too few pages. At most one reservation may be open. The plan outlives
  // it.
  Reservation reserve(StepPlan& plan);
  // Allocates pages and slots up to a length, ahead of the step that needs them. During an open reservation
  // they belong to it and are returned if it is not committed. Returns false if there are too few; those
  // allocated so far are kept.
  bool preallocate_pages(SequenceId sequence, int32_t num_tokens);
  // Fills in the state slot of a lane in a step that is issued ahead, with start and num_tokens set. Returns
  // false if the lane needs a copy of its state first.
  bool plan_state_ahead(PlannedLane& planned) noexcept;

  // Pins the whole cached pages of a prefix, as far as a sequence could share them, and returns them; with
  // states all pages up to the last snapshot, and the snapshot. Throws ErrorCode::quota if more than
  // max_pages of them are not pinned yet, or if pins would take a slot that a running sequence may need.
  // Returns no pages if none is cached.
  PinnedPrefix pin(const PrefixDomain& domain, gsl::span<const TokenId> tokens, int32_t max_pages);
  void unpin(const PinnedPrefix& prefix) noexcept;

  // Loads offloaded whole pages of a prefix back while pages are available, marks them as just used, and
  // returns how many. With states it loads those up to the last offloaded snapshot, and the snapshot. Must
  // not be called during a step.
  int32_t reload_prefix(const PrefixDomain& domain, gsl::span<const TokenId> tokens);
  // Offloads copies of all whole pages and snapshots, until `stops` returns true.
  void offload_all(const std::function<bool()>& stops) noexcept;

  // Visits every whole page that can be found, each one after the page that it continues.
  void visit_pages(const PageVisitor& visit) const;

  // Adds one chunk of pages and their state slots; returns false if there is no memory for it.
  bool grow() noexcept;
  // Removes the last chunk. Offloads its pages, the cached pages that continue them, and its snapshots.
  // Returns false if a sequence or a pin uses one of its pages or slots, or if fewer slots than sequences
  // would remain.
  bool shrink() noexcept;
  // Returns how many sequences may exist at the same time, so that each has a state slot.
  int32_t max_lanes() const;
  // Returns how many state slots would have memory with num_pages pages.
  int32_t state_slots_at(int32_t num_pages) const { return states_.slots_at(num_pages); }
  // Returns how many pages were used or found, and how many state slots were used at the same time, since the
  // last call.
  struct RecentUse {
    int32_t num_pages = 0;
    int32_t num_slots = 0;
  };
  RecentUse take_recent_use() noexcept { return {pool_.take_num_used(), states_.take_most_used()}; }

  PagePool& pool() { return pool_; }
  const PagePool& pool() const { return pool_; }
  gsl::span<const SlotPool> windows() const { return windows_; }  // one per group
  const StatePool& states() const { return states_; }
  int32_t num_sequences() const { return sequences_.size(); }
  uint64_t num_deduplicated() const { return num_deduplicated_; }

  // Returns an empty string if every page and slot is accounted for, otherwise the first problem found.
  std::string audit() const;

 private:
  friend class Reservation;

  struct Undo {
    size_t sequence_idx;
    size_t page_idx;
    PageId before;  // -1: the table had no page there
  };
  struct Change {
    Sequence* sequence = nullptr;
    int32_t old_length = 0;
    int32_t own_start = 0;  // position after adopted pages; from here on the sequence writes to its own pages
    ContentId old_tail;
    SlotRanges old_slots;
    PlannedLane* lane = nullptr;
    StateSlot old_state;
    int32_t found_rest = 0;  // tokens before a found snapshot, after the last whole page
  };
  // Snapshot that a prompt can continue from, and its whole pages.
  struct FoundState {
    int32_t slot = -1;  // -1: none
    int32_t position = 0;
    gsl::span<const PageId> pages;  // valid until the next search
  };
  struct SlotUse {
    size_t group;
    PageId page;
  };
  // Changes made by the open reservation; empty if none is open. Its memory is reused.
  struct OpenStep {
    bool is_open = false;
    std::vector<Change> changes;
    std::vector<Undo> undo;
    std::vector<PageCopy> copies;
    std::vector<StateCopy> state_copies;
    std::vector<SlotUse> allocated_slots;
    std::vector<SlotUse> released_slots;  // released at the commit

    void reserve(size_t num_sequences, size_t num_windows);
    void clear() noexcept;
  };
  // See KvCacheOptions.
  struct Seams {
    PageOffloadTier* offload_tier;
    PageListener* listener;
    PageMemorySource* room;
  };
  // Names and windows of snapshots. Its memory is reused.
  struct Snapshots {
    std::vector<PageName> names;               // by slot
    std::vector<std::vector<PageId>> windows;  // by slot: the whole pages before it in the largest window
    std::vector<WindowSlot> leaving;           // slots of windows of a snapshot that leaves
  };
  // Pinned pages; a page is listed once for each of its pins.
  struct Pins {
    std::vector<PageId> pages;
    std::array<std::vector<PageId>, kMaxWindowGroups> slots;  // pages whose slots pins use
    std::vector<int32_t> states;                              // slots of snapshots
    int32_t max_states = 0;                                   // the other slots are for running sequences
  };

  Sequence& get(SequenceId id) { return sequences_.at(id); }
  const Sequence& get(SequenceId id) const { return sequences_.at(id); }
  const PrefixRoot& root_of(const PrefixDomain& domain);
  ContentId find_root(const PrefixDomain& domain) const;
  void drop_unused_domains();
  gsl::span<const PageId> find_pages(ContentId tail, int32_t num_own_pages,
                                     gsl::span<const TokenId> tokens) const;
  void find_whole_pages(ContentId tail, gsl::span<const TokenId> tokens) const;
  bool has_windows(int32_t num_found_pages) const;
  PagePool::PartialMatch find_partial_page(ContentId tail, gsl::span<const TokenId> tokens) const;
  void match(ContentId tail, gsl::span<const TokenId> tokens, PageDemand& demand) const;
  void count_found(gsl::span<const PageId> found, PageDemand& demand) const;

  FoundState find_state(ContentId root, gsl::span<const TokenId> tokens) const;
  PinnedPrefix find_pinned(ContentId root, gsl::span<const TokenId> tokens) const;
  void check_pinned_states(int32_t slot) const;
  int32_t find_junction(ContentId root, gsl::span<const TokenId> tokens) const;
  void match_state(ContentId root, gsl::span<const TokenId> tokens, PageDemand& demand) const;
  bool must_copy_state(const Sequence& sequence) const;
  void adopt_state(size_t change_idx);
  PagePool::PartialMatch find_rest(const Change& change) const;
  void take_state(size_t change_idx);
  void return_state(const Change& change) noexcept;
  bool holds_place(const Sequence& sequence, const SnapshotPlace& place) const;
  SnapshotPlace place_of(const Sequence& sequence, int32_t position) const;
  int32_t find_own_snapshot(const Sequence& sequence, int32_t num_tokens) const noexcept;
  int32_t continue_state(Sequence& sequence, int32_t num_tokens) noexcept;
  void settle_state(Sequence& sequence) noexcept;
  void freeze_state(const Change& change) noexcept;
  void freeze(const Sequence& sequence, int32_t position) noexcept;
  void name_state(int32_t slot, const PageName& before) noexcept;
  bool needs_page(int32_t slot, PageId page) const noexcept;
  bool needs_slot(int32_t slot, size_t group, PageId page) const noexcept;
  bool lacks_rest_without(const SnapshotPlace& place, PageId page) const noexcept;
  void drop_state(int32_t slot) noexcept;
  void drop_states_of(PageId page) noexcept;
  void drop_states_of_slot(size_t group, PageId page) noexcept;
  void note_windows(int32_t slot, gsl::span<const PageId> pages) noexcept;
  gsl::span<const PageId> window_before(int32_t slot, size_t group) const noexcept;
  bool gather_windows(int32_t slot, PageId rest) noexcept;
  void offload_state(int32_t slot) noexcept;
  int32_t take_state_slot() noexcept;
  void leave_state(Sequence& sequence) noexcept;
  std::string audit_states() const;
  bool must_copy_tail(const Sequence& sequence) const;
  bool has_slots(PageId page) const;
  int32_t usable_length(int32_t num_tokens,
                        const std::function<bool(const SlotPool&, int32_t)>& has_slot) const;
  int32_t first_kept(size_t group, int32_t length) const {
    return first_kept_page(length, windows_[group].window(), pool_.page_tokens());
  }
  void use_range(Sequence& sequence, size_t group, SlotRange range) noexcept;
  void cut(Sequence& sequence, int32_t num_tokens) noexcept;
  void release_page(PageId page) noexcept;
  gsl::span<const PageId> pinned_window(size_t group, const PinnedPrefix& prefix) const;
  std::string audit_slots(size_t group) const;

  PageId allocate_page();
  PageId allocate_empty_page();
  void offload_page(PageId page) noexcept;
  PageId reload_page(ContentId parent, const PageName& name, gsl::span<const TokenId> tokens);
  // Prefix that is loaded back: its pages so far, each with a reference.
  struct Reload {
    PageName name;  // of the last page, or the domain
    ContentId tail;
    std::vector<PageId> pages;
    int32_t num_loaded = 0;
  };
  bool reload_next(Reload& reload, gsl::span<const TokenId> tokens);
  // Slots of windows that a snapshot fills when it returns.
  struct ReloadedWindows {
    std::vector<WindowSlot> slots;
    std::vector<SlotUse> used;
    std::vector<SlotUse> fresh;  // of `used`, those without content
  };
  int32_t offloaded_state(const PrefixRoot& root, gsl::span<const TokenId> tokens) const;
  bool use_windows(gsl::span<const PageId> pages, PageId rest, ReloadedWindows& windows);
  bool use_window_slot(size_t group, PageId page, ReloadedWindows& windows);
  void leave_windows(const ReloadedWindows& windows, bool is_filled) noexcept;
  void reload_state(ContentId root, const Reload& reload, gsl::span<const TokenId> tokens);
  void name_page(PageId page, const PageName& name) noexcept;
  void leave(PageId page) noexcept;
  void use_slot(size_t group, PageId page);
  void take_slot(size_t group, PageId page);
  void take_slots(Sequence& sequence, int32_t end);
  bool preallocate_slots(Sequence& sequence, int32_t end, bool is_open);
  void touch(PageId page) noexcept;
  SlotCounts slots_of(PageId page) const;
  void copy_slots(const SlotCounts& source, PageId target, int32_t num_tokens);
  void adopt_slots(size_t change_idx, gsl::span<const PageId> found);
  void release_slots_before_window(Sequence& sequence) noexcept;

  void place(size_t change_idx, size_t page_idx, PageId page);
  void adopt(size_t change_idx);
  void adopt_pages(size_t change_idx, gsl::span<const PageId> found);
  void extend(size_t change_idx);
  void copy_tail(size_t change_idx);
  void commit() noexcept;
  void keep(const Change& change, int32_t num_tokens) noexcept;
  void keep_page(Sequence& sequence, size_t page_idx, int32_t offset,
                 gsl::span<const TokenId> tokens) noexcept;
  void roll_back() noexcept;

  PagePool pool_;
  const Seams seams_;
  std::vector<PageName> names_;  // names of whole pages, by page
  std::vector<SlotPool> windows_;
  StatePool states_;
  Snapshots snapshots_;
  SequenceTable sequences_;
  std::unordered_map<std::string, PrefixRoot> roots_;
  Pins pins_;
  mutable std::vector<PageId> found_;  // result of find_pages
  uint64_t num_deduplicated_ = 0;
  OpenStep step_;
};

// Pages reserved for one step. Returns all of them on destruction unless committed.
class Reservation {
 public:
  Reservation(Reservation&& other) noexcept
      : cache_(other.cache_), open_(std::exchange(other.open_, false)) {}
  Reservation& operator=(Reservation&&) = delete;
  ~Reservation();

  gsl::span<const PageCopy> copies() const { return cache_->step_.copies; }
  gsl::span<const StateCopy> state_copies() const { return cache_->step_.state_copies; }

  // Adds the accepted tokens to the sequences and makes whole pages findable.
  void commit() noexcept;

 private:
  friend class KvCache;
  explicit Reservation(KvCache& cache) : cache_(&cache) {}
  KvCache* cache_;
  bool open_ = true;
};

}  // namespace quire
