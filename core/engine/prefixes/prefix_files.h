// Pages of prefixes in the files of one directory, for later caches and later processes.
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
#include "core/kv/page_shelf.h"

namespace quire {

// A page as files have it: what it is a page of, and what it holds.
struct FiledPage {
  const PageName& name;
  gsl::span<const TokenId> tokens;
  gsl::span<std::byte> bytes;
};

struct PrefixFilesOptions {
  std::string directory;
  uint64_t max_bytes = 0;  // of all its pages, whoever wrote them; the oldest go first
  Sha256 fingerprint{};    // of what a page depends on besides its tokens
};

// One thread at a time. What is in a file is believed only where all of it is as it was written: the format,
// the fingerprint, the tokens and the checksum. Other files are left alone.
class PrefixFiles {
 public:
  // Throws ErrorCode::invalid_argument where there is no such directory, and what listing it throws.
  PrefixFiles(const FileSystem& files, const PrefixFilesOptions& options, const Log& log,
              PageListener& listener);

  bool has(const Sha256& key) const noexcept { return pages_.contains(key); }
  // Fills its bytes; false where the file is not what it should be, and it is removed then.
  bool read(const FiledPage& page);
  // Where it cannot be written no more is.
  void write(const FiledPage& page);

  void visit_pages(const PageVisitor& visit) const;
  uint64_t num_pages() const { return pages_.size(); }  // of this fingerprint
  uint64_t num_bytes() const { return num_bytes_; }     // of all
  uint64_t num_refused() const { return num_refused_; }

 private:
  struct Entry {
    std::string name;
    uint64_t bytes = 0;
    PageName page;  // with a key where it is of this fingerprint
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
  const std::string fingerprint_digits_;  // as names have it
  Entries entries_;
  std::unordered_map<Sha256, Entries::iterator, PrefixKeyHash> pages_;
  uint64_t num_bytes_ = 0;
  uint64_t num_refused_ = 0;
  uint64_t last_number_ = 0;  // names begin with one that rises, so that they sort by age
  bool is_writable_ = true;
};

}  // namespace quire
