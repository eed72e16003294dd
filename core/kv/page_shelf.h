// Where whole pages go that leave the cache, and the names by which they are found again.
#pragma once

#include <cstdint>
#include <optional>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/base/sha256.h"
#include "core/kv/content.h"

namespace quire {

// SHA-256 over a domain and all tokens from its beginning through a page: equal where these are equal, in
// every process. None: of what computes with an adapter, whose numbers are those of one process.
using PrefixKey = std::optional<Sha256>;

struct PrefixKeyHash {
  size_t operator()(const Sha256& key) const noexcept;
};

PrefixKey key_of_domain(const PrefixDomain& domain) noexcept;
// Of the page of `tokens` after the page, or the domain, of `before`.
PrefixKey key_after(const PrefixKey& before, gsl::span<const TokenId> tokens) noexcept;

// The thread of its cache alone.
class PageShelf {
 public:
  virtual ~PageShelf() = default;
  // A copy of a whole page with these tokens, where there is room; else it is lost.
  virtual void put(const Sha256& key, gsl::span<const TokenId> tokens, PageId page) noexcept = 0;
  virtual bool has(const Sha256& key) const noexcept = 0;
  // Fills a page; what it holds is not to be used where the answer is false.
  virtual bool get(const Sha256& key, gsl::span<const TokenId> tokens, PageId page) noexcept = 0;
};

}  // namespace quire
