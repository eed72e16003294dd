// Snapshots of recurrent states on their way to the offload tier and back. A snapshot is useful only with all
// keys and values before it. So the tier stores with it the page that its last tokens are in and the slots of
// the windows before it. A snapshot is dropped together with the first of them that is lost.
#include <algorithm>

#include "core/kv/kv_cache.h"

namespace quire {

void KvCache::name_state(int32_t slot, const PageName& before) noexcept {
  const SnapshotPlace place = states_.place(slot);
  const PrefixKey parent = place.position < pool_.page_tokens() ? PrefixKey{} : before.key;
  snapshots_.names[static_cast<size_t>(slot)] = {key_of_snapshot(before.key, place.tokens), parent,
                                                 before.name_space};
}

// Remembers the pages of the windows before a snapshot. `pages` are all whole pages before it.
void KvCache::note_windows(int32_t slot, gsl::span<const PageId> pages) noexcept {
  const auto num_tokens = static_cast<int32_t>(pages.size()) * pool_.page_tokens();
  auto first = static_cast<int32_t>(pages.size());
  for (size_t g = 0; g < windows_.size(); ++g) first = std::min(first, first_kept(g, num_tokens));
  const auto covered = pages.subspan(static_cast<size_t>(first));
  snapshots_.windows[static_cast<size_t>(slot)].assign(covered.begin(),
                                                       covered.end());  // within its capacity
}

// Returns the whole pages that a window covers before a snapshot.
gsl::span<const PageId> KvCache::window_before(int32_t slot, size_t group) const noexcept {
  const int32_t position = states_.place(slot).position;
  const int32_t count = position / pool_.page_tokens() - first_kept(group, position);
  return gsl::span<const PageId>(snapshots_.windows[static_cast<size_t>(slot)])
      .last(static_cast<size_t>(count));
}

// Returns whether the last tokens before a snapshot are in this page, and with all slots in no other.
bool KvCache::lacks_rest_without(const SnapshotPlace& place, PageId page) const noexcept {
  if (place.tokens.empty() || place.parent != pool_.parent(page)) return false;
  const auto found = pool_.find_longest(
      place.parent, place.tokens, [this, page](PageId other) { return other != page && has_slots(other); });
  return found.num_tokens < static_cast<int32_t>(place.tokens.size());
}

// Returns whether a snapshot cannot be found without this page: it directly follows the page, or its last
// tokens are in the page and in no other.
bool KvCache::needs_page(int32_t slot, PageId page) const noexcept {
  const SnapshotPlace place = states_.place(slot);
  const ContentId content = pool_.content(page);
  if (content.value != 0 && place.parent == content) return true;
  return lacks_rest_without(place, page);
}

// Does the same for the slot of a page in a window group.
bool KvCache::needs_slot(int32_t slot, size_t group, PageId page) const noexcept {
  const gsl::span<const PageId> pages = window_before(slot, group);
  return std::find(pages.begin(), pages.end(), page) != pages.end() ||
         lacks_rest_without(states_.place(slot), page);
}

void KvCache::drop_state(int32_t slot) noexcept {
  offload_state(slot);
  states_.thaw(slot);
}

// Offloads and drops the snapshots that need a page that is about to be evicted.
void KvCache::drop_states_of(PageId page) noexcept {
  for (int32_t slot = 0; slot < states_.num_slots(); ++slot)
    if (states_.is_snapshot(slot) && needs_page(slot, page)) drop_state(slot);
}

// Does the same for a page that is about to lose its slot in a window group.
void KvCache::drop_states_of_slot(size_t group, PageId page) noexcept {
  for (int32_t slot = 0; slot < states_.num_slots(); ++slot)
    if (states_.is_snapshot(slot) && needs_slot(slot, group, page)) drop_state(slot);
}

// Fills snapshots_.leaving with the slots of the windows before a snapshot. `rest` is the page of its last
// tokens, or -1. Returns false if one is missing.
bool KvCache::gather_windows(int32_t slot, PageId rest) noexcept {
  snapshots_.leaving.clear();
  for (size_t g = 0; g < windows_.size(); ++g) {
    const auto add = [&](PageId page) {
      snapshots_.leaving.push_back({static_cast<int32_t>(g) + 1, PageId{windows_[g].slot(page)}});
      return windows_[g].has(page);
    };
    const gsl::span<const PageId> pages = window_before(slot, g);
    if (!std::all_of(pages.begin(), pages.end(), add) || (rest.value >= 0 && !add(rest))) return false;
  }
  return true;
}

void KvCache::offload_state(int32_t slot) noexcept {
  const PageName& name = snapshots_.names[static_cast<size_t>(slot)];
  if (seams_.offload_tier == nullptr || !name.key) return;
  const SnapshotPlace place = states_.place(slot);
  PageId rest{-1};
  if (!place.tokens.empty()) {
    const auto found =
        pool_.find_longest(place.parent, place.tokens, [this](PageId page) { return has_slots(page); });
    if (found.num_tokens < static_cast<int32_t>(place.tokens.size())) return;
    rest = found.page;
  }
  if (!gather_windows(slot, rest)) return;
  seams_.offload_tier->put_state({name, place.tokens, rest, slot,
                                  kernels::state_bank(states_.lines(slot), place.position),
                                  snapshots_.leaving});
}

// Returns a slot without content; -1 if all are used. Tries to grow the cache before it takes the slot of a
// snapshot, which is then offloaded.
int32_t KvCache::take_state_slot() noexcept {
  if (states_.next_dropped() >= 0 && states_.num_slots() < states_.max_slots()) grow();
  if (const int32_t leaving = states_.next_dropped(); leaving >= 0) offload_state(leaving);
  return states_.take();
}

// Returns the position of the last snapshot in `tokens` that the tier has, if all its pages are in the cache
// or in the tier; 0 if there is none.
int32_t KvCache::offloaded_state(const PrefixRoot& root, gsl::span<const TokenId> tokens) const {
  const auto page_tokens = static_cast<size_t>(pool_.page_tokens());
  std::vector<PrefixKey> keys{root.key};  // up to the end of each page
  ContentId tail = root.content;          // of the pages in the cache
  for (size_t done = 0; done + page_tokens <= tokens.size(); done += page_tokens) {
    const auto own = tokens.subspan(done, page_tokens);
    const PrefixKey key = key_after(keys.back(), own);
    const PageId page = tail.value == 0 ? PageId{-1} : pool_.find(tail, own);
    tail = page.value < 0 ? ContentId{} : pool_.content(page);
    if (page.value < 0 && !seams_.offload_tier->has(*key)) break;
    keys.push_back(key);
  }
  const size_t end = std::min(tokens.size(), keys.size() * page_tokens - 1);
  for (size_t position = end / kernels::kStateLine * kernels::kStateLine; position > 0;
       position -= kernels::kStateLine) {
    const size_t num_pages = position / page_tokens;
    const auto own = tokens.first(position).subspan(num_pages * page_tokens);
    if (seams_.offload_tier->has(*key_of_snapshot(keys[num_pages], own)))
      return static_cast<int32_t>(position);
  }
  return 0;
}

// Uses the slot of a page, and lists it for the tier: without content if the page has none yet. Returns false
// if all slots are used.
bool KvCache::use_window_slot(size_t group, PageId page, ReloadedWindows& windows) {
  SlotPool& pool = windows_[group];
  const bool is_there = pool.has(page);
  if (!pool.is_used(page) && pool.num_unused() == 0) return false;
  windows.slots.push_back({static_cast<int32_t>(group) + 1, PageId{-1}});
  windows.fresh.reserve(windows.fresh.size() + 1);
  windows.used.reserve(windows.used.size() + 1);
  use_slot(group, page);
  windows.used.push_back({group, page});
  if (is_there) return true;
  windows.fresh.push_back({group, page});
  windows.slots.back().slot = PageId{pool.slot(page)};
  return true;
}

// Uses the slots of the windows before a snapshot that is loaded. `pages` are the whole pages before it,
// `rest` is the page of its last tokens, or -1. Returns false if there are too few slots. Uses those of
// `rest` first: if that page has more tokens than the snapshot and lost a slot here, the tier could not fill
// it again.
bool KvCache::use_windows(gsl::span<const PageId> pages, PageId rest, ReloadedWindows& windows) {
  const auto num_tokens = static_cast<int32_t>(pages.size()) * pool_.page_tokens();
  for (size_t g = 0; g < windows_.size(); ++g) {
    const auto begin = static_cast<ptrdiff_t>(windows.slots.size());
    if (rest.value >= 0 && !use_window_slot(g, rest, windows)) return false;
    for (const PageId page : pages.subspan(static_cast<size_t>(first_kept(g, num_tokens))))
      if (!use_window_slot(g, page, windows)) return false;
    const auto first = windows.slots.begin() + begin;
    if (rest.value >= 0) std::rotate(first, first + 1, windows.slots.end());
  }
  return true;
}

// Leaves the slots again. Those that were not filled lose their page.
void KvCache::leave_windows(const ReloadedWindows& windows, bool is_filled) noexcept {
  for (const SlotUse& use : windows.used) windows_[use.group].leave(use.page);
  if (is_filled) return;
  for (const SlotUse& use : windows.fresh) windows_[use.group].forget(use.page);
}

// Loads the snapshot after `tokens`, whose whole pages are in the cache. Its slot must be one that no
// sequence uses.
void KvCache::reload_state(ContentId root, const Reload& reload, gsl::span<const TokenId> tokens) {
  const auto position = static_cast<int32_t>(tokens.size());
  const auto own = tokens.subspan(reload.pages.size() * static_cast<size_t>(pool_.page_tokens()));
  const SnapshotPlace place{reload.tail, position, own};
  const auto held = pool_.find_longest(reload.tail, own, [this](PageId page) { return has_slots(page); });
  PageId rest{-1};
  if (held.num_tokens < static_cast<int32_t>(own.size())) {
    if (pool_.num_available() == 0) return;
    rest = allocate_empty_page();
  } else if (!own.empty()) {
    pool_.reference(held.page);
  }
  const PageId used = own.empty() || rest.value >= 0 ? rest : held.page;
  const auto let_go = gsl::finally([&] {
    if (used.value >= 0) release_page(used);
  });
  ReloadedWindows windows;
  int32_t bank = -1;
  const auto leave = gsl::finally([&] { leave_windows(windows, bank >= 0); });
  if (!use_windows(reload.pages, used, windows)) return;
  const int32_t slot = take_state_slot();
  if (slot < 0) return;
  const PageName name{key_of_snapshot(reload.name.key, own), std::nullopt, reload.name.name_space};
  bank = seams_.offload_tier->get_state({name, own, rest, slot, 0, windows.slots});
  if (bank >= 0) {
    if (rest.value >= 0) {
      pool_.record(rest, 0, own);
      pool_.show(rest, reload.tail);
    }
    states_.fill(slot, position, bank);
    states_.freeze(slot, place, find_state(root, tokens).slot);
    name_state(slot, reload.name);
    note_windows(slot, reload.pages);
  }
  states_.leave(slot);
}

}  // namespace quire
