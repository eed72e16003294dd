// Pages of prefixes that left a cache: in host memory, then in files, and back.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/file_system.h"
#include "core/base/log.h"
#include "core/engine/prefixes/prefix_files.h"
#include "core/engine/prefixes/prefix_options.h"
#include "core/kv/page_shelf.h"
#include "core/step/executor.h"

namespace quire {

// The engine's thread alone. What was used last stays longest in host memory; what has to leave it, or finds
// no room there, goes to files. Nothing that fails here ends a job: the page is computed anew.
class PrefixStore final : public PageShelf {
 public:
  struct Seams {
    Executor& executor;
    const FileSystem& files;
    const Log& log;
    PageListener& listener;
  };

  // Null where nothing is to be kept. Throws ErrorCode::unsupported where the executor gives no pages, and as
  // PrefixFiles does.
  static std::unique_ptr<PrefixStore> create(const PrefixStoreOptions& options, const Seams& seams);

  void put(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept override;
  bool has(const Sha256& key) const noexcept override;
  bool get(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept override;
  // Files what is in host memory, until `stops` says so.
  void file_all(const std::function<bool()>& stops) noexcept;

  // Every page, those in host memory first.
  void visit_pages(const PageVisitor& visit) const;

  bool has_files() const { return files_.has_value(); }
  PrefixStats stats() const;

 private:
  struct Held {
    PageName name;
    std::vector<TokenId> tokens;
    std::vector<std::byte> bytes;
  };
  using HeldPages = std::list<Held>;  // the one used last first

  PrefixStore(const PrefixStoreOptions& options, const Seams& seams);
  void keep(const PageName& name, gsl::span<const TokenId> tokens, PageId page);
  bool fetch(const PageName& name, gsl::span<const TokenId> tokens, PageId page);
  void hold(const PageName& name, gsl::span<const TokenId> tokens, PageId page);
  void file(Held& held);
  uint64_t cost(gsl::span<const TokenId> tokens) const;

  Executor& executor_;
  const Log log_;
  PageListener& listener_;
  const uint64_t max_bytes_;
  std::optional<PrefixFiles> files_;
  HeldPages held_;
  std::unordered_map<Sha256, HeldPages::iterator, PrefixKeyHash> places_;
  std::vector<std::byte> scratch_;  // a page on its way to a file or from one
  uint64_t num_bytes_ = 0;
  uint64_t num_restored_ = 0;
};

}  // namespace quire
