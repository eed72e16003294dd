// Offload of pages evicted from the prefix cache, and of dropped snapshots: to host memory, then to files,
// and back.
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
// it, or too large for it, go to files. No failure here ends a job: the page is computed again. A snapshot is
// stored as a page is: its bytes are the page of its last tokens if it has any, one bank of its slot, the
// slots of the windows before it, and a byte with the bank to continue from.
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
  bool has_states() const noexcept override;
  void put_state(const OffloadedState& state) noexcept override;
  int32_t get_state(const OffloadedState& state) noexcept override;
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
    FiledKind kind = FiledKind::page;
  };
  // What is stored, and how its bytes are read.
  struct Item {
    const PageName& name;
    gsl::span<const TokenId> tokens;
    FiledKind kind;
    uint64_t num_bytes;
    const std::function<void(gsl::span<std::byte>)>& read;
  };
  using StoredPages = std::list<Held>;  // most recently used first

  PrefixStore(const PrefixStoreOptions& options, const Seams& seams);
  void keep(const Item& item);
  std::optional<gsl::span<const std::byte>> fetch(const FiledPage& wanted);
  void hold(const Item& item);
  void file(Held& held);
  void drop_last();
  uint64_t bytes_of_state(const OffloadedState& state) const;
  void read_state(const OffloadedState& state, gsl::span<std::byte> out) const;
  void write_state(const OffloadedState& state, gsl::span<const std::byte> bytes) const;
  gsl::span<std::byte> scratch(uint64_t num_bytes);

  Executor& executor_;
  const Log log_;
  PageListener& listener_;
  const uint64_t max_bytes_;
  std::optional<PrefixFiles> files_;
  StoredPages held_;
  std::unordered_map<Sha256, StoredPages::iterator, PrefixKeyHash> places_;
  std::vector<std::byte> scratch_;  // content of a page on its way to or from a file
  uint64_t num_bytes_ = 0;
  uint64_t num_states_ = 0;  // of the entries in host memory
  uint64_t num_restored_ = 0;
};

}  // namespace quire
