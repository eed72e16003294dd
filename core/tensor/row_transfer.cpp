#include "core/tensor/row_transfer.h"

#include "core/base/error.h"

namespace quire {

// The memory of the host needs no buffer between: a card reads it and writes it directly.
void transfer_rows(const ContextRows& from, const ContextRows& to, int32_t num_rows, int32_t columns) {
  const DeviceContext& sender = from.context;
  const DeviceContext& receiver = to.context;
  if (sender.device()->shares_backend(*receiver.device())) {
    return receiver.check(receiver.table().receive_rows(receiver.handle(), to.rows, sender.handle(),
                                                        from.rows, num_rows, columns),
                          "handing the residual stream over");
  }
  if (sender.device()->is_host()) {
    return receiver.check(
        receiver.table().write_rows(receiver.handle(), from.rows, num_rows, columns, to.rows),
        "writing the residual stream");
  }
  if (!receiver.device()->is_host())
    throw Error(ErrorCode::unsupported,
                "split: {} cannot hand rows over to {}; place the layers of one on the CPU",
                sender.device()->name(), receiver.device()->name());
  sender.check(sender.table().read_rows(sender.handle(), from.rows, num_rows, columns, to.rows),
               "reading the residual stream");
  sender.check(sender.table().synchronize(sender.handle()), "reading the residual stream");
}

}  // namespace quire
