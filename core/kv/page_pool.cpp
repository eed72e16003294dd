#include "core/kv/page_pool.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/core.h>

#include "core/base/error.h"

namespace quire {

namespace {

// Largest number of children of one parent that are compared for a partial match. Bounds the work if
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
      children_(options.num_pages, options.hash_bits),
      free_(options.num_pages) {
  Expects(options.page_tokens >= 1);
  grow(options.least_pages > 0 ? options.least_pages : options.num_pages);
}

PageId PagePool::allocate() {
  PageId page = next_evicted();
  if (page.value >= 0) evict(page);
  page = free_.lowest();
  if (page.value < 0) {
    throw Error(ErrorCode::capacity, "all {} pages of the cache are in use", num_pages());
  }
  ++at(page).generation;
  reference(page);
  return page;
}

void PagePool::evict(PageId page) noexcept {
  unlink(page);
  forget(page);
  free_.insert(page);
  ++num_evicted_;
}

void PagePool::grow(int32_t num_pages) noexcept {
  Expects(num_pages <= max_pages());
  for (; num_pages_ < num_pages; ++num_pages_) {
    ++at(PageId{num_pages_}).generation;  // undefined content
    free_.insert(PageId{num_pages_});
  }
}

void PagePool::shrink(int32_t num_pages) noexcept {
  Expects(!is_used_after(num_pages));
  while (num_pages_ > num_pages) {
    const PageId page{--num_pages_};
    if (at(page).is_cached) evict(page);
    free_.erase(page);
    num_used_ -= std::exchange(at(page).was_used, false) ? 1 : 0;
  }
}

bool PagePool::is_used_after(int32_t num_pages) const noexcept {
  return std::any_of(pages_.begin() + num_pages, pages_.end(),
                     [](const Page& page) { return page.ref_count > 0; });
}

std::vector<PageId> PagePool::cached_after(int32_t num_pages) const {
  std::unordered_set<uint64_t> gone;
  std::vector<PageId> leaving;
  // Goes from back to front: a page comes after the pages that continue it.
  for (int32_t slot = cached_.back; slot >= 0; slot = at(PageId{slot}).previous) {
    const Page& page = at(PageId{slot});
    if (slot < num_pages && gone.count(page.parent.value) == 0) continue;
    if (page.content.value != 0) gone.insert(page.content.value);
    leaving.push_back(PageId{slot});
  }
  std::reverse(leaving.begin(), leaving.end());
  return leaving;
}

void PagePool::note_use(PageId page) noexcept {
  num_used_ += std::exchange(at(page).was_used, true) ? 0 : 1;
}

int32_t PagePool::take_num_used() noexcept {
  const int32_t num_used = std::exchange(num_used_, 0);
  for (Page& page : pages_) {
    page.was_used = page.ref_count > 0;
    num_used_ += page.was_used ? 1 : 0;
  }
  return num_used;
}

void PagePool::reference(PageId page) noexcept {
  if (free_.contains(page)) free_.erase(page);
  if (at(page).is_cached) unlink(page);
  ++at(page).ref_count;
  note_use(page);
}

void PagePool::release(PageId page) noexcept {
  Expects(at(page).ref_count > 0);
  if (--at(page).ref_count > 0) return;
  if (children_.contains(page)) {
    link(page);
  } else {
    forget(page);
    free_.insert(page);
  }
}

void PagePool::touch(PageId page) noexcept {
  note_use(page);
  if (!at(page).is_cached) return;
  unlink(page);
  link(page);
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

bool PagePool::is_continued(ContentId parent) const {
  int32_t slot = children_.first(hash_parent(parent));
  while (slot >= 0 && at(PageId{slot}).parent != parent) slot = children_.next(slot);
  return slot >= 0;
}

// Appends the page as the most recently used one.
void PagePool::link(PageId page) noexcept {
  Page& linked = at(page);
  linked.is_cached = true;
  linked.previous = cached_.back;
  linked.next = -1;
  (cached_.back >= 0 ? pages_[static_cast<size_t>(cached_.back)].next : cached_.front) = page.value;
  cached_.back = page.value;
  ++cached_.size;
}

void PagePool::unlink(PageId page) noexcept {
  Page& gone = at(page);
  (gone.previous >= 0 ? pages_[static_cast<size_t>(gone.previous)].next : cached_.front) = gone.next;
  (gone.next >= 0 ? pages_[static_cast<size_t>(gone.next)].previous : cached_.back) = gone.previous;
  gone.previous = gone.next = -1;
  gone.is_cached = false;
  --cached_.size;
}

void PagePool::forget(PageId page) noexcept {
  whole_.erase(page);
  children_.erase(page);
  at(page).parent = at(page).content = ContentId{};
  at(page).num_tokens = 0;
}

std::string PagePool::audit(gsl::span<const int32_t> references) const {
  int32_t num_free = 0;
  for (int32_t slot = 0; slot < max_pages(); ++slot) {
    const PageId page{slot};
    if (at(page).ref_count != references[static_cast<size_t>(slot)]) {
      return fmt::format("page {} counts {} references but has {}", slot, at(page).ref_count,
                         references[static_cast<size_t>(slot)]);
    }
    if (std::string problem = audit_page(page); !problem.empty()) return problem;
    num_free += is_free(page) ? 1 : 0;
  }
  if (num_free != free_.size()) return fmt::format("{} pages are free, {} counted", num_free, free_.size());
  const std::string problem = audit_cached();
  return problem.empty() ? audit_order() : problem;
}

std::string PagePool::audit_page(PageId page) const {
  const Page& held = at(page);
  const int32_t num_states =
      (held.ref_count > 0 ? 1 : 0) + (is_free(page) ? 1 : 0) + (held.is_cached ? 1 : 0);
  const bool has_memory = page.value < num_pages_;
  if (num_states != (has_memory ? 1 : 0))
    return fmt::format("page {} is in {} states", page.value, num_states);
  const bool holds_nothing = is_free(page) || !has_memory;
  if (holds_nothing && (children_.contains(page) || held.num_tokens != 0))
    return fmt::format("page {}, which nobody has, holds content", page.value);
  if (held.is_cached && !children_.contains(page)) return fmt::format("cached page {} is lost", page.value);
  if (whole_.contains(page) != (held.content.value != 0))
    return fmt::format("page {} is half published", page.value);
  if (held.content.value != 0 && held.num_tokens != page_tokens_)
    return fmt::format("published page {} has {} tokens", page.value, held.num_tokens);
  return {};
}

std::string PagePool::audit_cached() const {
  int32_t count = 0;
  for (int32_t slot = cached_.front; slot >= 0; slot = pages_[static_cast<size_t>(slot)].next) {
    if (!at(PageId{slot}).is_cached || ++count > num_pages()) return "the list of cached pages is broken";
  }
  return count == cached_.size
             ? std::string()
             : fmt::format("the list of cached pages counts {} but has {}", cached_.size, count);
}

// Checks that a page is evicted only after all cached pages that continue it.
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
