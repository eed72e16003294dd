// What becomes of whole pages, on the device and where they go that leave it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

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

enum class PageMedium : int32_t { device = 1, host = 2, file = 3 };

// What a whole page is of. Copies of it have the same name on every medium.
struct PageName {
  PrefixKey key;
  PrefixKey parent;                               // of the page before; none: it is the first
  std::shared_ptr<const std::string> name_space;  // null: a file of another process, known by its key alone
};

using PageVisitor =
    std::function<void(const PageName& name, PageMedium medium, gsl::span<const TokenId> tokens)>;

// Told of every page with a key, a page after the one that it continues. The thread of its cache alone.
class PageListener {
 public:
  virtual ~PageListener() = default;
  virtual void stored(const PageName& name, PageMedium medium, gsl::span<const TokenId> tokens) noexcept = 0;
  virtual void removed(const PageName& name, PageMedium medium) noexcept = 0;
};

}  // namespace quire
