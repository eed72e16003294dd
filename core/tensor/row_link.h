// A link of rows to a context of another process, with waits that end.
#pragma once

#include <atomic>
#include <memory>

#include "core/base/clock.h"
#include "core/tensor/device.h"

namespace quire {

// What ends a wait for the other end of a link.
struct LinkWait {
  const std::atomic<bool>& is_lost;  // true if the other process is lost
  Duration most;
};

// One end of a link. Keeps the context alive. For the thread of the context. A failed call leaves a link that
// must be destroyed, which ends its transfers.
class RowLink {
 public:
  // Begins to connect.
  RowLink(const DeviceContext& context, const kernels::LinkId& id, int32_t end);

  // Waits until it is connected. Throws the error of the backend, or ErrorCode::device_lost at the end of the
  // wait.
  void connect(const LinkWait& wait);
  // Sends rows after the work issued to the context so far, and returns once later work can be issued.
  // ErrorCode::device_lost as above.
  void send(const float* rows, int32_t num_rows, int32_t columns, const std::atomic<bool>& is_lost);
  // Receives rows, and waits until they have come.
  void receive(float* rows, int32_t num_rows, int32_t columns, const std::atomic<bool>& is_lost);

 private:
  // Waits until the link is as far as `state`.
  void await(kernels::LinkState state, const LinkWait& wait, std::string_view what) const;
  const KernelTable& table() const { return context_.table(); }

  const DeviceContext context_;
  std::unique_ptr<kernels::Link, void (*)(kernels::Link*)> link_;
};

}  // namespace quire
