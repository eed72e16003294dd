// Names of pages, offload of evicted pages and dropped snapshots, and their way back (second tier of the
// prefix cache).
#include "core/kv/page_offload_tier.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/kv/kv_cache.h"

namespace quire {
namespace {

std::string_view text_of(gsl::span<const TokenId> tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()};
}

std::string_view text_of(const Sha256& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Returns the digest of the key before, the digest of the tokens and a mark.
PrefixKey combined_key(const PrefixKey& before, gsl::span<const TokenId> tokens,
                       std::string_view mark) noexcept {
  if (!before) return std::nullopt;
  Sha256Stream stream;
  stream.add(text_of(*before));
  stream.add(text_of(sha256(text_of(tokens))));
  stream.add(mark);
  return stream.finish();
}

}  // namespace

size_t PrefixKeyHash::operator()(const Sha256& key) const noexcept {
  size_t hash = 0;
  std::memcpy(&hash, key.data(), sizeof hash);
  return hash;
}

PrefixKey key_of_domain(const PrefixDomain& domain) noexcept {
  if (domain.adapter_generation != 0) return std::nullopt;
  return sha256(domain.name_space);
}

PrefixKey key_after(const PrefixKey& before, gsl::span<const TokenId> tokens) noexcept {
  return combined_key(before, tokens, {});
}

// The hashed text of a page has a multiple of four bytes, and this one has not.
PrefixKey key_of_snapshot(const PrefixKey& before, gsl::span<const TokenId> tokens) noexcept {
  return combined_key(before, tokens, "s");
}

// Tries to grow the cache before it evicts a page.
PageId KvCache::allocate_page() {
  if (pool_.num_free() == 0) grow();
  if (const PageId leaving = pool_.next_evicted(); leaving.value >= 0) leave(leaving);
  return pool_.allocate();
}

// Allocates a page that is filled otherwise than by a step. An evicted page keeps its slots, which a step
// would write to.
PageId KvCache::allocate_empty_page() {
  const PageId page = allocate_page();
  for (SlotPool& window : windows_) window.forget(page);
  return page;
}

// Names a page that can be found from now on, and reports it to the listener.
void KvCache::name_page(PageId page, const PageName& name) noexcept {
  names_[static_cast<size_t>(page.value)] = name;
  if (seams_.listener != nullptr && name.key)
    seams_.listener->stored(name, PageMedium::device, pool_.tokens(page));
}

void KvCache::leave(PageId page) noexcept {
  offload_page(page);
  PageName& name = names_[static_cast<size_t>(page.value)];
  if (seams_.listener != nullptr && name.key) seams_.listener->removed(name, PageMedium::device);
  name = {};
  drop_states_of(page);
}

void KvCache::offload_page(PageId page) noexcept {
  const PageName& name = names_[static_cast<size_t>(page.value)];
  if (seams_.offload_tier != nullptr && name.key) seams_.offload_tier->put(name, pool_.tokens(page), page);
}

void KvCache::visit_pages(const PageVisitor& visit) const {
  std::vector<PageId> pages;
  for (int32_t page = 0; page < pool_.num_pages(); ++page)
    if (names_[static_cast<size_t>(page)].key) pages.push_back(PageId{page});
  // Content ids ascend in the order of publication, and a page is published after the one that it continues.
  std::sort(pages.begin(), pages.end(),
            [&](PageId one, PageId other) { return pool_.content(one).value < pool_.content(other).value; });
  for (const PageId page : pages)
    visit(names_[static_cast<size_t>(page.value)], PageMedium::device, pool_.tokens(page));
}

void KvCache::offload_all(const std::function<bool()>& stops) noexcept {
  for (int32_t page = 0; page < pool_.num_pages() && !stops(); ++page) offload_page(PageId{page});
  for (int32_t slot = 0; slot < states_.num_slots() && !stops(); ++slot)
    if (states_.is_snapshot(slot)) offload_state(slot);
}

// References the found pages meanwhile, so that none is evicted for a page that is loaded. Releases them from
// last to first: a page is evicted before the page that it continues.
int32_t KvCache::reload_prefix(const PrefixDomain& domain, gsl::span<const TokenId> tokens) {
  Expects(!step_.is_open);
  if (seams_.offload_tier == nullptr || domain.adapter_generation != 0 || tokens.size() < 2) return 0;
  const PrefixRoot root = root_of(domain);
  gsl::span<const TokenId> wanted = tokens.first(tokens.size() - 1);
  if (!states_.is_empty()) {
    if (!seams_.offload_tier->has_states()) return 0;
    wanted = tokens.first(static_cast<size_t>(offloaded_state(root, wanted)));
    if (static_cast<int32_t>(wanted.size()) <= find_state(root.content, tokens).position) return 0;
  }
  const auto page_tokens = static_cast<size_t>(pool_.page_tokens());
  Reload reload{{root.key, std::nullopt, root.name_space}, root.content, {}, 0};
  reload.pages.reserve(wanted.size() / page_tokens + 1);
  const auto let_go = gsl::finally([&] {
    for (auto page = reload.pages.rbegin(); page != reload.pages.rend(); ++page) pool_.release(*page);
  });
  bool is_whole = true;
  size_t done = 0;
  for (; is_whole && done + page_tokens <= wanted.size(); done += page_tokens)
    is_whole = reload_next(reload, wanted.subspan(done, page_tokens));
  if (is_whole && !states_.is_empty()) reload_state(root.content, reload, wanted);
  return reload.num_loaded;
}

// Finds or loads the next page of a prefix, which holds `tokens`.
bool KvCache::reload_next(Reload& reload, gsl::span<const TokenId> tokens) {
  const bool is_first = reload.pages.empty();
  const PageName name{key_after(reload.name.key, tokens), is_first ? PrefixKey{} : reload.name.key,
                      reload.name.name_space};
  PageId page = pool_.find(reload.tail, tokens);
  if (page.value >= 0) {
    pool_.reference(page);
  } else {
    page = reload_page(reload.tail, name, tokens);
    if (page.value < 0) return false;
    ++reload.num_loaded;
  }
  reload.pages.push_back(page);
  reload.name = name;
  reload.tail = pool_.content(page);
  return true;
}

// Returns the loaded page with one reference; value -1 if it cannot be loaded.
PageId KvCache::reload_page(ContentId parent, const PageName& name, gsl::span<const TokenId> tokens) {
  if (pool_.num_available() == 0 || !seams_.offload_tier->has(*name.key)) return PageId{-1};
  const PageId page = allocate_empty_page();
  if (!seams_.offload_tier->get(name, tokens, page)) {
    pool_.release(page);
    return PageId{-1};
  }
  pool_.record(page, 0, tokens);
  pool_.show(page, parent);
  const PageId kept = pool_.publish(page);
  Expects(kept == page);  // pages in the cache are never looked up in the offload tier
  name_page(page, name);
  return page;
}

}  // namespace quire
