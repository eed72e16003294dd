// Matrix whose bytes a backend has to read, as from a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/interface/stored_bytes.h"
#include "kernels/interface/weight_source.h"

namespace quire::testing {

// Borrows the data of `source`. Only the first `readable` bytes can be read; a read beyond them fails.
class UnreadSource {
 public:
  explicit UnreadSource(const kernels::WeightSource& source,
                        size_t readable = std::numeric_limits<size_t>::max())
      : source_(source), readable_(readable) {
    bytes_ = source.format == kernels::WeightFormat::dense     ? source.dense.data
             : source.format == kernels::WeightFormat::exl2    ? source.exl2.q_weight
             : source.format == kernels::WeightFormat::blocks  ? source.blocks.data
             : source.format == kernels::WeightFormat::trellis ? source.trellis.tiles
                                                               : static_cast<const void*>(source.coded.codes);
    source_.dense.data = nullptr;
    source_.exl2.q_weight = nullptr;
    source_.coded.codes = nullptr;
    source_.blocks.data = nullptr;
    source_.trellis.tiles = nullptr;
    source_.unread = &unread_;
  }
  UnreadSource(const UnreadSource&) = delete;
  UnreadSource& operator=(const UnreadSource&) = delete;

  const kernels::WeightSource& source() const { return source_; }
  const kernels::UnreadBytes* unread() const { return &unread_; }
  size_t num_read() const { return num_read_; }

 private:
  static bool read(void* owner, uint64_t offset, void* out, size_t count) {
    auto& self = *static_cast<UnreadSource*>(owner);
    if (offset + count > self.readable_ || offset + count > kernels::stored_bytes(self.source_)) return false;
    std::memcpy(out, static_cast<const std::byte*>(self.bytes_) + offset, count);
    self.num_read_ += count;
    return true;
  }

  kernels::WeightSource source_;
  const kernels::UnreadBytes unread_{this, read};
  const size_t readable_;
  const void* bytes_ = nullptr;
  size_t num_read_ = 0;
};

}  // namespace quire::testing
