#include "core/kv/page_pool.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/core.h>

#include "core/base/error.h"

namespace quire {

namespace {

// How many pages after one parent are compared for a partial match. Bounds the work of a match where
// thousands of prompts begin differently.
constexpr int32_t kMaxCandidates = 64;

uint64_t hash_parent(ContentId parent) {
  return hash_tokens(parent.value, {});
}

}  // namespace

PagePool::PagePool(const PagePoolOptions& options)
    : page_tokens_(options.page_tokens),
      pages_(static_cast<size_t>(options.num_pages)),
      tokens_(static_cast<size_t>(options.num_pages) * static_cast<size_t>(options.page_tokens)),
      whole_(options.num_pages, options.hash_bits),
      children_(options.num_pages, options.hash_bits) {
  Expects(options.page_tokens >= 1);
  for (int32_t slot = 0; slot < options.num_pages; ++slot) push_back(PageId{slot}, List::free);
}

PageId PagePool::allocate() {
  const bool evicts = free_.size == 0;
  const PageId page{evicts ? cached_.front : free_.front};
  if (page.value < 0) {
    throw Error(ErrorCode::capacity, "all {} pages of the cache are in use", num_pages());
  }
  unlink(page);
  if (evicts) {
    forget(page);
    ++num_evicted_;
  }
  at(page).ref_count = 1;
  return page;
}

void PagePool::reference(PageId page) noexcept {
  if (at(page).list != List::none) unlink(page);
  ++at(page).ref_count;
}

void PagePool::release(PageId page) noexcept {
  Expects(at(page).ref_count > 0);
  if (--at(page).ref_count > 0) return;
  if (children_.contains(page)) {
    push_back(page, List::cached);
  } else {
    forget(page);
    push_back(page, List::free);
  }
}

void PagePool::touch(PageId page) noexcept {
  if (at(page).list != List::cached) return;
  unlink(page);
  push_back(page, List::cached);
}

bool PagePool::writable(PageId page) const {
  return at(page).ref_count == 1 && at(page).content.value == 0;
}

gsl::span<const TokenId> PagePool::tokens(PageId page) const {
  return {&tokens_[static_cast<size_t>(page.value) * static_cast<size_t>(page_tokens_)],
          static_cast<size_t>(at(page).num_tokens)};
}

void PagePool::record(PageId page, int32_t offset, gsl::span<const TokenId> tokens) noexcept {
  const size_t base = static_cast<size_t>(page.value) * static_cast<size_t>(page_tokens_);
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + static_cast<ptrdiff_t>(base) + offset);
  at(page).num_tokens = offset + static_cast<int32_t>(tokens.size());
}

void PagePool::truncate(PageId page, int32_t num_tokens) noexcept {
  at(page).num_tokens = std::min(at(page).num_tokens, num_tokens);
}

void PagePool::show(PageId page, ContentId parent) noexcept {
  if (children_.contains(page)) return;
  at(page).parent = parent;
  children_.insert(page, hash_parent(parent));
}

PageId PagePool::publish(PageId page) noexcept {
  Page& published = at(page);
  if (published.content.value != 0) return page;
  const PageId twin = find(published.parent, tokens(page));
  if (twin.value >= 0) {
    children_.erase(page);
    return twin;
  }
  published.content = new_content();
  whole_.insert(page, hash_tokens(published.parent.value, tokens(page)));
  return page;
}

PageId PagePool::find(ContentId parent, gsl::span<const TokenId> wanted) const {
  for (int32_t slot = whole_.first(hash_tokens(parent.value, wanted)); slot >= 0; slot = whole_.next(slot)) {
    const PageId page{slot};
    if (at(page).parent != parent) continue;
    const auto held = tokens(page);
    if (std::equal(held.begin(), held.end(), wanted.begin(), wanted.end())) return page;
  }
  return PageId{-1};
}

