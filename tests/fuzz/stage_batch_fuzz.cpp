// A batch that a host sends to a stage, from any bytes: it keeps the limits of the cache, or is refused. The
// first byte of the input selects the cache; the rest is the message.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "core/base/error.h"
#include "core/stages/messages.h"

namespace {

using namespace quire;

void require(bool condition) {
  if (!condition) std::abort();
}

ExecutorLimits limits_of(uint8_t choice) {
  ExecutorLimits limits;
  limits.max_tokens = 1 + choice % 16;
  limits.max_sequences = 1 + choice % 5;
  limits.max_pages_per_sequence = 1 + choice % 7;
  limits.num_pages = 10;
  limits.page_tokens = 1 + choice % 4;
  limits.hidden_size = 8;
  if (choice % 2 == 1) limits.windows = {{3, 4}};
  if (choice % 3 == 1) limits.num_state_slots = 3;
  return limits;
}

void check(const Batch& batch, const ExecutorLimits& limits) {
  const int32_t most_kv = limits.max_pages_per_sequence * limits.page_tokens;
  require(batch.num_tokens() >= 1 && batch.num_tokens() <= limits.max_tokens);
  require(batch.num_sequences() <= limits.max_sequences);
  require(batch.sequence_starts.back() == batch.num_tokens());
  for (const int32_t position : batch.positions) require(position >= 0 && position < most_kv);
  for (const int32_t page : batch.page_table) require(page >= 0 && page < limits.num_pages);
  for (const PageCopy& copy : batch.copies)
    require(copy.source.value >= 0 && copy.target.value < limits.num_pages);
  for (const int32_t slot : batch.state_slots) require(slot >= 0 && slot < limits.num_state_slots);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  if (num_bytes == 0) return 0;
  const ExecutorLimits limits = limits_of(data[0]);
  WireReader wire(gsl::as_bytes(gsl::span(data + 1, num_bytes - 1)));
  Batch batch;
  try {
    read_batch(wire, limits, limits.num_pages, batch);
    check(batch, limits);
    WireWriter again;
    write_batch(batch, again);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::format);
  }
  try {
    WireReader sizes(gsl::as_bytes(gsl::span(data, num_bytes)));
    CacheRequest request;
    request.fields(sizes);
    require_cache_sizes(request.options);
    require(request.options.kv.num_pages > 0 && request.options.max_tokens > 0);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::format || error.code() == ErrorCode::invalid_argument);
  }
  return 0;
}
