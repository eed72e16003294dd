// The pages of one cache: what uses them, what they hold, and which goes next when room is needed.
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
  int32_t num_pages = 0;  // that may ever have memory
  int32_t page_tokens = 256;
  int32_t hash_bits = 64;
  int32_t least_pages = 0;  // that have memory at first; 0: all
};

// A page is free (holds nothing), cached (holds content, nobody uses it) or referenced; those after the first
// num_pages are none of it, for they have no memory. Content is found through an index and compared token by
// token. All that the pool itself needs is taken at construction. One thread at a time.
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

  // An empty page with one reference: the lowest free one, else the cached one that was used longest ago.
  // Throws ErrorCode::capacity where every page is referenced.
  PageId allocate();
  // The page whose content `allocate` would take away; value -1 where it would not.
  PageId next_evicted() const { return PageId{free_.size() == 0 ? cached_.front : -1}; }

  // The first num_pages have memory from now on; more of them, or fewer: no page after them is referenced,
  // and what they hold is evicted.
  void grow(int32_t num_pages) noexcept;
  void shrink(int32_t num_pages) noexcept;
  // The cached pages after the first num_pages, and those before that continue them, which nobody could find
  // without them: each before the page that it continues.
  std::vector<PageId> cached_after(int32_t num_pages) const;
  // What a cached page holds is gone.
  void evict(PageId page) noexcept;
  // Whether a page after the first num_pages is referenced.
  bool is_used_after(int32_t num_pages) const noexcept;
  // How many pages were referenced, or found, since the last call.
  int32_t take_num_used() noexcept;
  void reference(PageId page) noexcept;
  void release(PageId page) noexcept;
  // A cached page counts as used now.
  void touch(PageId page) noexcept;

  // Whether its one holder may write on: nobody else sees it and no later page hangs on its content.
  bool writable(PageId page) const;
  int32_t ref_count(PageId page) const { return at(page).ref_count; }
  ContentId content(PageId page) const { return at(page).content; }
  gsl::span<const TokenId> tokens(PageId page) const;  // those recorded

  // Tokens [offset, offset + tokens.size()) of a writable page now stand; what came after them is forgotten.
  void record(PageId page, int32_t offset, gsl::span<const TokenId> tokens) noexcept;
  // Forgets the tokens from num_tokens on; the page is writable.
  void truncate(PageId page, int32_t num_tokens) noexcept;

  // Makes the recorded tokens of a page findable after `parent` (a domain's root or the page before).
  void show(PageId page, ContentId parent) noexcept;
  // Gives a full, shown page its place among whole pages. Where another holds the same tokens after the same
  // parent that one is returned, this page is found no longer, and the caller moves to the other.
  PageId publish(PageId page) noexcept;

  // The whole page of these page_tokens tokens after `parent`; value -1 where there is none.
  PageId find(ContentId parent, gsl::span<const TokenId> tokens) const;
  struct PartialMatch {
    PageId page{-1};
    int32_t num_tokens = 0;
  };
  // The shown page after `parent` that starts with the most of `tokens`, among those that are `usable`.
  PartialMatch find_longest(ContentId parent, gsl::span<const TokenId> tokens,
                            const std::function<bool(PageId)>& usable) const;

  // Empty where all is sound, else what is not. `references` are those that the callers know of, by page.
  std::string audit(gsl::span<const int32_t> references) const;
  bool is_free(PageId page) const { return free_.contains(page); }
  bool is_cached(PageId page) const { return at(page).is_cached; }

 private:
  struct Page {
    int32_t ref_count = 0;
    int32_t num_tokens = 0;
    ContentId parent;   // none until shown
    ContentId content;  // none until published
    int32_t previous = -1;
    int32_t next = -1;
    bool is_cached = false;
    bool was_used = false;  // since take_num_used
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
  std::vector<TokenId> tokens_;  // [num_pages, page_tokens]
  PageIndex whole_;              // published pages, by parent and tokens
  PageIndex children_;           // shown pages, by parent
  FreePages free_;
  int32_t num_pages_ = 0;
  int32_t num_used_ = 0;  // pages with was_used
  PageList cached_;       // longest unused first; a page always comes before its parent
  uint64_t last_content_ = 0;
  uint64_t num_evicted_ = 0;
};

}  // namespace quire
