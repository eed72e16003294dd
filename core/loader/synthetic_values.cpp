#include "core/loader/synthetic_values.h"

#include <array>
#include <cstring>
#include <numeric>

#include "kernels/interface/half.h"

namespace quire {

namespace {

// FNV-1a.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

SyntheticValues::SyntheticValues(uint64_t seed, std::string_view name, bool has_data)
    : seed_(seed), state_((seed * 0x9e3779b97f4a7c15ULL ^ hash_of(name)) | 1U), has_data_(has_data) {}

float SyntheticValues::normal() {
  const uint64_t word = next();
  float sum = 0.0f;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>((word >> (16 * i)) & 0xffffU) / 65536.0f - 0.5f;
  return sum * 1.7320508f;
}

void SyntheticValues::fill(gsl::span<std::byte> out) {
  size_t i = 0;
  for (; i + 8 <= out.size(); i += 8) {
    const uint64_t word = next();
    std::memcpy(out.data() + i, &word, 8);
  }
  for (; i < out.size(); ++i) out[i] = static_cast<std::byte>(next());
}

HostTensor SyntheticValues::tensor(DType dtype, int64_t rows, int64_t columns, std::string_view what) const {
  const size_t bytes = static_cast<size_t>(rows * columns) * kernels::dtype_bytes(dtype);
  return has_data_ ? HostTensor(dtype, {rows, columns}, bytes, what)
                   : HostTensor::without_data(dtype, {rows, columns}, bytes);
}

HostTensor SyntheticValues::random_words(int64_t rows, int64_t columns, std::string_view what) {
  HostTensor out = tensor(DType::i32, rows, columns, what);
  if (has_data_) fill(out.bytes());
  return out;
}

HostTensor SyntheticValues::normal_halves(int64_t rows, int64_t columns, float deviation,
                                          std::string_view what) {
  const auto count = static_cast<size_t>(rows) * static_cast<size_t>(columns);
  HostTensor out = tensor(DType::f16, rows, columns, what);
  if (!has_data_) return out;
  // Repeats a block of normal values with random signs: the values need variety, not independence.
  std::array<uint16_t, 4096> block{};
  for (uint16_t& value : block) value = kernels::float_to_half(normal() * deviation);
  const gsl::span<uint16_t> target = out.elements<uint16_t>();
  for (size_t i = 0; i < count; i += 64) {
    uint64_t signs = next();
    const size_t start = static_cast<size_t>(signs >> 52) % (block.size() - 64);
    for (size_t j = 0; j < 64 && i + j < count; ++j, signs >>= 1)
      target[i + j] = static_cast<uint16_t>(block[start + j] ^ ((signs & 1U) << 15));
  }
  return out;
}

std::vector<int32_t> SyntheticValues::random_order(int32_t count) {
  std::vector<int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next() % i]);
  return order;
}

std::vector<int32_t> SyntheticValues::order_of(const SyntheticRequest& request) {
  const bool shares = request.key.ends_with("q_proj") || request.key.ends_with("k_proj") ||
                      request.key.ends_with("v_proj") || request.key.ends_with("gate_proj") ||
                      request.key.ends_with("up_proj");
  if (!shares) return random_order(request.num_in);
  const std::string block = request.key.substr(0, request.key.rfind('.'));
  return SyntheticValues(seed_, block, has_data_).random_order(request.num_in);
}

}  // namespace quire
