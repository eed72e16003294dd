// Where pages of a cache get their memory that are not there from the start.
#pragma once

#include <cstdint>

namespace quire {

// Of a cache whose first num_pages have memory. The thread of its cache alone.
class PageRoom {
 public:
  virtual ~PageRoom() = default;
  // Memory for the next chunk; how many have some then: num_pages where there is none to be had.
  virtual int32_t grow(int32_t num_pages) noexcept = 0;
  // How many keep theirs where the last chunk loses it: num_pages where all have to.
  virtual int32_t without_last(int32_t num_pages) const noexcept = 0;
  // Takes the memory of the last chunk away, whose pages nobody uses.
  virtual void shrink(int32_t num_pages) noexcept = 0;
};

}  // namespace quire
