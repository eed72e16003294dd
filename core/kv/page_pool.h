// Pool of the pages of one KV cache: reference counts, content, and LRU eviction.
// The memory side of paged attention.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/kv/content.h"
#include "core/kv/free_pages.h"
#include "core/kv/page_index.h"

namespace quire {

struct PagePoolOptions {
  int32_t num_pages = 0;  // maximum, including pages without memory
  int32_t page_tokens = 256;
  int32_t hash_bits = 64;
  int32_t least_pages = 0;  // that have memory at first; 0: all
};

// A page is free (empty), cached (has content, no references) or referenced. Pages from num_pages on have no
// memory and are in none of these states. Content is looked up in an index and compared token by token.
// Allocates all its own memory at construction. For one thread at a time.
class PagePool {
 public:
  explicit PagePool(const PagePoolOptions& options);

  int32_t num_pages() const { return num_pages_; }  // that have memory
  int32_t max_pages() const { return static_cast<int32_t>(pages_.size()); }
  int32_t page_tokens() const { return page_tokens_; }
  int32_t num_free() const { return free_.size(); }
  int32_t num_cached() const { return cached_.size; }
  int32_t num_referenced() const { return num_pages() - num_free() - num_cached(); }
  int32_t num_available() const { return num_free() + num_cached(); }
  uint64_t num_evicted() const { return num_evicted_; }

  ContentId new_content() { return ContentId{++last_content_}; }

  // Returns an empty page with one reference: the lowest free page, otherwise the least recently used cached
  // one, which is evicted. Throws ErrorCode::capacity if every page is referenced.
  PageId allocate();
  // Returns the page that `allocate` would evict next; value -1 if it would evict none.
  PageId next_evicted() const { return PageId{free_.size() == 0 ? cached_.front : -1}; }

  // Set the number of pages that have memory, to a larger or a smaller value. `shrink` requires that no page
  // after the first num_pages is referenced, and evicts those that are cached.
  void grow(int32_t num_pages) noexcept;
  void shrink(int32_t num_pages) noexcept;
  // Returns the cached pages after the first num_pages, and the cached pages before it that continue them and
  // could not be found without them. Each page comes before the page that it continues.
  std::vector<PageId> cached_after(int32_t num_pages) const;
  // Discards the content of a cached page.
  void evict(PageId page) noexcept;
  // Returns whether a page after the first num_pages is referenced.
  bool is_used_after(int32_t num_pages) const noexcept;
  // Returns how many pages were referenced or found since the last call.
  int32_t take_num_used() noexcept;
  void reference(PageId page) noexcept;
  void release(PageId page) noexcept;
  // Marks a cached page as just used.
  void touch(PageId page) noexcept;

  // Returns whether the only user of the page may write to it: no other sequence uses it, and no page
  // continues it.
  bool writable(PageId page) const;
  int32_t ref_count(PageId page) const { return at(page).ref_count; }
  // Returns how often the page was allocated or got memory.
  uint64_t generation(PageId page) const { return at(page).generation; }
  ContentId content(PageId page) const { return at(page).content; }
  ContentId parent(PageId page) const { return at(page).parent; }
  gsl::span<const TokenId> tokens(PageId page) const;  // tokens recorded in it

  // Records tokens [offset, offset + tokens.size()) of a writable page and drops the tokens recorded after
  // them.
  void record(PageId page, int32_t offset, gsl::span<const TokenId> tokens) noexcept;
  // Drops the tokens from num_tokens on; the page is writable.
  void truncate(PageId page, int32_t num_tokens) noexcept;

  // Makes the recorded tokens of a page findable after `parent` (the root of a domain or the page before).
  void show(PageId page, ContentId parent) noexcept;
  // Publishes a full, shown page as a whole page. If another page already has the same tokens after the same
  // parent, returns that page; the given page is then removed from the index, and the caller must use the
  // other one.
  PageId publish(PageId page) noexcept;

  // Returns the whole page with these page_tokens tokens after `parent`; value -1 if there is none.
  PageId find(ContentId parent, gsl::span<const TokenId> tokens) const;
  struct PartialMatch {
    PageId page{-1};
    int32_t num_tokens = 0;
  };
  // Returns the shown page after `parent` with the longest common beginning with `tokens`, among the pages
  // for which `usable` returns true.
  PartialMatch find_longest(ContentId parent, gsl::span<const TokenId> tokens,
                            const std::function<bool(PageId)>& usable) const;

  // Returns whether a shown page follows `parent`.
  bool is_continued(ContentId parent) const;

  // Returns an empty string if the pool is consistent, otherwise the first problem. `references` are the
  // reference counts the callers expect, by page.
  std::string audit(gsl::span<const int32_t> references) const;
  bool is_free(PageId page) const { return free_.contains(page); }
  bool is_cached(PageId page) const { return at(page).is_cached; }

 private:
  struct Page {
    int32_t ref_count = 0;
    int32_t num_tokens = 0;
    uint64_t generation = 0;
    ContentId parent;   // none until shown
    ContentId content;  // none until published
    int32_t previous = -1;
    int32_t next = -1;
    bool is_cached = false;
    bool was_used = false;  // since the last take_num_used
  };
  struct PageList {
    int32_t front = -1;
    int32_t back = -1;
    int32_t size = 0;
  };

  Page& at(PageId page) { return pages_[static_cast<size_t>(page.value)]; }
  const Page& at(PageId page) const { return pages_[static_cast<size_t>(page.value)]; }
  void note_use(PageId page) noexcept;
  void link(PageId page) noexcept;
  void unlink(PageId page) noexcept;
  void forget(PageId page) noexcept;
  std::string audit_page(PageId page) const;
  std::string audit_cached() const;
  std::string audit_order() const;

  int32_t page_tokens_;
  std::vector<Page> pages_;
  std::vector<TokenId> tokens_;  // [max_pages, page_tokens]
  PageIndex whole_;              // published pages, by parent and tokens
  PageIndex children_;           // shown pages, by parent
  FreePages free_;
  int32_t num_pages_ = 0;
  int32_t num_used_ = 0;  // pages with was_used
  PageList cached_;       // least recently used first; a page always comes before its parent
  uint64_t last_content_ = 0;
  uint64_t num_evicted_ = 0;
};

}  // namespace quire
