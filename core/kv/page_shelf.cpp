// How pages leave for the shelf and come back.
#include "core/kv/page_shelf.h"

#include <array>
#include <cstring>
#include <string_view>

#include "core/kv/kv_cache.h"

namespace quire {
namespace {

std::string_view text_of(gsl::span<const TokenId> tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()};
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
  if (!before) return std::nullopt;
  const Sha256 own = sha256(text_of(tokens));
  std::array<char, 2 * sizeof(Sha256)> both{};
  std::memcpy(both.data(), before->data(), sizeof(Sha256));
  std::memcpy(both.data() + sizeof(Sha256), own.data(), sizeof(Sha256));
  return sha256({both.data(), both.size()});
}

PageId KvCache::take_page() {
  if (const PageId leaving = pool_.next_evicted(); leaving.value >= 0) shelve(leaving);
  return pool_.allocate();
}

void KvCache::shelve(PageId page) noexcept {
  if (shelf_ == nullptr || pool_.content(page).value == 0) return;
  if (const PrefixKey& key = keys_[static_cast<size_t>(page.value)]; key.has_value())
    shelf_->put(*key, pool_.tokens(page), page);
}

void KvCache::shelve_all(const std::function<bool()>& stops) noexcept {
  for (int32_t page = 0; page < pool_.num_pages() && !stops(); ++page) shelve(PageId{page});
}

// Pages that are here are held meanwhile, so that none leaves for one that comes. They are let go from the
// last to the first: a page leaves before the one that it continues.
int32_t KvCache::bring_back(const PrefixDomain& domain, gsl::span<const TokenId> tokens) {
  Expects(!reserving_);
  PrefixKey key = key_of_domain(domain);
  if (shelf_ == nullptr || !key || tokens.size() < 2) return 0;
  const auto page_tokens = static_cast<size_t>(pool_.page_tokens());
  std::vector<PageId> held;
  held.reserve(tokens.size() / page_tokens);
  const auto let_go = gsl::finally([&] {
    for (auto page = held.rbegin(); page != held.rend(); ++page) pool_.release(*page);
  });
  ContentId tail = root_of(domain);
  int32_t num_brought = 0;
  for (size_t done = 0; done + page_tokens < tokens.size(); done += page_tokens) {
    const auto own = tokens.subspan(done, page_tokens);
    key = key_after(key, own);
    PageId page = pool_.find(tail, own);
    if (page.value < 0) {
      page = bring_back_page(tail, *key, own);
      if (page.value < 0) break;
      ++num_brought;
    } else {
      pool_.reference(page);
    }
    held.push_back(page);
    tail = pool_.content(page);
  }
  return num_brought;
}

// With one reference; value -1 where it is not to be had.
PageId KvCache::bring_back_page(ContentId parent, const Sha256& key, gsl::span<const TokenId> tokens) {
  if (pool_.num_available() == 0 || !shelf_->has(key)) return PageId{-1};
  const PageId page = take_page();
  if (!shelf_->get(key, tokens, page)) {
    pool_.release(page);
    return PageId{-1};
  }
  pool_.record(page, 0, tokens);
  pool_.show(page, parent);
  const PageId kept = pool_.publish(page);
  Expects(kept == page);  // nothing that is here was looked for on the shelf
  keys_[static_cast<size_t>(page.value)] = key;
  return page;
}

}  // namespace quire
