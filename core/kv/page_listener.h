// Events of whole pages (stored, removed) on the device and on the media they are offloaded to.
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

// SHA-256 over a domain and all its tokens up to the end of a page. Equal domains and tokens give equal keys
// in every process. None for pages computed with an adapter, because adapter generations are only valid
// within one process.
using PrefixKey = std::optional<Sha256>;

struct PrefixKeyHash {
  size_t operator()(const Sha256& key) const noexcept;
};

PrefixKey key_of_domain(const PrefixDomain& domain) noexcept;
// Returns the key of the page that holds `tokens` and follows the page, or the domain, with the key `before`.
PrefixKey key_after(const PrefixKey& before, gsl::span<const TokenId> tokens) noexcept;

// Returns the key of a snapshot that follows the page, or the domain, with the key `before` after `tokens`.
// It differs from the keys of all pages.
PrefixKey key_of_snapshot(const PrefixKey& before, gsl::span<const TokenId> tokens) noexcept;

enum class PageMedium : int32_t { device = 1, host = 2, file = 3 };

// Identity of the content of a whole page. Copies have the same name on every medium.
struct PageName {
  PrefixKey key;
  PrefixKey parent;  // key of the page before; none for the first page
  // null: from a file of another process, of which only the key is available
  std::shared_ptr<const std::string> name_space;
};

using PageVisitor =
    std::function<void(const PageName& name, PageMedium medium, gsl::span<const TokenId> tokens)>;

// Receives an event for every page with a key; a page is reported after the page that it continues. Called on
// the thread of its cache only.
class PageListener {
 public:
  virtual ~PageListener() = default;
  virtual void stored(const PageName& name, PageMedium medium, gsl::span<const TokenId> tokens) noexcept = 0;
  virtual void removed(const PageName& name, PageMedium medium) noexcept = 0;
};

}  // namespace quire
