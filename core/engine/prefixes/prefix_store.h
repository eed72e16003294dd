// Offload of pages evicted from the prefix cache: to host memory, then to files, and back.
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
#include "core/kv/page_offload_tier.h"
#include "core/step/executor.h"

namespace quire {

// Used by the engine's thread alone. Host memory holds the most recently used pages (LRU); pages evicted from
// it, or too large for it, go to files. No failure here ends a job: the page is computed again.
class PrefixStore final : public PageOffloadTier {
 public:
  struct Seams {
    Executor& executor;
    const FileSystem& files;
    const Log& log;
    PageListener& listener;
  };

  // Returns null if the options store no pages. Throws ErrorCode::unsupported if the executor cannot export
  // pages, and the errors of PrefixFiles.
  static std::unique_ptr<PrefixStore> create(const PrefixStoreOptions& options, const Seams& seams);

  void put(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept override;
  bool has(const Sha256& key) const noexcept override;
  bool get(const PageName& name, gsl::span<const TokenId> tokens, PageId page) noexcept override;
  // Writes the pages in host memory to files, until `stops` returns true.
  void write_all_files(const std::function<bool()>& stops) noexcept;

  // Calls `visit` for every page, those in host memory first.
  void visit_pages(const PageVisitor& visit) const;

  bool has_files() const { return files_.has_value(); }
  PrefixStats stats() const;

 private:
  struct Held {
    PageName name;
    std::vector<TokenId> tokens;
    std::vector<std::byte> bytes;
  };
  using StoredPages = std::list<Held>;  // most recently used first

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
  StoredPages held_;
  std::unordered_map<Sha256, StoredPages::iterator, PrefixKeyHash> places_;
  std::vector<std::byte> scratch_;  // content of a page on its way to or from a file
  uint64_t num_bytes_ = 0;
  uint64_t num_restored_ = 0;
};

}  // namespace quire
