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

// A store of sorted lists of canonical texts, without duplicates. Each list has a number; the empty list is
// 0. Not thread-safe.
class UsedItems {
 public:
  UsedItems() { lists_.number_of({}); }

  const std::vector<std::string>& of(uint32_t list) const { return lists_[list]; }
  bool has(uint32_t list, const std::string& item) const {
    return std::binary_search(of(list).begin(), of(list).end(), item);
  }
  // Returns the number of the list with one more item.
  uint32_t with(uint32_t list, const std::string& item) {
    const std::pair key(list, item);
    const auto known = after_.find(key);
    if (known != after_.end()) return known->second;
    std::vector<std::string> items = of(list);
    items.insert(std::upper_bound(items.begin(), items.end(), item), item);
    return after_.emplace(key, lists_.number_of(std::move(items))).first->second;
  }

 private:
  Interner<std::vector<std::string>> lists_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> after_;  // by list number and added item
};

}  // namespace quire
