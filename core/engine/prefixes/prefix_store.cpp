#include "core/engine/prefixes/prefix_store.h"

#include <algorithm>

#include "core/base/contain.h"
#include "core/base/error.h"

namespace quire {

std::unique_ptr<PrefixStore> PrefixStore::create(const PrefixStoreOptions& options, const Seams& seams) {
  if (!options.is_enabled()) return nullptr;
  if (seams.executor.page_bytes() == 0) {
    throw Error(
        ErrorCode::unsupported,
        "prefix_bytes, prefix_directory: this model has sliding-window layers or recurrent states, which "
        "cannot be stored; leave both unset")
        .at(options.host_bytes > 0 ? "prefix_bytes" : "prefix_directory");
  }
  return std::unique_ptr<PrefixStore>(new PrefixStore(options, seams));
}

PrefixStore::PrefixStore(const PrefixStoreOptions& options, const Seams& seams)
    : executor_(seams.executor),
      log_(seams.log),
      listener_(seams.listener),
      max_bytes_(options.host_bytes),
      scratch_(options.directory.empty() ? 0 : size_t{seams.executor.page_bytes()}) {
  if (options.directory.empty()) return;
  files_.emplace(seams.files,
                 PrefixFilesOptions{options.directory, options.directory_bytes, sha256(options.fingerprint)},
                 log_, listener_);
}

void PrefixStore::put(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept {
  contain(
      "no memory", [&] { keep(name, tokens, page); },
      [&](ErrorCode, std::string_view why) {
        log_(LogLevel::debug, "an evicted page is not stored: {}", why);
      });
}

bool PrefixStore::has(const Sha256& key) const noexcept {
  return places_.contains(key) || (files_ && files_->has(key));
}

bool PrefixStore::get(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept {
  bool is_there = false;
  contain(
      "no memory", [&] { is_there = fetch(name, tokens, page); },
      [&](ErrorCode, std::string_view why) {
        log_(LogLevel::debug, "a stored page cannot be restored: {}", why);
      });
  num_restored_ += is_there ? 1 : 0;
  return is_there;
}

// Returns the host memory for a page, including an estimate for its index entry.
uint64_t PrefixStore::cost(gsl::span<const TokenId> tokens) const {
  constexpr uint64_t kEntryBytes = 256;
  return executor_.page_bytes() + tokens.size_bytes() + kEntryBytes;
}

void PrefixStore::keep(const PageName& name, gsl::span<const TokenId> tokens, PageId page) {
  if (const auto place = places_.find(*name.key); place != places_.end())
    return held_.splice(held_.begin(), held_, place->second);
  if (cost(tokens) <= max_bytes_) return hold(name, tokens, page);
  if (!files_ || files_->has(*name.key)) return;
  executor_.read_page(page, scratch_);
  files_->write({name, tokens, scratch_});
}

void PrefixStore::hold(const PageName& name, gsl::span<const TokenId> tokens, PageId page) {
  StoredPages fresh;
  while (num_bytes_ + cost(tokens) > max_bytes_) {
    file(held_.back());
    num_bytes_ -= cost(held_.back().tokens);
    places_.erase(*held_.back().name.key);
    listener_.removed(held_.back().name, PageMedium::host);
    // Reuse the memory of the evicted entry: all pages have the same size.
    if (fresh.empty()) {
      fresh.splice(fresh.end(), held_, std::prev(held_.end()));
    } else {
      held_.pop_back();
    }
  }
  if (fresh.empty()) fresh.emplace_back();
  Held& held = fresh.front();
  held.name = name;
  held.tokens.assign(tokens.begin(), tokens.end());
  held.bytes.resize(executor_.page_bytes());
  executor_.read_page(page, held.bytes);
  places_.emplace(*name.key, fresh.begin());
  held_.splice(held_.begin(), fresh);
  num_bytes_ += cost(tokens);
  listener_.stored(name, PageMedium::host, tokens);
}

void PrefixStore::file(Held& held) {
  if (files_) files_->write({held.name, held.tokens, held.bytes});
}

// Compares the tokens, so that the right page is restored even if keys collide.
bool PrefixStore::fetch(const PageName& name, gsl::span<const TokenId> tokens, PageId page) {
  if (const auto place = places_.find(*name.key); place != places_.end()) {
    const Held& held = *place->second;
    if (!std::equal(tokens.begin(), tokens.end(), held.tokens.begin(), held.tokens.end())) return false;
    executor_.write_page(page, held.bytes);
    held_.splice(held_.begin(), held_, place->second);
    return true;
  }
  if (!files_ || !files_->read({name, tokens, scratch_})) return false;
  executor_.write_page(page, scratch_);
  return true;
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
  for (const Held& held : held_) visit(held.name, PageMedium::host, held.tokens);
  if (files_) files_->visit_pages(visit);
}

PrefixStats PrefixStore::stats() const {
  PrefixStats stats;
  stats.host_pages = held_.size();
  stats.host_bytes = num_bytes_;
  stats.pages_restored = num_restored_;
  if (!files_) return stats;
  stats.file_pages = files_->num_pages();
  stats.file_bytes = files_->num_bytes();
  stats.files_refused = files_->num_refused();
  return stats;
}

}  // namespace quire
