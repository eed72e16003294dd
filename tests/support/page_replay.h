// Reader of page events that reconstructs which pages are on which medium.
#pragma once

#include <map>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "core/engine/events/page_followers.h"
#include "core/kv/kv_cache.h"

namespace quire::testing {

class PageReplay {
 public:
  struct Page {
    uint64_t parent = 0;
    std::string name_space;
    TokenIds tokens;

    bool operator==(const Page&) const = default;
  };
  using Pages = std::map<std::pair<PageMedium, uint64_t>, Page>;

  // Ignores events after a gap until the reader is reset.
  void take(const Event& event) {
    const PageChange& change = *event.page;
    if (change.kind == PageChange::Kind::cleared) {
      pages_.clear();
      in_order_ = true;
    } else if (in_order_ && change.number != last_ + 1) {
      in_order_ = false;
      ++num_gaps_;
    }
    last_ = change.number;
    if (in_order_) apply(change, event.token_ids);
  }

  // Returns the pages that a reader should have for a cache.
  static Pages of(const KvCache& kv) {
    PageReplay known;
    kv.visit_pages([&](const PageName& name, PageMedium medium, gsl::span<const TokenId> tokens) {
      known.pages_[{medium, PageFollowers::short_hash(name.key)}] = {
          PageFollowers::short_hash(name.parent), *name.name_space, {tokens.begin(), tokens.end()}};
    });
    return known.pages_;
  }

  bool in_order() const { return in_order_; }
  int64_t num_gaps() const { return num_gaps_; }
  const Pages& pages() const { return pages_; }
  Pages pages_on(PageMedium medium) const {
    Pages found;
    for (const auto& [key, page] : pages_)
      if (key.first == medium) found.emplace(key, page);
    return found;
  }
  size_t count(PageMedium medium) const { return pages_on(medium).size(); }
  // Returns the first event that is inconsistent with those before it, or an empty string.
  const std::string& problem() const { return problem_; }

 private:
  void apply(const PageChange& change, const TokenIds& tokens) {
    const std::pair key(change.medium, change.hash);
    if (change.kind == PageChange::Kind::removed && pages_.erase(key) == 0)
      note(change, "removed, but not there");
    if (change.kind != PageChange::Kind::stored) return;
    if (!pages_.emplace(key, Page{change.parent, change.name_space, tokens}).second)
      note(change, "stored twice");
    const bool on_device = change.medium == PageMedium::device;
    if (on_device && change.parent != 0 && pages_.count({change.medium, change.parent}) == 0)
      note(change, "continues a page that is not there");
  }
  void note(const PageChange& change, const char* what) {
    if (problem_.empty())
      problem_ = fmt::format("event {}: page {:x} is {}", change.number, change.hash, what);
  }

  Pages pages_;
  int64_t last_ = -1;
  int64_t num_gaps_ = 0;
  bool in_order_ = false;
  std::string problem_;
};

}  // namespace quire::testing
