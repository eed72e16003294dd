// Rows between devices: within a backend, from a card to the host and back, and never between two cards of
// different backends.
#include "core/tensor/row_transfer.h"

#include <numeric>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/expect_error.h"
#include "tests/support/wrapped_backend.h"

namespace quire::testing {
namespace {

constexpr int32_t kRows = 3, kColumns = 5;

// A context with rows of its own.
class Place {
 public:
  explicit Place(const kernels::Backend& backend)
      : device_(Device::open(backend, 0, {})),
        context_(device_, limits()),
        rows_(device_, size_t{kRows} * kColumns * sizeof(float), "rows") {}

  ContextRows rows() const { return {context_, rows_.as<float>()}; }
  void set(const std::vector<float>& values) { rows_.upload(gsl::as_bytes(gsl::span<const float>(values))); }
  std::vector<float> get() const {
    std::vector<float> values(size_t{kRows} * kColumns);
    rows_.download(gsl::as_writable_bytes(gsl::span<float>(values)));
    return values;
  }

 private:
  static kernels::ContextLimits limits() {
    kernels::ContextLimits limits;
    limits.max_tokens = kRows;
    limits.max_sequences = limits.max_pages_per_sequence = 1;
    limits.max_columns = limits.handed_columns = kColumns;
    return limits;
  }

  std::shared_ptr<Device> device_;
  DeviceContext context_;
  DeviceBuffer rows_;
};

std::vector<float> numbers() {
  std::vector<float> values(size_t{kRows} * kColumns);
  std::iota(values.begin(), values.end(), 1.25F);
  return values;
}

TEST(RowTransfer, GoesBetweenTheHostAndAnyOther) {
  const WrappedBackend card(kernels::cpu_backend(), "card");
  const kernels::Backend& cpu = kernels::cpu_backend();
  for (const auto& [from, to] : {std::pair(&cpu, &cpu), {&cpu, &card.backend()}, {&card.backend(), &cpu}}) {
    Place source(*from), target(*to);
    source.set(numbers());
    transfer_rows(source.rows(), target.rows(), kRows, kColumns);
    EXPECT_EQ(target.get(), numbers());
    EXPECT_EQ(source.get(), numbers());
  }
}

TEST(RowTransfer, BetweenCardsOfTwoBackendsIsRefused) {
  const WrappedBackend first(kernels::cpu_backend(), "card"), second(kernels::cpu_backend(), "other");
  Place source(first.backend()), target(second.backend());
  expect_error(ErrorCode::unsupported, {"card:0", "other:0"},
               [&] { transfer_rows(source.rows(), target.rows(), kRows, kColumns); });
}

}  // namespace
}  // namespace quire::testing
