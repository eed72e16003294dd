// Ids that cannot be mixed up.
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

using TokenId = int32_t;  // plain: it travels through kernels and the C API in bulk
using TokenIds = std::vector<TokenId>;

using JobId = StrongId<struct JobTag, uint64_t>;            // never reused within a cache
using SequenceId = StrongId<struct SequenceTag, uint64_t>;  // one stretch of KV; a job owns one or more
using PageId = StrongId<struct PageTag, int32_t>;           // a slot of the paged KV cache

}  // namespace quire

template <typename Tag, typename T>
struct std::hash<quire::StrongId<Tag, T>> {
  size_t operator()(quire::StrongId<Tag, T> id) const noexcept { return std::hash<T>{}(id.value); }
};
