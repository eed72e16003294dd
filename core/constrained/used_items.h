// Sets of used items, for arrays with uniqueItems.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/constrained/numbered.h"

namespace quire {

// A store of lists of canonical texts, without duplicates. Texts and lists have numbers; the empty list is 0.
// Not thread-safe.
class UsedItems {
 public:
  using List = std::vector<uint32_t>;  // sorted numbers of texts

  UsedItems() { lists_.number_of({}); }

  const List& of(uint32_t list) const { return lists_[list]; }
  const std::string& text(uint32_t item) const { return texts_[item]; }
  bool has(uint32_t list, const std::string& text) const {
    const auto item = texts_.find(text);
    return item && std::binary_search(of(list).begin(), of(list).end(), *item);
  }
  // Returns the number of the list with one more text.
  uint32_t with(uint32_t list, const std::string& text) {
    const uint32_t item = texts_.number_of(text);
    const std::pair key(list, item);
    const auto known = after_.find(key);
    if (known != after_.end()) return known->second;
    List items = of(list);
    items.insert(std::upper_bound(items.begin(), items.end(), item), item);
    return after_.emplace(key, lists_.number_of(std::move(items))).first->second;
  }
  size_t held_bytes() const { return texts_.held_bytes() + lists_.held_bytes() + after_.size() * 64; }

 private:
  Interner<std::string> texts_;
  Interner<List> lists_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> after_;  // by list and added text
};

}  // namespace quire
