// The identity of what a page holds.
// A LoRA adapter is part of the identity, although none can be loaded yet.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/ids.h"

namespace quire {

// Names one exact sequence of tokens in one domain, from the first to the last of a page. Given once and
// never again, so equal ids mean equal content, whatever the hash says. 0 is none.
using ContentId = StrongId<struct ContentTag, uint64_t>;

// What keys and values depend on besides the tokens. The model, its rotary settings and the cache format are
// those of the one cache that the pages belong to.
struct PrefixDomain {
  std::string name_space;
  uint64_t adapter_generation = 0;  // of one loading of an adapter, not of its name; 0 is none

  bool operator==(const PrefixDomain&) const = default;
};

}  // namespace quire
