// Integer ids of distinct types, so that they cannot be mixed up.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

namespace quire {

template <typename Tag, typename T>
struct StrongId {
  T value{};
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy sees a comparison with 0
  constexpr auto operator<=>(const StrongId&) const = default;
};

using TokenId = int32_t;  // a plain integer: arrays of it pass through kernels and the C API
using TokenIds = std::vector<TokenId>;

using JobId = StrongId<struct JobTag, uint64_t>;  // never reused within a cache
using SequenceId =
    StrongId<struct SequenceTag, uint64_t>;        // one sequence of KV entries; a job owns one or more
using PageId = StrongId<struct PageTag, int32_t>;  // a page of the paged KV cache

}  // namespace quire

template <typename Tag, typename T>
struct std::hash<quire::StrongId<Tag, T>> {
  size_t operator()(quire::StrongId<Tag, T> id) const noexcept { return std::hash<T>{}(id.value); }
};
