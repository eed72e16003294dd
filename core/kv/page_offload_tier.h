// Interface of the offload tier of the prefix cache: stores evicted whole pages and dropped snapshots, and
// finds them again by name.
#pragma once

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/base/sha256.h"
#include "core/kv/page_listener.h"

namespace quire {

// Slot of a window group that is read from or written to.
struct WindowSlot {
  int32_t table = 0;  // 1 + the index of the group
  PageId slot{-1};    // -1: it is there already, and not written
};

// Snapshot of recurrent states, the page of keys and values that its last tokens are in, and the slots of the
// windows before it.
struct OffloadedState {
  const PageName& name;             // PageName::parent is the last whole page before the snapshot
  gsl::span<const TokenId> tokens;  // after that page
  PageId rest{-1};                  // page that begins with `tokens`; -1: none is read or written
  int32_t slot = 0;
  int32_t bank = 0;  // that the snapshot continues from, as in BatchView::state_banks
  // By group, in the order of their pages; that of the page of the last tokens is the last one of its group.
  // As many as when the snapshot was stored.
  gsl::span<const WindowSlot> windows;
};

// Called on the thread of its cache only. Names passed to `put` have a key.
class PageOffloadTier {
 public:
  virtual ~PageOffloadTier() = default;
  // Stores a copy of a whole page with these tokens if there is space; otherwise the page is lost.
  virtual void put(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept = 0;
  virtual bool has(const Sha256& key) const noexcept = 0;
  // Fills `page` with the stored content. If it returns false, the content of `page` is undefined.
  virtual bool get(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept = 0;

  // True if the tier stores snapshots.
  virtual bool has_states() const noexcept = 0;
  // Stores a copy of a snapshot if there is space; otherwise it is lost.
  virtual void put_state(const OffloadedState& state) noexcept = 0;
  // Fills bank 0 of the slot, the page and the slots of windows. Returns the bank to continue from, 0 or
  // kernels::kFromLineBefore, or -1 if it cannot; then the content of all of them is undefined.
  virtual int32_t get_state(const OffloadedState& state) noexcept = 0;
};

}  // namespace quire
