// Snapshots of recurrent states on their way to the offload tier and back. A snapshot is useful only with all
// keys and values before it. So the tier stores with it the page that its last tokens are in, and a snapshot
// is dropped together with that page.
#include <algorithm>

#include "core/kv/kv_cache.h"

namespace quire {

void KvCache::name_state(int32_t slot, const PageName& before) noexcept {
  const SnapshotPlace place = states_.place(slot);
  const PrefixKey parent = place.position < pool_.page_tokens() ? PrefixKey{} : before.key;
  state_names_[static_cast<size_t>(slot)] = {key_of_snapshot(before.key, place.tokens), parent,
                                             before.name_space};
}

// Returns whether a snapshot cannot be found without this page: it directly follows the page, or its last
// tokens are in the page and in no other.
bool KvCache::needs_page(int32_t slot, PageId page) const noexcept {
  const SnapshotPlace place = states_.place(slot);
  const ContentId content = pool_.content(page);
  if (content.value != 0 && place.parent == content) return true;
  if (place.tokens.empty() || place.parent != pool_.parent(page)) return false;
  const auto num_tokens = static_cast<int32_t>(place.tokens.size());
  return pool_.find_longest(place.parent, place.tokens, [page](PageId other) { return other != page; })
             .num_tokens < num_tokens;
}

// Offloads and drops the snapshots that need a page that is about to be evicted.
void KvCache::drop_states_of(PageId page) noexcept {
  for (int32_t slot = 0; slot < states_.num_slots(); ++slot) {
    if (!states_.is_snapshot(slot) || !needs_page(slot, page)) continue;
    offload_state(slot);
    states_.thaw(slot);
  }
}

void KvCache::offload_state(int32_t slot) noexcept {
  const PageName& name = state_names_[static_cast<size_t>(slot)];
  if (seams_.offload_tier == nullptr || !name.key) return;
  const SnapshotPlace place = states_.place(slot);
  PageId rest{-1};
  if (!place.tokens.empty()) {
    const auto found = pool_.find_longest(place.parent, place.tokens, [](PageId) { return true; });
    if (found.num_tokens < static_cast<int32_t>(place.tokens.size())) return;
    rest = found.page;
  }
  seams_.offload_tier->put_state(
      {name, place.tokens, rest, slot, kernels::state_bank(states_.lines(slot), place.position)});
}

// Returns a slot without content; -1 if all are used. Offloads the snapshot that it takes the slot of.
int32_t KvCache::take_state_slot() noexcept {
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

// Loads the snapshot after `tokens`, whose whole pages are in the cache. Its slot must be one that no
// sequence uses.
void KvCache::reload_state(ContentId root, const Reload& reload, gsl::span<const TokenId> tokens) {
  const auto position = static_cast<int32_t>(tokens.size());
  const auto own = tokens.subspan(reload.pages.size() * static_cast<size_t>(pool_.page_tokens()));
  const SnapshotPlace place{reload.tail, position, own};
  const auto held = pool_.find_longest(reload.tail, own, [](PageId) { return true; });
  PageId rest{-1};
  if (held.num_tokens < static_cast<int32_t>(own.size())) {
    if (pool_.num_available() == 0) return;
    rest = allocate_page();
  } else if (!own.empty()) {
    pool_.reference(held.page);
  }
  const PageId used = own.empty() || rest.value >= 0 ? rest : held.page;
  const auto let_go = gsl::finally([&] {
    if (used.value >= 0) pool_.release(used);
  });
  const int32_t slot = take_state_slot();
  if (slot < 0) return;
  const PageName name{key_of_snapshot(reload.name.key, own), std::nullopt, reload.name.name_space};
  const int32_t bank = seams_.offload_tier->get_state({name, own, rest, slot, 0});
  if (bank >= 0) {
    if (rest.value >= 0) {
      pool_.record(rest, 0, own);
      pool_.show(rest, reload.tail);
    }
    states_.fill(slot, position, bank);
    states_.freeze(slot, place, find_state(root, tokens).slot);
    name_state(slot, reload.name);
  }
  states_.leave(slot);
}

}  // namespace quire
