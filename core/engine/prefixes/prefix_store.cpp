#include "core/engine/prefixes/prefix_store.h"

#include <algorithm>

#include "core/base/contain.h"
#include "core/base/error.h"
#include "kernels/interface/state_specs.h"

namespace quire {

std::unique_ptr<PrefixStore> PrefixStore::create(const PrefixStoreOptions& options, const Seams& seams) {
  if (!options.is_enabled()) return nullptr;
  if (!seams.executor.limits().windows.empty() && seams.executor.state_bytes() == 0) {
    throw Error(
        ErrorCode::unsupported,
        "prefix_bytes, prefix_directory: this model has sliding-window layers and no recurrent states, "
        "so its pages cannot be stored; leave both unset")
        .at(options.host_bytes > 0 ? "prefix_bytes" : "prefix_directory");
  }
  return std::unique_ptr<PrefixStore>(new PrefixStore(options, seams));
}

PrefixStore::PrefixStore(const PrefixStoreOptions& options, const Seams& seams)
    : executor_(seams.executor), log_(seams.log), listener_(seams.listener), max_bytes_(options.host_bytes) {
  if (options.directory.empty()) return;
  files_.emplace(seams.files,
                 PrefixFilesOptions{options.directory, options.directory_bytes, sha256(options.fingerprint)},
                 log_, listener_);
}

void PrefixStore::put(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept {
  const auto read = [&](gsl::span<std::byte> out) { executor_.read_page(0, page, out); };
  contain(
      "no memory",
      [&] {
        keep({name, tokens, FiledKind::page, executor_.page_bytes(0), read});
      },
      [&](ErrorCode, std::string_view why) {
        log_(LogLevel::debug, "an evicted page is not stored: {}", why);
      });
}

bool PrefixStore::has(const Sha256& key) const noexcept {
  return places_.contains(key) || (files_ && files_->has(key));
}

bool PrefixStore::get(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept {
  bool is_there = false;
  const auto restore = [&] {
    const uint64_t num_bytes = executor_.page_bytes(0);
    const auto bytes = fetch({name, tokens, scratch(num_bytes)});
    if (!bytes || bytes->size() != num_bytes) return;
    executor_.write_page(0, page, *bytes);
    is_there = true;
  };
  contain("no memory", restore, [&](ErrorCode, std::string_view why) {
    log_(LogLevel::debug, "a stored page cannot be restored: {}", why);
  });
  num_restored_ += is_there ? 1 : 0;
  return is_there;
}

bool PrefixStore::has_states() const noexcept {
  return num_states_ > 0 || (files_ && files_->num_states() > 0);
}

uint64_t PrefixStore::bytes_of_state(const OffloadedState& state) const {
  uint64_t bytes = (state.tokens.empty() ? 0 : executor_.page_bytes(0)) + executor_.state_bytes() + 1;
  for (const WindowSlot& slot : state.windows) bytes += executor_.page_bytes(slot.table);
  return bytes;
}

namespace {

// Takes the first num_bytes bytes from a span.
template <typename Byte>
gsl::span<Byte> take(gsl::span<Byte>& bytes, uint64_t num_bytes) {
  const auto taken = bytes.first(static_cast<size_t>(num_bytes));
  bytes = bytes.subspan(taken.size());
  return taken;
}

}  // namespace

// Reads the bytes of a snapshot from the executor, in the order of the class comment.
void PrefixStore::read_state(const OffloadedState& state, gsl::span<std::byte> out) const {
  const uint64_t of_page = state.tokens.empty() ? 0 : executor_.page_bytes(0);
  if (of_page > 0) executor_.read_page(0, state.rest, take(out, of_page));
  executor_.read_state(state.slot, state.bank % kernels::kFromLineBefore, take(out, executor_.state_bytes()));
  for (const WindowSlot& slot : state.windows)
    executor_.read_page(slot.table, slot.slot, take(out, executor_.page_bytes(slot.table)));
  out.front() = std::byte{state.bank >= kernels::kFromLineBefore ? uint8_t{1} : uint8_t{0}};
}

void PrefixStore::write_state(const OffloadedState& state, gsl::span<const std::byte> bytes) const {
  const auto page = take(bytes, state.tokens.empty() ? 0 : executor_.page_bytes(0));
  if (!page.empty() && state.rest.value >= 0) executor_.write_page(0, state.rest, page);
  executor_.write_state(state.slot, 0, take(bytes, executor_.state_bytes()));
  for (const WindowSlot& slot : state.windows) {
    const auto content = take(bytes, executor_.page_bytes(slot.table));
    if (slot.slot.value >= 0) executor_.write_page(slot.table, slot.slot, content);
  }
}

void PrefixStore::put_state(const OffloadedState& state) noexcept {
  const auto read = [&](gsl::span<std::byte> out) { read_state(state, out); };
  contain(
      "no memory",
      [&] {
        keep({state.name, state.tokens, FiledKind::state, bytes_of_state(state), read});
      },
      [&](ErrorCode, std::string_view why) { log_(LogLevel::debug, "a snapshot is not stored: {}", why); });
}

int32_t PrefixStore::get_state(const OffloadedState& state) noexcept {
  int32_t bank = -1;
  const auto restore = [&] {
    const uint64_t num_bytes = bytes_of_state(state);
    const auto bytes = fetch({state.name, state.tokens, scratch(num_bytes), FiledKind::state});
    if (!bytes || bytes->size() != num_bytes) return;
    write_state(state, *bytes);
    bank = bytes->back() == std::byte{0} ? 0 : kernels::kFromLineBefore;
  };
  contain("no memory", restore, [&](ErrorCode, std::string_view why) {
    log_(LogLevel::debug, "a stored snapshot cannot be restored: {}", why);
  });
  return bank;
}

namespace {

// Returns the host memory for an entry, including an estimate for its index.
uint64_t cost(uint64_t num_bytes, gsl::span<const TokenId> tokens) {
  constexpr uint64_t kEntryBytes = 256;
  return num_bytes + tokens.size_bytes() + kEntryBytes;
}

}  // namespace

// Returns memory for the content of a page. The largest size is kept.
gsl::span<std::byte> PrefixStore::scratch(uint64_t num_bytes) {
  if (!files_) return {};
  if (scratch_.size() < num_bytes) scratch_.resize(static_cast<size_t>(num_bytes));
  return gsl::span(scratch_).first(static_cast<size_t>(num_bytes));
}

void PrefixStore::keep(const Item& item) {
  if (const auto place = places_.find(*item.name.key); place != places_.end())
    return held_.splice(held_.begin(), held_, place->second);
  if (cost(item.num_bytes, item.tokens) <= max_bytes_) return hold(item);
  if (!files_ || files_->has(*item.name.key)) return;
  const auto bytes = scratch(item.num_bytes);
  item.read(bytes);
  files_->write({item.name, item.tokens, bytes, item.kind});
}

void PrefixStore::hold(const Item& item) {
  StoredPages fresh;
  while (num_bytes_ + cost(item.num_bytes, item.tokens) > max_bytes_) {
    drop_last();
    // Reuse the memory of an evicted entry of the same size.
    if (fresh.empty() && held_.back().bytes.size() == item.num_bytes) {
      fresh.splice(fresh.end(), held_, std::prev(held_.end()));
    } else {
      held_.pop_back();
    }
  }
  if (fresh.empty()) fresh.emplace_back();
  Held& held = fresh.front();
  held.name = item.name;
  held.tokens.assign(item.tokens.begin(), item.tokens.end());
  held.kind = item.kind;
  held.bytes.resize(static_cast<size_t>(item.num_bytes));
  item.read(held.bytes);
  places_.emplace(*item.name.key, fresh.begin());
  held_.splice(held_.begin(), fresh);
  num_bytes_ += cost(item.num_bytes, item.tokens);
  num_states_ += item.kind == FiledKind::state ? 1 : 0;
  if (item.kind == FiledKind::page) listener_.stored(item.name, PageMedium::host, item.tokens);
}

// Files the least recently used entry and takes it from the index.
void PrefixStore::drop_last() {
  Held& last = held_.back();
  file(last);
  num_bytes_ -= cost(last.bytes.size(), last.tokens);
  places_.erase(*last.name.key);
  num_states_ -= last.kind == FiledKind::state ? 1 : 0;
  if (last.kind == FiledKind::page) listener_.removed(last.name, PageMedium::host);
}

void PrefixStore::file(Held& held) {
  if (files_) files_->write({held.name, held.tokens, held.bytes, held.kind});
}

// Returns the bytes of an entry, valid until the next call; none if it is not stored. Reads a file to
// wanted.bytes. Compares the tokens, so that the right entry is restored even if keys collide.
std::optional<gsl::span<const std::byte>> PrefixStore::fetch(const FiledPage& wanted) {
  if (const auto place = places_.find(*wanted.name.key); place != places_.end()) {
    const Held& held = *place->second;
    const bool is_same = held.kind == wanted.kind && std::equal(wanted.tokens.begin(), wanted.tokens.end(),
                                                                held.tokens.begin(), held.tokens.end());
    if (!is_same) return std::nullopt;
    held_.splice(held_.begin(), held_, place->second);
    return held.bytes;
  }
  if (!files_ || !files_->read(wanted)) return std::nullopt;
  return wanted.bytes;
}

void PrefixStore::write_all_files(const std::function<bool()>& stops) noexcept {
  contain(
      "no memory",
      [&] {
        for (Held& held : held_)
          if (!stops()) file(held);
      },
      [&](ErrorCode, std::string_view why) {
        log_(LogLevel::warning, "prefixes are not written to files: {}", why);
      });
}

void PrefixStore::visit_pages(const PageVisitor& visit) const {
  for (const Held& held : held_)
    if (held.kind == FiledKind::page) visit(held.name, PageMedium::host, held.tokens);
  if (files_) files_->visit_pages(visit);
}

PrefixStats PrefixStore::stats() const {
  PrefixStats stats;
  stats.host_pages = held_.size() - num_states_;
  stats.host_bytes = num_bytes_;
  stats.pages_restored = num_restored_;
  if (!files_) return stats;
  stats.file_pages = files_->num_pages();
  stats.file_bytes = files_->num_bytes();
  stats.files_refused = files_->num_refused();
  return stats;
}

}  // namespace quire
