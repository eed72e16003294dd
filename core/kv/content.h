// Identity of the content of a page: the content id and the domain of a prefix (prefix cache).
// A LoRA adapter is part of the identity, although none can be loaded yet.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/ids.h"

namespace quire {

// Id of one exact sequence of tokens in one domain, from the first token to the last one of a page. An id is
// never given twice, so equal ids mean equal content even if hashes collide. 0 is none.
using ContentId = StrongId<struct ContentTag, uint64_t>;

// Everything besides the tokens that keys and values depend on. The model, its rotary settings and the cache
// format are fixed for each cache, so they are not part of it.
struct PrefixDomain {
  std::string name_space;
  uint64_t adapter_generation = 0;  // one per load of an adapter, not per name; 0: no adapter

  bool operator==(const PrefixDomain&) const = default;
};

}  // namespace quire
