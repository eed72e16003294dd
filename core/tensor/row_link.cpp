#include "core/tensor/row_link.h"

#include <thread>

#include "core/base/error.h"

namespace quire {
namespace {

// A transfer whose other end lives takes no longer, plus the time of its bytes at the lowest rate.
constexpr Duration kTransferTime = std::chrono::milliseconds(1300);
constexpr int64_t kLeastBytesPerMicrosecond = 50;
// Waits are first of the length of a transfer, then of a build of the connection.
constexpr Duration kShortWait = std::chrono::milliseconds(2);
constexpr Duration kPause = std::chrono::microseconds(200);

LinkWait wait_for_rows(int32_t num_rows, int32_t columns, const std::atomic<bool>& is_lost) {
  const int64_t bytes = int64_t{num_rows} * columns * static_cast<int64_t>(sizeof(float));
  return {is_lost, kTransferTime + std::chrono::microseconds(bytes / kLeastBytesPerMicrosecond)};
}

}  // namespace

RowLink::RowLink(const DeviceContext& context, const kernels::LinkId& id, int32_t end)
    : context_(context), link_(nullptr, context.table().release_link) {
  kernels::Link* link = nullptr;
  context_.check(table().create_link(context_.handle(), &id, end, &link), "connecting cards");
  link_.reset(link);
}

void RowLink::connect(const LinkWait& wait) {
  await(kernels::LinkState::done, wait, "connecting cards");
}

void RowLink::send(const float* rows, int32_t num_rows, int32_t columns, const std::atomic<bool>& is_lost) {
  context_.check(table().send_by_link(link_.get(), rows, num_rows, columns), "sending rows");
  await(kernels::LinkState::issued, wait_for_rows(num_rows, columns, is_lost), "sending rows");
}

void RowLink::receive(float* rows, int32_t num_rows, int32_t columns, const std::atomic<bool>& is_lost) {
  context_.check(table().receive_by_link(link_.get(), rows, num_rows, columns), "receiving rows");
  await(kernels::LinkState::done, wait_for_rows(num_rows, columns, is_lost), "receiving rows");
}

void RowLink::await(kernels::LinkState state, const LinkWait& wait, std::string_view what) const {
  const TimePoint begin = steady_clock().now();
  for (;;) {
    kernels::LinkState now = kernels::LinkState::busy;
    context_.check(table().poll_link(link_.get(), &now), what);
    if (now >= state) return;
    const Duration waited = steady_clock().now() - begin;
    if (wait.is_lost) throw Error(ErrorCode::device_lost, "{}: the other process is lost", what);
    if (waited >= wait.most)
      throw Error(ErrorCode::device_lost, "{}: nothing has come for {} ms", what,
                  waited / std::chrono::milliseconds(1));
    if (waited < kShortWait) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

}  // namespace quire
