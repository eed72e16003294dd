// Interface of the offload tier of the prefix cache: stores evicted whole pages and finds them again by name.
#pragma once

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/base/sha256.h"
#include "core/kv/page_listener.h"

namespace quire {

// Called on the thread of its cache only. Names passed to `put` have a key.
class PageOffloadTier {
 public:
  virtual ~PageOffloadTier() = default;
  // Stores a copy of a whole page with these tokens if there is space; otherwise the page is lost.
  virtual void put(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept = 0;
  virtual bool has(const Sha256& key) const noexcept = 0;
  // Fills `page` with the stored content. If it returns false, the content of `page` is undefined.
  virtual bool get(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept = 0;
};

}  // namespace quire