PagePool::PartialMatch PagePool::find_longest(ContentId parent, gsl::span<const TokenId> wanted,
                                              const std::function<bool(PageId)>& usable) const {
  PartialMatch best;
  int32_t seen = 0;
  for (int32_t slot = children_.first(hash_parent(parent)); slot >= 0; slot = children_.next(slot)) {
    const PageId page{slot};
    if (at(page).parent != parent) continue;
    if (++seen > kMaxCandidates) break;
    const auto held = tokens(page);
    const auto end = std::mismatch(held.begin(), held.end(), wanted.begin(), wanted.end()).first;
    const auto common = static_cast<int32_t>(end - held.begin());
    if (common <= best.num_tokens || !usable(page)) continue;
    best = {page, common};
    if (common == static_cast<int32_t>(wanted.size())) break;
  }
  return best;
}

void PagePool::push_back(PageId page, List kind) noexcept {
  PageList& list = list_of(kind);
  Page& pushed = at(page);
  pushed.list = kind;
  pushed.previous = list.back;
  pushed.next = -1;
  if (list.back >= 0) {
    pages_[static_cast<size_t>(list.back)].next = page.value;
  } else {
    list.front = page.value;
  }
  list.back = page.value;
  ++list.size;
}

void PagePool::unlink(PageId page) noexcept {
  Page& gone = at(page);
  PageList& list = list_of(gone.list);
  (gone.previous >= 0 ? pages_[static_cast<size_t>(gone.previous)].next : list.front) = gone.next;
  (gone.next >= 0 ? pages_[static_cast<size_t>(gone.next)].previous : list.back) = gone.previous;
  gone.previous = gone.next = -1;
  gone.list = List::none;
  --list.size;
}

void PagePool::forget(PageId page) noexcept {
  whole_.erase(page);
  children_.erase(page);
  at(page).parent = at(page).content = ContentId{};
  at(page).num_tokens = 0;
}

std::string PagePool::audit(gsl::span<const int32_t> references) const {
  for (int32_t slot = 0; slot < num_pages(); ++slot) {
    const PageId page{slot};
    const Page& held = at(page);
    if (held.ref_count != references[static_cast<size_t>(slot)]) {
      return fmt::format("page {} counts {} references but has {}", slot, held.ref_count,
                         references[static_cast<size_t>(slot)]);
    }
    if ((held.ref_count == 0) == (held.list == List::none))
      return fmt::format("page {} is in the wrong list", slot);
    if (held.list == List::free && (children_.contains(page) || held.num_tokens != 0)) {
      return fmt::format("free page {} holds content", slot);
    }
    if (held.list == List::cached && !children_.contains(page))
      return fmt::format("cached page {} is lost", slot);
    if (whole_.contains(page) != (held.content.value != 0))
      return fmt::format("page {} is half published", slot);
    if (held.content.value != 0 && held.num_tokens != page_tokens_) {
      return fmt::format("published page {} has {} tokens", slot, held.num_tokens);
    }
  }
  std::string problem = audit_list(free_, List::free);
  if (problem.empty()) problem = audit_list(cached_, List::cached);
  return problem.empty() ? audit_order() : problem;
}

std::string PagePool::audit_list(const PageList& list, List kind) const {
  int32_t count = 0;
  for (int32_t slot = list.front; slot >= 0; slot = pages_[static_cast<size_t>(slot)].next) {
    if (at(PageId{slot}).list != kind || ++count > num_pages()) return "a page list is broken";
  }
  return count == list.size ? std::string()
                            : fmt::format("a page list counts {} but has {}", list.size, count);
}

// Tail first: by the time a page is evicted, none that continues it is cached.
std::string PagePool::audit_order() const {
  std::unordered_map<ContentId, int32_t> place;
  int32_t index = 0;
  for (int32_t slot = cached_.front; slot >= 0; slot = pages_[static_cast<size_t>(slot)].next) {
    if (at(PageId{slot}).content.value != 0) place[at(PageId{slot}).content] = index;
    ++index;
  }
  index = 0;
  for (int32_t slot = cached_.front; slot >= 0; slot = pages_[static_cast<size_t>(slot)].next, ++index) {
    const auto parent = place.find(at(PageId{slot}).parent);
    if (parent != place.end() && parent->second < index) {
      return fmt::format("cached page {} would outlive the page before it", slot);
    }
  }
  return {};
}

}  // namespace quire
