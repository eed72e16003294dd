#include "core/kv/kv_cache.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/core.h>

#include "core/base/error.h"

namespace quire {

namespace {

constexpr uint32_t kSlotBits = 24;
constexpr size_t kMaxRoots = 4096;

std::string domain_key(const PrefixDomain& domain) {
  return fmt::format("{}/{}", domain.adapter_generation, domain.name_space);
}

}  // namespace

KvCache::KvCache(const KvCacheOptions& options)
    : pool_(options.pool), max_pages_per_sequence_(static_cast<size_t>(options.max_pages_per_sequence)) {
  const auto max_sequences = static_cast<size_t>(options.max_sequences);
  changes_.reserve(max_sequences);
  copies_.reserve(max_sequences * 2);
  undo_.reserve(max_sequences * 4);
}

KvCache::~KvCache() = default;

KvCache::Sequence& KvCache::get(SequenceId id) {
  Sequence& sequence = *sequences_[id.value & ((1U << kSlotBits) - 1)];
  Expects(sequence.generation == id.value >> kSlotBits);
  return sequence;
}

const KvCache::Sequence& KvCache::get(SequenceId id) const {
  return const_cast<KvCache*>(this)->get(id);
}

ContentId KvCache::find_root(const PrefixDomain& domain) const {
  const auto found = roots_.find(domain_key(domain));
  return found == roots_.end() ? ContentId{} : found->second;
}

ContentId KvCache::root_of(const PrefixDomain& domain) {
  if (roots_.size() >= kMaxRoots + static_cast<size_t>(pool_.num_pages())) drop_unused_domains();
  ContentId& root = roots_[domain_key(domain)];
  if (root.value == 0) root = pool_.new_content();
  return root;
}

// A domain without a sequence may forget its root: its cached pages are no longer found and are evicted in
// their turn. Keeps the table small where every request brings a namespace of its own.
void KvCache::drop_unused_domains() {
  std::unordered_set<uint64_t> used;
  for (const auto& sequence : sequences_) {
    if (sequence->generation % 2 == 1) used.insert(sequence->root.value);
  }
  std::erase_if(roots_, [&](const auto& entry) { return used.count(entry.second.value) == 0; });
}

SequenceId KvCache::create(const SequenceOptions& options) {
  const ContentId root = root_of(options.domain);
  if (free_slots_.empty()) {
    free_slots_.reserve(sequences_.size() + 1);
    auto fresh = std::make_unique<Sequence>();
    fresh->pages.reserve(max_pages_per_sequence_);
    sequences_.push_back(std::move(fresh));
    free_slots_.push_back(static_cast<uint32_t>(sequences_.size() - 1));
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  Sequence& sequence = *sequences_[slot];
  ++sequence.generation;
  sequence.reuse = options.reuse;
  sequence.publish = options.publish;
  sequence.root = sequence.tail = root;
  sequence.length = 0;
  ++num_sequences_;
  return SequenceId{sequence.generation << kSlotBits | slot};
}

SequenceId KvCache::fork(SequenceId parent_id) {
  const SequenceId child_id = create({});
  Sequence& parent = get(parent_id);
  Sequence& child = get(child_id);
  child.reuse = parent.reuse;
  child.publish = parent.publish;
  child.root = parent.root;
  child.tail = parent.tail;
  child.length = parent.length;
  const int32_t num_pages = pages_for(parent.length, pool_.page_tokens());
  child.pages.assign(parent.pages.begin(), parent.pages.begin() + num_pages);
  for (const PageId page : child.pages) pool_.reference(page);
  return child_id;
}

void KvCache::destroy(SequenceId id) noexcept {
  Sequence& sequence = get(id);
  Expects(!reserving_);
  for (auto page = sequence.pages.rbegin(); page != sequence.pages.rend(); ++page) pool_.release(*page);
  sequence.pages.clear();
  sequence.length = 0;
  ++sequence.generation;
  free_slots_.push_back(static_cast<uint32_t>(id.value & ((1U << kSlotBits) - 1)));
  --num_sequences_;
}

void KvCache::truncate(SequenceId id, int32_t num_tokens) noexcept {
  Sequence& sequence = get(id);
  Expects(!reserving_);
  if (num_tokens >= sequence.length) return;
  const auto num_pages = static_cast<size_t>(pages_for(num_tokens, pool_.page_tokens()));
  while (sequence.pages.size() > num_pages) {
    pool_.release(sequence.pages.back());
    sequence.pages.pop_back();
  }
  sequence.length = num_tokens;
  const int32_t whole = num_tokens / pool_.page_tokens();
  if (sequence.publish) {
    sequence.tail =
        whole == 0 ? sequence.root : pool_.content(sequence.pages[static_cast<size_t>(whole - 1)]);
  }
  const int32_t rest = num_tokens % pool_.page_tokens();
  if (rest != 0 && pool_.writable(sequence.pages.back())) pool_.truncate(sequence.pages.back(), rest);
}

void KvCache::match(ContentId tail, gsl::span<const TokenId> tokens, PageDemand& demand) const {
  const auto page_tokens = static_cast<size_t>(pool_.page_tokens());
  size_t done = 0;
  while (done + page_tokens < tokens.size()) {
    const PageId page = pool_.find(tail, tokens.subspan(done, page_tokens));
    if (page.value < 0) break;
    ++demand.found_pages;
    if (pool_.ref_count(page) == 0) ++demand.found_unreferenced;
    tail = pool_.content(page);
    done += page_tokens;
  }
  const size_t rest = std::min(page_tokens, tokens.size() - done - 1);
  demand.tail = tail;
  demand.found_tokens = static_cast<int32_t>(done);
  if (rest > 0) demand.found_tokens += pool_.find_longest(tail, tokens.subspan(done, rest)).num_tokens;
}

PageDemand KvCache::demand(SequenceId id, gsl::span<const TokenId> tokens) const {
  const Sequence& sequence = get(id);
  PageDemand result;
  result.length = sequence.length;
  result.held_pages = static_cast<int32_t>(sequence.pages.size());
  result.copies_tail = must_copy_tail(sequence);
  result.tail = sequence.reuse ? sequence.tail : ContentId{};
  result.publishes = sequence.publish;
  const auto length = static_cast<size_t>(sequence.length);
  const bool at_page_start = sequence.length % pool_.page_tokens() == 0;
  if (sequence.reuse && sequence.tail.value != 0 && at_page_start && length + 1 < tokens.size()) {
    match(sequence.tail, tokens.subspan(length), result);
  }
  return result;
}

PageDemand KvCache::demand(const PrefixDomain& domain, gsl::span<const TokenId> tokens) const {
  PageDemand result;
  result.tail = find_root(domain);
  if (result.tail.value != 0 && tokens.size() > 1) match(result.tail, tokens, result);
  return result;
}

bool KvCache::must_copy_tail(const Sequence& sequence) const {
  if (sequence.length % pool_.page_tokens() == 0) return false;
  return !pool_.writable(sequence.pages[static_cast<size_t>(sequence.length / pool_.page_tokens())]);
}

std::vector<PageId> KvCache::pin(const PrefixDomain& domain, gsl::span<const TokenId> tokens,
                                 int32_t max_pages) {
  std::vector<PageId> pages;
  ContentId tail = find_root(domain);
  const auto page_tokens = static_cast<size_t>(pool_.page_tokens());
  for (size_t done = 0; tail.value != 0 && done + page_tokens <= tokens.size(); done += page_tokens) {
    const PageId page = pool_.find(tail, tokens.subspan(done, page_tokens));
    if (page.value < 0) break;
    pages.push_back(page);
    tail = pool_.content(page);
  }
  // A page that another pin keeps takes no room of the limit.
  std::vector<PageId> kept = pinned_;
  std::sort(kept.begin(), kept.end());
  const auto num_fresh = std::count_if(pages.begin(), pages.end(), [&](PageId page) {
    return !std::binary_search(kept.begin(), kept.end(), page);
  });
  if (num_fresh > max_pages) {
    throw Error(ErrorCode::quota, "the prefix has {} pages that no pin keeps, {} may still be pinned",
                num_fresh, max_pages);
  }
  pinned_.insert(pinned_.end(), pages.begin(), pages.end());
  for (const PageId page : pages) pool_.reference(page);
  return pages;
}

void KvCache::unpin(gsl::span<const PageId> pages) noexcept {
  for (size_t i = pages.size(); i-- > 0;) {
    const auto entry = std::find(pinned_.begin(), pinned_.end(), pages[i]);
    Expects(entry != pinned_.end());
    *entry = pinned_.back();
    pinned_.pop_back();
    pool_.release(pages[i]);
  }
}

std::string KvCache::audit() const {
  std::vector<int32_t> references(static_cast<size_t>(pool_.num_pages()), 0);
  for (const auto& sequence : sequences_) {
    const auto whole = sequence->pages.size() * static_cast<size_t>(pool_.page_tokens());
    if (static_cast<size_t>(sequence->length) > whole) return "a sequence is longer than its pages";
    for (const PageId page : sequence->pages) ++references[static_cast<size_t>(page.value)];
  }
  for (const PageId page : pinned_) ++references[static_cast<size_t>(page.value)];
  return pool_.audit(references);
}

}  // namespace quire
