// Where whole pages go that leave the cache, found again by their names.
#pragma once

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/base/sha256.h"
#include "core/kv/page_listener.h"

namespace quire {

// The thread of its cache alone. Names that go in have a key.
class PageShelf {
 public:
  virtual ~PageShelf() = default;
  // A copy of a whole page with these tokens, where there is room; else it is lost.
  virtual void put(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept = 0;
  virtual bool has(const Sha256& key) const noexcept = 0;
  // Fills a page; what it holds is not to be used where the answer is false.
  virtual bool get(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept = 0;
};

}  // namespace quire
