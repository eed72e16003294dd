// Prefix cache on disk: evicted pages and snapshots in the files of one directory, for later engines and
// processes.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <gsl/gsl>

#include "core/base/file_system.h"
#include "core/base/ids.h"
#include "core/base/log.h"
#include "core/base/sha256.h"
#include "core/kv/page_offload_tier.h"

namespace quire {

// What a file holds: a whole page, or a snapshot of recurrent states with the page of its last tokens.
enum class FiledKind { page, state };

// A page in a file: its name, its tokens and its content.
struct FiledPage {
  const PageName& name;
  gsl::span<const TokenId> tokens;
  gsl::span<std::byte> bytes;
  FiledKind kind = FiledKind::page;
};

struct PrefixFilesOptions {
  std::string directory;
  // Limit for all page files, also those of other processes; the oldest are deleted first.
  uint64_t max_bytes = 0;
  Sha256 fingerprint{};  // hash of everything besides its tokens that a page depends on
};

// Not thread-safe. A file is used only if its format, fingerprint, tokens and checksum match exactly. Other
// files in the directory are not touched.
class PrefixFiles {
 public:
  // Throws ErrorCode::invalid_argument if the directory does not exist, and the errors of listing it.
  PrefixFiles(const FileSystem& files, const PrefixFilesOptions& options, const Log& log,
              PageListener& listener);

  bool has(const Sha256& key) const noexcept { return pages_.contains(key); }
  // Fills page.bytes. Returns false, and deletes the file, if its content is not as expected.
  bool read(const FiledPage& page);
  // Writes a page. After the first failure writes no more pages.
  void write(const FiledPage& page);

  void visit_pages(const PageVisitor& visit) const;
  // Numbers of pages and snapshots with this fingerprint.
  uint64_t num_pages() const { return pages_.size() - num_states_; }
  uint64_t num_states() const { return num_states_; }
  uint64_t num_bytes() const { return num_bytes_; }  // of all page files
  uint64_t num_refused() const { return num_refused_; }

 private:
  struct Entry {
    std::string name;
    uint64_t bytes = 0;
    PageName page;  // has a key if the page is of this fingerprint
    FiledKind kind = FiledKind::page;
  };
  using Entries = std::list<Entry>;  // oldest first

  std::string path_of(const std::string& name) const { return options_.directory + "/" + name; }
  void take_in(const std::string& name);
  void drop(Entries::iterator entry, bool removes);
  void make_room(uint64_t bytes);

  const FileSystem& files_;
  const PrefixFilesOptions options_;
  const Log log_;
  PageListener& listener_;
  const std::string fingerprint_digits_;  // as they appear in file names
  Entries entries_;
  std::unordered_map<Sha256, Entries::iterator, PrefixKeyHash> pages_;
  uint64_t num_states_ = 0;
  uint64_t num_bytes_ = 0;
  uint64_t num_refused_ = 0;
  uint64_t last_number_ = 0;  // file names begin with a rising number, so that they sort by age
  bool is_writable_ = true;
};

}  // namespace quire
