// Growth of vectors before an insertion into several stores, so that a failed allocation changes none of
// them.
#pragma once

namespace quire {

// Reserves space for one more element in each vector. The capacity grows by a factor, as with push_back.
template <typename... Vectors>
void reserve_one(Vectors&... vectors) {
  const auto reserve = [](auto& vector) {
    if (vector.size() == vector.capacity()) vector.reserve(2 * vector.size() + 1);
  };
  (reserve(vectors), ...);
}

}  // namespace quire
