// Interface for the memory of pages by which a KV cache grows and shrinks.
#pragma once

#include <cstdint>

namespace quire {

// For a cache whose first num_pages pages have memory. Called on the thread of its cache only.
class PageMemorySource {
 public:
  virtual ~PageMemorySource() = default;
  // Allocates memory for the next chunk and returns the new number of pages with memory; num_pages if there
  // is no memory left.
  virtual int32_t grow(int32_t num_pages) noexcept = 0;
  // Returns how many pages would remain without the last chunk; num_pages if the last chunk cannot be
  // released.
  virtual int32_t num_pages_without_last_chunk(int32_t num_pages) const noexcept = 0;
  // Releases the memory of the last chunk, whose pages are unused.
  virtual void shrink(int32_t num_pages) noexcept = 0;
};

}  // namespace quire
