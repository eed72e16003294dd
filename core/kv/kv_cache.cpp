#include "core/kv/kv_cache.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/core.h>

#include "core/base/error.h"

namespace quire {

namespace {

constexpr size_t kMaxRoots = 4096;

std::string domain_key(const PrefixDomain& domain) {
  return fmt::format("{}/{}", domain.adapter_generation, domain.name_space);
}

}  // namespace

KvCache::KvCache(const KvCacheOptions& options)
    : pool_(options.pool),
      seams_{options.offload_tier, options.listener, options.room},
      names_(static_cast<size_t>(options.pool.num_pages)),
      states_({options.num_state_slots, options.least_state_slots, options.pool.num_pages,
               options.pool.least_pages},
              options.pool.page_tokens),
      sequences_(static_cast<size_t>(options.max_pages_per_sequence)) {
  Expects(options.windows.size() <= kMaxWindowGroups);
  Expects(seams_.offload_tier == nullptr || options.windows.empty() || options.num_state_slots > 0);
  windows_.reserve(options.windows.size());
  for (const WindowGroup& group : options.windows) windows_.emplace_back(group, options.pool.num_pages);
  size_t most = 0, all = 0;  // pages of a window, and slots of all windows
  for (const WindowGroup& group : options.windows) {
    const auto of_window = static_cast<size_t>(slots_of_window(group.window, options.pool.page_tokens));
    most = std::max(most, of_window);
    all += of_window + 1;
  }
  snapshots_.names.resize(static_cast<size_t>(options.num_state_slots));
  snapshots_.windows.resize(static_cast<size_t>(options.num_state_slots));
  for (std::vector<PageId>& pages : snapshots_.windows) pages.reserve(most);
  snapshots_.leaving.reserve(all);
  pins_.max_states = std::max(0, options.num_state_slots - options.max_sequences);
  if (options.least_state_slots > 0)
    pins_.max_states = std::min(pins_.max_states, std::max(0, options.least_state_slots - 2));
  found_.reserve(sequences_.max_pages());
  step_.reserve(static_cast<size_t>(options.max_sequences), windows_.size());
}

KvCache::~KvCache() = default;

ContentId KvCache::find_root(const PrefixDomain& domain) const {
  const auto found = roots_.find(domain_key(domain));
  return found == roots_.end() ? ContentId{} : found->second.content;
}

const PrefixRoot& KvCache::root_of(const PrefixDomain& domain) {
  if (roots_.size() >= kMaxRoots + static_cast<size_t>(pool_.max_pages())) drop_unused_domains();
  const auto [entry, is_new] = roots_.try_emplace(domain_key(domain));
  if (!is_new) return entry->second;
  try {
    auto name_space = std::make_shared<const std::string>(domain.name_space);
    return entry->second = {pool_.new_content(), key_of_domain(domain), std::move(name_space)};
  } catch (...) {
    roots_.erase(entry);
    throw;
  }
}

// Drops the roots of domains that have no sequence, whole page or snapshot. Keeps the table small if every
// request uses a namespace of its own.
void KvCache::drop_unused_domains() {
  std::unordered_set<const std::string*> used;
  for (const auto& sequence : sequences_.places()) {
    if (sequence->is_in_use()) used.insert(sequence->root.name_space.get());
  }
  for (const PageName& name : names_) used.insert(name.name_space.get());
  for (int32_t slot = 0; slot < states_.num_slots(); ++slot)
    if (states_.is_snapshot(slot)) used.insert(snapshots_.names[static_cast<size_t>(slot)].name_space.get());
  std::erase_if(roots_, [&](const auto& entry) { return used.count(entry.second.name_space.get()) == 0; });
}

SequenceId KvCache::create(const SequenceOptions& options) {
  return sequences_.add(root_of(options.domain), options.reuse, options.publish);
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
  for (size_t g = 0; g < windows_.size(); ++g)
    use_range(child, g, {std::min(parent.slots[g].begin, num_pages), num_pages});
  child.state_slot = parent.state_slot;
  if (child.state_slot >= 0) states_.use(child.state_slot);
  return child_id;
}

void KvCache::destroy(SequenceId id) noexcept {
  Sequence& sequence = get(id);
  Expects(!step_.is_open);
  leave_state(sequence);
  for (size_t g = 0; g < windows_.size(); ++g) use_range(sequence, g, {});
  for (auto page = sequence.pages.rbegin(); page != sequence.pages.rend(); ++page) release_page(*page);
  sequence.pages.clear();
  sequences_.remove(id);
}

void KvCache::truncate(SequenceId id, int32_t num_tokens) noexcept {
  Sequence& sequence = get(id);
  Expects(!step_.is_open);
  if (num_tokens < sequence.length) cut(sequence, num_tokens);
}

// Keeps the first num_tokens tokens, at most its length, or fewer.
void KvCache::cut(Sequence& sequence, int32_t num_tokens) noexcept {
  const auto has_slot = [&](const SlotPool& window, int32_t page_idx) {
    return window.has(sequence.pages[static_cast<size_t>(page_idx)]);
  };
  for (int32_t usable = -1; usable != num_tokens;) {
    usable = usable_length(num_tokens, has_slot);
    num_tokens = continue_state(sequence, usable);
  }
  const auto num_pages = static_cast<size_t>(pages_for(num_tokens, pool_.page_tokens()));
  for (size_t g = 0; g < windows_.size(); ++g) {
    const SlotRange used = sequence.slots[g];
    use_range(sequence, g,
              {std::min(used.begin, first_kept(g, num_tokens)),
               std::min(used.end, static_cast<int32_t>(num_pages))});
  }
  while (sequence.pages.size() > num_pages) {
    release_page(sequence.pages.back());
    sequence.pages.pop_back();
  }
  sequence.length = num_tokens;
  const int32_t whole = num_tokens / pool_.page_tokens();
  if (sequence.publish) {
    sequence.tail =
        whole == 0 ? sequence.root.content : pool_.content(sequence.pages[static_cast<size_t>(whole - 1)]);
  }
  const int32_t rest = num_tokens % pool_.page_tokens();
  if (rest != 0 && pool_.writable(sequence.pages.back())) pool_.truncate(sequence.pages.back(), rest);
}

// Fills found_ with the whole cached pages after `tail`.
void KvCache::find_whole_pages(ContentId tail, gsl::span<const TokenId> tokens) const {
  const auto page_tokens = static_cast<size_t>(pool_.page_tokens());
  found_.clear();
  for (size_t done = 0; done + page_tokens <= tokens.size(); done += page_tokens) {
    const PageId page = pool_.find(tail, tokens.subspan(done, page_tokens));
    if (page.value < 0) break;
    found_.push_back(page);
    tail = pool_.content(page);
  }
}

// Returns the whole cached pages after `tail` that a sequence continuing with `tokens` can share. `tail` is
// the content of the last of the sequence's num_own_pages own pages. Ends with the last page after which
// every window has its slots. Valid until the next call.
gsl::span<const PageId> KvCache::find_pages(ContentId tail, int32_t num_own_pages,
                                            gsl::span<const TokenId> tokens) const {
  find_whole_pages(tail, tokens);
  const int32_t num_pages = num_own_pages + static_cast<int32_t>(found_.size());
  const int32_t standing =
      usable_length(num_pages * pool_.page_tokens(), [&](const SlotPool& window, int32_t page_idx) {
        return page_idx < num_own_pages || window.has(found_[static_cast<size_t>(page_idx - num_own_pages)]);
      });
  const int32_t num_standing = std::max(0, standing / pool_.page_tokens() - num_own_pages);
  return gsl::span<const PageId>(found_).first(static_cast<size_t>(num_standing));
}

// Returns the page whose first tokens can be copied after `tail`, and how many of them: at most all of
// `tokens` but one.
PagePool::PartialMatch KvCache::find_partial_page(ContentId tail, gsl::span<const TokenId> tokens) const {
  const size_t most = std::min(static_cast<size_t>(pool_.page_tokens()), tokens.size() - 1);
  if (most == 0) return {};
  return pool_.find_longest(tail, tokens.first(most), [this](PageId page) { return has_slots(page); });
}

// Fills in the found pages and tokens of `demand`. `tokens` are those after demand.length.
void KvCache::match(ContentId tail, gsl::span<const TokenId> tokens, PageDemand& demand) const {
  const int32_t num_own_pages = demand.length / pool_.page_tokens();
  const auto found = find_pages(tail, num_own_pages, tokens.first(tokens.size() - 1));
  demand.tail = found.empty() ? tail : pool_.content(found.back());
  const size_t done = found.size() * static_cast<size_t>(pool_.page_tokens());
  count_found(found, demand);
  demand.found_tokens =
      static_cast<int32_t>(done) + find_partial_page(demand.tail, tokens.subspan(done)).num_tokens;
}

// Fills in the numbers of found pages and slots.
void KvCache::count_found(gsl::span<const PageId> found, PageDemand& demand) const {
  const int32_t num_own_pages = demand.length / pool_.page_tokens();
  demand.found_pages = static_cast<int32_t>(found.size());
  for (const PageId page : found) demand.found_unreferenced += pool_.ref_count(page) == 0 ? 1 : 0;
  for (size_t g = 0; g < windows_.size() && !found.empty(); ++g) {
    SlotDemand& slots = demand.slots[g];
    const int32_t end = num_own_pages + demand.found_pages;
    const int32_t first = std::max(slots.end - slots.num_used, first_kept(g, end * pool_.page_tokens()));
    for (int32_t i = std::max(first, num_own_pages); i < end; ++i)
      slots.found_unused += windows_[g].is_used(found[static_cast<size_t>(i - num_own_pages)]) ? 0 : 1;
    slots.end = std::max(slots.end, end);
    slots.num_used = slots.end - first;
  }
}

PageDemand KvCache::standing(SequenceId id) const {
  const Sequence& sequence = get(id);
  PageDemand result;
  result.length = sequence.length;
  result.held_pages = static_cast<int32_t>(sequence.pages.size());
  for (size_t g = 0; g < windows_.size(); ++g)
    result.slots[g] = {sequence.slots[g].end - sequence.slots[g].begin, sequence.slots[g].end, 0};
  return result;
}

PageDemand KvCache::demand(SequenceId id, gsl::span<const TokenId> tokens) const {
  const Sequence& sequence = get(id);
  PageDemand result = standing(id);
  result.copies_tail = must_copy_tail(sequence);
  result.copies_state = must_copy_state(sequence);
  result.tail = sequence.reuse ? sequence.tail : ContentId{};
  result.publishes = sequence.publish;
  const auto length = static_cast<size_t>(sequence.length);
  if (!states_.is_empty()) {
    result.tail = {};
    if (length == 0 && sequence.reuse) match_state(sequence.tail, tokens, result);
    return result;
  }
  const bool at_page_start = sequence.length % pool_.page_tokens() == 0;
  if (sequence.reuse && sequence.tail.value != 0 && at_page_start && length + 1 < tokens.size()) {
    match(sequence.tail, tokens.subspan(length), result);
  }
  return result;
}

PageDemand KvCache::demand(const PrefixDomain& domain, gsl::span<const TokenId> tokens) const {
  PageDemand result;
  if (!states_.is_empty()) {
    match_state(find_root(domain), tokens, result);
    return result;
  }
  result.tail = find_root(domain);
  if (result.tail.value != 0 && tokens.size() > 1) match(result.tail, tokens, result);
  return result;
}

bool KvCache::must_copy_tail(const Sequence& sequence) const {
  if (sequence.length % pool_.page_tokens() == 0) return false;
  return !pool_.writable(sequence.pages[static_cast<size_t>(sequence.length / pool_.page_tokens())]);
}

PinnedPrefix KvCache::pin(const PrefixDomain& domain, gsl::span<const TokenId> tokens, int32_t max_pages) {
  const ContentId root = find_root(domain);
  if (root.value == 0) return {};
  PinnedPrefix prefix = find_pinned(root, tokens);
  const std::vector<PageId>& pages = prefix.pages;
  // Pages that are pinned already do not count towards the limit.
  std::vector<PageId> kept = pins_.pages;
  std::sort(kept.begin(), kept.end());
  const auto num_fresh = std::count_if(pages.begin(), pages.end(), [&](PageId page) {
    return !std::binary_search(kept.begin(), kept.end(), page);
  });
  if (num_fresh > max_pages) {
    throw Error(ErrorCode::quota,
                "the prefix has {} pages that are not pinned yet, but only {} more may be pinned", num_fresh,
                max_pages);
  }
  check_pinned_states(prefix.state_slot);
  pins_.states.reserve(pins_.states.size() + 1);
  pins_.pages.reserve(pins_.pages.size() + pages.size());
  for (size_t g = 0; g < windows_.size(); ++g)
    pins_.slots[g].reserve(pins_.slots[g].size() + pinned_window(g, prefix).size());
  pins_.pages.insert(pins_.pages.end(), pages.begin(), pages.end());
  for (const PageId page : pages) pool_.reference(page);
  for (size_t g = 0; g < windows_.size(); ++g) {
    for (const PageId page : pinned_window(g, prefix)) {
      windows_[g].use(page);
      pins_.slots[g].push_back(page);
    }
  }
  if (prefix.state_slot >= 0) {
    states_.use(prefix.state_slot);
    pins_.states.push_back(prefix.state_slot);
  }
  return prefix;
}

// Returns the pages of a prefix that the sliding window of a group covers at the end of the prefix.
gsl::span<const PageId> KvCache::pinned_window(size_t group, const PinnedPrefix& prefix) const {
  const int32_t num_tokens = prefix.num_whole * pool_.page_tokens();
  return gsl::span<const PageId>(prefix.pages).subspan(static_cast<size_t>(first_kept(group, num_tokens)));
}

int32_t KvCache::max_lanes() const {
  return states_.is_empty() ? std::numeric_limits<int32_t>::max() : states_.num_slots() - pins_.max_states;
}

bool KvCache::grow() noexcept {
  if (seams_.room == nullptr) return false;
  const int32_t before = pool_.num_pages();
  pool_.grow(seams_.room->grow(before));
  states_.grow(states_.slots_at(pool_.num_pages()));
  return pool_.num_pages() > before;
}

bool KvCache::shrink() noexcept {
  if (seams_.room == nullptr) return false;
  const int32_t before = pool_.num_pages();
  const int32_t kept = seams_.room->num_pages_without_last_chunk(before);
  if (kept == before || pool_.is_used_after(kept)) return false;
  const int32_t kept_slots = std::min(states_.num_slots(), states_.slots_at(kept));
  if (kept_slots < states_.num_slots() &&
      (states_.end_of_used() > kept_slots || num_sequences() > kept_slots - pins_.max_states))
    return false;
  try {
    for (int32_t slot = kept_slots; slot < states_.num_slots(); ++slot)
      if (states_.is_snapshot(slot)) drop_state(slot);
    for (const PageId page : pool_.cached_after(kept)) {
      leave(page);
      for (SlotPool& window : windows_) window.forget(page);
      pool_.evict(page);
    }
  } catch (const std::bad_alloc&) {
    return false;  // a later call tries again
  }
  pool_.shrink(kept);
  states_.shrink(kept_slots);
  seams_.room->shrink(before);
  return true;
}

namespace {

template <typename T>
void remove_one(std::vector<T>& kept, T page) noexcept {
  const auto entry = std::find(kept.begin(), kept.end(), page);
  Expects(entry != kept.end());
  *entry = kept.back();
  kept.pop_back();
}

}  // namespace

void KvCache::unpin(const PinnedPrefix& prefix) noexcept {
  const gsl::span<const PageId> pages = prefix.pages;
  if (prefix.state_slot >= 0) {
    remove_one(pins_.states, prefix.state_slot);
    states_.leave(prefix.state_slot);
  }
  for (size_t g = 0; g < windows_.size(); ++g) {
    const auto window = pinned_window(g, prefix);
    for (size_t i = window.size(); i-- > 0;) {
      remove_one(pins_.slots[g], window[i]);
      windows_[g].leave(window[i]);
    }
  }
  for (size_t i = pages.size(); i-- > 0;) {
    remove_one(pins_.pages, pages[i]);
    release_page(pages[i]);
  }
}

std::string KvCache::audit() const {
  std::vector<int32_t> references(static_cast<size_t>(pool_.max_pages()), 0);
  for (const auto& sequence : sequences_.places()) {
    const auto whole = sequence->pages.size() * static_cast<size_t>(pool_.page_tokens());
    if (static_cast<size_t>(sequence->length) > whole) return "a sequence is longer than its pages";
    for (const PageId page : sequence->pages) ++references[static_cast<size_t>(page.value)];
  }
  for (const PageId page : pins_.pages) ++references[static_cast<size_t>(page.value)];
  std::string problem = pool_.audit(references);
  for (size_t g = 0; g < windows_.size() && problem.empty(); ++g) problem = audit_slots(g);
  return problem.empty() ? audit_states() : problem;
}

}  // namespace quire
