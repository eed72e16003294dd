// A damaged directory of offloaded prefix pages: reading returns the page that was written, or none, and
// foreign files are kept. The first byte of the input selects what is damaged and how; the next two select
// where.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/engine/prefixes/prefix_files.h"
#include "tests/support/memory_file_system.h"

namespace quire {
namespace {

constexpr const char* kDirectory = "store";
constexpr const char* kForeign = "store/README";
constexpr size_t kSumBytes = 8;  // at the end of a file

class NoListener final : public PageListener {
 public:
  void stored(const PageName&, PageMedium, gsl::span<const TokenId>) noexcept override {}
  void removed(const PageName&, PageMedium) noexcept override {}
};

struct Page {
  PageName name;
  std::vector<TokenId> tokens;
  std::vector<std::byte> bytes;

  explicit Page(uint8_t seed) : tokens{1, 2, seed}, bytes(40, std::byte{seed}) {
    name.key.emplace();
    name.key->fill(seed);
  }
  FiledPage filed() { return {name, tokens, bytes}; }
};

class Store {
 public:
  Store() {
    files_.write(kForeign, "a directory of somebody");
    PrefixFiles written = open();
    for (Page& page : pages_) written.write(page.filed());
    for (const std::string& name : files_.list(kDirectory))
      if (name.ends_with(".page")) paths_.push_back(std::string(kDirectory) + "/" + name);
    if (paths_.size() != pages_.size()) std::abort();
    whole_ = text(paths_[0]);
  }

  // Damages the file of the first page.
  void damage(uint8_t how, size_t place, std::string_view bytes) {
    std::string damaged = whole_;
    place %= damaged.size() + 1;
    switch (how % 6) {
      case 0:
        damaged = bytes;
        break;
      case 1:
        damaged.replace(place, std::min(bytes.size(), damaged.size() - place), bytes);
        break;
      case 2:
        damaged.resize(place);
        break;
      case 3:
        damaged = text(paths_[1]);  // the whole file of another page
        break;
      case 4:
        files_.break_reads(paths_[0]);
        return;
      default:
        files_.write(std::string(kDirectory) + "/" + std::string(bytes), damaged);
        return;
    }
    files_.write(paths_[0], damaged);
    damaged_ = damaged;
  }

  void check() {
    PrefixFiles read = open();
    for (Page& original : pages_) {
      Page page = original;
      std::fill(page.bytes.begin(), page.bytes.end(), std::byte{0x5a});
      if (read.read(page.filed()) && page.bytes != original.bytes && !is_forged()) std::abort();
    }
    if (!files_.is_file(kForeign)) std::abort();
  }

 private:
  PrefixFiles open() { return {files_, {kDirectory, 1 << 20, Sha256{}}, Log(), listener_}; }
  std::string text(const std::string& path) const { return files_.read_text(path, 1 << 16); }
  // Returns whether the damaged file may have a valid checksum: only deliberate forgery achieves that, random
  // damage does not.
  bool is_forged() const {
    return damaged_.size() != whole_.size() ||
           damaged_.compare(whole_.size() - kSumBytes, kSumBytes, whole_, whole_.size() - kSumBytes) != 0;
  }

  testing::MemoryFileSystem files_;
  NoListener listener_;
  std::array<Page, 2> pages_{Page(3), Page(4)};
  std::vector<std::string> paths_;
  std::string whole_, damaged_;
};

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  if (num_bytes < 3) return 0;
  quire::Store store;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 3, num_bytes - 3);
  store.damage(data[0], size_t{data[1]} << 8 | data[2], rest);
  store.check();
  return 0;
}
